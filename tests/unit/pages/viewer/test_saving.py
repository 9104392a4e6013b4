"""What people enter: decisions, regions and landmarks, in the files that the workflow reads."""

from __future__ import annotations

import csv
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tifffile
from made_results import MATRIX, SHAPE
from made_telemetry import Made
from seeing import Seen

from unglow.core.windows import Window
from unglow.export.images import provenance
from unglow.images.zarr import open_store
from unglow.pages.viewer import raw_files
from unglow.photometry.difference import open_image
from unglow.transform.landmarks import read_landmarks

PAIR, FAILED = "pair/S1~DAPI/", "pair/S2~DAPI/"
SQUARE = [[[0, 0], [500, 0], [500, 400], [0, 400], [0, 0]]]
PLACES = [[20.0, 30.0], [1000.0, 40.0], [900.0, 650.0], [60.0, 600.0], [500.0, 300.0]]
COMMAND = ["snakemake", "-s", "unglow/Snakefile", "--cores", "4", "--config", "a=b c"]
TARGETS = ["results/S1/DAPI/scale.json", "results/S2/DAPI/scale.json"]


@pytest.fixture
def work(finished, tmp_path, monkeypatch):
    """A working directory with raw images by names, which a run has been in."""
    work = tmp_path / "work"
    shutil.copytree(finished, work / "results")
    for sample in ("S1", "S2"):
        for role in ("pre", "post"):
            image = work / "raw" / sample / f"{sample}_{role}_DAPI.tif"
            image.parent.mkdir(parents=True, exist_ok=True)
            tifffile.imwrite(image, np.zeros((8, 8), np.uint8))
    fields = {"directory": str(work), "config": {"register": {"max_scale": 1.5}}}
    Made(work / "results").run(command=COMMAND + TARGETS, pairs=[], **fields)
    monkeypatch.chdir(tmp_path)
    return work


@pytest.fixture
def shown(work):
    with Seen(work / "results") as shown:
        yield shown


def read_only(monkeypatch, *places):
    """Have directories that may not be written, also for who may write everywhere."""
    allowed = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: str(path) not in map(str, places) and allowed(path, mode)
    )


def landmarks(matrix=MATRIX):
    moved = np.array(PLACES) + np.array(matrix)[:2, 2]
    return [
        {"name": str(n), "post": here, "pre": there}
        for n, (here, there) in enumerate(zip(PLACES, moved.tolist(), strict=True), 1)
    ]


def region(name="mine", kind="exclude", coordinates=SQUARE, **more):
    properties = {"objectType": "annotation", "classification": {"name": kind}, "name": name}
    geometry = {"type": "Polygon", "coordinates": coordinates}
    return {"type": "Feature", "geometry": geometry, "properties": properties} | more


# ---------------------------------------------------------------------------------------- decisions


def test_decisions_are_kept_next_to_the_candidates(shown, work):
    table = shown.json(PAIR + "candidates.json")
    first = dict(zip(table["columns"], table["rows"][0], strict=True))
    before = (work / "results/S1/DAPI/candidates.csv").read_bytes()
    change = {key: first[key] for key in ("id", "x", "y")}
    note = '<b>"not" a, microbe\n~'
    status, answer = shown.send(
        PAIR + "review", {"changes": [change | {"decision": "rejected", "note": note}]}
    )
    assert status == 200
    assert answer == shown.json(PAIR + "review.json")
    (decision,) = answer["decisions"]
    assert decision.pop("time").endswith("Z")
    assert decision == change | {"decision": "rejected", "note": note}
    assert answer["counts"]["rejected"] == answer["counts"]["reviewed"] == 1
    assert (answer["writable"], answer["why"]) == (True, "")
    with (work / "results/S1/DAPI/review.csv").open(newline="") as stream:
        (row,) = csv.DictReader(stream)
    assert (row["decision"], row["note"]) == ("rejected", note)
    assert (work / "results/S1/DAPI/candidates.csv").read_bytes() == before
    _, answer = shown.send(PAIR + "review", {"changes": [change | {"decision": ""}]})
    assert answer["decisions"] == []


