"""What a report holds: curves with their peaks, rows of pairs, pictures; and safe embedding."""

import base64
import gzip
import json
import os
import re
import shutil
import time
from pathlib import Path

import cv2
import numpy as np
import pytest
from made_results import PRE_SHAPE, SHAPE, made_pair, refused
from made_telemetry import WALL, Made, end, job, many, sample, state, summary

from unglow.cli import main
from unglow.core import digests
from unglow.core.errors import InputError
from unglow.core.reasons import explain
from unglow.pages.report.page_model import bins_for, bound_steps, compute_curve
from unglow.pages.report.report import NAME, embedded, page, read_model, to_json, write_report
from unglow.pages.report.run_comparison import origins, rows, runs_of, select_runs
from unglow.pages.report.thumbnails import Sizes, pack_pictures
from unglow.results import read_summary
from unglow.telemetry.reading.follower import Follower

DONE = {"kind": "end", "t": 20.0, "wall": WALL + 20, "outcome": "ok"}


def attempt(tmp_path, seconds, *lines):
    Made(tmp_path).attempt("plan", 0, *lines, end(seconds))
    follower = Follower(tmp_path)
    follower.poll()
    return follower.attempts[0]


def test_a_short_curve_keeps_every_peak(tmp_path):
    odd = {438: 400.0}
    lines = [sample(n / 10, odd.get(n, 50.0)) for n in range(1, 1001)]
    made = compute_curve(attempt(tmp_path, 100.0, *lines), 20)
    assert len(made["hi"]) == 20
    assert made["hi"] == [400.0 if n == 8 else 50.0 for n in range(20)]  # 43.8 s is in bin 8


def test_rates_of_a_curve_are_means_of_its_bins(tmp_path):
    taken = [(1.0, 2, 0), (2.0, 2, 4e6), (3.0, 3, 4e6), (4.0, 3, 4e6)]
    lines = [sample(t, 50, cpu=cpu, read=read) for t, cpu, read in taken]
    made = compute_curve(attempt(tmp_path, 4.0, *lines), 2)
    assert made["cpu"] == [1.0, 0.5]


def test_a_curve_of_cpu_adds_up_to_the_total_of_the_end(tmp_path):
    Made(tmp_path).attempt("plan", 0, sample(1.5, 50, cpu=1.0), end(2.0, cpu_s=1.5))
    follower = Follower(tmp_path)
    follower.poll()
    assert compute_curve(follower.attempts[0], 9)["cpu"] == [0.75]  # 1.5 s in 2 s


def test_bins_without_a_sample_are_empty_and_no_samples_are_no_curve(tmp_path):
    lines = [sample(0.5, 10), sample(3.5, 20)]
    assert compute_curve(attempt(tmp_path / "a", 8.0, *lines), 2)["hi"] == [20.0, None]
    assert compute_curve(attempt(tmp_path / "b", 3.0), 9) is None


def test_what_holds_from_time_to_time_is_not_lost_between_them():
    high = bound_steps(np.array([1.0, 9.0]), np.array([5.0, 2.0]), np.arange(0, 13, 4.0))
    assert high.tolist() == [5.0, 5.0, 5.0]


@pytest.fixture
def made(tmp_path):
    made = Made(tmp_path / "work" / "results")
    made.run(
        {"kind": "total", "t": 0.5, "jobs": {"register": 1}},
        job(0.6, 7, "register"),
        state(1.0, 7, "started"),
        state(9.0, 7, "finished"),
        DONE,
        pairs=[],
    )
    bad = end(3.0, "memory", message="too little", peak_mb=399, cpu_s=1.5)
    made.attempt("register", 2.0, sample(0.1, 50), sample(2.9, 390), bad)
    made.attempt("register", 5.5, sample(0.1, 50), sample(2.0, 300), end(3.0), number=2)
    return made


