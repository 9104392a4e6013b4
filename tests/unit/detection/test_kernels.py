"""The compiled loops of the search against plain numpy and scipy, and the tiles that it reads."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from array_pixels import ArrayPixels
from scipy import ndimage

from unglow.detection import images as tiles
from unglow.detection.images import Images
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
    some = found.keep(np.array([False, True, True]))
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
