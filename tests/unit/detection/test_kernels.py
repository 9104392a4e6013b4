"""The compiled loops of the search against plain numpy and scipy, and the tiles that it reads."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import ndimage

from unglow.core.windows import ArrayPixels, Window
from unglow.detection import search
from unglow.detection.coarse_grid import SPAN, predict_squared_shift
from unglow.detection.snr import Images, _smooth
from unglow.detection.source_extraction import Components
from unglow.photometry.resampled_noise import (
    FilteredVariance,
    compute_filtered_noise,
    positions,
    round_jacobian,
)
from unglow.transform import Transform
from unglow.transform.displacement import Displacement
from unglow.transform.scanner_strips import Strips

TAPS = np.exp(-0.5 * (np.arange(-4, 5) / 1.3) ** 2)
TAPS /= TAPS.sum()


def test_the_filter_is_a_correlation_along_both_axes_and_the_same_in_any_window():
    image = np.random.default_rng(1).normal(100, 20, (70, 90)).astype("f4")
    skewed = (TAPS * np.linspace(0.5, 1.5, 9)).astype("f4")  # no symmetry is taken for granted
    found = _smooth(image, skewed)
    expected = ndimage.correlate1d(ndimage.correlate1d(image.astype(float), skewed, 0), skewed, 1)
    np.testing.assert_allclose(found, expected[4:-4, 4:-4], rtol=2e-6)
    np.testing.assert_array_equal(_smooth(image[11:50, 7:61], skewed), found[11:42, 7:53])


def bent(**more):
    knots = np.random.default_rng(5).uniform(-3, 3, (2, 9, 9))
    matrix = np.array([[1.01, -0.05, 7.3], [0.04, 0.98, -3.1], [1e-5, -2e-5, 1.0]])
    field = Displacement(100, knots, **more)
    return Transform("ok", (600, 600), (700, 700), matrix=matrix, displacement=field)


@pytest.mark.parametrize("strips", [False, True])
def test_the_factor_is_that_of_the_nearest_phase_in_the_table_of_the_block(strips):
    matrix = bent().matrix
    steps = Strips("pre", "rows", matrix, [150.0, 320.0], [[0.0, 0.0], [0.7, -0.4], [0.1, 0.3]])
    transform = bent(strips=steps) if strips else bent()
    window = Window(200, 300, 230, 540)
    weights = np.outer(TAPS, TAPS)
    found = FilteredVariance.from_transform(transform, window, weights).select_window(window)
    x, y = positions(transform, window)
    fx, fy = (np.rint((v - np.floor(v)) * 16).astype(int) % 16 for v in (x, y))
    row, col = np.indices(window.shape)
    down, across = (row + window.y0) // 256, (col + window.x0) // 256
    expected = np.empty(window.shape)
    for i in (0, 1):
        for k in (0, 1, 2):
            middle = 256 * k + 127.5, 256 * i + 127.5
            table = compute_filtered_noise(round_jacobian(transform, middle), weights)
            here = (down == i) & (across == k)
            expected[here] = table[fy, fx][here]
    # a position half-way between two phases may go to either
    off = ~np.isclose(found, expected, rtol=1e-6)
    assert np.count_nonzero(off) <= 3


def test_a_shift_is_what_looking_at_each_px_gives():
    rng = np.random.default_rng(2)
    image = rng.normal(size=(18, 20)).astype("f4")
    error = rng.uniform(0, 3.2, (12, 14)).astype("f4")
    image_ = image.astype(float)
    # of distance 3 only what is no further: 3 px along an axis, 2 along both
    offsets = {
        1: [(0, 1), (1, 0)],
        2: [(0, 2), (2, 0), (1, 1), (1, -1)],
        3: [(0, 3), (3, 0), (2, 2), (2, -2)],
    }
    here = image_[SPAN:-SPAN, SPAN:-SPAN]

    def moved(a, b):
        return image_[SPAN + a : 18 - SPAN + a, SPAN + b : 20 - SPAN + b]

    steps = {
        far: np.max([(moved(s * a, s * b) - here) ** 2 for a, b in some for s in (1, -1)], axis=0)
        for far, some in offsets.items()
    }
    slope = ((moved(0, 1) - moved(0, -1)) ** 2 + (moved(1, 0) - moved(-1, 0)) ** 2) / 4
    short = np.minimum(error, 1.0) ** 2
    expected = short * slope + short**2 * np.maximum(steps[1] - slope, 0)
    before = np.maximum(steps[1], slope)
    for far in (2, 3):
        largest = np.maximum(before, steps[far])
        expected += np.clip(error - far + 1, 0, 1) * (largest - before)
        before = largest
    np.testing.assert_allclose(
        predict_squared_shift(image, error), expected / 2, rtol=2e-5, atol=1e-7
    )


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
        assert tuple(box) == (
            *(s.start for s in expected),
            *(s.stop for s in expected),
        )


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
    monkeypatch.setattr(search, "DETECT_PANEL", panel)
    shape, around = (210, 290), 20
    rng = np.random.default_rng(4)
    post, pre, left = (Counted(rng.normal(size=shape).astype("f4")) for _ in range(3))
    scene = SimpleNamespace(post=post, pre=pre, difference=left)
    covered = np.zeros(shape, int)
    for core, images in search.read_tiles(scene, side, around):
        covered[core.slices] += 1
        window = core.grow(around)
        plain = SimpleNamespace(**{n: ArrayPixels(i._levels[0]) for n, i in vars(scene).items()})
        expected = Images.read(plain, window).pixels
        np.testing.assert_array_equal(images.cut(window).pixels, expected)
        images.pixels.fill(0)  # it belongs to who gets it
    assert (covered == 1).all()
    for image in (post, pre, left):
        assert (image.count >= 1).all()
        # except what is next to panels
        again = np.flatnonzero((image.count > 1).any(axis=0))
        assert len(again) == 2 * around * ((shape[1] - 1) // panel)