def test_a_model_describes_what_happened(made):
    model = read_model(made.results)
    (run,) = model["runs"]
    assert (run["outcome"], run["seconds"], run["cores"], run["rows"]) == ("ok", 20.0, 2, ["1"])
    assert (run["budget_mb"], run["machine_mb"]) == (14000, 24000)
    assert run["lines"]["peak"] == {"t": pytest.approx(4.9), "mb": 399.0}
    assert max(v for v in run["lines"]["hi"] if v) == 399.0
    assert max(run["lines"]["declared"]) == 400.0
    first, second = model["attempts"]
    assert (first["start"], first["end"], first["tries"], first["outcome"]) == (2, 5, 2, "memory")
    assert (first["peak_mb"], second["number"]) == (399, 2)
    assert model["incidents"] == []  # the second attempt was ok
    json.dumps(model, allow_nan=False)


@pytest.mark.parametrize("jobs", [[], ["verdict"], ["summary", "verdict"]])
def test_a_run_in_which_nothing_was_to_do_does_not_hide_the_one_that_worked(made, jobs):
    made.run(DONE, start=100.0)
    for n, stage in enumerate(jobs):
        made.attempt(stage, 101.0 + n, end(1.0), sample="")
    assert read_model(made.results)["shown"] == 0
    made.attempt("detect", 105.0, end(1.0))
    assert read_model(made.results)["shown"] == 1
    made.run(start=200.0, pid=98)
    assert read_model(made.results)["shown"] == 1  # killed before its first job


@pytest.mark.slow
def test_a_model_of_a_thousand_jobs_is_small(tmp_path):
    model = read_model(many(tmp_path / "results").results)
    assert len(gzip.compress(json.dumps(model).encode())) < 400_000
    assert {len(a["curve"]["hi"]) for a in model["attempts"]} == {bins_for(1011)}


def test_pairs_are_those_of_the_summary_once_a_run_has_ended(made):
    summary(made.results, {"sample": "s9", "dye": "DAPI", "status": "ok", "reasons": ""})
    assert [p["sample"] for p in read_model(made.results)["pairs"]] == ["s9"]


def test_pairs_of_a_run_that_was_killed_are_found_by_their_files(tmp_path):
    results = tmp_path / "results"
    Made(results).run(pairs=[["s1", "DAPI"], ["s2", "DAPI"]])
    left_out = {"sample": "s3", "dye": "", "status": "skipped", "reasons": "no such file"}
    stale = {"sample": "s1", "dye": "DAPI", "status": "ok", "reasons": ""}
    summary(results, left_out, stale)
    (results / "s1" / "DAPI").mkdir(parents=True)
    (results / "s1" / "DAPI" / "details").mkdir(parents=True, exist_ok=True)
    (results / "s1" / "DAPI" / "details/plan.json").write_text("{}")
    found = read_model(results)["pairs"]
    assert [(p["sample"], p["status"]) for p in found] == [
        ("s3", "skipped"),
        ("s1", "incomplete"),
        ("s2", "incomplete"),
    ]
    assert found[1]["reasons"].startswith("s1/DAPI/transform.json has not been made")
    assert found[2]["reasons"].startswith("s2/DAPI/details/plan.json has not been made")


@pytest.mark.parametrize("is_finished", [True, False])
def test_pairs_have_what_is_behind_their_reasons_whether_the_table_is_there_or_not(
    tmp_path, is_finished
):
    results, reason = tmp_path / "results", explain("torn", at=(30, 20), count=12, limit=1.0)
    place = results / "s1" / "DAPI"
    made_pair(place)
    record = json.loads((place / "details/detection.json").read_text())
    (place / "details/detection.json").write_text(
        json.dumps(record | {"reasons": [reason.to_plain()]})
    )
    if is_finished:
        row = {"sample": "s1", "dye": "DAPI", "status": "suspect", "reasons": reason}
        summary(results, row)
    (pair,) = read_model(results)["pairs"]
    assert reason in pair["reasons"]
    assert reason.to_plain() in pair["details"]


