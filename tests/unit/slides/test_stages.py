"""The stages of a slide from raw/ to the corrected image: any format, damage, and changed files."""

from __future__ import annotations

import json

import made_slide
import numpy as np
import pytest
import tifffile
import zarr
from phantom_damage.kinds import DamagedSlide
from phantom_damage.shapes import find_inside
from phantom_damage.slide import make_slide

from unglow.core.errors import ChangedError
from unglow.images.artefacts import read_places
from unglow.photometry.gain.scale import ScaleSettings
from unglow.registration.settings import RegisterSettings
from unglow.results.marker_rows import SlideEntry, marker_rows
from unglow.slides.rules import SLIDES, remove_placeholders
from unglow.slides.slide_register import register_move, score_move
from unglow.slides.slide_scale import measure
from unglow.slides.slide_subtract import Choice, Work, subtract
from unglow.transform import Transform
from unglow.workflow.batch import Batch

NAMES = ("AF", "A", "B", "C")
TABLE = "marker_name,cycle_number,background,remove\nAF,1,,TRUE\nA,1,AF,\nB,1,AF,\nC,2,AF,\n"
BACKGROUNDS = {"multiplexed": {"backgrounds": {"AF": "all"}}}
SPLITS = {"one": {"": (0, 1, 2, 3)}, "cycles": {"_cycle1": (0, 1, 2), "_cycle2": (3,)}}
CORRECTED = ("tiff", "zarr")
MEASURED = {
    "slide": "slide.json", "scale": "scale.json", "gain_maps": "details/gain_maps.npz",
    "statistics": "details/statistics.npz", "artefacts": "artefacts.geojson",
    "trusted": "cells_to_trust.geojson",
}  # fmt: skip
WRITTEN = {
    "tiff": "corrected.ome.tif", "zarr": "corrected.ome.zarr/zarr.json",
    "markers": "markers_corrected.csv", "subtraction": "details/subtraction.json",
    "residues": "details/residues.npz", "overviews": "details/overviews.npz",
}  # fmt: skip


@pytest.fixture(scope="module")
def image():
    return np.ascontiguousarray(made_slide.pixels()[:, 100:356, 200:520])


def as_tiff(path, pixels, names):
    about = {"axes": "CYX", "Channel": {"Name": list(names)}}
    tifffile.imwrite(f"{path}.ome.tif", pixels, metadata=about, photometric="minisblack")


def as_zarr(version):
    def write(path, pixels, names):
        old = version == "0.4"
        group = zarr.open_group(f"{path}.ome.zarr", mode="w", zarr_format=2 if old else 3)
        keys = {"chunk_key_encoding": {"name": "v2", "separator": "/"}} if old else {}
        chunks = (1, 128, 128) if old else (2, 100, 300)
        group.create_array("0", data=pixels, chunks=chunks, **keys)
        axes = [{"name": "c", "type": "channel"}, *({"name": n, "type": "space"} for n in "yx")]
        scale = [{"type": "scale", "scale": [1.0, 1.0, 1.0]}]
        levels = {"axes": axes, "datasets": [{"path": "0", "coordinateTransformations": scale}]}
        shown = {"channels": [{"label": name, "color": "FFFFFF"} for name in names]}
        if old:
            group.attrs.update({"multiscales": [{"version": "0.4", **levels}], "omero": shown})
        else:
            group.attrs["ome"] = {"version": "0.5", "multiscales": [levels], "omero": shown}

    return write


def slide(base, image, write=as_tiff, split="one", table=TABLE):
    """Write a slide below a directory, and return what a run knows of it."""
    place = base / "raw/s1"
    place.mkdir(parents=True)
    for end, channels in SPLITS[split].items():
        numbers = list(channels)
        write(place / f"s1{end}", image[numbers], [NAMES[n] for n in numbers])
    if table:
        (place / "markers.csv").write_text(table)
    batch = Batch.load({} if table else BACKGROUNDS, base, SLIDES)
    assert not batch.problems
    return batch.slides["s1"]


def targets(base, names):
    return {key: base / "results/s1" / name for key, name in names.items()}


def measured(base, known):
    """Register and measure a slide; return its maps."""
    settings = RegisterSettings()
    found = {move: register_move(known, move, settings, workers=1) for move in known.slide.moves}
    maps = {move: one.transform for move, one in found.items()}
    about = {"suspect_px": 1.0, "workers": 1, "markers_at_a_time": 2}
    scale = ScaleSettings(("linear",), gain_map="never")
    measure(known, maps, scale, targets(base, MEASURED), **about)
    return maps


def corrected(base, known, maps, *forms):
    """Subtract a slide, and write it in some forms."""
    wanted = {k: p for k, p in targets(base, WRITTEN).items() if k in forms or k not in CORRECTED}
    inputs = targets(base, {key: MEASURED[key] for key in ("slide", "scale", "gain_maps")})
    work = Work.read(known, maps, inputs, Choice("input", "nearest"))
    subtract(work, wanted, workers=1, channels_at_a_time=2)


