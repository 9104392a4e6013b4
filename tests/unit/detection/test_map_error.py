"""What a shift of pre may change: slopes, ridges, and what lies further away."""

from __future__ import annotations

import numpy as np
import pytest

from unglow.detection.coarse_grid import SPAN, predict_squared_shift

SHAPE = (20, 24)
WIDE = tuple(n + 2 * SPAN for n in SHAPE)
ROW, COL = np.indices(WIDE).astype(np.float32)


def error(value):
    return np.full(SHAPE, value, np.float32)


@pytest.mark.parametrize("off", [0.05, 0.3, 1.0, 2.0, 2.5, 3.0])
def test_on_a_slope_it_is_half_the_square_of_the_greatest_change(off):
    found = predict_squared_shift(3 * COL, error(off))
    # between whole distances squares are taken to grow evenly
    low, high = np.floor(off), np.ceil(off)
    square = off**2 if off <= 1 or low == high else low**2 + (off - low) * (high**2 - low**2)
    np.testing.assert_allclose(found, 9 * square / 2, rtol=1e-6)


def test_direction_does_not_matter():
    straight = predict_squared_shift(5 * COL, error(0.4))
    oblique = predict_squared_shift(3 * COL + 4 * ROW, error(0.4))
    np.testing.assert_allclose(straight, oblique, rtol=1e-6)


def test_on_a_ridge_the_change_grows_with_the_square():
    ridge = -np.abs(COL - 12) * 10
    at = 12 - SPAN
    found = {off: predict_squared_shift(ridge, error(off))[5, at] for off in (0.1, 0.2, 1.0, 3.0)}
    assert found[0.1] == pytest.approx(0.1**4 * 100 / 2)
    assert found[0.2] == pytest.approx(16 * found[0.1])
    assert found[1.0] == pytest.approx(100 / 2)
    assert found[3.0] == pytest.approx(900 / 2)


def test_a_peak_counts_as_far_as_the_error_reaches():
    peak = np.zeros(WIDE, np.float32)
    peak[10, 12] = 8.0
    row, col = 10 - SPAN, 12 - SPAN
    for off, reached in ((1.0, 1), (2.0, 2), (3.0, 3)):
        found = predict_squared_shift(peak, error(off))
        assert found[row, col] == 32
        assert found[row, col + reached] == 32
        assert found[row, col + reached + 1] == 0


def test_what_a_px_has_does_not_depend_on_errors_elsewhere():
    rng = np.random.default_rng(1)
    image = rng.normal(size=WIDE).astype(np.float32)
    small, mixed = error(0.7), error(0.7)
    mixed[:, 12:] = 2.5
    np.testing.assert_array_equal(
        predict_squared_shift(image, small)[:, :12], predict_squared_shift(image, mixed)[:, :12]
    )


def test_next_to_what_is_missing_nothing_is_known():
    image = np.ones(WIDE, np.float32)
    image[:, 12] = np.nan
    found = predict_squared_shift(image, error(0.5))
    assert np.isnan(found[:, 12 - SPAN - 1 : 12 - SPAN + 2]).all()
    assert (found[:, : 12 - SPAN - 1] == 0).all()