def size_of(coded):
    pixels = cv2.imdecode(np.frombuffer(base64.b64decode(coded), np.uint8), cv2.IMREAD_COLOR)
    return pixels.shape[:2]


def test_figures_are_made_small_and_name_their_files(tmp_path):
    figures = tmp_path / "s1" / "DAPI" / "figures"
    figures.mkdir(parents=True)
    for name in ("registration", "difference"):
        cv2.imwrite(str(figures / f"{name}.png"), np.full((1000, 2000, 3), 90, np.uint8))
    (figures / "gallery.png").write_text("damaged")
    row = {"sample": "s1", "dye": "DAPI", "status": "ok"}
    ((gallery, picture, link),) = pack_pictures(tmp_path, [row])
    assert (picture.name, picture.file) == ("registration", "s1/DAPI/figures/registration.png")
    assert (link.image, link.file) == ("", "s1/DAPI/figures/difference.png")
    assert (gallery.image, gallery.problem[:12]) == ("", "No gallery: ")
    assert "gallery.png is damaged" in gallery.problem
    (figures / "gallery.png").unlink()
    assert size_of(picture.image) == (500, 1000)
    assert pack_pictures(tmp_path, [row | {"status": "failed"}]) == [[]]
    elsewhere = tmp_path / "mail"
    ((seen, _),) = pack_pictures(tmp_path, [row], elsewhere)
    assert seen.file == "../s1/DAPI/figures/registration.png"
    ((seen, _),) = pack_pictures(tmp_path, [row], sizes=Sizes.choose(100))
    assert (seen.image, seen.file) == ("", "s1/DAPI/figures/registration.png")


def test_the_difference_is_500_px_or_more_up_to_30_pairs_and_always_there():
    assert [Sizes.choose(n).difference >= 500 for n in (1, 30, 31)] == [True, True, False]
    assert Sizes.choose(1000).difference > 0


def test_a_difference_comes_first_and_is_computed_if_it_is_not_stored(tmp_path):
    pair = tmp_path / "A" / "D"
    made_pair(pair)
    names = ["difference", "post", "aligned pre", "unaligned pre"]
    for method in ("linear", "moffat"):
        scale = pair / "scale.json"
        made = scale.stat().st_mtime_ns
        scale.write_text(json.dumps(json.loads(scale.read_text()) | {"default": method}))
        os.utime(scale, ns=(made, made))
        row = {"sample": "A", "dye": "D", "status": "ok", "method": method}
        (pictures,) = pack_pictures(tmp_path, [row])
        assert [p.name for p in pictures] == names
        assert all(p.image for p in pictures)
    (few,) = pack_pictures(tmp_path, [row], sizes=Sizes.choose(500))
    assert [p.name for p in few] == names[:1]


def test_pre_of_a_pair_without_a_map_is_shown_entirely(tmp_path):
    refused(tmp_path / "A" / "D")
    (pictures,) = pack_pictures(tmp_path, [{"sample": "A", "dye": "D", "status": "failed"}])
    (pre,) = (p for p in pictures if p.name == "unaligned pre")
    rows, cols = cv2.imdecode(np.frombuffer(base64.b64decode(pre.image), np.uint8), 0).shape
    assert cols / rows == pytest.approx(PRE_SHAPE[1] / PRE_SHAPE[0], rel=0.02)
    assert cols / rows != pytest.approx(SHAPE[1] / SHAPE[0], rel=0.02)


def test_pictures_of_500_pairs_stay_below_25_mb(small_finished):
    results = small_finished / "results"
    rows = read_summary(results / "summary.tsv")
    for pairs, most in ((500, 25e6), (3000, 50e6)):
        (pictures,) = pack_pictures(results, rows, sizes=Sizes.choose(pairs))
        assert 0 < pairs * sum(len(p.image) + len(p.small) for p in pictures) < most


LATER = ("registration", "gallery", "candidates")