def test_two_browsers_and_two_servers_at_once_lose_nothing(shown, work):
    table = shown.json(PAIR + "candidates.json")
    rows = [dict(zip(table["columns"], cells, strict=True)) for cells in table["rows"]][:24]
    with Seen(work / "results") as other:

        def decide(server, part):
            for r in part:
                change = {"id": r["id"], "x": r["x"], "y": r["y"], "decision": "accepted"}
                assert server.send(PAIR + "review", {"changes": [change]})[0] == 200

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(decide, (shown, other) * 2, (rows[k::4] for k in range(4))))
        answer = other.json(PAIR + "review.json")
    assert sorted(d["id"] for d in answer["decisions"]) == [r["id"] for r in rows]
    assert shown.json(PAIR + "review.json") == answer


# ------------------------------------------------------------------------------------------ regions


def test_regions_are_kept_with_the_section_and_counted(shown, work):
    empty = shown.json(PAIR + "regions.geojson")
    assert (empty["type"], empty["features"]) == ("FeatureCollection", [])
    status, answer = shown.send(PAIR + "regions", {"put": [region(id="a"), region(kind="analyse")]})
    assert status == 200
    assert answer == shown.json(PAIR + "regions.geojson")
    saved = json.loads((work / "results/S1/DAPI/regions.geojson").read_text())
    assert saved["features"] == answer["features"]
    assert "unglow" not in saved
    state = answer["unglow"]
    assert (state["writable"], state["in_use"]) == (True, False)
    assert state["file"] == str(work / "raw/S1/S1_post_DAPI.regions.geojson")
    counts = state["counts"][answer["features"][1]["id"]]
    assert counts["kind"] == "analyse"
    area = 500 * 400 * 0.5 * 0.25 / 1e6  # mm²
    assert counts["candidates"]["area"] == pytest.approx(area)
    assert counts["candidates"]["density"] == pytest.approx(
        counts["candidates"]["count"] / area, rel=1e-4
    )
    _, answer = shown.send(PAIR + "regions", {"delete": ["a"]})
    assert len(answer["features"]) == 1


@pytest.mark.parametrize(
    "feature",
    [
        *({}, 1, region(kind="other"), region(coordinates=[]), region(coordinates=[[[0, 0]]])),
        region(coordinates=[[[9e6, 9e6], [9e6 + 5, 9e6], [9e6, 9e6 + 5]]]),
    ],
)
def test_what_is_no_region_is_refused(shown, work, feature):
    status, answer = shown.send(PAIR + "regions", {"put": [feature]})
    assert status == 400
    assert answer["error"]
    assert not (work / "results/S1/DAPI/regions.geojson").exists()


def test_regions_go_to_where_the_workflow_reads_them(shown, work):
    shown.send(PAIR + "regions", {"put": [region()]})
    status, answer = shown.send(PAIR + "regions/use", {})
    assert status == 200
    place = work / "raw/S1/S1_post_DAPI.regions.geojson"
    assert answer["file"] == str(place)
    assert answer["command"] == (
        f"cd {work} && snakemake -s unglow/Snakefile --cores 4 --config 'a=b c'"
    )
    drawn = shown.json(PAIR + "regions.geojson")
    collection = json.loads(place.read_text())
    assert collection["features"] == drawn["features"]
    assert drawn["unglow"]["in_use"] is True
    place.write_text(json.dumps({**collection, "name": "as another program saves it"}))
    assert shown.json(PAIR + "regions.geojson")["unglow"]["in_use"] is True


def test_without_raw_images_regions_cannot_be_used(shown, work):
    shutil.rmtree(work / "raw")
    assert shown.json(PAIR + "regions.geojson")["unglow"]["in_use"] is True  # none there, none here
    _, drawn = shown.send(PAIR + "regions", {"put": [region()]})
    assert drawn["unglow"]["in_use"] is False
    status, answer = shown.send(PAIR + "regions/use", {})
    assert status == 403
    assert "raw" in answer["error"]


# ---------------------------------------------------------------------------------------- landmarks


