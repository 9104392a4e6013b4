"""The compiled loops of the search against plain numpy and scipy, and the tiles that it reads."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import plain_loops
import pytest
from scipy import ndimage

from unglow.core.windows import ArrayPixels
from unglow.detection import images as tiles
from unglow.detection.images import Images
from unglow.detection.snr import SPAN
from unglow.detection.source_extraction import Components
from unglow.photometry.imaging import filter_both

TAPS = np.exp(-0.5 * (np.arange(-4, 5) / 1.3) ** 2)
TAPS /= TAPS.sum()


def test_the_filter_is_a_correlation_along_both_axes_and_the_same_in_any_window():
    image = np.random.default_rng(1).normal(100, 20, (70, 90)).astype("f4")
    skewed = (TAPS * np.linspace(0.5, 1.5, 9)).astype("f4")  # no symmetry is taken for granted
    found = filter_both(image, skewed)
    expected = ndimage.correlate1d(ndimage.correlate1d(image.astype(float), skewed, 0), skewed, 1)
    np.testing.assert_allclose(found, expected[4:-4, 4:-4], rtol=2e-6)
    np.testing.assert_array_equal(filter_both(image[11:50, 7:61], skewed), found[11:42, 7:53])


@pytest.mark.parametrize("level", [0.2, 1.0, 2.0])
def test_components_are_those_of_scipy(level):
    image = np.random.default_rng(3).normal(size=(83, 97)).astype("f4")
    image[20:30, 40:44] = np.nan
    found = Components.from_image(image, level)
    labels, count = ndimage.label(image > level, structure=np.ones((3, 3)))
    assert len(found) == count
    assert found.px == np.count_nonzero(labels)
    mine = np.zeros(image.shape, int)
    for (row, first, stop), label in zip(found.runs, found.labels, strict=True):
        mine[row, first:stop] = label + 1
    np.testing.assert_array_equal(mine, labels)  # scipy numbers by the first px as well
    for box, expected in zip(found.boxes, ndimage.find_objects(labels), strict=True):
        assert tuple(box) == (*(s.start for s in expected), *(s.stop for s in expected))


def test_components_stand_below_each_other_with_nothing_else_in_their_boxes():
    image = np.zeros((9, 12), np.float32)
    image[0, :4] = image[0:5, 0] = 3  # an angle around the next one
    image[2:4, 2:5] = 7
    image[6, 10] = 5
    image[8, 0] = 1  # below the level
    found = Components.from_image(image, 2)
    column, tops = found.column()
    assert list(tops) == [0, 6, 9]
    assert column.shape == (5 + 1 + 2 + 1 + 1 + 1, 4 + 1)
    np.testing.assert_array_equal(column[6:8, :3], np.full((2, 3), 7))
    assert column[9, 0] == 5
    assert column.sum() == 3 * 8 + 7 * 6 + 5
    some = found.take(np.array([False, True, True]))
    part, corner = some.cut_out()
    assert corner == (2, 2)
    np.testing.assert_array_equal(part, np.where(image == 3, 0, image)[2:7, 2:11])
    assert [len(p) for p in found.parts(6)] == [1, 2]
    nothing = Components.from_image(image, 50)
    assert len(nothing) == nothing.px == 0
    assert list(nothing.parts(10)) == []


class Counted(ArrayPixels):
    """Counts how often each px is read."""

    def __init__(self, array):
        super().__init__(array)
        self.count = np.zeros(array.shape, int)

    def read(self, window, level=0):
        self.count[window.slices] += 1
        return super().read(window, level)


@pytest.mark.parametrize(("side", "panel"), [(64, 8192), (30, 8192), (64, 128), (300, 8192)])
def test_tiles_hold_what_is_around_them_and_read_each_px_once(monkeypatch, side, panel):
    monkeypatch.setattr(tiles, "DETECT_PANEL", panel)
    shape, around = (210, 290), 20
    rng = np.random.default_rng(4)
    post, pre, left = (Counted(rng.normal(size=shape).astype("f4")) for _ in range(3))
    scene = SimpleNamespace(post=post, pre=pre, difference=left)
    covered = np.zeros(shape, int)
    spare = []
    for core, images in tiles.read_tiles(scene, side, around, spare):
        covered[core.slices] += 1
        window = core.grow(around)
        plain = SimpleNamespace(**{n: ArrayPixels(i._levels[0]) for n, i in vars(scene).items()})
        expected = Images.read(plain, window).pixels
        np.testing.assert_array_equal(images.cut(window).pixels, expected)
        images.room.fill(0)  # it belongs to who gets it
        spare.append(images.room)
    assert len(spare) == 1
    assert (covered == 1).all()
    for image in (post, pre, left):
        assert (image.count >= 1).all()
        # except what is next to panels
        again = np.flatnonzero((image.count > 1).any(axis=0))
        assert len(again) == 2 * around * ((shape[1] - 1) // panel)


SHAPE = (20, 24)
WIDE = tuple(n + 2 * SPAN for n in SHAPE)
ROW, COL = np.indices(WIDE).astype(np.float32)


def error(value):
    return np.full(SHAPE, value, np.float32)


def predict_squared_shift(image, off):
    return plain_loops.squared_shift(image, off)


@pytest.mark.parametrize("off", [0.05, 0.3, 1.0, 2.0, 2.5, 3.0])
def test_on_a_slope_it_is_half_the_square_of_the_greatest_change(off):
    found = predict_squared_shift(3 * COL, error(off))
    # between whole distances squares are taken to grow evenly
    low, high = np.floor(off), np.ceil(off)
    square = off**2 if off <= 1 or low == high else low**2 + (off - low) * (high**2 - low**2)
    np.testing.assert_allclose(found, 9 * square / 2, rtol=1e-6)


def test_on_a_ridge_the_change_grows_with_the_square():
    ridge = -np.abs(COL - 12) * 10
    at = 12 - SPAN
    found = {off: predict_squared_shift(ridge, error(off))[5, at] for off in (0.1, 0.2, 1.0, 3.0)}
    assert found[0.1] == pytest.approx(0.1**4 * 100 / 2)
    assert found[0.2] == pytest.approx(16 * found[0.1])
    assert found[1.0] == pytest.approx(100 / 2)
    assert found[3.0] == pytest.approx(900 / 2)


def test_next_to_what_is_missing_nothing_is_known():
    image = np.ones(WIDE, np.float32)
    image[:, 12] = np.nan
    found = predict_squared_shift(image, error(0.5))
    assert np.isnan(found[:, 12 - SPAN - 1 : 12 - SPAN + 2]).all()
    assert (found[:, : 12 - SPAN - 1] == 0).all()