@pytest.mark.parametrize(
    ("renewed", "shown", "figures"),
    [
        (None, ["difference", "post", "aligned pre", "unaligned pre"], LATER),
        (
            "details/detection.json",
            ["difference", "post", "aligned pre", "unaligned pre"],
            LATER[:1],
        ),
        ("scale.json", ["post", "aligned pre", "unaligned pre"], LATER[:1]),
        ("aligned_pre.ome.zarr/zarr.json", ["post", "aligned pre", "unaligned pre"], ()),
        ("transform.json", ["post", "unaligned pre"], ()),
        ("post.ome.zarr/zarr.json", ["post", "unaligned pre"], ()),
    ],
)
def test_no_picture_of_an_earlier_result_is_next_to_new_numbers(tmp_path, renewed, shown, figures):
    results, pair = tmp_path / "results", tmp_path / "results" / "A" / "D"
    made_pair(pair)
    (pair / "figures").mkdir(exist_ok=True)
    for name in LATER:
        cv2.imwrite(str(pair / "figures" / f"{name}.png"), np.full((30, 50, 3), 90, np.uint8))
    if renewed:
        later = time.time() + 5
        os.utime(pair / renewed, (later, later))
    row = {"sample": "A", "dye": "D", "status": "ok", "method": "linear"}
    (pictures,) = pack_pictures(results, [row])
    found = {p.name for p in pictures if p.image}
    assert found == {*shown, *figures}
    problems = [p.problem for p in pictures if p.problem]
    assert len(problems) == (len(figures) < len(LATER))
    assert all("results/A/D/figures" in problem for problem in problems)
    assert pack_pictures(results, [row | {"status": "skipped"}]) == [[]]


@pytest.mark.parametrize("sigma", [1.0, 20.0])
def test_rings_have_a_dark_halo_and_are_wider_than_their_spots(tmp_path, sigma):
    made_pair(tmp_path / "A" / "D")
    row = {"sample": "A", "dye": "D", "status": "ok", "method": "linear"}
    table = tmp_path / "A" / "D" / "candidates.csv"
    names = table.read_text().splitlines()[0].split(",")
    drawn = []
    for cells in ("", ",".join(str({"x": 60, "y": 90, "a": sigma}.get(n, 9)) for n in names[:-1])):
        table.write_text(",".join(names) + "\n" + (cells and f"{cells},\n"))
        (pictures,) = pack_pictures(tmp_path, [row])
        picture = np.frombuffer(base64.b64decode(pictures[0].image), np.uint8)
        drawn.append(cv2.imdecode(picture, cv2.IMREAD_COLOR).astype(int).max(axis=2))
    change = drawn[1] - drawn[0]
    scale = drawn[0].shape[1] / SHAPE[1]
    y, x = np.indices(change.shape)
    distance = np.hypot((x + 0.5) / scale - 60.5, (y + 0.5) / scale - 90.5)
    radius = np.median(distance[change > 60])
    assert radius == pytest.approx(max(6 / scale, 2 * sigma), abs=2)
    assert change[np.abs(distance - radius) < 5].min() < -20  # the halo
    assert np.abs(change[distance < radius - 5 / scale - 2]).max(initial=0) < 20


def test_an_error_in_one_picture_is_a_sentence_in_its_place(tmp_path, caplog):
    pair = tmp_path / "A" / "D"
    made_pair(pair)
    row = {"sample": "A", "dye": "D", "status": "ok", "method": "linear"}
    aligned = pair / "aligned_pre.ome.zarr" / "zarr.json"
    made = aligned.stat().st_mtime_ns
    aligned.write_text("[]")
    os.utime(aligned, ns=(made, made))
    hostile = {"sample": "A\0", "dye": "D", "status": "ok"}
    bad, pictures = pack_pictures(tmp_path, [hostile, row])
    assert all(p.problem for p in bad)
    assert [(p.name, bool(p.problem)) for p in pictures] == [
        *(("difference", False), ("post", False), ("aligned pre", True), ("unaligned pre", False))
    ]
    assert "report, A D: No aligned pre: " in caplog.text