def test_landmarks_go_to_where_register_reads_them(shown, work):
    answer = shown.json(FAILED + "landmarks.json")
    place = work / "raw/S2/S2_post_DAPI.landmarks.csv"
    assert (answer["points"], answer["file"], answer["writable"]) == ([], str(place), True)
    status, answer = shown.send(FAILED + "landmarks", {"points": landmarks()})
    assert status == 200
    assert (answer["file"], answer["note"], answer["kept"]) == (str(place), "", "")
    assert answer["command"].startswith(f"cd {work} && snakemake ")
    post, pre = (open_store(work / f"results/S2/DAPI/{r}.ome.zarr") for r in ("post", "pre"))
    found = read_landmarks([place], post, pre)
    np.testing.assert_allclose(found.post, PLACES)
    np.testing.assert_allclose(found.pre - found.post, np.tile(MATRIX[:2, 2], (5, 1)))
    assert shown.json(FAILED + "landmarks.json")["points"] == landmarks()
    fewer = landmarks()[:3]
    _, answer = shown.send(FAILED + "landmarks", {"points": fewer})
    assert answer["kept"] == f"{place}.before"
    assert shown.json(FAILED + "landmarks.json")["points"] == fewer


def test_landmarks_of_each_image_are_read_and_written_in_their_files(shown, work):
    files = [work / f"raw/S2/S2_{role}_DAPI.landmarks.csv" for role in ("post", "pre")]
    for file in files:  # as napari writes them
        file.write_text("index,axis-0,axis-1\n0,20,10\n1,30,700\n2,500,400\n")
    answer = shown.json(FAILED + "landmarks.json")
    assert answer["points"][1] == {"name": "1", "post": [700, 30], "pre": [700, 30]}
    assert answer["file"] == " and ".join(map(str, files))
    status, _ = shown.send(FAILED + "landmarks", {"points": landmarks()})
    assert status == 200
    assert shown.json(FAILED + "landmarks.json")["points"] == landmarks()
    assert "axis-0" in files[1].with_name(files[1].name + ".before").read_text()


def test_the_fit_is_that_of_register(shown):
    answer = shown.send(FAILED + "landmarks/fit", {"points": landmarks()})[1]
    assert answer["model"] == "affine"
    np.testing.assert_allclose(answer["matrix"], MATRIX, atol=1e-9)
    assert answer["residuals_px"] == [0, 0, 0, 0, 0]
    assert answer["problem"] == ""
    wrong = landmarks()
    wrong[1] = wrong[1] | {"pre": [wrong[1]["pre"][0] + 40, 44.5]}
    answer = shown.send(FAILED + "landmarks/fit", {"points": wrong})[1]
    assert answer["residuals_px"].index(max(answer["residuals_px"])) == 1
    assert answer["problem"].startswith("The map misses landmark 2.")
    answer = shown.send(FAILED + "landmarks/fit", {"points": [*landmarks()[:2], {"post": [1, 2]}]})[
        1
    ]
    assert (answer["model"], answer["residuals_px"]) == ("similarity", [0, 0, None])


def test_a_scale_that_the_run_would_not_accept_is_reported(shown):
    points = [{"post": [x, y], "pre": [x / 1.6, y / 1.6]} for x, y in PLACES]
    answer = shown.send(FAILED + "landmarks/fit", {"points": points})[1]
    assert "magnification outside the accepted range" in answer["problem"]


@pytest.mark.parametrize(
    ("points", "words"),
    [
        ([], "The list holds 0 landmarks"),
        (landmarks()[:1], "The list holds 1 landmark"),
        ([{"post": [5, 5], "pre": [5, 5]}, {"post": [6, 5], "pre": [6, 5]}], "too near"),
        ([*landmarks(), landmarks()[0] | {"name": "6"}], "Landmarks '1' and '6' are the same"),
        ([*landmarks(), {"post": [5000, 5], "pre": [5, 5]}], "Landmark '6': (5000.0, 5.0) "),
        ([*landmarks(), landmarks()[0]], "Two landmarks are called '1'"),
        ([*landmarks()[:2], {"post": ["x", 5], "pre": [5, 5]}], "needs its place in post"),
        ([*landmarks()[:2], {"post": [5, 5, 5], "pre": [5, 5]}], "needs its place in post"),
        ([*landmarks()[:2], {"post": [5, 5], "pre": [1e999, 5]}], "needs its place in pre"),
        ([*landmarks()[:2], {"post": [5, 5], "pre": [10**400, 5]}], "needs its place in pre"),
    ],
)
def test_what_cannot_be_landmarks_is_reported_and_not_saved(shown, work, points, words):
    assert words in shown.send(FAILED + "landmarks/fit", {"points": points})[1]["problem"]
    status, answer = shown.send(FAILED + "landmarks", {"points": points})
    assert status == 400
    assert words in answer["error"]
    assert not list(work.glob("raw/*/*.landmarks*"))


