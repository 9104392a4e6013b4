"""The main job on a phantom with exact truth: from raw to difference, and what a rerun does."""

from __future__ import annotations

import csv
import json
import re
import zipfile

import numpy as np
import pytest
from real_runs import (
    PROJECT,
    TABLES,
    but_figures,
    bytes_of,
    command,
    records_of,
    snakemake,
    summary_of,
)

from unglow import transform
from unglow.core.windows import Window
from unglow.images.zarr import open_store
from unglow.phantom import Truth
from unglow.photometry import imaging
from unglow.photometry.difference import open_difference
from unglow.photometry.difference_histogram import BackgroundMedians

pytestmark = pytest.mark.workflow


@pytest.fixture(scope="module")
def pair(finished):
    work, run = finished
    assert run.code == 0, run.text
    (directory,) = (work / "results").glob("*/SYTO9")
    return work, directory


def truth_of(work):
    (path,) = (work / "raw").glob("*/*truth.json")
    return Truth.load(path)


def section_points(post):
    """Points on a grid that lie on the section: clearly brighter than the black around it."""
    level = 2
    rows, cols = post.level_shape(level)
    image = post.read(Window(0, rows, 0, cols), level)
    row, col = np.nonzero(image > 10)
    return (np.column_stack([col, row]) * 2.0**level + (2**level - 1) / 2)[::37]


def test_registration_is_within_a_few_hundredths_of_a_pixel_of_the_truth(pair):
    work, directory = pair
    found = transform.load(directory / "transform.json")
    points = section_points(open_store(directory / "post.ome.zarr"))
    assert len(points) > 500
    error = np.hypot(*(found.map(points) - truth_of(work).map(points)).T)
    assert found.status == "ok"
    assert np.median(error) <= 0.03
    assert np.quantile(error, 0.95) <= 0.05


def test_gain_and_offset_are_those_of_the_truth(pair):
    work, directory = pair
    scale = json.loads((directory / "scale.json").read_text())
    truth = truth_of(work)
    assert scale["default"] == "linear"
    linear = scale["methods"]["linear"]
    assert linear["gain"] == pytest.approx(truth.gain, rel=0.001)
    assert linear["offset"] == pytest.approx(truth.offset, abs=0.5)
    low, high = linear["gain_ci95"]  # of 95 %: one pair may lie a little outside
    assert abs(linear["gain"] - truth.gain) < 0.75 * (high - low)
    assert linear["gain_map"] is None
    assert imaging.load_gain_map(directory / "details/gain_map.npz") is None
    assert scale["methods"]["moffat"]["gain"] == pytest.approx(truth.gain, rel=0.02)


