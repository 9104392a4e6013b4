"""Rates of a search: exact numbers on counts by hand, and limits of known curves."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammaincinv

from unglow.core.poisson import poisson_interval, poisson_limits
from unglow.detection.rates import Controls, Sides, Trials, extend_tail, find_limits, fit_isotonic
from unglow.detection.search import SearchResult
from unglow.detection.settings import DetectSettings
from unglow.detection.source_photometry import MEASURED
from unglow.images.detection_results import SearchCounts
from unglow.review.polygons import density


def sides(bright=(), dark=(), lowest=3.5):
    made = Sides.create(lowest)
    made.add(bright, dark)
    return made


def draw_chance(rng, mean):
    """Draw the ratios of normal noise above 3.5 on both sides, ``mean`` on average on each."""
    return [np.sqrt(3.5**2 - 2 * np.log(rng.uniform(size=n))) for n in rng.poisson(mean, 2)]


def test_counts_from_each_threshold_on():
    made = sides([3.5, 3.56, 4.0, 900.0], [3.52, 4.02])
    bright, dark = made.counts_above
    assert list(bright[:3]) == [4, 3, 2]
    assert list(dark[:3]) == [2, 1, 1]
    assert bright[-1] == 1  # all beyond the highest threshold are in the last bin
    assert list(made.thresholds[:3]) == [3.5, 3.55, 3.6]


def test_a_source_is_in_the_bin_that_begins_below_it():
    made = Sides.create(3.5)
    places = made.bins([1.0, 3.49, 3.5, 3.54, 3.56, 4.06, 49.99, 50.01, 1e9])
    assert places.tolist() == [0, 0, 0, 0, 1, 11, 929, 930, 930]
    # 6.85 as float32 is less than that, so it is below the bin that begins there
    assert made.bins(np.array([6.85], np.float32)).tolist() == [66]
    made.add([3.6, 3.61, 3.61], [4.06])
    made.add([3.61], [])
    assert (made.bright[2], made.dark[11]) == (4, 1)
    assert (made.bright.sum(), made.dark.sum()) == (4, 1)


def test_where_many_are_dark_the_rate_is_their_share():
    dark = np.repeat([3.51, 4.01, 4.51], [100, 60, 40])
    bright = np.repeat([3.51, 4.01, 4.51, 9.01], [120, 80, 60, 200])
    rates = sides(bright, dark).rates()
    assert rates[0] == pytest.approx(200 / 460)
    assert rates[10] == pytest.approx(100 / 340)
    assert rates[20] == pytest.approx(40 / 260)


def test_beyond_the_last_dark_ones_the_expectation_falls_off_instead_of_ending():
    rng = np.random.default_rng(1)
    made = sides([], 3.5 + rng.exponential(0.25, 4000))
    expected, counted = extend_tail(made.dark, 3.5), made.counts_above[1]
    thresholds = made.thresholds
    true = 4000 * np.exp(-(thresholds - 3.5) / 0.25)
    some = true > 1
    assert (np.abs(np.log(expected[some] / true[some])) < np.log(2)).all()
    empty = int(np.argmax(counted == 0))
    assert 0 < expected[empty] < 1


def test_the_tail_falls_by_the_mean_excess_of_the_last_thirty():
    counts = np.zeros(12, np.int64)
    counts[[0, 2, 4, 5, 8]] = 100, 30, 20, 6, 4
    found = extend_tail(counts, 3.8)
    assert found[:5].tolist() == [160, 60, 60, 30, 30]
    # above 4.0, the threshold of bin 4: twenty by 0.025, six by 0.075, four by 0.225; and four of
    # normal noise
    excess = (20 * 0.025 + 6 * 0.075 + 4 * 0.225 + 4 / 4.0) / 34
    expected = 30 * np.exp(-0.05 * np.arange(8) / excess)
    expected[4] = 4  # what was found is more
    np.testing.assert_allclose(found[4:], expected, rtol=1e-12)
    # of none, one is expected at the lowest threshold
    assert extend_tail(counts * 0, 4.0)[:2].tolist() == [1, pytest.approx(np.exp(-0.2))]


def test_a_low_threshold_that_chance_makes_look_good_is_not_chosen():
    """Of 300 short lists, each with noise of its own, no more is false than was asked for."""
    rng = np.random.default_rng(1)
    false = listed = 0
    for _ in range(300):
        noise = draw_chance(rng, 400)
        true = 3.5 + rng.exponential(8, 15)
        made = sides([*true, *noise[0]], noise[1])
        first = int(made.bins((made.choose(0.05) or np.inf) + 1e-6))
        false += np.count_nonzero(made.bins(noise[0]) >= first)
        listed += made.counts_above[0][first]
    assert 0.03 < false / listed < 0.05


def test_the_lowest_threshold_with_a_rate_that_is_low_enough_is_chosen():
    made = sides([3.5, 3.6, 3.7], [])
    rates = np.ones(len(made.bright))
    rates[2:] = 0.05
    assert made.choose(0.05, rates) == 3.6
    assert made.choose(0.049, rates) is None
    rates[:] = 1
    rates[5:] = 0  # where nothing bright is left
    assert made.choose(0.05, rates) is None
    assert made.choose(0.0) is None


def test_a_single_source_counts_if_it_is_far_above_chance():
    made = sides([5.0], [])
    assert made.rates()[0] == 1
    assert made.choose(0.05) == pytest.approx(3.5 + 0.9)
    assert sides([3.7], []).choose(0.05) is None


@pytest.mark.parametrize("chance", [0.5, 1, 2, 5, 10, 30])
@pytest.mark.parametrize(("true", "recall"), [(0, 0), (2, 0.83), (10, 0.85)])
def test_small_searches_list_no_chance(chance, true, recall):
    """As many as `chance` false sources on each side; few searches without a true one list any."""
    rng = np.random.default_rng(7)
    false = listed = with_false = 0
    for _ in range(300):
        noise = draw_chance(rng, chance)
        made = sides([*(4 + rng.exponential(8, true)), *noise[0]], noise[1])
        first = int(made.bins((made.choose(0.05) or np.inf) + 1e-6))
        wrong = np.count_nonzero(made.bins(noise[0]) >= first)
        false, with_false = false + wrong, with_false + (wrong > 0)
        listed += made.counts_above[0][first]
    if true:
        assert false / listed < 0.08
        assert (listed - false) / (300 * true) > recall
    else:
        assert with_false / 300 < 0.08


def test_a_single_chance_above_all_dark_ones_is_no_discovery():
    rng = np.random.default_rng(2)
    dark = 3.5 + rng.exponential(0.25, 400)
    bright = np.append(3.5 + rng.exponential(0.25, 400), dark.max() + 0.1)
    assert sides(bright, dark).choose(0.05) is None


def test_clear_sources_are_discoveries_however_few():
    rng = np.random.default_rng(3)
    dark, chance = (3.5 + rng.exponential(0.25, 400) for _ in range(2))
    made = sides(np.append(chance, [20.0, 25.0, 30.0]), dark)
    threshold = made.choose(0.05)
    assert threshold is not None
    assert 4 < threshold < 20
    assert made.rates()[made.bins(25.0)] < 1e-6


def test_rates_never_rise_with_the_threshold_and_end_with_the_last_source():
    rng = np.random.default_rng(4)
    made = sides(rng.uniform(3.5, 12, 300), 3.5 + rng.exponential(0.4, 250))
    rates = made.rates()
    assert (np.diff(rates) <= 0).all()
    assert rates.max() <= 1
    chosen = made.choose(1.0)
    assert chosen == 3.5
    assert sides([], [3.6, 3.7]).choose(1.0) is None
    assert sides([], []).choose(0.05) is None


def test_the_table_is_in_steps_of_a_quarter_up_to_ten():
    rows = sides([4.0, 6.0], [4.1]).table()
    assert [row["snr"] for row in rows[:3]] == [3.5, 3.75, 4.0]
    assert rows[-1]["snr"] == 10.0
    assert rows[2] == {"snr": 4.0, "candidates": 2, "negative": 1, "fdr": 0.5}
    assert sides([3.5] * 300, [3.5] * 100).table()[0]["fdr"] == 0.3333


def test_a_density_needs_a_pixel_size():
    figures = density(10, 4_000_000, (0.5, 0.5))
    assert figures["area_mm2"] == 1.0
    assert figures["density_per_mm2"] == 10.0
    assert figures["density_ci95_per_mm2"] == pytest.approx([4.79539, 18.3904])
    assert set(density(10, 4_000_000, None).values()) == {None}
    assert set(density(0, 0, (0.5, 0.5)).values()) == {None}


def test_poisson_limits_are_those_of_scipy():
    counts = np.concatenate([np.arange(1500), np.geomspace(1500, 3e6, 90).astype(np.int64)])
    low, high = poisson_limits(counts)
    assert low[0] == 0
    np.testing.assert_allclose(low[1:], gammaincinv(counts[1:], 0.025), rtol=1e-11)
    np.testing.assert_allclose(high, gammaincinv(counts + 1, 0.975), rtol=1e-11)
    assert poisson_interval(10) == pytest.approx((4.79539, 18.39036), abs=1e-5)
    again, _ = poisson_limits(np.array([7, 0, 7, 3]))
    np.testing.assert_array_equal(again, low[[7, 0, 7, 3]])


# places of sources, in the middle of their bins
AT = {t: t + 0.025 for t in (3.5, 4.0, 4.5, 5.0, 6.0)}


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


def test_the_rate_is_what_controls_have_per_px_times_own_px_over_own_count():
    own = sides(spread(a=(3.5, 600), b=(4.0, 300), c=(5.0, 100)))
    made = controls(control(spread(a=(3.5, 60), b=(4.0, 30), c=(5.0, 20)), 500_000))
    rates = made.rates(own, 2_000_000)
    # 4 times as many px; 110, 50 and 20 in the control; 1000, 400 and 100 here
    assert rates_at(rates, 3.5)[0] == pytest.approx(110 * 4 / 1000)
    assert rates_at(rates, 3.6)[0] == pytest.approx(110 * 4 / 1000)  # 50 * 4 / 400 is more
    assert rates_at(rates, 5.0)[0] == pytest.approx(110 * 4 / 1000)  # 20 * 4 / 100 as well
    few = controls(control(spread(a=(3.5, 60), b=(4.0, 8), c=(5.0, 24)), 500_000))
    rates = few.rates(own, 2_000_000)
    assert rates_at(rates, 3.55)[0] == pytest.approx(32 * 4 / 400)
    low, high = (v * 4 / 400 for v in (21.8880, 45.1747))  # interval of a Poisson mean, of 32
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


def test_rates_fall_stay_within_their_interval_and_end_at_one():
    rng = np.random.default_rng(2)
    own = sides(3.5 + rng.exponential(0.6, 300))
    rates = controls(control(3.5 + rng.exponential(0.5, 500))).rates(own, 1_000_000)
    assert (np.diff(rates.fdr) <= 0).all()
    assert (rates.low <= rates.fdr).all()
    assert (rates.fdr <= rates.high).all()
    assert rates.high.max() <= 1
    assert (controls(control([])).rates(sides(), 5).fdr == 1).all()


def candidates(own, some, **settings):
    """A search by hand: its sources lie in a row."""
    ratios = np.repeat(own.thresholds + 0.025, own.bright)
    found = np.zeros(len(ratios), MEASURED)
    found["snr"] = found["above"] = ratios
    found["x"] = np.arange(len(ratios))
    searched = np.array([[1_000_000]])
    return SearchResult(DetectSettings(**settings), own, searched, 1000, some, found)


OWN = sides(spread(a=(3.5, 600), b=(4.0, 200), c=(5.0, 400)), spread(a=(3.5, 600), b=(4.0, 15)))
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
    refusal = "Registration was refused."
    names = ("sample", "searched_px", "candidates", "reason")
    assert [tuple(one[name] for name in names) for one in report["controls"]] == [
        ("Blank1", 1_000_000, used, None), ("Blank2", 0, None, refusal)
    ]  # fmt: skip
    first = report["by_threshold"][0]
    assert (first["snr"], first["candidates"], first["negative"]) == (3.5, 1200, 615)
    assert first["control"] == 368
    assert first["fdr_control"] == pytest.approx(368 / 1200, rel=5e-3)
    assert first["fdr_control_ci95"] == pytest.approx([331.4 / 1200, 407.6 / 1200], rel=5e-3)


@pytest.mark.parametrize(
    ("dark_to", "threshold", "last"), [(6.0, 6.1, 10.0), (29.0, 29.1, 29.25), (49.9, 50.0, 50.0)]
)
def test_the_table_reaches_the_chosen_threshold(dark_to, threshold, last):
    own = sides(np.full(99, 60.0), [dark_to + 0.025] * 99)
    report = candidates(own, None).report(None)
    assert report["threshold_snr"] == threshold
    assert report["by_threshold"][-1]["snr"] == last
    steps = np.diff([row["snr"] for row in report["by_threshold"]])
    np.testing.assert_allclose(steps, 0.25)


def trials(count=4000, middle=20.0, seed=0):
    random = np.random.default_rng(seed)
    peak = np.exp(random.uniform(np.log(4), np.log(100), count))
    share = 1 / (1 + (middle / peak) ** 6)
    place = random.uniform(0, 100, (2, count))
    return Trials(*place, peak, random.random(count) < share)


def test_limits_of_a_known_curve_lie_within_their_errors():
    off = []
    for seed in range(20):
        found = find_limits(trials(seed=seed), (0.5, 0.9))
        for got, true in zip(found, (20.0, 20 * 9 ** (1 / 6)), strict=True):
            off.append((got.value - true) / got.error)
    assert np.mean(np.abs(off) < 2) >= 0.85
    assert abs(np.mean(off)) < 0.8


def test_a_share_that_is_not_passed_has_no_limit():
    few = trials()
    for some in (few.peak < 12, few.peak > 60, slice(20)):
        assert find_limits(few.keep(some), [0.5]) == [None]


def test_isotonic_regression_pools_what_falls():
    values, weights = np.array([1.0, 3.0, 2.0, 2.0, 5.0, 4.0]), np.array([1.0, 1, 1, 2, 1, 3])
    np.testing.assert_allclose(
        fit_isotonic(values, weights), [1, 9 / 4, 9 / 4, 9 / 4, 17 / 4, 17 / 4]
    )
