"""A torn and dirty section keeps its list; where there can be none, a sentence says why."""

from __future__ import annotations

import json

import numpy as np
import pytest
from real_runs import TABLES, command, snakemake, summary_of
from sharing import once

from unglow.io.detection_results import read_candidates
from unglow.review.polygons import Polygon

pytestmark = pytest.mark.workflow

SECTION = ("--size", "1400x1400", "--seed", "3", "--microbes-per-mpx", "80")
DAMAGE = {"good": None, "spoilt": "lost:110,film:50", "kept": "lost:110", "swapped": "swap"}
MARGIN = 16
"""Candidates so near to a place are not compared, px."""


def write_region(place):
    """Draw a region to count in over the piece that is lost, wider than that."""
    _, ring = damage_of(place, "kept")[0]
    (x0, y0), (x1, y1) = (ring.min(axis=0) - 80, ring.max(axis=0) + 80)
    corners = [[x0, y0], [x1, y0], [x1, y1], [x0, y1], [x0, y0]]
    feature = {
        "type": "Feature",
        "geometry": {"type": "Polygon", "coordinates": [corners]},
        "properties": {"classification": {"name": "analyse"}},
    }
    path = place / "raw" / "kept" / "kept_post_SYTO9.regions.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    def make(place):
        for sample, damage in DAMAGE.items():
            more = () if damage is None else ("--damage", damage)
            made = command(place, "unglow", "phantom", "--sample", sample, *SECTION, *more)
            assert made.code == 0, made.text
        write_region(place)
        drawn = [f"results/{name}/SYTO9/figures/difference.png" for name in ("spoilt", "swapped")]
        done = snakemake(place, *TABLES, *drawn)
        assert done.code == 0, done.text

    return once(tmp_path_factory, "spoilt", make)[0]


def damage_of(place, sample):
    """Return kind and outline (N, 2) (x, y) of each place of the truth."""
    truth = json.loads((place / "raw" / sample / f"{sample}_SYTO9_truth.json").read_text())
    return [(one["kind"], np.array(one["polygon_xy"])) for one in truth["damage"]]


def pair(place, sample):
    return place / "results" / sample / "SYTO9"


def features(place, sample):
    return json.loads((pair(place, sample) / "artefacts.geojson").read_text())["features"]


def polygons(feature):
    given = feature["geometry"]["coordinates"]
    return given if feature["geometry"]["type"] == "MultiPolygon" else [given]


def holds(rings, x, y):
    polygon = Polygon.from_rings([np.array(ring) - 0.5 for ring in rings])
    return bool(polygon.holds(np.array([round(x)]), np.array([round(y)]))[0])


def counted(place, sample):
    table = read_candidates(pair(place, sample) / "candidates.csv")
    return table.xy[table.is_counted]


def far_from(points, rings):
    """Say which points are outside of rings and not next to them."""
    px = np.rint(points).astype(np.int64)
    outside = np.ones(len(points), np.bool_)
    for ring in rings:
        outside &= ~Polygon.from_rings([ring]).holds(px[:, 0], px[:, 1])
        apart = np.hypot(*(points[:, None, k] - ring[None, :, k] for k in (0, 1)))
        outside &= apart.min(axis=1) > MARGIN + 32
    return outside


def test_places_are_found_with_their_reasons(run):
    assert features(run, "good") == []
    found = features(run, "spoilt")
    reasons = {feature["properties"]["reason"] for feature in found}
    assert {"lost", "debris"} <= reasons
    for kind, ring in damage_of(run, "spoilt"):
        x, y = ring.mean(axis=0)
        holding = [
            feature["properties"]["reason"]
            for feature in found
            if any(holds(polygon, x, y) for polygon in polygons(feature))
        ]
        assert holding == [{"film": "debris"}.get(kind, kind)]


def test_the_list_outside_of_them_is_that_of_the_good_pair(run):
    rings = [ring for _, ring in damage_of(run, "spoilt")]
    good, spoilt = counted(run, "good"), counted(run, "spoilt")
    good, spoilt = (points[far_from(points, rings)] for points in (good, spoilt))
    assert len(good) > 60
    apart = np.hypot(*(good[:, None, k] - spoilt[None, :, k] for k in (0, 1)))
    assert (apart.min(axis=1) < 1).mean() >= 0.95
    assert (apart.min(axis=0) < 1).mean() >= 0.95


def test_the_summary_reports_their_share_and_the_pair_stays_ok(run):
    summary = summary_of(run)
    assert summary["good"]["spoilt_share"] == "0"
    assert summary["spoilt"]["status"] == "ok"
    assert 0.02 < float(summary["spoilt"]["spoilt_share"]) < 0.12
    assert summary["spoilt"]["spoilt_reasons"].startswith("lost ")
    low, rate, high = (
        float(summary["good"][name]) for name in ("fdr_low95", "candidates_fdr", "fdr_high95")
    )
    assert low < rate < high
    report = json.loads((pair(run, "spoilt") / "details/detection.json").read_text())
    assert report["spoilt"]["by_reason"].keys() >= {"lost", "debris"}
    assert report["masked_px"]["spoilt"] > 0


def test_a_region_to_count_in_keeps_what_is_in_it(run):
    assert not any(f["properties"]["reason"] == "lost" for f in features(run, "kept"))


def test_swapped_images_are_suspect_by_name(run):
    row = summary_of(run)["swapped"]
    assert row["status"] == "suspect"
    assert "look swapped" in row["reasons"]


def test_the_gain_is_that_of_the_good_pair(run):
    gains = {sample: float(summary_of(run)[sample]["gain"]) for sample in ("good", "spoilt")}
    assert gains["spoilt"] == pytest.approx(gains["good"], rel=1.5e-3)
    scale = json.loads((pair(run, "spoilt") / "scale.json").read_text())
    assert scale["methods"]["linear"]["cells_outlying"] > 0