def files_below(place):
    return {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()}


def run(base, known):
    corrected(base, known, measured(base, known), "tiff")
    return tifffile.imread(base / "results/s1/corrected.ome.tif")


@pytest.mark.parametrize(
    ("split", "table"), [("one", TABLE), ("cycles", "")], ids=["table", "names"]
)
def test_pixels_do_not_depend_on_the_format_of_the_images(tmp_path, image, split, table):
    known = slide(tmp_path / "tiff", image, split=split, table=table)
    assert known.slide.moves == ((1, 2),)
    expected = run(tmp_path / "tiff", known)
    for version in ("0.4", "0.5"):
        base = tmp_path / version
        other = slide(base, image, as_zarr(version), split, table)
        assert other.slide.channels == known.slide.channels
        np.testing.assert_array_equal(run(base, other), expected)
        for name in (
            "scale.json",
            "details/statistics.npz",
            "markers_corrected.csv",
            "details/residues.npz",
        ):
            same = (base / "results/s1" / name).read_bytes()
            assert same == (tmp_path / "tiff/results/s1" / name).read_bytes(), name


def test_what_cannot_be_read_any_more_leaves_no_image_and_says_why(tmp_path, image):
    known = slide(tmp_path, image)
    maps = measured(tmp_path, known)
    corrected(tmp_path, known, maps, *CORRECTED)
    place = tmp_path / "results/s1"
    assert (place / "corrected.ome.zarr/0/c/2").is_dir()
    (tmp_path / "raw/s1/s1.ome.tif").unlink()
    corrected(tmp_path, known, maps, *CORRECTED)
    record = json.loads((place / "details/subtraction.json").read_text())
    assert (record["status"], record["images"], record["markers"]) == ("failed", [], {})
    assert record["reason"].startswith("'s1.ome.tif' ")
    assert len((place / "markers_corrected.csv").read_text().splitlines()) == 1
    assert (place / "corrected.ome.tif").stat().st_size == 0  # as long as the run goes on
    remove_placeholders(tmp_path / "results", ["s1"])
    assert files_below(place) == {
        *MEASURED.values(),
        *(name for key, name in WRITTEN.items() if key not in CORRECTED),
    }


def test_an_image_that_was_replaced_since_it_was_measured_is_reported(tmp_path, image):
    known = slide(tmp_path, image)
    maps = measured(tmp_path, known)
    as_tiff(tmp_path / "raw/s1/s1", image[:, ::-1], NAMES)
    with pytest.raises(ChangedError) as caught:
        corrected(tmp_path, known, maps, *CORRECTED)
    assert str(caught.value) == (
        f"{tmp_path}/raw/s1/s1.ome.tif was changed, replaced or cut while it was worked on, so "
        "nothing was published; once the file is complete, run again (and delete slide.json of the "
        "slide if this comes again)."
    )
    assert files_below(tmp_path / "results/s1") == {*MEASURED.values()}


def test_a_cycle_without_a_map_is_left_out_and_the_others_go_on(tmp_path, image):
    known = slide(tmp_path, image)
    shape = known.shape
    maps = {(1, 2): Transform("failed", shape, shape, ("Another section.",))}
    measure(
        known, maps, ScaleSettings(("linear",), gain_map="never"), targets(tmp_path, MEASURED),
        suspect_px=1.0, workers=1, markers_at_a_time=2,
    )  # fmt: skip
    corrected(tmp_path, known, maps, "tiff")
    place = tmp_path / "results/s1"
    lost = [one.name for one in known.slide.kept if one.cycle == 2]
    record = json.loads((place / "details/subtraction.json").read_text())
    assert record["left_out"] == dict.fromkeys(lost, "Another section.")
    planes = tifffile.imread(place / "corrected.ome.tif")
    assert len(planes) == len(known.slide.kept) - len(lost)
    record = json.loads((place / "slide.json").read_text())
    assert record["cycles"]["2"]["status"] == "failed"
    rows = marker_rows(SlideEntry("s1", known.slide.subtracted, "logs"), tmp_path / "results")
    states = {row["dye"]: (row["status"], row.get("reasons", "")) for row in rows}
    for one in known.slide.markers:
        failed = one.name in lost
        assert (states[one.name][0] == "failed") == failed
        assert ("The corrected slide lacks it." in states[one.name][1]) == failed


SPOILT = "lost:110@2,blur:110:3@2,bleach:130:0.5@3"


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory):
    """A slide of three cycles, two of them damaged, as it was measured; its truth, and the rest."""
    base = tmp_path_factory.mktemp("spoilt")
    spec = DamagedSlide((1100, 1000), channels=8, cycles=3, seed=4, damage=SPOILT)
    make_slide(spec, base / "raw", "s1", workers=2)
    known = Batch.load({}, base, SLIDES).slides["s1"]
    settings = RegisterSettings()
    maps, scores = {}, {}
    for move in known.slide.moves:
        maps[move] = register_move(known, move, settings, workers=2).transform
        if move[0] == 1:
            scores[move[1]] = base / f"{move[1]}.npz"
            score_move(known, move, maps[move], workers=2).save(scores[move[1]])
    truth = json.loads((base / "raw/s1/s1_truth.json").read_text())
    return base, known, maps, scores, truth


