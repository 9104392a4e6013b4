"""Streamed statistics of co-registered pixels, mergeable in any order.

Everything is an integer count, a minimum or a maximum: the order of blocks and the number of
workers cannot change a byte of the result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from unglow.core.archive import Counts
from unglow.core.kernels import kernel, pixel_type, select_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from unglow.core.archive import ArrayAxes
    from unglow.core.arrays import Array, Floats, Floats32, Ints

COUNTERS = ("pixels", "overlap", "post_only", "no_post", "ratio", "post_at_maximum")
"""What is counted: all pixels, those with data in both images, in one, with a ratio, at `top`."""
JOINT_BINS = 512
"""Most bins of grey levels: 2 MB of counts for each worker."""
RATIO_LIMIT = 5.0
"""The fine histogram of log10(post / pre) goes from minus to plus this, dex."""
RATIO_STEP = 0.0005
"""Width of its bins, dex: 0.12 % of a gain."""
GROUPS = 16
"""Spatial groups, which the bootstrap of the intervals draws from."""
TILE = 128
"""Side of the tiles that belong to one group, px."""
# Of a float32: 8 bits of exponent and 11 of mantissa make a cell of at most 0.00022 dex, so that
# no cell holds more than one edge and the bin follows from one look-up and one comparison.
_SHIFT = 12
# Smallest and largest ratio before the first.
_NO_EXTREMES = np.inf, 0.0


def ratio_edges() -> Floats:
    """Return the edges of the fine histogram of log10(post / pre), (20001,), in dex."""
    half = round(RATIO_LIMIT / RATIO_STEP)
    return np.asarray(np.arange(-half, half + 1) * RATIO_STEP, np.float64)


@dataclass(eq=False, slots=True)
class JointStatistics(Counts):
    """Counts of post and aligned pre grey levels at the same pixels.

    Attributes
    ----------
    first, width
        Lower edge of the first grey-level bin and width of a bin, the same on both axes. Values
        beyond the ends (an interpolated pre may overshoot) are counted in the end bins.
    grey_level
        Step between stored grey levels: 1 for integers.
    top
        Largest post value of the image.
    joint
        (bins, bins) int64, [pre bin, post bin]: pixels where both have data.
    post_only
        (bins,) int64: pixels of post where pre has no data.
    ratios
        (16, 20002) int64: log10(post / pre) where post is positive and pre is at least one grey
        level; underflow, the bins between `ratio_edges`, overflow; one row per spatial group.
        Groups are interleaved tiles of 128 px: what differs between groups is what the gain would
        differ by in another part of the section, and serves for its confidence interval.
    counters
        (6,) int64, see `COUNTERS`.
    extremes
        (2,) float64: smallest and largest ratio post / pre; inf and 0 before the first.
    """

    PARAMETERS = (
        ("first", (float,)),
        ("width", (float,)),
        ("grey_level", (float,)),
        ("top", (float,)),
    )
    ARRAYS: ClassVar[ArrayAxes] = {
        "joint": ("int64", "bins", "bins"),
        "post_only": ("int64", "bins"),
        "ratios": ("int64", GROUPS, round(2 * RATIO_LIMIT / RATIO_STEP) + 2),
        "counters": ("int64", len(COUNTERS)),
        "extremes": ("float64", 2),
    }

    first: float
    width: float
    grey_level: float
    top: float
    joint: Ints
    post_only: Ints
    ratios: Ints
    counters: Ints
    extremes: Floats

    @classmethod
    def create(
        cls,
        *,
        post_range: tuple[float, float],
        pre_range: tuple[float, float],
        grey_level: float,
        integer: bool,
    ) -> JointStatistics:
        """Return empty statistics for images with these smallest and largest values.

        Parameters
        ----------
        post_range, pre_range
            Exact minimum and maximum of the stored images, in grey levels.
        grey_level
            Step between grey levels; 1 for integer images.
        integer
            Whether the stored images hold integers; then no bin is narrower than one grey level,
            and integers are in bin centres where bins are one grey level wide.

        Raises
        ------
        ValueError
            If a range is not finite or is upside down, or `grey_level` is not positive.
        """
        _check_ranges(post_range, pre_range, grey_level)
        low, high = min(post_range[0], pre_range[0]), max(post_range[1], pre_range[1])
        first, width, bins = _grid(low, high, grey_level, integer=integer)
        return cls(
            first=first,
            width=width,
            grey_level=grey_level,
            top=post_range[1],
            joint=np.zeros((bins, bins), np.int64),
            post_only=np.zeros(bins, np.int64),
            ratios=np.zeros((GROUPS, round(2 * RATIO_LIMIT / RATIO_STEP) + 2), np.int64),
            counters=np.zeros(len(COUNTERS), np.int64),
            extremes=np.array(_NO_EXTREMES),
        )

    @classmethod
    def empty(cls) -> JointStatistics:
        """Return statistics without pixels: the marked output for a pair that was refused."""
        return cls.create(post_range=(0, 0), pre_range=(0, 0), grey_level=1, integer=True)

    def fresh(self) -> JointStatistics:
        """Return empty statistics with the same bins, for another worker."""
        made = Counts.fresh(self)
        made.extremes[:] = _NO_EXTREMES
        return made

    def merge_counts(self, counts: Mapping[str, Array]) -> None:
        """Add the `arrays` of statistics with the same bins; others among them are left alone."""
        low, high = self.extremes
        Counts.merge_counts(self, counts)
        more = counts["extremes"]
        self.extremes[:] = min(low, more[0]), max(high, more[1])

    def add(self, post: Array, pre: Floats32, origin: tuple[int, int] = (0, 0)) -> None:
        """Count one pair of blocks; releases the interpreter lock, one instance per thread.

        Parameters
        ----------
        post, pre
            (rows, cols): post in its stored dtype, aligned pre as float32 with NaN where it has
            no data.
        origin
            [row, col] of the first pixel in the post image. It decides which spatial group pixels
            belong to: with it, the split into blocks does not matter.
        """
        if post.ndim != 2 or post.shape != pre.shape:
            raise ValueError(f"post {post.shape} and pre {pre.shape} are not blocks of one shape")
        if min(origin) < 0:
            raise ValueError(f"origin {origin} lies outside the image")
        signal = select_type(post)
        cells, edges = _ratio_table()
        kernel("count_pairs")(
            signal,
            pixel_type(signal.dtype),
            np.ascontiguousarray(pre, np.float32),
            *signal.shape,
            np.array([*origin, TILE, GROUPS], np.int64),
            np.array([self.first, 1 / self.width, self.grey_level, self.top]),
            cells,
            edges,
            edges.size,
            self.joint,
            len(self.joint),
            self.post_only,
            self.ratios,
            len(self.ratios),
            self.counters,
            self.extremes,
        )

    @property
    def edges(self) -> Floats:
        """Edges of the grey-level bins, (bins + 1,)."""
        return np.asarray(self.first + self.width * np.arange(len(self.post_only) + 1), np.float64)

    @property
    def centres(self) -> Floats:
        """Centres of the grey-level bins, (bins,)."""
        return (self.edges[1:] + self.edges[:-1]) / 2

    @property
    def lowest(self) -> float:
        """A value that no pixel of either image is below, and 0 where an image reaches it."""
        return self.first + min(self.width, self.grey_level) / 2

    @property
    def ratio_counts(self) -> Ints:
        """Fine histogram of log10(post / pre) over all groups, (20002,)."""
        return np.asarray(self.ratios.sum(axis=0))

    @property
    def ratio_range(self) -> tuple[float, float]:
        """Exact smallest and largest log10(post / pre); (inf, -inf) without any."""
        low, high = self.extremes
        return float(np.log10(low)), float(np.log10(high)) if high > 0 else -math.inf

    @property
    def n(self) -> dict[str, int]:
        """Pixels by kind: all, both with data, post alone, no post, in ratios, post at its top."""
        return {name: int(count) for name, count in zip(COUNTERS, self.counters, strict=True)}


def _check_ranges(
    post_range: tuple[float, float], pre_range: tuple[float, float], grey_level: float
) -> None:
    for name, (low, high) in (("post", post_range), ("pre", pre_range)):
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            raise ValueError(f"the range of {name}, {low} to {high}, is not one")
    if not (math.isfinite(grey_level) and grey_level > 0):
        raise ValueError(f"a grey level of {grey_level} is not positive")


def _grid(low: float, high: float, grey_level: float, *, integer: bool) -> tuple[float, float, int]:
    """Return first edge, width and number of the narrowest bins that fit: 512 at most."""
    levels = (high - low) / grey_level
    doublings = 0 if integer or levels == 0 else math.floor(math.log2(levels / JOINT_BINS))
    while True:
        width = grey_level * 2.0**doublings
        first = math.floor(low / width) * width - min(width, grey_level) / 2
        bins = math.floor((high - first) / width) + 1
        if bins <= JOINT_BINS:
            return first, width, bins
        doublings += 1


@cache
def _ratio_table() -> tuple[NDArray[np.int32], Floats32]:
    """Return the look-up from the leading bits of a float32 ratio to its bin, and the edges.

    Entries are lowest cell, shift, then per cell the number of edges at or below its start.
    """
    edges = (10.0 ** ratio_edges()).astype(np.float32)
    bits = edges.view(np.int32) >> _SHIFT
    starts = (np.arange(bits[0], bits[-1] + 1, dtype=np.int32) << _SHIFT).view(np.float32)
    below = np.searchsorted(edges, starts, side="right").astype(np.int32)
    header = np.array([bits[0], _SHIFT], np.int32)
    return np.concatenate([header, below]), edges
