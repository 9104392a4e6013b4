"""Matches of dense blocks that measure a known displacement."""

from __future__ import annotations

import numpy as np

from unglow.registration.dense_blocks import DenseMatches

SHAPE = (1024, 1024)


def wave(points, amplitude=4.0, length=700.0):
    """Return a smooth displacement (N, 2) at points, px."""
    k = 2 * np.pi / length
    x, y = points.T
    return amplitude * np.column_stack([np.sin(k * (x + 0.4 * y)), np.cos(k * (y - 0.3 * x))])


def count_blocks(off, noise=0.05, step=32, size=64, seed=1, wrong=0.0):
    """Make 31 x 31 blocks that measure ``off`` (points to px), with noise and wrong matches."""
    rng = np.random.default_rng(seed)
    place = np.array([(c, r) for r in range(31) for c in range(31)])
    corner = place * step
    post = corner + (size - 1) / 2
    quality = rng.uniform(5, 25, len(post))
    found = off(post) + rng.normal(0, 1, post.shape) * (noise * 15 / (quality - 1))[:, None]
    bad = rng.random(len(post)) < wrong
    found[bad] = rng.uniform(-16, 16, (int(bad.sum()), 2))
    quality[bad] = rng.uniform(1, 1.9, int(bad.sum()))
    return DenseMatches(post, post + found, found, quality, place, corner, size, step)