def test_a_file_of_landmarks_that_is_damaged_is_reported(shown, work):
    (work / "raw/S2/S2_post_DAPI.landmarks.csv").write_text("a,b\n1,2\n")
    answer = shown.json(FAILED + "landmarks.json")
    assert answer["points"] == []
    assert "post_x" in answer["problem"]


def test_with_a_sheet_landmarks_lie_with_the_results_until_it_names_them(shown, work):
    sheet = work / "config" / "samples.tsv"
    sheet.parent.mkdir()
    images = "\t".join(f"raw/S2/S2_{role}_DAPI.tif" for role in ("pre", "post"))
    sheet.write_text(f"sample\tdye\tpre\tpost\nS2\tDAPI\t{images}\n")
    _, answer = shown.send(FAILED + "landmarks", {"points": landmarks()})
    assert answer["file"] == str(work / "results/S2/DAPI/landmarks.csv")
    assert answer["note"] == f"Name the file in the column landmarks of {sheet}."
    assert shown.json(FAILED + "landmarks.json")["points"] == landmarks()


def test_raw_images_in_a_read_only_directory_are_reported(shown, work, monkeypatch):
    read_only(monkeypatch, work / "raw/S2")
    answer = shown.json(FAILED + "landmarks.json")
    assert answer["file"] == str(work / "results/S2/DAPI/landmarks.csv")
    assert f"put it in the place of {work}/raw/S2/S2_post_DAPI.landmarks.csv" in answer["note"]
    assert shown.send(FAILED + "landmarks", {"points": landmarks()})[0] == 200


def test_results_without_a_working_directory_keep_landmarks_themselves(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "elsewhere" / "out")
    with Seen(tmp_path / "elsewhere" / "out") as shown:
        answer = shown.json(FAILED + "landmarks.json")
        assert answer["file"] == str(tmp_path / "elsewhere/out/S2/DAPI/landmarks.csv")
        assert "it is not known where their raw images are" in answer["note"]


# ---------------------------------------------------------------------- records of other people


def recorded(results, command, **fields):
    """Write the record of the last run."""
    return Made(results).run(start=100, command=command, pairs=[], **fields)


def test_a_run_that_names_other_results_does_not_lead_to_its_images(work, tmp_path):
    copy = tmp_path / "copied"
    shutil.copytree(work / "results", copy)
    assert raw_files.raw_files(copy, "S2", "DAPI").pair is None
    assert raw_files.raw_files(work / "results", "S2", "DAPI").pair is not None


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        (["rm", "-rf", "precious"], "unglow run --cores all"),
        (["sh", "-c", "snakemake --cores 4"], "unglow run --cores all"),
        ([], "unglow run --cores all"),
        ("snakemake; rm -rf x", "unglow run --cores all"),
        (["snakemake", "--cores", "4;rm -rf x"], "snakemake --cores '4;rm -rf x'"),
        (["unglow", "run", "$(reboot)", "`id`"], "unglow run '$(reboot)' '`id`'"),
        (["snakemake", "--cores", "4\x1b[2J\x03\nrm -rf x"], None),
    ],
)
def test_a_command_is_made_of_the_words_of_a_run_alone(work, command, wanted):
    recorded(work / "results", command, directory=str(work), config={})
    line = raw_files.raw_files(work / "results", "S2", "DAPI").command
    assert line == ("unglow run --cores all" if wanted is None else f"cd {work} && {wanted}")
    assert line.isprintable()


