"""What resampling leaves of white noise, against sums done by hand and against the real warp."""

from __future__ import annotations

import numpy as np
import plain_loops
import pytest

from unglow.core.windows import Window
from unglow.photometry.resampled_noise import (
    FilteredVariance,
    catmull_rom,
    cell_noise,
    compute_filtered_noise,
    interpolate_phase,
    jacobian,
    phase_shares,
)
from unglow.transform import Transform
from unglow.transform.displacement import Displacement
from unglow.transform.resample import warp_window


def gaussian(fwhm=3.0):
    sigma = fwhm / 2.3548
    along = np.exp(-0.5 * (np.arange(-4, 5) / sigma) ** 2)
    h = np.outer(along, along)
    return h / h.sum()


def select_window(found, window):
    matrix, knots, _, _, spacing, *_, y0, x0, tables = found.arguments(window)[:13]
    known = plain_loops.Map(matrix, knots, spacing)
    return plain_loops.phase_factor(known, (y0, x0), tables, 256, window.shape)


PRE = 260, 260


def turned(degrees, scale=1.0, x=30.3, y=32.7):
    """Turn about (100, 100), so that a window there stays inside pre."""
    c, s = scale * np.cos(np.deg2rad(degrees)), scale * np.sin(np.deg2rad(degrees))
    x, y = 100 + x - 100 * (c - s), 100 + y - 100 * (s + c)
    return Transform("ok", (400, 400), PRE, matrix=np.array([[c, -s, x], [s, c, y], [0, 0, 1]]))


def bent():
    random = np.random.default_rng(5)
    field = Displacement(64, random.normal(0, 2, (2, 10, 10)))
    return Transform("ok", (400, 400), PRE, matrix=turned(3).matrix, displacement=field)


def test_weights_are_those_of_keys():
    np.testing.assert_allclose(catmull_rom([0, 0.5, 1, 1.5, 2, 3]), [1, 0.5625, 0, -0.0625, 0, 0])
    for s in (0.1, 0.37, 0.9):
        assert catmull_rom(s - np.arange(-1, 3)).sum() == pytest.approx(1)


def test_a_single_px_keeps_its_noise_on_a_px_and_0_41_of_it_between_four():
    k = compute_filtered_noise(np.eye(2), [[1.0]])
    assert k.shape == (16, 16)
    half = (2 * 0.5625**2 + 2 * 0.0625**2) ** 2
    assert half == pytest.approx(0.41, abs=0.001)
    np.testing.assert_allclose(k[[0, 8, 0, 8], [0, 0, 8, 8]], [1, half**0.5, half**0.5, half])


def test_the_first_axis_is_y():
    k = compute_filtered_noise(np.eye(2), [[0.5, 0.5]])  # its centre lies between two px
    # at (fx, fy) = (1/2, 0) both taps lie on px of pre; at (0, 0) on halves
    assert k[0, 8] == pytest.approx(0.5)
    w = catmull_rom(np.array([-1.5, -0.5, 0.5, 1.5]))
    taps = 0.5 * (np.append(w, 0) + np.append(0, w))
    assert k[0, 0] == pytest.approx((taps**2).sum())


CASES = [turned(0, x=3.5, y=7.25), turned(0, x=3, y=21), turned(45), turned(90), turned(3, 1.2),
         turned(10, 1 / 1.2), bent()]  # fmt: skip


@pytest.mark.parametrize("transform", CASES)
@pytest.mark.parametrize("h", [np.ones((1, 1)), gaussian()], ids=["px", "filter"])
def test_noise_through_the_real_warp_has_the_predicted_variance(transform, h):
    random = np.random.default_rng(11)
    total = np.zeros((60, 60))
    offset = 70
    window = Window(offset, offset + 60, offset, offset + 60)
    reach = len(h) // 2
    runs = 150
    for _ in range(runs):
        noise = random.standard_normal(PRE, np.float32)
        out = warp_window(lambda w, n=noise: n[w.slices], PRE, transform, window.grow(reach))
        if np.isnan(out).any():
            pytest.fail("the window leaves pre")
        filtered = sum(h[i, j] * out[i : i + 60, j : j + 60] for i, j in np.ndindex(h.shape))
        total += filtered**2
    predicted = select_window(FilteredVariance.from_transform(transform, window, h), window)
    ratio = total / runs / predicted
    # the nearest of 16 phases
    near = 0.02 if len(h) > 1 else 0.05
    assert ratio.mean() == pytest.approx(1, abs=near)
    # and in every quarter of the phase, along both axes
    y, x = np.mgrid[window.slices].reshape(2, -1)
    for along in transform.map(np.stack([x, y], axis=1)).T.reshape(2, *window.shape):
        quarter = np.floor((along % 1) * 4)
        for n in np.unique(quarter):
            here = quarter == n
            if here.sum() > 300:
                assert ratio[here].mean() == pytest.approx(1, abs=near + 0.02)


