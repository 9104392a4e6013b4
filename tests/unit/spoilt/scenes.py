"""Pairs whose noise is known, and what spoils them."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from unglow.spoilt.block_scores import BlockScores, Expectation, score_strip

SIDE = 1024
READ, SHOT = 1.0, 0.25
"""Variance of a px of either image: constant part, and slope by its level."""


@dataclass(frozen=True)
class Scene:
    """Expected post without noise, post, and the difference, each (SIDE, SIDE) float32."""

    expected: np.ndarray
    post: np.ndarray
    left: np.ndarray

    def with_post(self, post: np.ndarray) -> Scene:
        """Return the scene with another post, and the same that is subtracted from it."""
        return Scene(self.expected, post, (post - self.post + self.left).astype(np.float32))

    def scores(self) -> BlockScores:
        """Judge all blocks."""
        found = BlockScores.create(self.post.shape)
        found.store_part([score_strip(self.post, self.left, EXPECTED)], (0, 0))
        return found


EXPECTED = Expectation(
    np.array([READ, SHOT, READ, SHOT, 1 / 12, 1 / 12, 65535, 0, 12, 0.5], np.float32)
)
"""Both images have the same noise, white in pre as well; glass ends at a level of 12."""


def scene(seed: int = 0, *, spots_per_mpx: int = 100) -> Scene:
    """Make a textured section without glass, with stain in post."""
    random = np.random.default_rng(seed)
    texture = cv2.GaussianBlur(random.standard_normal((SIDE, SIDE)).astype(np.float32), (0, 0), 2.5)
    expected = (100 + 150 * texture).clip(30, 250)
    pre, post = (
        expected + np.sqrt(READ + SHOT * expected) * random.standard_normal(expected.shape)
        for _ in range(2)
    )
    spots = np.zeros(expected.shape, np.float32)
    where = random.integers(0, SIDE, (spots_per_mpx, 2))
    spots[where[:, 0], where[:, 1]] = random.uniform(200, 2000, spots_per_mpx)
    post = (post + cv2.GaussianBlur(spots, (0, 0), 1.3)).astype(np.float32)
    return Scene(expected.astype(np.float32), post, (post - pre).astype(np.float32))


def disc(radius: float, centre: tuple[float, float] = (500, 530)) -> np.ndarray:
    """Return which px lie within a radius of a place (x, y)."""
    y, x = np.mgrid[:SIDE, :SIDE]
    return (x - centre[0]) ** 2 + (y - centre[1]) ** 2 < radius**2


def noise(level: np.ndarray, seed: int) -> np.ndarray:
    """Return px of a level with the noise of post."""
    random = np.random.default_rng(seed)
    return (level + np.sqrt(READ + SHOT * level) * random.standard_normal(level.shape)).astype("f4")
