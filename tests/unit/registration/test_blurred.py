"""Few structures, much noise: a map from blurred images, or none where only outlines match."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from array_pixels import ArrayPixels

from unglow.registration.models import choose_model
from unglow.registration.quality import compute_excess, residual_variance
from unglow.registration.register import RegisterSettings, register

SIDE = 512


def embryo(texture, noise, shift=(0, 0)):
    """An ellipse on dark ground whose coarse grain is far below its noise."""
    y, x = np.indices((SIDE, SIDE), np.float32)
    inside = ((x - 250) / 75) ** 2 + ((y - 260) / 110) ** 2 < 1
    grain = np.random.default_rng(texture).normal(size=inside.shape)
    grain = cv2.GaussianBlur(grain, (0, 0), 3.5)
    level = 300 + 1200 * inside * (1 + 0.12 * grain / grain.std())
    moved = np.float32([[1, 0, shift[0]], [0, 1, shift[1]]])
    seen = cv2.warpAffine(
        cv2.GaussianBlur(level, (0, 0), 3.0), moved, (SIDE, SIDE), borderValue=300.0
    )
    rng = np.random.default_rng(noise)
    return rng.normal(seen, 4.5 * np.sqrt(seen)).clip(0, 65535).astype(np.uint16)


@pytest.mark.slow
def test_a_noisy_pair_of_few_structures_gets_a_map_with_an_error_that_holds():
    images = embryo(1, 11), embryo(1, 12, (7.3, -4.6))
    found = register(*map(ArrayPixels, images), RegisterSettings()).transform
    assert found.status != "failed"
    at = np.array([[250.0, 200], [250, 320], [210, 260], [290, 260]])
    off = np.hypot(*(found.map(at) - at - [7.3, -4.6]).T)
    assert off.max() < 0.6
    assert off.max() < 1.5 * found.error_px.p95


@pytest.mark.slow
def test_another_one_of_the_same_outline_is_refused():
    images = embryo(1, 11), embryo(2, 12)
    assert register(*map(ArrayPixels, images), RegisterSettings()).transform.status == "failed"


def test_a_richer_model_has_to_gain_what_is_asked_for():
    rng = np.random.default_rng(5)
    post = rng.uniform(0, 400, (60, 2))
    turned = (post - 200) @ np.array([[1, 0.003], [-0.003, 1]]) + 200
    pre = turned + rng.normal(0, 0.05, post.shape)
    every, held_out = np.ones(60, bool), np.arange(60) % 5 == 0
    assert choose_model(post, pre, every, held_out)[0] == "similarity"
    assert choose_model(post, pre, every, held_out, least=1.0)[0] == "translation"


def test_what_is_beyond_the_noise_of_blocks_is_error_though_neighbours_do_not_share_it():
    rng = np.random.default_rng(6)
    weights, noise = np.full(200, 16.0), rng.normal(0, 0.06, (200, 2))  # peaks 5 times as high
    bends = rng.normal(0, 1.0, (200, 2))
    around = rng.integers(0, 200, (200, 6))
    for left, expected in ((noise, 0.0), (noise + bends, 2.0)):
        args = left, weights, left[around], weights[around], 2.5, 0.5
        assert np.mean(residual_variance(*args)) == pytest.approx(expected, abs=0.5)
    assert compute_excess(noise, weights, 0.5) == 0


def test_a_part_that_has_moved_is_seen_though_most_blocks_agree():
    left = np.zeros((100, 2))
    left[:20] = 12.0, 0.0
    weights, around = np.full(100, 16.0), np.arange(100)[:, None] // 20 * 20 + np.arange(6)
    squares = residual_variance(left, weights, left[around], weights[around], 2.5, 0.5)
    assert squares[:20].min() > 100
    assert squares[20:].max() < 0.01
