"""False-discovery rates from both sides of the difference: exact numbers on counts by hand."""

from __future__ import annotations

import numpy as np
import pytest

from unglow.detection.rates import Sides, poisson_interval
from unglow.detection.search import density


def sides(bright, dark, lowest=3.5):
    made = Sides.create(lowest)
    made.add(bright, dark)
    return made


def test_counts_from_each_threshold_on():
    made = sides([3.5, 3.56, 4.0, 900.0], [3.52, 4.02])
    bright, dark = made.above
    assert list(bright[:3]) == [4, 3, 2]
    assert list(dark[:3]) == [2, 1, 1]
    assert bright[-1] == 1  # all beyond the highest threshold are in the last bin
    assert list(made.thresholds[:3]) == [3.5, 3.55, 3.6]


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
    expected, counted = made.expected_dark(), made.above[1]
    thresholds = made.thresholds
    true = 4000 * np.exp(-(thresholds - 3.5) / 0.25)
    some = true > 1
    assert (np.abs(np.log(expected[some] / true[some])) < np.log(2)).all()
    empty = int(np.argmax(counted == 0))
    assert 0 < expected[empty] < 1


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
    told = sides([4.0, 6.0], [4.1]).table()
    assert [row["snr"] for row in told[:3]] == [3.5, 3.75, 4.0]
    assert told[-1]["snr"] == 10.0
    assert told[2] == {"snr": 4.0, "candidates": 2, "negative": 1, "fdr": 0.5}


@pytest.mark.parametrize(
    ("count", "low", "high"), [(0, 0.0, 3.6889), (1, 0.0253, 5.5716), (10, 4.7954, 18.3904)]
)
def test_the_poisson_interval_is_that_of_the_tables(count, low, high):
    assert poisson_interval(count) == pytest.approx((low, high), abs=1e-4)


def test_a_density_needs_a_pixel_size():
    told = density(10, 4_000_000, (0.5, 0.5))
    assert told["area_mm2"] == 1.0
    assert told["density_per_mm2"] == 10.0
    assert told["density_ci95_per_mm2"] == pytest.approx([4.79539, 18.3904])
    assert set(density(10, 4_000_000, None).values()) == {None}
    assert set(density(0, 0, (0.5, 0.5)).values()) == {None}
