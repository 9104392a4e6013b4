"""Test for a deformation: residuals that neighbours share, near and far."""

from __future__ import annotations

from types import SimpleNamespace

import cv2
import numpy as np
import pytest
from made_images import pair_of

from unglow.registration.deformed_pair import is_deformed
from unglow.registration.phase_correlation import Matches, match_blocks

SIDE, SIZE, APART = 2000, 64, 300
IDENTITY = np.eye(3)


def bent_pair(amplitude, length=400.0, seed=2):
    """A texture, and the same bent in waves that are shorter than blocks 300 px apart can show."""
    rng = np.random.default_rng(seed)
    noise = cv2.GaussianBlur(rng.normal(0, 1, (SIDE, SIDE)).astype(np.float32), (0, 0), 1.5)
    post = np.clip(90 + 150 * noise, 1, 255)
    y, x = np.mgrid[0:SIDE, 0:SIDE].astype(np.float32)
    k = 2 * np.pi / length
    x, y = x + amplitude * np.sin(k * (x + y)), y + amplitude * np.cos(k * (x - y))
    pre = cv2.remap(post, x, y, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT)
    return tuple(
        (image + rng.normal(0, 3, image.shape)).astype(np.float32) for image in (post, pre)
    )


@pytest.mark.parametrize(("amplitude", "deformed"), [(0.0, False), (1.0, True)])
def test_blocks_far_apart_are_compared_with_blocks_that_touch_them(amplitude, deformed):
    pair = pair_of(*bent_pair(amplitude), IDENTITY)
    corners = np.array([(x, y) for y in range(60, 1900, APART) for x in range(60, 1900, APART)])
    matches = match_blocks(pair.select_level(0), corners, SIZE)
    assert len(matches) == len(corners)
    agreeing = np.ones(len(matches), dtype=bool)
    assert is_deformed(pair, matches, agreeing, SIZE) is deformed
    # they alone cannot show it: that is what the touching blocks are for
    assert not is_deformed(pair, matches, agreeing, APART)


@pytest.mark.parametrize(("amplitude", "deformed"), [(0.0, False), (0.01, False), (0.5, True)])
def test_blocks_near_each_other_need_no_others(amplitude, deformed):
    rng = np.random.default_rng(1)
    post = np.array([(x, y) for y in range(32, 992, 32) for x in range(32, 992, 32)], dtype=float)
    k = 2 * np.pi / 700
    bend = amplitude * np.column_stack([np.sin(k * post[:, 0]), np.cos(k * post[:, 1])])
    pre = post + bend + rng.normal(0, 0.05, post.shape)
    matches = Matches(post, pre, np.full(len(post), 15.0))
    everything = np.ones(len(post), dtype=bool)
    no_images = SimpleNamespace(matrix=IDENTITY)  # are not looked at
    assert is_deformed(no_images, matches, everything, SIZE) is deformed
