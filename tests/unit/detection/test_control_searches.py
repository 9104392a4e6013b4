"""Rates by unstained controls: exact numbers on counts by hand, and what they do to a threshold."""

from __future__ import annotations

import csv
import json
import math

import numpy as np
import pytest

from unglow.detection.false_discovery import Controls, Sides
from unglow.detection.search import SearchResult
from unglow.detection.settings import DetectSettings
from unglow.detection.source_photometry import MEASURED, write_csv, write_geojson
from unglow.io.detection_results import SearchCounts
from unglow.workflow.stages.detect import geojson_properties

# places of sources, in the middle of their bins
AT = {t: t + 0.025 for t in (3.5, 4.0, 4.5, 5.0, 6.0)}


def sides(bright=(), dark=()):
    made = Sides.create(3.5)
    made.add(bright, dark)
    return made


def spread(**counts):
    """Repeat ratios: spread(a=(4.0, 30)) has 30 sources of at least 4.0."""
    return np.repeat([AT[t] for t, _ in counts.values()], [n for _, n in counts.values()])


def control(bright, searched_px=1_000_000):
    own = sides(bright)
    return SearchCounts(3.5, own.bright, own.dark, np.array([[searched_px]]), 1000)


def controls(*searches):
    return Controls(tuple(f"C{n}" for n in range(1, len(searches) + 1)), searches)


def rates_at(rates, threshold):
    place = round((threshold - 3.5) / 0.05)
    return rates.fdr[place], rates.low[place], rates.high[place]


# ------------------------------------------------------------------------------------------- rates


def test_the_rate_is_what_controls_have_per_px_times_own_px_over_own_count():
    own = sides(spread(a=(3.5, 600), b=(4.0, 300), c=(5.0, 100)))
    made = controls(control(spread(a=(3.5, 60), b=(4.0, 30), c=(5.0, 20)), 500_000))
    rates = made.rates(own, 2_000_000)
    # 4 times as many px; 110, 50 and 20 in the control; 1000, 400 and 100 here
    assert rates_at(rates, 3.5)[0] == pytest.approx(110 * 4 / 1000)
    assert rates_at(rates, 3.6)[0] == pytest.approx(110 * 4 / 1000)  # 50 * 4 / 400 is more
    assert rates_at(rates, 5.0)[0] == pytest.approx(110 * 4 / 1000)  # 20 * 4 / 100 as well
    few = controls(control(spread(a=(3.5, 60), b=(4.0, 8), c=(5.0, 20)), 500_000))
    rates = few.rates(own, 2_000_000)
    assert rates_at(rates, 3.55)[0] == pytest.approx(28 * 4 / 400)
    # of 20 that are left, the interval of a Poisson mean is 12.22 to 30.89
    low, high = (v * 4 / 400 for v in (18.6058, 40.4678))  # of 28
    assert rates_at(rates, 3.55)[1:] == pytest.approx((low, high), rel=1e-4)


def test_controls_of_a_dye_are_put_together():
    own = sides(spread(a=(4.0, 400)))
    one, two = control(spread(a=(4.0, 25)), 300_000), control(spread(a=(4.0, 15)), 700_000)
    pooled = controls(one, two).rates(own, 500_000)
    assert pooled.fdr[0] == pytest.approx(40 * 0.5 / 400)
    single = controls(one).rates(own, 500_000)
    assert single.fdr[0] == pytest.approx(25 / 0.6 / 400)
    refused = SearchCounts.make_refused("The map was refused.")
    some = controls(refused, one, refused)
    assert some.searched_px == 300_000
    assert some.rates(own, 500_000).fdr[0] == single.fdr[0]
    assert controls(refused).rates(own, 500_000) is None


def test_what_a_control_has_not_is_not_promised_to_be_absent():
    rng = np.random.default_rng(0)
    own = sides(np.append(3.5 + rng.exponential(0.25, 1000), np.full(50, 30.0)))
    rates = controls(control(3.5 + rng.exponential(0.25, 1000))).rates(own, 1_000_000)
    place = round((10 - 3.5) / 0.05)
    assert 0 < rates.fdr[place] < 1e-4
    assert rates.low[place] == 0
    # none are left of the control: 0 to 3.69 of the 50
    assert rates.high[place] == pytest.approx(3.6889 / 50, rel=1e-4)


def test_a_control_in_which_nothing_is_found_counts_as_one_that_was():
    own = sides(spread(a=(4.0, 40), b=(6.0, 10)))
    rates = controls(control([], 2_000_000)).rates(own, 1_000_000)
    assert rates_at(rates, 3.5) == pytest.approx((0.5 / 50, 0, 3.6889 * 0.5 / 50), rel=1e-4)
    assert (rates.fdr > 0).all()


def test_bright_things_in_a_control_count_however_few_they_are():
    rng = np.random.default_rng(1)
    noise = 3.5 + rng.exponential(0.2, 2000)
    own = sides(np.append(noise, np.full(10, 40.0)))
    dusty = controls(control(np.append(noise, [30.0, 35.0, 45.0])))
    place = round((20 - 3.5) / 0.05)
    assert dusty.rates(own, 1_000_000).fdr[place] == pytest.approx(0.3, abs=0.02)


def test_rates_fall_stay_within_their_interval_and_end_at_one():
    rng = np.random.default_rng(2)
    own = sides(3.5 + rng.exponential(0.6, 300))
    rates = controls(control(3.5 + rng.exponential(0.5, 500))).rates(own, 1_000_000)
    assert (np.diff(rates.fdr) <= 0).all()
    assert (rates.low <= rates.fdr).all()
    assert (rates.fdr <= rates.high).all()
    assert rates.high.max() <= 1
    assert (controls(control([])).rates(sides(), 5).fdr == 1).all()