def test_background_is_gone_square_by_square(pair):
    _, directory = pair
    medians = BackgroundMedians.load(directory / "details/difference.background.npz").medians
    shape = open_store(directory / "post.ome.zarr").shape
    assert medians.shape == tuple(-(-n // 64) for n in shape)
    assert np.nanmedian(np.abs(medians)) < 0.3


def test_the_difference_is_post_minus_gain_times_aligned_pre(pair):
    _, directory = pair
    scale = json.loads((directory / "scale.json").read_text())
    post = open_store(directory / "post.ome.zarr")
    aligned = open_store(directory / "aligned_pre.ome.zarr")
    window = Window(700, 1300, 800, 1200)
    for method, entry in scale["methods"].items():
        difference = open_difference(directory, method).read(window)
        expected = post.read(window) - (entry["gain"] * aligned.read(window) + entry["offset"])
        assert np.nanmax(np.abs(difference - expected)) <= 1 / 64 + 1e-4
        assert (np.isnan(difference) == np.isnan(aligned.read(window))).all()


def test_most_candidates_are_microbes_and_bright_microbes_are_candidates(pair):
    work, directory = pair
    truth = truth_of(work)
    report = json.loads((directory / "details/detection.json").read_text())
    with (directory / "candidates.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    counted = [row for row in rows if not {"outside", "sharp"} & set(row["flags"].split("+"))]
    assert report["status"] == "ok"
    assert report["candidates"] == len(counted)
    assert report["fdr"] <= 0.05
    points = np.array([(float(row["x"]), float(row["y"])) for row in counted])
    away = np.hypot(*np.moveaxis(points[:, None] - truth.microbes.xy[None], -1, 0))
    assert np.mean(away.min(axis=1) <= 3) > 0.85
    pre = truth.map(truth.microbes.xy)
    rows_pre, cols_pre = truth.spec.pre_frame
    inside = ((pre > 10) & (pre < [cols_pre - 10, rows_pre - 10])).all(axis=1)
    bright = inside & (truth.microbes.peak > 20)
    assert np.mean(away[:, bright].min(axis=0) <= 3) > 0.95
    low, high = report["density_ci95_per_mm2"]
    assert low < report["density_per_mm2"] < high


def test_the_summary_reports_status_residual_and_gain(pair):
    work, _ = pair
    (row,) = summary_of(work).values()
    assert row["status"] == "ok"
    assert float(row["residual_p95_px"]) < 1
    assert float(row["gain_low95"]) < float(row["gain"]) < float(row["gain_high95"])
    assert (work / "results" / "verdict.txt").read_text().startswith("1 ok")


def test_every_file_column_and_key_is_described(pair):
    work, directory = pair
    pages = "".join(
        (PROJECT / "docs" / name).read_text() for name in ("result-files.md", "results.md")
    )
    described = set(re.findall(r"[\w<>*.]+", " ".join(re.findall(r"`([^`]+)`", pages))))
    described |= set(re.findall(r"\*\*([\w.]+)\*\*", pages))
    named = {
        place.name
        for place in (*directory.iterdir(), *(directory / "details").iterdir())
        if place.name != "details"
    }
    named |= {figure.name for figure in (directory / "figures").iterdir()}
    named |= set(next(csv.reader((directory / "candidates.csv").open())))
    named |= set(next(csv.reader((work / "results" / "summary.tsv").open(), delimiter="\t")))
    for name in ("transform.json", "scale.json", "details/detection.json"):
        record = json.loads((directory / name).read_text())
        named |= set(record)
        named |= {key for method in record.get("methods", {}).values() for key in method}
    assert sorted(named - described) == []


def test_every_job_left_a_log_a_benchmark_and_a_memory_record(pair):
    work, _ = pair
    records = records_of(work / "results")
    assert len(records) >= 9
    for path in records:
        (line,) = path.read_text().splitlines()
        record = json.loads(line)
        assert record["outcome"] == "ok"
        assert 0 < record["peak_mb"] <= record["declared_mb"], record
    logs = {p.stem for p in (work / "logs").rglob("*.log")}
    benchmarks = {p.stem for p in (work / "results" / "benchmarks").rglob("*.tsv")}
    assert logs == benchmarks == {p.stem for p in records}


def test_a_second_run_does_nothing(pair):
    work, _ = pair
    again = snakemake(work, "-n")
    assert again.code == 0
    assert "Nothing to be done" in again.text


def test_a_subtraction_parameter_reruns_only_subtraction_and_what_follows(pair):
    work, _ = pair
    run = snakemake(work, "-n", "--config", "scale={percentile: 40}")
    assert set(run.jobs()) == {"scale", "difference", "detect", "figures", "summary", "verdict"}
    run = snakemake(work, "-n", "--config", "register={blocks: 300}")
    assert {"register", "align", "scale"} <= set(run.jobs())
    assert "ingest" not in run.jobs()


def test_a_budget_or_thread_count_reruns_nothing(pair):
    work, _ = pair
    words = ("--config", "memory_per_job=400", "--cores", "1", "--set-threads", "align=1")
    assert "Nothing to be done" in snakemake(work, "-n", *words).text


def test_the_report_holds_every_figure(pair, tmp_path):
    work, directory = pair
    run = snakemake(work, "--report", tmp_path / "report.zip")
    assert run.code == 0, run.text
    names = zipfile.ZipFile(tmp_path / "report.zip").namelist()
    pictures = {p.name for p in (directory / "figures").glob("*.png")}
    assert len(pictures) == 6
    assert {n.rsplit("/", 1)[-1] for n in names} >= pictures


# the fourth combination is that of `small_finished`; it is run twice in
# test_telemetry_run.py::test_a_record_of_the_run_that_cannot_be_written_changes_no_result
SERIAL = ("--workflow-profile", PROJECT / "profiles" / "serial")


@pytest.mark.parametrize(
    ("words", "cores"),
    [
        (("--cores", "2", "--config", "memory_per_job=400"), 2),
        ((*TABLES, "--cores", "1", "--config", "memory_per_job=400"), 1),
        ((*SERIAL, "--config", "memory_per_job=2000"), 1),
    ],
)
def test_results_are_the_same_bytes_for_any_budget_thread_count_and_place(
    small_finished, tmp_path, words, cores
):
    """From any directory, with nothing but raw/ where it works, under the profile as it stands."""
    work = tmp_path / "my work é"
    work.mkdir()
    (work / "raw").symlink_to(small_finished / "raw")
    start = ("snakemake", "-s", PROJECT / "Snakefile", "--directory", work)
    run = command(tmp_path, *start, *words)
    assert run.code == 0, run.text
    assert f"Provided cores: {cores}" in run.text
    assert (work / "results" / "summary.tsv").is_file()
    whole = bytes_of(small_finished / "results")
    # figures of little memory and of one core, in the two other runs
    wanted = but_figures(whole) if words[0] == TABLES[0] else whole
    assert bytes_of(work / "results") == wanted