@pytest.mark.parametrize("kind", ["other user", "others may write", "elsewhere"])
def test_a_record_that_is_not_ones_own_decides_nothing(work, tmp_path, kind):
    victim, results = tmp_path / "victim", work / "results"
    shutil.copytree(work / "raw", victim / "raw")
    config = {"results": os.path.relpath(results, victim), "register": {"max_scale": 9.0}}
    words = ["snakemake", "-s", "evil"]
    record = recorded(results, words, directory=str(victim), config=config)
    if kind == "other user":
        if os.geteuid() != 0:
            pytest.skip("only root can be another user")
        os.chown(record, 65534, 65534)
    elif kind == "others may write":
        record.chmod(0o666)
    raw = raw_files.raw_files(results, "S2", "DAPI")
    assert raw.pair.post.is_relative_to(work)
    assert (raw.command, raw.places) == (f"cd {work} && unglow run --cores all", (work,))
    assert raw.max_scale < 9
    with Seen(results) as shown:
        assert shown.send(FAILED + "landmarks", {"points": landmarks()})[0] == 200
        shown.send(PAIR + "regions", {"put": [region()]})
        assert shown.send(PAIR + "regions/use", {})[0] == 200
    assert not [*victim.rglob("*.landmarks.*"), *victim.rglob("*.geojson*")]


def test_nothing_is_written_next_to_images_of_another_directory(work, tmp_path):
    victim = tmp_path / "victim"
    (work / "raw").rename(victim)
    (work / "raw").mkdir()
    for sample in ("S1", "S2"):
        (work / "raw" / sample).symlink_to(victim / sample)
    if os.geteuid() == 0:
        for link in (work / "raw").iterdir():
            os.chown(link, 65534, 65534, follow_symlinks=False)
        with Seen(work / "results") as shown:
            status, answer = shown.send(FAILED + "landmarks", {"points": landmarks()})
            assert (status, answer["file"]) == (200, str(work / "results/S2/DAPI/landmarks.csv"))
            assert "is not in the directories of your own run" in answer["note"]
            shown.send(PAIR + "regions", {"put": [region()]})
            status, answer = shown.send(PAIR + "regions/use", {})
            assert status == 403
            assert "is not in the directories of your own run" in answer["error"]
        assert not [*victim.rglob("*.landmarks.*"), *victim.rglob("*.geojson*")]
        for link in (work / "raw").iterdir():
            os.chown(link, 0, 0, follow_symlinks=False)
    with Seen(work / "results") as shown:  # one's own links are one's own word
        _, answer = shown.send(FAILED + "landmarks", {"points": landmarks()})
        assert answer["file"] == str(work / "raw/S2/S2_post_DAPI.landmarks.csv")


def test_a_working_directory_of_another_user_is_not_written(work, monkeypatch):
    (work / "config").mkdir()
    (work / "config" / "config.yaml").write_text("raw: raw\n")
    shutil.rmtree(work / "results" / "telemetry")
    assert raw_files.raw_files(work / "results", "S2", "DAPI").places == (work,)
    (work / "config" / "config.yaml").chmod(0o666)
    raw = raw_files.raw_files(work / "results", "S2", "DAPI")
    assert (raw.places, raw.pair is None) == ((), False)


