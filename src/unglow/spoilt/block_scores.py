"""Scores of blocks: how far the difference of a pair departs from noise, place by place.

A block of 32 x 32 px is averaged to bins of 2 x 2 px and cells of 4 x 4 px, so that single px and
spots count little. Its scores are standard normal numbers where post is gain * pre + offset, noise
and spots of stain:

- *level*: median of the cells, *rise*: their 20 % quantile, which spots on a crowded block do not
  lift; over the error of either, with 0.5 % of the level for a gain that is a little wrong;
- *texture*: logarithm of the median square of the cells about that median, over their variance;
- *slope*, *shift_x*, *shift_y*, *focus*: how the difference goes with the structures that both
  images show, with their gradients, and with their Laplacian, as light, movement and focus make it.
  The structures are taken from the mean of both images with the least noise,
  s = w post + (1 - w) t, whose noise is not correlated with that of the difference; t is the
  expected post. Parts of
  8 x 8 px are bounded at 2 standard deviations (Huber 1964, Annals of Mathematical Statistics 35,
  73), so that stain does not bend them.

And three shares of px: *lost*, where post is as dark as glass and should not be; *floor*, where it
is at the lowest value of the image and should not be; *below*, where it is expected to be below
that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from unglow.core.archive import Saved
from unglow.core.kernels import kernel, lay_rows
from unglow.memory import BLOCK, block_side, count_blocks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from unglow.core.archive import ArrayAxes
    from unglow.core.arrays import Floats32
    from unglow.photometry.gain.scale import MethodResult
    from unglow.photometry.imaging import NoiseModel
    from unglow.photometry.joint_histogram import JointStatistics


SCORES = (
    "level", "rise", "texture", "slope", "shift_x", "shift_y", "focus", "lost", "floor", "below",
)  # fmt: skip
"""The scores of a block, in their order; the last three are shares of its px, 0 to 1."""
SHARES = 3
"""This many of them, at the end, are shares."""
_RETAINED = 0.6
"""Of the variance of pre in means of 2 x 2 px, resampling leaves about this part of four times."""
_GLASS = 0.001
"""Post is this dark without a section: a quantile of its grey levels,"""
_CLEAR = 3.0
"""and this many standard deviations more."""


_UNSATURATED = 0.98
"""Part of the level of saturated px below which px count."""
_LARGEST = 6e4
"""Scores are cut at this: float16 ends a little above."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """What noise makes of a difference, as the loop ``block_scores`` takes it.

    Attributes
    ----------
    numbers
        (10,) float32, see ``kernels.h``.
    """

    numbers: Floats32

    @classmethod
    def from_result(
        cls,
        result: MethodResult,
        noise: NoiseModel,
        statistics: JointStatistics,
        lowest: float,
        dark: float | None = None,
    ) -> Expectation:
        """Return what follows from gain, offset and noise of a pair, and from its grey levels.

        ``lowest`` is the smallest value of post, and up to ``dark`` it is as dark as glass: by
        default what noise makes of glass. ValueError if the method found no gain.
        """
        if result.gain is None or result.offset is None:
            raise ValueError("no gain")
        gain, offset, left = result.gain, result.offset, _RETAINED
        pre_shot = left * gain * noise.pre_shot
        pre_read = left * gain * (gain * noise.pre_read - noise.pre_shot * offset)
        glass, middle = post_levels(statistics)
        of_post = max(noise.post_read + noise.post_shot * middle, noise.least)
        of_pre = max(pre_read + pre_shot * middle, left * gain**2 * noise.least)
        if dark is None:
            of_glass = max(noise.post_read + noise.post_shot * glass, noise.least)
            dark = glass + _CLEAR * math.sqrt(of_glass)
        return cls(np.array([
            noise.post_read, noise.post_shot, pre_read, pre_shot,
            noise.least, left * gain**2 * noise.least,
            brightest_expected(result, statistics), lowest, dark,
            of_pre / max(of_post + of_pre, 1e-30),
        ], np.float32))  # fmt: skip


def brightest_expected(result: MethodResult, statistics: JointStatistics) -> float:
    """Return the expected level of post from which on an image is saturated, or as good as.

    A little less than that of the brightest px of pre, and at most the largest value of post.
    """
    brightest = int(np.flatnonzero(statistics.joint.sum(axis=1)).max(initial=0))
    pre = statistics.first + brightest * statistics.width
    light = 1.0 if result.gain_map is None else result.gain_map.limits[0]
    expected = _UNSATURATED * light * ((result.gain or 0.0) * pre + (result.offset or 0.0))
    return min(statistics.top, expected)


def post_levels(statistics: JointStatistics) -> tuple[float, float]:
    """Return the level of glass in post, and the median level of post where pre has data."""
    with_pre = statistics.joint.sum(axis=0)
    glass, typical = (
        statistics.first + (np.searchsorted(below, share * below[-1]) + 0.5) * statistics.width
        for below, share in (
            (np.cumsum(with_pre + statistics.post_only), _GLASS),
            (np.cumsum(with_pre), 0.5),
        )
    )
    return float(glass), float(typical)


@dataclass(eq=False, slots=True)
class BlockScores(Saved):
    """Scores of the blocks of a pair.

    Attributes
    ----------
    shape
        (rows, columns) of post, px.
    side
        Side of a block, px: a power of two, 32 or more; blocks at the end are cut by the image.
    scores
        (ny, nx, 10) float16, see `SCORES`; NaN where too little of a block has data.
    """

    PARAMETERS = (("shape", (int, int)), ("side", (int,)))
    ARRAYS: ClassVar[ArrayAxes] = {"scores": ("float16", "ny", "nx", len(SCORES))}
    LEVEL = 1  # noisy numbers

    shape: tuple[int, int]
    side: int
    scores: NDArray[np.float16]

    def __post_init__(self) -> None:
        """Refuse blocks that do not cover the image, which a damaged file may hold."""
        if self.side < BLOCK or self.scores.shape[:2] != count_blocks(self.shape, self.side):
            raise ValueError(f"blocks of {self.side} px in an image of {self.shape}")

    @classmethod
    def create(cls, shape: tuple[int, int]) -> Self:
        """Return blocks without data for an image of (rows, columns)."""
        side = block_side(shape)
        grid = (*count_blocks(shape, side), len(SCORES))
        return cls(shape, side, np.full(grid, np.nan, np.float16))

    def store_part(self, strips: Sequence[Floats32], origin: tuple[int, int]) -> None:
        """Take the blocks of a part of the image; parts may come from several threads at once.

        Parameters
        ----------
        strips
            What `score_strip` returns for strips of the part, from its first rows on.
        origin
            [row, col] of its first px in the image.

        Raises
        ------
        ValueError
            If the part does not start with a block, or has more than there are.
        """
        joined = _join(np.concatenate(strips), self.side // BLOCK)
        top, left = (start // self.side for start in origin)
        target = self.scores[top : top + len(joined), left : left + joined.shape[1]]
        if any(start % self.side for start in origin) or target.shape != joined.shape:
            raise ValueError(f"{joined.shape[:2]} blocks from px {origin} on of {self.shape}")
        target[:] = np.clip(joined, -_LARGEST, _LARGEST)

    def select(self, name: str) -> Floats32:
        """Return one of the scores, (ny, nx) float32."""
        return self.scores[..., SCORES.index(name)].astype(np.float32)


def score_strip(post: Floats32, left: Floats32, expected: Expectation) -> Floats32:
    """Return the scores of the blocks of 32 x 32 px of a strip, (ny, nx, 10) float32.

    Parameters
    ----------
    post, left
        (rows, cols) float32: post as it went into the difference, and the difference, NaN where
        there is no data. Blocks at the lower and the right end are cut by them.
    expected
        What noise makes of it.
    """
    rows, cols = post.shape
    scores = np.empty((*count_blocks((rows, cols), BLOCK), len(SCORES)), np.float32)
    images = *lay_rows(post), *lay_rows(left)
    kernel("block_scores")(*images, rows, cols, expected.numbers, scores)
    return scores


def _join(fine: Floats32, count: int) -> Floats32:
    """Put squares of ``count`` x ``count`` blocks together: sums in units of their own scatter."""
    if count == 1:
        return fine
    rows, cols, kinds = fine.shape
    padded = np.pad(
        fine, ((0, -rows % count), (0, -cols % count), (0, 0)), constant_values=np.nan
    ).reshape(-(-rows // count), count, -(-cols // count), count, kinds)
    known = np.isfinite(padded)
    number = known.sum(axis=(1, 3))
    total = np.where(known, padded, 0).sum(axis=(1, 3))
    divisor = np.sqrt(np.maximum(number, 1))
    divisor[..., -SHARES:] = np.maximum(number[..., -SHARES:], 1)
    return np.where(2 * number >= count * count, total / divisor, np.nan).astype(np.float32)