def test_pictures_are_kept_until_the_results_change(tmp_path):
    pair, cache = tmp_path / "A" / "D", tmp_path / "telemetry" / "report_pictures.json"
    made_pair(pair)
    row = {"sample": "A", "dye": "D", "status": "ok", "method": "linear"}
    drawn = pack_pictures(tmp_path, [row], cache=cache)
    assert not cache.exists()  # these results have no digests
    published = pair / "details/digests" / "scale.sha256"
    digests.write(published, [pair / "scale.json"])
    assert pack_pictures(tmp_path, [row], cache=cache) == drawn
    (key,) = json.loads(cache.read_text())
    shutil.rmtree(pair / "post.ome.zarr")
    assert pack_pictures(tmp_path, [row], cache=cache) == drawn
    assert pack_pictures(tmp_path, [row], sizes=Sizes.choose(99), cache=cache) != drawn
    assert key not in json.loads(cache.read_text())
    cache.write_text('{"damaged": [{"nam')
    published.write_text("of other results")
    assert pack_pictures(tmp_path, [row], cache=cache) != drawn


def test_a_row_that_cannot_be_made_says_why(tmp_path, monkeypatch):
    def fail(*_):
        raise ZeroDivisionError("by zero")

    place = tmp_path / "A" / "D"
    made_pair(place)
    whole = (place / "scale.json").read_text()
    (place / "scale.json").write_text(whole.replace('"default"', '"defautl"'))
    (row,) = read_model(tmp_path)["pairs"]
    assert row["status"] == "failed"
    assert "scale.json" in row["reasons"]
    assert "default: it is missing" in row["reasons"]
    (place / "scale.json").write_text(whole)
    monkeypatch.setattr("unglow.results.summary.judge", fail)
    with pytest.raises(ZeroDivisionError):
        read_model(tmp_path)


@pytest.mark.parametrize("content", [b"sample\tdye\n\xe0\tx\n", b"x" * 200_000, b"a\tb\n1\t2\t3\n"])
def test_a_damaged_table_does_not_stop_the_report(tmp_path, content):
    made_pair(tmp_path / "A" / "D")
    (tmp_path / "summary.tsv").write_bytes(content)
    assert write_report(tmp_path).is_file()


def test_a_report_that_fails_is_a_sentence_and_not_an_exit_status_of_0(
    tmp_path, monkeypatch, capsys
):
    def fail(*_, **__):
        raise KeyError("difference")

    monkeypatch.setattr("unglow.pages.report.report.build", fail)
    assert main(["report", str(tmp_path)]) != 0
    said = capsys.readouterr().err
    assert said.startswith(f"unglow report: {tmp_path / NAME} could not be written (KeyError: ")


def test_pairs_are_reported_with_what_they_took_and_what_is_unlike_the_others(made):
    pairs = [{"sample": f"s{n}", "dye": "DAPI", "status": "ok", "gain": str(1.3 + n / 1000),
             "group": "wet"} for n in range(8)]  # fmt: skip
    pairs[3]["gain"] = "2.5"
    summary(made.results, *pairs)
    made.attempt("align", 6.0, sample(0.1, 77), end(2.0), sample="s1")
    batch = read_model(made.results)["batch"]
    assert batch["groups"] == ["group"]
    assert [key for key, _ in batch["pairs"][3]["outlier"]] == ["gain"]
    assert [bool(p["outlier"]) for p in batch["pairs"]].count(True) == 1
    assert batch["pairs"][1]["peak_mb"] >= 77
    assert batch["pairs"][1]["seconds"] >= 2
    assert batch["pairs"][2] == {"seconds": None, "peak_mb": None, "outlier": []}


@pytest.mark.parametrize("length", [1, 20_000])
def test_embedded_json_cannot_end_its_element(length):
    content = {"text": "</script><script>" * length, "é": "\ud800"}
    made = embedded(content, "model")
    inside = re.fullmatch(r'<script type="application/(json|gzip)" id="model">(.*)</script>', made)
    assert "<" not in inside[2]
    text = inside[2]
    if inside[1] == "gzip":
        text = gzip.decompress(base64.b64decode(text)).decode()
    assert json.loads(text)["text"] == content["text"]