def test_results_that_lead_elsewhere_are_not_written(work, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can be another user")
    elsewhere = tmp_path / "elsewhere"
    place = work / "results" / "S1" / "DAPI"
    place.rename(elsewhere)
    place.symlink_to(elsewhere)
    os.chown(place, 65534, 65534, follow_symlinks=False)
    before = sorted(elsewhere.iterdir())
    with Seen(work / "results") as shown:
        assert not shown.json(PAIR + "pair.json")["writable"]
        change = {"id": 1, "x": 1, "y": 1, "decision": "accepted"}
        assert shown.send(PAIR + "review", {"changes": [change]})[0] == 403
        assert shown.send(PAIR + "regions", {"put": [region()]})[0] == 403
    assert sorted(elsewhere.iterdir()) == before


# ---------------------------------------------------------------------------------------- read-only


def test_results_that_may_not_be_written_are_shown_and_say_so(shown, work, monkeypatch):
    place = work / "results/S1/DAPI"
    before = sorted(place.iterdir())
    read_only(monkeypatch, place)
    why = f"{place} may not be written, so nothing can be saved there."
    model = shown.json(PAIR + "pair.json")
    assert (model["writable"], model["why"]) == (False, why)
    assert shown.json(PAIR + "review.json")["why"] == why
    state = shown.json(PAIR + "regions.geojson")["unglow"]
    assert (state["writable"], state["why"]) == (False, why)
    change = {"id": 1, "x": 1, "y": 1, "decision": "accepted"}
    for path, content in (("review", {"changes": [change]}), ("regions", {"put": [region()]})):
        assert shown.send(PAIR + path, content) == (403, {"error": why})
    assert sorted(place.iterdir()) == before


def test_looking_writes_nothing(shown, work):
    def files():
        return {p: p.stat().st_mtime_ns for p in work.rglob("*")}

    before = files()
    for pair in (PAIR, FAILED):
        model = shown.json(pair + "pair.json")
        for name in ("review.json", "regions.geojson", "landmarks.json", "candidates.json"):
            shown.json(pair + name)
        for layer in model["layers"]:
            assert shown.ask(f"{pair}{layer['url']}/0/c/0/0")[0].status == 200
    assert files() == before


# -------------------------------------------------------------------------------------------- crops


@pytest.mark.parametrize("name", ["post", "difference-linear", "difference-moffat", "map_error"])
def test_a_crop_is_an_ome_tiff_of_the_same_px(shown, work, tmp_path, name):
    answer, body = shown.ask(f"{PAIR}crop.ome.tif?layer={name}&x=300&y=250&width=610&height=120")
    assert (answer.status, answer.getheader("Content-Type")) == (200, "image/tiff")
    assert answer.getheader("Content-Disposition") == (
        f"attachment; filename*=UTF-8''S1%20DAPI%20{name}%20300%20250.ome.tif"
    )
    file = tmp_path / "crop.ome.tif"
    file.write_bytes(body)
    with tifffile.TiffFile(file) as tiff:
        assert tiff.is_ome
        pixels = tiff.asarray()
        assert 'PhysicalSizeX="0.5"' in tiff.ome_metadata
        assert '<M K="crop.x">300</M>' in tiff.ome_metadata
    if name != "map_error":
        image = open_image(
            work / f"results/S1/DAPI/{name.removesuffix('-linear').replace('-', '_')}.ome.zarr"
        )
        np.testing.assert_array_equal(pixels, image.read(Window(250, 370, 300, 910)))
        key, value = next(iter(provenance(image, {}).items()))
        assert f'<M K="{key}">{value}</M>' in file.read_bytes().decode("utf-8", "replace")
    assert pixels.shape == (120, 610)


def test_a_crop_ends_where_the_image_ends(shown, tmp_path):
    _, body = shown.ask(f"{PAIR}crop.ome.tif?layer=post&x=-50&y=-1e3&width=1e6&height=1e6")
    (tmp_path / "a.tif").write_bytes(body)
    assert tifffile.imread(tmp_path / "a.tif").shape == SHAPE


@pytest.mark.parametrize(
    "query",
    [
        *("", "x=0&y=0&width=10", "x=a&y=0&width=10&height=10", "x=nan&y=0&width=1&height=1"),
        *("x=0&y=0&width=0&height=5", "x=5000&y=0&width=5&height=5", "x=0&y=0&width=-5&height=9"),
        "x=0&y=0&width=1e999&height=9",
    ],
)
def test_a_crop_of_nothing_is_refused(shown, query):
    answer, body = shown.ask(f"{PAIR}crop.ome.tif?layer=post&{query}")
    assert answer.status == 400
    assert json.loads(body)["error"].endswith(".")
    assert shown.ask(f"{PAIR}crop.ome.tif?layer=nothing&{query}")[0].status == 404


def test_a_crop_that_is_too_large_is_refused(shown, monkeypatch):
    monkeypatch.setattr("unglow.pages.viewer.site.MOST_PX", 1000)
    answer, body = shown.ask(f"{PAIR}crop.ome.tif?layer=post&x=0&y=0&width=100&height=100")
    assert answer.status == 400
    assert "choose a smaller part" in json.loads(body)["error"]