# --------------------------------------------------------------------------------------- threshold


def candidates(own, some, **settings):
    """A search by hand: its sources lie in a row."""
    ratios = np.repeat(own.thresholds + 0.025, own.bright)
    found = np.zeros(len(ratios), MEASURED)
    found["snr"] = found["above"] = ratios
    found["x"] = np.arange(len(ratios))
    searched = np.array([[1_000_000]])
    return SearchResult(DetectSettings(**settings), own, searched, 1000, some, found)


OWN = sides(spread(a=(3.5, 600), b=(4.0, 200), c=(5.0, 400)), spread(a=(3.5, 600), b=(4.0, 15)))
NEGATIVE = 4.05  # 15 of 600 are dark, and beyond it none
LAX = controls(control(spread(a=(3.5, 20))))
STRICT = controls(control(spread(a=(3.5, 300), b=(4.0, 60), c=(5.0, 8))))
HOPELESS = controls(control(spread(c=(6.0, 500))))


@pytest.mark.parametrize(
    ("some", "asked", "by", "threshold"),
    [
        (None, "strictest", "negative", "negative"),
        (None, "control", "negative", "negative"),
        (LAX, "strictest", "negative", "negative"),
        (LAX, "control", "control", 3.5),
        (LAX, "negative", "negative", "negative"),
        (STRICT, "strictest", "control", "control"),
        (STRICT, "negative", "negative", "negative"),
        (HOPELESS, "strictest", "control", None),
        (HOPELESS, "negative", "negative", "negative"),
        (controls(SearchCounts.make_refused("No map.")), "strictest", "negative", "negative"),
        (controls(SearchCounts.make_refused("No map.")), "control", "negative", "negative"),
    ],
)
def test_the_threshold_rests_on_what_was_asked_for_and_controls_never_lower_it_by_default(
    some, asked, by, threshold
):
    made = candidates(OWN, some, threshold_from=asked)
    alone = OWN.choose(0.05)
    assert made.threshold_from == by
    named = {"negative": alone, "control": made.thresholds.get("control")}
    wanted = named.get(threshold, threshold)
    assert made.threshold == wanted
    assert made.thresholds["negative"] == alone
    if asked == "strictest" and made.threshold is not None:
        assert made.threshold >= alone
    if some is STRICT:
        assert made.thresholds["control"] > alone


def test_the_report_reports_the_rate_its_interval_and_which_controls_were_used():
    refused = SearchCounts.make_refused("Registration was refused.")
    some = Controls(("Blank1", "Blank2"), (*STRICT.search_counts, refused))
    report = candidates(OWN, some, threshold_from="negative").report(None)
    assert report["threshold_from"] == "negative"
    place = round((report["threshold_snr"] - 3.5) / 0.05)
    rates = some.rates(OWN, 1_000_000)
    assert report["fdr_control"] == pytest.approx(rates.fdr[place], rel=5e-3)
    low, high = report["fdr_control_ci95"]
    assert low < report["fdr_control"] < high
    used = int(some.counts[place])
    assert report["controls"] == [
        {"sample": "Blank1", "searched_px": 1_000_000, "candidates": used, "reason": None},
        {
            "sample": "Blank2",
            "searched_px": 0,
            "candidates": None,
            "reason": "Registration was refused.",
        },
    ]
    first = report["by_threshold"][0]
    assert (first["snr"], first["candidates"], first["negative"]) == (3.5, 1200, 615)
    assert first["control"] == 368
    assert first["fdr_control"] == pytest.approx(368 / 1200, rel=5e-3)
    assert first["fdr_control_ci95"] == pytest.approx([331.4 / 1200, 407.6 / 1200], rel=5e-3)


def test_without_controls_nothing_is_said_of_them():
    report = candidates(OWN, None).report(None)
    assert report["fdr_control"] is report["fdr_control_ci95"] is report["controls"] is None
    assert not any("control" in key for row in report["by_threshold"] for key in row)
    listed = candidates(OWN, None).list_candidates()
    assert np.isnan(listed["fdr_control"]).all()
    assert np.isnan(listed["fdr_control_high95"]).all()


def test_each_candidate_has_the_rate_of_its_own_ratio():
    made = candidates(OWN, STRICT, threshold_from="negative")
    listed = made.list_candidates()
    rates = STRICT.rates(OWN, 1_000_000)
    assert math.isclose(listed["fdr_control"][-1], rates.fdr[30])
    assert (listed["fdr_control"] <= listed["fdr_control_high95"]).all()


def test_table_and_geojson_have_the_rate_and_its_upper_limit(tmp_path):
    made = candidates(OWN, STRICT, threshold_from="negative")
    listed, report = made.list_candidates(), made.report(None)
    write_csv(tmp_path / "c.csv", listed)
    write_geojson(tmp_path / "c.geojson", listed, geojson_properties(report))
    with (tmp_path / "c.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    for name in ("fdr_control", "fdr_control_high95"):
        assert [float(row[name]) for row in rows] == pytest.approx(listed[name], rel=1e-4)
    read = json.loads((tmp_path / "c.geojson").read_text())
    for name in ("fdr_control", "fdr_control_ci95"):
        assert read["properties"][name] == report[name]
    measured = read["features"][0]["properties"]["measurements"]
    assert measured["False-discovery rate by controls"] == float(rows[0]["fdr_control"])


def test_without_controls_the_cells_are_empty(tmp_path):
    made = candidates(OWN, None)
    write_csv(tmp_path / "c.csv", made.list_candidates())
    with (tmp_path / "c.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert {row[name] for row in rows for name in ("fdr_control", "fdr_control_high95")} == {""}
