"""False-discovery rates from both sides of the difference: exact numbers on counts by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammaincinv

from unglow.core.poisson import poisson_interval, poisson_limits
from unglow.detection.rates import HIGHEST, ControlRates, Sides, extend_tail
from unglow.review.polygons import density


def sides(bright, dark, lowest=3.5):
    made = Sides.create(lowest)
    made.add(bright, dark)
    return made


def test_counts_from_each_threshold_on():
    made = sides([3.5, 3.56, 4.0, 900.0], [3.52, 4.02])
    bright, dark = made.counts_above
    assert list(bright[:3]) == [4, 3, 2]
    assert list(dark[:3]) == [2, 1, 1]
    assert bright[-1] == 1  # all beyond the highest threshold are in the last bin
    assert list(made.thresholds[:3]) == [3.5, 3.55, 3.6]


def test_there_is_a_bin_for_each_step_up_to_the_highest_and_one_beyond():
    made = Sides.create(3.5)
    assert (len(made.bright), len(made.dark)) == (931, 931)  # (50 - 3.5) / 0.05, and the last
    assert made.thresholds[-1] == HIGHEST == 50.0
    assert (made.bright.dtype, made.dark.dtype) == (np.int64, np.int64)
    assert len(Sides.create(49.98).bright) == 2
    assert len(Sides.create(60.0).bright) == 2
    assert (len(Sides(3.5).bright), len(Sides(3.5).dark)) == (0, 0)


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
    expected, counted = extend_tail(made.dark), made.counts_above[1]
    thresholds = made.thresholds
    true = 4000 * np.exp(-(thresholds - 3.5) / 0.25)
    some = true > 1
    assert (np.abs(np.log(expected[some] / true[some])) < np.log(2)).all()
    empty = int(np.argmax(counted == 0))
    assert 0 < expected[empty] < 1


def test_the_tail_falls_by_the_mean_excess_of_the_last_twenty():
    counts = np.zeros(12, np.int64)
    counts[[0, 2, 4, 5, 8]] = 100, 30, 10, 6, 4
    found = extend_tail(counts)
    assert found[:5].tolist() == [150, 50, 50, 20, 20]
    # from the threshold of bin 4 on: ten are 0.025 above it, six 0.075, and four 0.225
    excess = (10 * 0.025 + 6 * 0.075 + 4 * 0.225) / 20
    np.testing.assert_allclose(found[4:], 20 * np.exp(-0.05 * np.arange(8) / excess), rtol=1e-12)
    assert extend_tail(counts * 0).tolist() == [0] * 12


def test_fewer_than_twenty_are_a_tail_from_the_first_threshold_that_has_all():
    counts = np.array([0, 0, 3, 1, 0])
    excess = (3 * 0.025 + 1 * 0.075) / 4
    expected = [4, 4, *(4 * np.exp(-0.05 * np.arange(3) / excess))]
    np.testing.assert_allclose(extend_tail(counts), expected, rtol=1e-12)
    one = np.array([1, 0, 0])
    np.testing.assert_allclose(extend_tail(one), np.exp(-2.0 * np.arange(3)), rtol=1e-12)


def test_the_lowest_threshold_with_a_rate_that_is_low_enough_is_chosen():
    made = sides([3.5, 3.6, 3.7], [])
    rates = np.ones(len(made.bright))
    rates[2:] = 0.05
    assert made.choose(0.05, rates) == 3.6
    assert made.choose(0.049, rates) is None
    rates[:] = 1
    rates[5:] = 0  # where nothing bright is left
    assert made.choose(0.05, rates) is None
    assert made.choose(0.0) == 3.5


def test_a_single_source_counts():
    made = sides([3.5], [])
    assert made.choose(0.05) == 3.5
    assert made.rates()[0] == 0
    # twenty dark ones in the first bin: 20 * exp(-2 * n) are to be expected from bin n on
    one = sides([3.72], [3.51] * 20)
    assert one.rates()[4] == pytest.approx(20 * np.exp(-8))


def test_a_rate_is_one_at_most_and_where_nothing_bright_is_left():
    dark = [3.51] * 40
    made = sides([3.51] * 30, dark)
    assert made.rates()[0] == 1.0
    assert sides([], dark).rates().tolist() == [1.0] * 931
    half = sides([3.51] * 80 + [3.56] * 2, dark)
    assert half.rates()[0] == pytest.approx(40 / 82)


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


def test_without_a_dark_side_everything_is_believed():
    made = sides([3.6, 5.0], [])
    assert made.choose(0.05) == 3.5
    assert made.rates()[0] == 0


def test_the_table_is_in_steps_of_a_quarter_up_to_ten():
    rows = sides([4.0, 6.0], [4.1]).table()
    assert [row["snr"] for row in rows[:3]] == [3.5, 3.75, 4.0]
    assert rows[-1]["snr"] == 10.0
    assert rows[2] == {"snr": 4.0, "candidates": 2, "negative": 1, "fdr": 0.5}


def test_the_table_reports_controls_where_there_are_any():
    found = sides([4.0, 6.0], [4.1])
    rates = ControlRates(*(np.arange(931) * k for k in (0.01, 0.001, 0.1)), np.arange(931))
    rows = found.table(rates)
    assert rows[2] == {
        "snr": 4.0, "candidates": 2, "negative": 1, "fdr": 0.5,
        "control": 10, "fdr_control": 0.1, "fdr_control_ci95": [0.01, 1.0],
    }  # fmt: skip
    assert len(rows) == 27


def test_rates_are_given_in_four_digits():
    rows = sides([3.5] * 300, [3.5] * 100).table()
    assert rows[0]["fdr"] == 0.3333


@pytest.mark.parametrize(
    ("count", "low", "high"), [(0, 0.0, 3.6889), (1, 0.0253, 5.5716), (10, 4.7954, 18.3904)]
)
def test_the_poisson_interval_is_that_of_the_tables(count, low, high):
    assert poisson_interval(count) == pytest.approx((low, high), abs=1e-4)


def test_poisson_intervals_of_many_counts_are_those_of_each():
    low, high = poisson_limits(np.array([0, 1, 10]))
    assert low.tolist() == pytest.approx([0, 0.025318, 4.795389], abs=1e-6)
    assert high.tolist() == pytest.approx([3.688879, 5.571643, 18.390356], abs=1e-6)
    assert low[0] == 0
    # none left on either side: 2.5 % each
    assert np.exp(-high[0]) == pytest.approx(0.025, rel=1e-12)
    assert 1 - np.exp(-low[1]) == pytest.approx(0.025, rel=1e-12)


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
    again, _ = poisson_limits(np.array([7, 0, 7, 3]))
    np.testing.assert_array_equal(again, low[[7, 0, 7, 3]])