def test_numbers_that_json_does_not_have_are_null():
    content = {"a": [float("nan"), 1.5, {"b": float("inf")}], "c": (1, "x")}
    assert json.loads(to_json(content)) == {"a": [None, 1.5, {"b": None}], "c": [1, "x"]}


def test_braces_in_what_is_embedded_are_no_places_of_the_template():
    assert "{{script}}" in page({"x": "{{script}}"})


def test_the_command_writes_a_report_and_says_where(made, capsys):
    assert main(["report", str(made.results)]) == 0
    assert Path(capsys.readouterr().out.strip()) == made.results / NAME
    assert (made.results / NAME).read_text().startswith("<!doctype html>")
    target = made.results.parent / "other.html"
    assert main(["report", str(made.results), "-o", str(target)]) == 0
    assert target.is_file()


def test_an_empty_directory_has_an_empty_report(tmp_path):
    assert write_report(tmp_path).is_file()


def test_runs_are_compared_by_the_same_numbers(tmp_path, capsys):
    places = [tmp_path / name / "results" for name in ("before", "after")]
    for place, mb in zip(places, (200, 300), strict=True):
        made = Made(place)
        made.run(DONE)
        made.attempt("plan", 2.0, sample(1.0, mb), end(4.0, cpu_s=2.0, read=1e6, written=3e6))
    by_name = {
        row.name: row for row in rows(select_runs([runs_of(place) for place in places]).values())
    }
    assert by_name["peak memory of all jobs"].values == [200.0, 300.0]
    assert by_name["peak memory of all jobs"].change == "+50 %"
    assert (by_name["read"].values, by_name["processors at work"].values) == (
        [1e6, 1e6],
        [0.05, 0.05],
    )
    assert by_name["unglow"].change is None
    out = tmp_path / "compare.html"
    assert main(["compare", *map(str, places), "-o", str(out)]) == 0
    text = capsys.readouterr().out
    assert re.search(r"peak memory of all jobs +200 MB +300 MB +\+50 %", text)
    assert re.search(r"^ +before +after", text, re.MULTILINE)
    assert out.is_file()


def test_settings_and_versions_that_differ_are_reported_first(tmp_path):
    made = [Made(tmp_path / name / "results") for name in ("a", "b")]
    register = ({"block_px": 256, "model": "auto"}, {"block_px": 512, "model": "auto"})
    for one, settings, version in zip(made, register, ("0.1.0", "0.2.0"), strict=True):
        one.run(DONE, config={"register": settings, "sweep": {}}, unglow=version)
        one.attempt("plan", 2.0, end(1.0))
    a, b = (run for one in made for run in runs_of(one.results).values())
    settings, versions = origins(a, b)
    assert settings == "Other settings: register.block_px 256 against 512."
    assert "unglow (0.1.0; 0.2.0)" in versions
    assert origins(a, a) == []
    assert origins(a, None)[0].startswith("B without a record of a run")


def test_runs_of_one_directory_are_distinguished_by_their_time(tmp_path, capsys):
    made = Made(tmp_path / "work" / "results")
    files = [made.run(DONE, start=s, pid=p) for s, p in ((0, 1), (500, 2))]
    made.attempt("plan", 2, end(1.0))
    made.attempt("plan", 502, end(1.0))
    names = [*runs_of(made.results)]
    assert names == [f"work {file.name[:15]}" for file in files]
    assert [*select_runs([runs_of(file) for file in files])] == names
    assert [*runs_of(made.results.parent)] == names
    assert main(["compare", str(files[0])]) == 2
    assert "holds one run only" in capsys.readouterr().err
    with pytest.raises(InputError, match="no record of a run"):
        runs_of(tmp_path)
