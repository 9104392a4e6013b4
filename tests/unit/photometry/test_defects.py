"""Defects of pre: found where post does not show them, the same in any window, few in good ones."""

from __future__ import annotations

import numpy as np
import pytest
from array_pixels import ArrayPixels
from scipy import ndimage

from unglow.core.windows import Window
from unglow.photometry.defects import find_defects
from unglow.transform import Transform

SHAPE = (300, 340)
MOVED = 6.0, -4.0  # of pre against post, (x, y)


def make_pair(dtype=np.uint8):
    """A pair with texture and sharp grains in both, and noise of its own in each."""
    rng = np.random.default_rng(3)
    scene = ndimage.gaussian_filter(rng.normal(0, 60, (360, 400)), 4) + 60
    for y, x in rng.integers(20, 330, (40, 2)):
        scene[y - 1 : y + 2, x - 1 : x + 2] += 60
    scene = ndimage.gaussian_filter(scene, 1.0)
    rows, cols = SHAPE
    post, pre = 1.3 * scene[20:, 20:][:rows, :cols], scene[24:, 14:][:rows, :cols]
    noisy = (image + rng.normal(0, 2.0, SHAPE) for image in (post, pre))
    scale = 1 if dtype == np.uint8 else 64
    return tuple(np.clip(np.rint(scale * a), 0, np.iinfo(dtype).max).astype(dtype) for a in noisy)


def find(post, pre, *, integer=True):
    matrix = np.array([[1.0, 0.0, MOVED[0]], [0.0, 1.0, MOVED[1]], [0.0, 0.0, 1.0]])
    images = ArrayPixels(post), ArrayPixels(pre)
    transform = Transform("ok", SHAPE, SHAPE, matrix=matrix)
    known = pre[np.isfinite(pre)]
    ends = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
    seen = []
    found = find_defects(
        images, transform, ends, lambda _, window: seen.append(window), integer=integer, workers=1
    )
    assert seen == [Window.from_shape(SHAPE)]
    return found


def masked(defects, pre, window=None):
    window = window or Window.from_shape(SHAPE)
    block = pre[window.slices].astype(np.float32)
    defects.mask(block, window)
    return np.isnan(block)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_hot_and_dead_px_are_masked_and_grains_are_not(dtype):
    post, pre = make_pair(dtype)
    assert masked(find(post, pre), pre).sum() <= 3
    spots = np.random.default_rng(4).integers(20, 280, (30, 2))
    pre[spots[:, 0], spots[:, 1]] = np.where(np.arange(30) % 2, np.iinfo(dtype).max, 0)
    pre[100:102, 200:202] = np.iinfo(dtype).max
    found = masked(find(post, pre), pre)
    assert found[spots[:, 0], spots[:, 1]].mean() >= 0.85  # the others are as dark as their place
    assert found[100:102, 200:202].all()
    assert found.sum() <= 40


def test_dead_px_are_masked_where_noise_almost_hides_them():
    rng = np.random.default_rng(7)
    post, pre = (np.rint(rng.normal(level, 10, SHAPE)).clip(1) for level in (80, 60))
    at = rng.integers(20, 280, (2, 60))
    pre[tuple(at)] = 0
    found = masked(find(post, pre), pre)
    assert found[tuple(at)].mean() >= 0.8  # 0 without counting them
    assert found.sum() <= 62


def test_a_dark_end_that_is_cut_off_is_not_dead_px():
    rng = np.random.default_rng(8)
    post, pre = (np.rint(rng.normal(level, 10, SHAPE)).clip(0) for level in (30, 25))
    assert masked(find(post, pre), pre).sum() == 0


def test_what_post_shows_as_well_is_not_a_defect():
    post, pre = make_pair()
    pre[150, 150] = 255
    assert masked(find(post, pre), pre)[150, 150]
    post[154, 144] = 255  # where the map puts it
    assert not masked(find(post, pre), pre)[150, 150]


@pytest.mark.parametrize("axis", [0, 1])
def test_lost_lines_are_masked_from_end_to_end(axis):
    post, pre = make_pair()
    lines = pre if axis == 0 else pre.T
    lost = [(1, -2)[axis], *range(20, 280, 20)]
    lines[lost] = 0
    found = masked(find(post, pre), pre)
    assert (found if axis == 0 else found.T)[lost].all()
    assert found.mean() < 0.06


def test_a_window_shows_the_same_defects_as_the_image():
    post, pre = make_pair()
    pre[20:280:13, 30:300:17] = 255
    defects = find(post, pre)
    whole = masked(defects, pre)
    assert whole.sum() > 200
    for window in (Window(0, 60, 0, 340), Window(33, 201, 47, 48), Window(299, 300, 0, 340)):
        np.testing.assert_array_equal(masked(defects, pre, window), whole[window.slices])


def test_a_pile_at_the_top_is_saturated_and_one_brightest_px_is_not():
    post, pre = make_pair()
    assert find(post, pre).saturated_px == 0
    top = int(np.quantile(pre, 0.98))
    clipped = np.minimum(pre, top)
    defects = find(post, clipped)
    assert defects.saturated_px == np.count_nonzero(clipped == top)
    assert masked(defects, clipped)[clipped == top].all()
    stored = 16 * clipped.astype(np.uint16)  # 12 bit in 16
    assert find(post, stored).saturated_px == defects.saturated_px


def test_images_of_noise_alone_and_without_data_have_no_defects():
    rng = np.random.default_rng(5)
    noise = rng.integers(0, 200, SHAPE).astype(np.uint8)
    assert not masked(find(noise, noise), noise).any()
    nothing = np.full(SHAPE, np.nan, np.float32)
    assert find(nothing, nothing, integer=False).tiles == {}