def judge(spoilt, most):
    """Measure the slide with a limit of what may be spoilt; return where its results are."""
    base, known, maps, scores, _ = spoilt
    place = base / str(most)
    (place / "results/s1").mkdir(parents=True)
    measure(
        known, maps, ScaleSettings(("linear",), gain_map="never"), targets(place, MEASURED),
        suspect_px=1.0, scores=scores, max_spoilt=most, workers=2, markers_at_a_time=2,
    )  # fmt: skip
    return place / "results/s1"


@pytest.fixture(scope="module")
def judged(spoilt):
    return judge(spoilt, 1.0)


def shares(places, truth, cycle, transform):
    """Return which part of each true place of a cycle was found, and how much is wrong, px."""
    y, x = np.mgrid[0:1100:4, 0:1000:4].astype(float)
    points = np.column_stack([x.ravel(), y.ravel()])
    outlines = [one.polygons for one in places if one.cycle == cycle]
    found = np.zeros(len(points), bool)
    for polygon in (polygon for polygons in outlines for polygon in polygons):
        found |= find_inside(points + 0.5, np.array(polygon[0]))
    there, near, parts = transform.map(points), np.zeros(len(points), bool), {}
    for one in truth["damage"]:
        if one["cycle"] == cycle:
            polygon = np.array(one["polygon_xy"])
            held = find_inside(there, polygon)
            parts[one["kind"]] = found[held].mean()
            middle = polygon.mean(axis=0)
            near |= find_inside(there, middle + 1.6 * (polygon - middle)) | held
    return parts, 16 * np.count_nonzero(found & ~near)


def test_spoilt_tissue_is_found_in_the_cycle_that_lacks_it(spoilt, judged):
    _, _, maps, _, truth = spoilt
    places = read_places(judged / "artefacts.geojson")
    assert {one.cycle: one.reason for one in places if one.cycle == 3} == {3: "gain off"}
    assert {one.reason for one in places if one.cycle == 2} == {"lost", "out of focus"}
    for cycle in (2, 3):
        parts, wrong = shares(places, truth, cycle, maps[1, cycle])
        assert min(parts.values()) > 0.95, parts
        assert wrong < 0.01 * 1100 * 1000
    record = json.loads((judged / "slide.json").read_text())["cycles"]
    for cycle in (2, 3):
        area = sum(one.area_px for one in places if one.cycle == cycle)
        by_reason = record[str(cycle)]["spoilt"]["by_reason"].values()
        assert sum(one["area_px"] for one in by_reason) == area
        assert record[str(cycle)]["status"] == "ok"


def test_what_is_spoilt_in_no_cycle_is_one_annotation(judged):
    (feature,) = json.loads((judged / "cells_to_trust.geojson").read_text())["features"]
    places = read_places(judged / "artefacts.geojson")
    y, x = np.mgrid[16:1100:32, 16:1000:32].astype(float)
    points = np.column_stack([x.ravel(), y.ravel()])

    def held(polygons):
        rings = [ring for polygon in polygons for ring in polygon]
        return np.logical_xor.reduce([find_inside(points, np.array(ring)) for ring in rings])

    trusted = held(feature["geometry"]["coordinates"])
    bad = np.logical_or.reduce([held(one.polygons) for one in places])
    assert not (trusted & bad).any()
    assert 0.4 < trusted.mean() < 0.8 - bad.mean()
    assert feature["properties"]["area_px"] == pytest.approx(1024 * trusted.sum(), rel=0.02)


def test_a_cycle_that_is_spoilt_too_much_is_suspect_and_its_markers_are(spoilt):
    record = json.loads((judge(spoilt, 0.06) / "slide.json").read_text())["cycles"]
    for cycle in (2, 3):
        state = record[str(cycle)]
        assert state["spoilt"]["share"] > 0.06
        assert state["status"] == "suspect"
        assert "detect.max_spoilt" in state["reasons"][0]["numbers"]


def test_spoilt_px_are_left_out_of_the_fits_of_their_cycle_alone(spoilt, judged):
    _, known, _, _, truth = spoilt
    scales = json.loads((judged / "scale.json").read_text())["markers"]
    gains = {one["name"]: one["gain"] for one in truth["channels"]}
    for marker in known.slide.markers:
        found = scales[marker.name]["methods"]["linear"]
        assert found["gain"] == pytest.approx(gains[marker.name], rel=0.01)


def test_nothing_is_scored_without_a_map(spoilt):
    _, known, *_ = spoilt
    failed = Transform("failed", known.shape, known.shape, ("No.",))
    for found in (None, failed):
        scores = score_move(known, (1, 2), found, workers=1)
        assert np.isnan(scores.scores).all()
