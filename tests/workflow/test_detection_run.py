"""Candidates through the real workflow: the microbes of a phantom, the same whatever the budget."""

from __future__ import annotations

import csv
import json
import shutil

import numpy as np
import pytest
from real_runs import snakemake

from unglow.phantom import Truth

pytestmark = pytest.mark.workflow

MADE = ("candidates.csv", "candidates.geojson", "details/detection.json")


@pytest.fixture(scope="module")
def searched(finished, tmp_path_factory):
    """A copy of the finished run, what its search made, and where."""
    assert finished[1].code == 0, finished[1].text
    work = tmp_path_factory.mktemp("searched") / "work"
    shutil.copytree(finished[0], work, symlinks=True, ignore=shutil.ignore_patterns(".snakemake"))
    (pair,) = (work / "results").glob("*/SYTO9")
    return work, pair, {name: (pair / name).read_bytes() for name in MADE}


def detected(work, pair, *words):
    """Run the search alone, and return what it made."""
    target = (pair / "candidates.csv").relative_to(work)
    alone = ("--force", "--allowed-rules", "detect", "--rerun-triggers", "mtime")
    run = snakemake(work, target, *alone, *words)
    assert run.code == 0, run.text
    return {name: (pair / name).read_bytes() for name in MADE}


def test_most_candidates_are_microbes_and_bright_microbes_are_candidates(searched):
    work, pair, _ = searched
    (path,) = (work / "raw").glob("*/*truth.json")
    truth = Truth.load(path)
    report = json.loads((pair / "details/detection.json").read_text())
    with (pair / "candidates.csv").open() as stream:
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


def test_neither_budget_nor_threads_change_a_byte(searched):
    work, pair, made = searched
    little = ("--config", "memory_per_job=300", "--set-threads", "detect=1")
    assert detected(work, pair, *little) == made


def test_a_job_takes_what_it_has_declared(searched):
    work, _, _ = searched
    (path,) = (work / "results" / "telemetry").rglob("detect.jsonl")
    (record,) = (json.loads(line) for line in path.read_text().splitlines())
    assert record["peak_mb"] <= record["declared_mb"]
