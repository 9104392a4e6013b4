"""A torn and dirty section keeps its list; where there can be none, a sentence says why."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from phantom_damage.kinds import DamagedPair
from phantom_damage.pair import make_pair
from real_runs import TABLES, snakemake, summary_of
from sharing import once

pytestmark = pytest.mark.workflow

SECTION = DamagedPair(shape=(1400, 1400), seed=3, microbes_per_mpx=80.0)
DAMAGE = {"good": "", "spoilt": "lost:110,film:50", "swapped": "swap"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    def make(place):
        for sample, damage in DAMAGE.items():
            make_pair(replace(SECTION, damage=damage), place / "raw", sample, "SYTO9", 2)
        drawn = [f"results/{name}/SYTO9/figures/difference.png" for name in ("spoilt", "swapped")]
        done = snakemake(place, *TABLES, *drawn)
        assert done.code == 0, done.text

    return once(tmp_path_factory, "spoilt", make)[0]


def pair(place, sample):
    return place / "results" / sample / "SYTO9"


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


def test_swapped_images_are_suspect_by_name(run):
    row = summary_of(run)["swapped"]
    assert row["status"] == "suspect"
    assert "look swapped" in row["reasons"]


def test_the_gain_is_that_of_the_good_pair(run):
    gains = {sample: float(summary_of(run)[sample]["gain"]) for sample in ("good", "spoilt")}
    assert gains["spoilt"] == pytest.approx(gains["good"], rel=1.5e-3)
    scale = json.loads((pair(run, "spoilt") / "scale.json").read_text())
    assert scale["methods"]["linear"]["cells_outlying"] > 0