@pytest.mark.parametrize("transform", CASES)
def test_variance_inside_cells_is_predicted(transform):
    random = np.random.default_rng(2)
    window = Window(48, 176, 48, 176)
    found = np.zeros((32, 32))
    squares = np.zeros((32, 32))
    runs = 60
    for _ in range(runs):
        noise = random.standard_normal(PRE, np.float32)
        out = warp_window(lambda w, n=noise: n[w.slices], PRE, transform, window)
        inside = out.reshape(32, 4, 32, 4).var(axis=(1, 3))
        found += inside
        squares += inside**2
    mean, spread = cell_noise(jacobian(transform, (112, 112)), 4)
    at = 49.5 + 4 * np.arange(32)
    x, y = np.meshgrid(at, at)
    x, y = transform.map(np.stack([x.ravel(), y.ravel()], axis=1)).T.reshape(2, 32, 32)
    expected, scatter = interpolate_phase(mean, x, y), interpolate_phase(spread, x, y)
    assert (found / runs / expected).mean() == pytest.approx(1, abs=0.02)
    variance = squares / runs - (found / runs) ** 2
    assert (variance / scatter).mean() == pytest.approx(1, abs=0.06)


def test_jacobian_is_the_derivative():
    matrix = turned(3).matrix.copy()
    matrix[2, :2] = 1e-5, -2e-5
    transform = Transform("ok", (400, 400), PRE, matrix=matrix, displacement=bent().displacement)
    at, step = np.array([120.0, 170.0]), 1e-4
    along = [transform.map([at + d, at - d]) for d in (np.eye(2) * step)]
    numeric = np.stack([(a - b) / (2 * step) for a, b in along], axis=1)
    np.testing.assert_allclose(jacobian(transform, (120.0, 170.0)), numeric, atol=1e-6)


def test_a_px_has_one_value_in_whatever_window():
    def variance(window):
        found = FilteredVariance.from_transform(bent(), window, gaussian())
        return select_window(found, window)

    whole = variance(Window(0, 400, 0, 400))
    assert whole.dtype == np.float32
    for window in (Window(3, 290, 100, 399), Window(250, 260, 255, 256), Window(-5, 9, 380, 405)):
        part = variance(window)
        inside = window.clip((400, 400))
        y, x = inside.y0 - window.y0, inside.x0 - window.x0
        np.testing.assert_array_equal(
            part[y : y + inside.shape[0], x : x + inside.shape[1]], whole[inside.slices]
        )
    tables = FilteredVariance.from_transform(bent(), Window(-60, 400, 7, 400), gaussian())
    for y0, y1 in ((-60, 30), (250, 260), (300, 400)):
        part = variance(Window(y0, y1, 7, 400))
        np.testing.assert_array_equal(select_window(tables, Window(y0, y1, 7, 400)), part)


def test_phases_between_entries_are_interpolated_around_the_end():
    table = np.zeros((4, 4))
    table[0, 3], table[0, 0] = 2.0, 6.0
    x = np.array([0.75, 0.875, 1.0, -0.0625])
    np.testing.assert_allclose(interpolate_phase(table, x, np.zeros(4)), [2.0, 4.0, 6.0, 5.0])
    np.testing.assert_allclose(interpolate_phase(table, x, np.full(4, 7.125)), [1.0, 2.0, 3.0, 2.5])


def test_phases_count_in_a_mean_as_often_as_they_are_there():
    random = np.random.default_rng(4)
    x, y = random.uniform(-40, 40, (2, 13, 17))
    shares = phase_shares(16, x, y)
    np.testing.assert_allclose(shares.sum(axis=(1, 2)), np.ones(13), rtol=1e-12)
    for _ in range(3):
        table = random.normal(size=(16, 16))
        expected = interpolate_phase(table, x, y).mean(axis=1)
        np.testing.assert_allclose((table * shares).sum(axis=(1, 2)), expected, rtol=1e-10)
