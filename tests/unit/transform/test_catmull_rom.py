"""Resampling: exact where it must be, the same bits for any tiling, bounded reads."""

from __future__ import annotations

import numpy as np
import pytest

from unglow.core.windows import Window, grid
from unglow.transform import Transform
from unglow.transform.resample import source_window, warp_window

RNG = np.random.default_rng(3)
SOURCE = RNG.integers(0, 60000, (150, 190)).astype(np.uint16)


def transform(matrix, post_shape=(140, 160), pre_shape=SOURCE.shape):
    return Transform("ok", post_shape, pre_shape, matrix=np.array(matrix, dtype=float))


def turned(degrees=3.0, scale=1.02, x=9.3, y=-4.6):
    c, s = scale * np.cos(np.deg2rad(degrees)), scale * np.sin(np.deg2rad(degrees))
    return np.array([[c, -s, x], [s, c, y], [0, 0, 1.0]])


def shifted(x, y):
    return [[1, 0, x], [0, 1, y], [0, 0, 1]]


def reader(array, log=None):
    def read(window):
        if log is not None:
            log.append(window)
        return array[window.slices]

    return read


def warped(image, matrix, window=None):
    """Return a window of post (by default as large as pre) for a map of this matrix."""
    window = window or Window.from_shape(image.shape)
    return warp_window(reader(image), image.shape, transform(matrix), window)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64, ">u2"])
def test_identity_returns_the_pixels_of_any_dtype_to_the_last_edge(dtype):
    image = (SOURCE // 300).astype(dtype)
    out = warped(image, np.eye(3))
    assert out.dtype == np.float32
    np.testing.assert_array_equal(out, image.astype(np.float32))


def test_whole_pixel_shift_is_exact_and_nan_outside():
    out = warped(SOURCE, shifted(5, -3))
    np.testing.assert_array_equal(out[3:, :185], SOURCE[:147, 5:].astype(np.float32))
    assert np.isnan(out[:3]).all()
    assert np.isnan(out[:, 185:]).all()


def test_small_shifts_are_not_rounded():
    x = np.arange(400.0)
    image = np.tile(1000 + 100 * np.sin(x / 7), (12, 1)).astype(np.float32)
    shift = 0.0131
    out = warped(image, shifted(shift, 0), Window(4, 8, 10, 390))
    truth = 1000 + 100 * np.sin((x[10:390] + shift) / 7)
    moved = (out - image[4:8, 10:390]).astype(float) @ np.cos(x[10:390] / 7)
    expected = (truth - image[4, 10:390]) @ np.cos(x[10:390] / 7)
    np.testing.assert_allclose(moved / expected, 1.0, rtol=0.01)


@pytest.mark.parametrize("perspective", [0.0, 3e-5])
@pytest.mark.parametrize("block", [(33, 47), (140, 7), (1, 160)])
def test_any_tiling_gives_the_same_bits(perspective, block):
    matrix = turned(27)
    matrix[2, 0] = perspective
    whole = warped(SOURCE, matrix, Window.from_shape((140, 160)))
    assert 0.2 < np.isnan(whole).mean() < 0.8
    for window in grid((140, 160), block):
        part = warped(SOURCE, matrix, window)
        np.testing.assert_array_equal(part.view(np.uint32), whole[window.slices].view(np.uint32))


def test_nan_in_the_support_gives_nan():
    image = np.ones((20, 20), np.float32)
    image[10, 10] = np.nan
    out = warped(image, shifted(0.5, 0.5))
    rows, cols = np.nonzero(np.isnan(out[:19, :19]))
    assert (rows.min(), rows.max(), cols.min(), cols.max()) == (8, 11, 8, 11)
    assert len(rows) == 16


def test_pre_reaches_half_a_pixel_beyond_its_outer_centres():
    image = np.full((8, 8), 5.0, np.float32)
    for shift, valid in ((-0.49, True), (-0.51, False)):
        out = warped(image, shifted(shift, 0), Window(3, 4, 0, 1))
        assert np.isfinite(out[0, 0]) == valid


@pytest.mark.parametrize(
    "found", [transform(shifted(500, 0)), Transform("failed", (9, 9), SOURCE.shape)]
)
def test_a_window_outside_pre_and_a_failed_transform_read_nothing(found):
    log = []
    out = warp_window(reader(SOURCE, log), SOURCE.shape, found, Window(0, 9, 0, 9))
    assert np.isnan(out).all()
    assert log == []


def test_source_window_is_the_support_and_no_more():
    moved = shifted(10.5, 20)
    assert source_window(moved, None, Window(0, 10, 0, 10), (100, 100)) == Window(18, 33, 8, 23)
    assert source_window(moved, None, Window(0, 10, 0, 10), (25, 100)) == Window(18, 25, 8, 23)


def test_absurd_maps_read_in_bounded_windows():
    class Big:
        shape = (40000, 40000)
        largest = 0

        def read(self, window):
            self.largest = max(self.largest, window.size)
            return np.broadcast_to(np.float32(7), window.shape)

    big = Big()
    matrix = [[100.0, 0, 0], [0, 100.0, 0], [0, 0, 1]]
    window = Window(0, 300, 0, 300)
    out = warp_window(big.read, big.shape, transform(matrix), window)
    np.testing.assert_allclose(out, 7)
    assert big.largest <= 2 * window.size + (1 << 20)


def test_a_horizon_inside_the_window_ends_in_nan():
    matrix = [[1.0, 0, 0], [0, 1, 0], [-0.02, 0, 1]]
    out = warped(SOURCE, matrix, Window(0, 20, 0, 100))
    assert np.isfinite(out[:, :30]).all()
    assert np.isnan(out[:, 50:]).all()
