"""Sub-pixel shifts of blocks, and where blocks are put."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.fft
from array_pixels import ArrayPixels
from scipy.ndimage import gaussian_filter

from unglow.core.windows import coarse_level
from unglow.registration.block_placement import block_size, sample_corners
from unglow.registration.images import Plane, PlanePair, thumbnail
from unglow.registration.pair import Pair
from unglow.registration.phase_correlation import block_shift, compress, match_blocks

RNG = np.random.default_rng(12)
SCENE = 1000 + 300 * gaussian_filter(RNG.normal(0, 1, (512, 512)), 1.2) / 0.24


def moved(dx, dy):
    """Move the whole (periodic) scene by a fraction of a pixel, exactly."""
    fy, fx = np.fft.fftfreq(512)[:, None], np.fft.rfftfreq(512)[None]
    phase = np.exp(-2j * np.pi * (fx * dx + fy * dy))
    return scipy.fft.irfft2(scipy.fft.rfft2(SCENE) * phase, SCENE.shape)


def block(image, size=128):
    return image[200 : 200 + size, 150 : 150 + size].astype(np.float32)


@pytest.mark.parametrize("shift", [(0.0, 0.0), (0.37, -0.21), (-1.5, 0.5), (3.25, -6.75)])
@pytest.mark.parametrize("size", [64, 256])
def test_shift_of_a_block(shift, size):
    dx, dy, quality = block_shift(block(moved(*shift), size), block(SCENE, size))
    assert (dx, dy) == pytest.approx(shift, abs=max(0.01, 0.02 * max(map(abs, shift))))
    assert quality > 3


def test_gain_offset_noise_and_spots_matter_little():
    post = 3 * moved(0.4, 0.2) + 200 + RNG.normal(0, 60, SCENE.shape)
    for x, y in RNG.integers(0, 500, (60, 2)):
        post[y : y + 4, x : x + 4] += 8000
    a, b = compress(block(post, 256), 0), compress(block(SCENE, 256), 0)
    dx, dy, quality = block_shift(a, b)
    assert (dx, dy) == pytest.approx((0.4, 0.2), abs=0.05)
    assert quality > 2


def test_reversed_contrast_needs_its_sign():
    a, b = block(3000 - moved(0.5, -0.25)), block(SCENE)
    assert block_shift(a, b, -1)[:2] == pytest.approx((0.5, -0.25), abs=0.01)
    wrong = block_shift(a, b, 1)
    assert np.hypot(wrong[0] - 0.5, wrong[1] + 0.25) > 0.5


def test_unrelated_blocks_have_no_clear_peak():
    other = gaussian_filter(np.random.default_rng(1).normal(0, 1, (512, 512)), 1.2)
    assert block_shift(block(other), block(SCENE))[2] < 1.6


def test_match_blocks_gives_positions_in_pre():
    image = moved(2.25, -1.5)
    planes = [Plane(lambda w, v=v: v[w.slices], v.shape, 0.0) for v in (image, SCENE)]
    guess = np.array([[1.0, 0, -2], [0, 1, 1], [0, 0, 1]])
    corners = np.array([[10, 10], [200, 100], [300, 380]])
    found = match_blocks(PlanePair(*planes, guess, workers=2), corners, 128)
    np.testing.assert_array_equal(found.post, corners + 63.5)
    np.testing.assert_allclose(found.pre - found.post, [[-2.25, 1.5]] * 3, atol=0.02)
    guess[0, 2] = 2000
    assert len(match_blocks(PlanePair(*planes, guess), corners, 128)) == 0


@pytest.mark.parametrize("side", [1, -1])
def test_a_soft_rim_lies_further_out_where_roots_bend_it(side):
    """The rim of a section on a dark ground, in an image that is softer than the other one."""
    rows, cols = np.indices(SCENE.shape)
    inside = 1 / (1 + np.exp(np.clip((np.hypot(rows - 256, cols - 256) - 180) / 0.5, -50, 50)))
    sharp = 5 + SCENE * inside
    soft = gaussian_filter(sharp, 1.5)
    thumbs = [thumbnail(ArrayPixels(image.astype(np.float32)), 0) for image in (sharp, soft)]
    corners = np.array([[256 + side * 180 - 64, 192]])
    shifts = []
    for name in ("floor", "block_floor"):
        seen = [replace(thumb.plane, floor=getattr(thumb, name)) for thumb in thumbs]
        found = match_blocks(PlanePair(*seen, np.eye(3)), corners, 128)
        shifts.append(side * float((found.pre - found.post)[0, 0]))
    bent, straight = shifts
    assert bent == pytest.approx(0.18, abs=0.01)
    assert straight == pytest.approx(0.044, abs=0.003)


@pytest.mark.parametrize(
    ("shapes", "longest", "level"),
    [
        (((8192, 8192), (7400, 8000)), 1024, 3),
        (((25000, 30000),), 1024, 5),
        (((500, 700),), 1024, 0),
        (((1024, 1025),), 1024, 1),
    ],
)
def test_coarse_level(shapes, longest, level):
    assert coarse_level(shapes, longest) == level


@pytest.mark.parametrize(
    ("shape", "share", "size"),
    [
        ((8192, 8192), 1.0, 256),
        ((1024, 1024), 1.0, 256),
        ((1000, 4000), 1.0, 128),
        ((300, 300), 1.0, 64),
        ((8192, 8192), 0.001, 64),
    ],
)
def test_block_size(shape, share, size):
    assert block_size(shape, share, 256) == size


def test_samples_lie_on_the_section_and_inside_both_images():
    image = np.full((1200, 1600), 100.0)
    texture = np.tile(SCENE, (3, 4))[:1200, :1600]
    image[300:1000, 400:1500] = texture[300:1000, 400:1500]
    pixels = ArrayPixels(image.astype(np.uint16), 3)
    thumb = thumbnail(pixels, 1)
    shift = np.eye(3)
    shift[0, 2] = 400
    pair = Pair(pixels, pixels, thumb, thumb, matrix=shift)
    corners, held = sample_corners(pair, 128, 60)
    assert 20 <= len(corners) <= 60
    assert 0.1 < held.mean() < 0.3
    x, y = corners.T
    assert ((x >= 0) & (x + 128 + 400 <= 1600) & (y >= 0) & (y + 128 <= 1200)).all()
    centres = corners + 64
    # at least 30 % of a block lies on the section, so its centre is at most 0.2 blocks off it
    assert ((centres >= [400 - 50, 300 - 50]) & (centres[:, 1:] <= 1000 + 50)).all()
    assert len(np.unique(corners, axis=0)) == len(corners)
