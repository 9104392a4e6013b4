"""Regions drawn on post, in real runs: only the search and what follows from it runs again."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from real_runs import TABLES, bytes_of, snakemake

from unglow.results import read_summary
from unglow.review.decisions import change_review

pytestmark = pytest.mark.workflow

AGAIN = {"detect": 1, "figures": 1, "summary": 1, "verdict": 1}
BUBBLE, PART = (100, 150, 460, 520), (0, 0, 450, 700)


def drawn(box, kind, **more):
    """A feature as QuPath exports it: the corners of px x0 <= x < x1 and y0 <= y < y1."""
    x0, y0, x1, y1 = box
    ring = [[x0, y0], [x1, y0], [x1, y1], [x0, y1], [x0, y0]]
    return {
        "type": "Feature",
        "id": kind,
        "geometry": {"type": "Polygon", "coordinates": [ring]},
        "properties": {"objectType": "annotation", "classification": {"name": kind}, **more},
    }


def draw(work, *features):
    """Save features next to the post image."""
    (post,) = work.glob("raw/*/*post*.tif")
    path = post.with_name(f"{post.stem}.regions.geojson")
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return path


def found(pair):
    report = json.loads((pair / "details/detection.json").read_text())
    with (pair / "candidates.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    points = np.array([[float(row[name]) for name in ("x", "y")] for row in rows])
    counted = np.array(["outside" not in row["flags"].split("+") for row in rows])
    return report, points, counted


def within(points, box):
    col, row = np.rint(points).T
    return (col >= box[0]) & (col < box[2]) & (row >= box[1]) & (row < box[3])


def test_regions_rerun_the_search_and_what_follows_and_nothing_else(small_work):
    (pair,) = small_work.glob("results/*/SYTO9")
    before, points, _ = found(pair)
    made = bytes_of(small_work / "results")
    inside = within(points, BUBBLE)
    assert inside.any()
    assert not inside.all()

    path = draw(small_work, drawn(BUBBLE, "Ignore*"), drawn(PART, "analyse", name="left half"))
    run = snakemake(small_work)
    assert run.code == 0, run.text
    assert run.jobs() == AGAIN
    report, left, counted = found(pair)
    assert not within(left, BUBBLE).any()
    bubble_px = (BUBBLE[2] - BUBBLE[0]) * (BUBBLE[3] - BUBBLE[1])
    assert report["masked_px"]["excluded"] == bubble_px
    assert 0 <= before["searched_px"] - bubble_px - report["searched_px"] < 2000
    assert report["density_per_mm2"] != before["density_per_mm2"]
    (part,) = report["regions"]
    assert part["name"] == "left half"
    assert part["candidates"] == np.count_nonzero(within(left, PART) & counted)
    low, high = part["density_ci95_per_mm2"]
    assert low < part["density_per_mm2"] < high
    same = {
        name: digest
        for name, digest in bytes_of(small_work / "results").items()
        if made.get(name) == digest
    }
    kept = ("transform.json", "scale.json", "details/blocks.csv", "zarr.json")
    assert all(name in same for name in made if name.endswith(kept))
    assert snakemake(small_work, "-n").jobs() == {}

    draw(small_work, drawn(PART, "analyse"))
    run = snakemake(small_work, *TABLES)
    assert run.jobs() == {name: n for name, n in AGAIN.items() if name != "figures"}, run.text
    report, left, _ = found(pair)
    assert within(left, BUBBLE).any()
    assert report["masked_px"] == before["masked_px"] | {"excluded": 0}
    assert report["searched_px"] == before["searched_px"]

    path.unlink()
    run = snakemake(small_work)
    assert run.jobs() == AGAIN, run.text
    assert bytes_of(small_work / "results") == made


def test_a_review_reruns_the_summary_alone(small_work):
    (pair,) = small_work.glob("results/*/SYTO9")
    made = bytes_of(small_work / "results")
    _, points, _ = found(pair)

    def decide(*decisions):
        changes = [
            {"id": n, "x": x, "y": y, "decision": decision, "note": "seen"}
            for n, ((x, y), decision) in enumerate(zip(points, decisions, strict=False), 1)
        ]
        change_review(pair / "review.csv", changes, pair / "candidates.csv")
        run = snakemake(small_work)
        assert run.code == 0, run.text
        assert run.jobs() == {"summary": 1, "verdict": 1}
        assert snakemake(small_work, "-n").jobs() == {}
        (row,) = read_summary(small_work / "results" / "summary.tsv")
        return [row.get(name) for name in ("reviewed", "accepted", "purity")]

    assert decide("accepted", "accepted", "rejected") == ["3", "2", "0.7"]
    assert decide("accepted", "accepted", "rejected") == ["3", "2", "0.7"]
    assert decide("", "", "") == [None] * 3
    (pair / "review.csv").unlink()
    assert snakemake(small_work).jobs() == {"summary": 1, "verdict": 1}
    assert made.items() <= bytes_of(small_work / "results").items()


def test_a_job_with_many_vertices_takes_what_it_has_declared(small_work):
    angle = np.linspace(0, 2 * np.pi, 99_000)
    radius = 200 + 40 * np.sin(5000 * angle)
    ring = np.stack([400 + radius * np.cos(angle), 350 + radius * np.sin(angle)], axis=1)
    flower = drawn(BUBBLE, "exclude")
    flower["geometry"]["coordinates"] = [ring.round(3).tolist()]
    draw(small_work, flower)
    run = snakemake(small_work, "--until", "detect")
    assert run.code == 0, run.text
    (path,) = (small_work / "results" / "telemetry").rglob("detect.jsonl")
    record = json.loads(path.read_text().splitlines()[-1])
    assert record["peak_mb"] <= record["declared_mb"]
