"""Streamed histogram of a difference image, mergeable in any order."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from unglow.core.archive import Counts, Saved
from unglow.core.kernels import kernel

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from unglow.core.archive import ArrayAxes
    from unglow.core.arrays import Floats, Floats32, Ints
    from unglow.photometry.joint_histogram import JointStatistics


@dataclass(eq=False, slots=True)
class DifferenceHistogram(Counts):
    """Counts of difference values; bin centres are multiples of ``step``.

    Attributes
    ----------
    low
        Centre of the first bin, in grey levels.
    step
        Width of a bin, in grey levels.
    counts
        (bins + 2,) int64: below the first bin, the bins, above the last.
    missing
        (1,) int64: NaN, where there is no difference.
    """

    PARAMETERS = (("low", (float,)), ("step", (float,)))
    ARRAYS: ClassVar[ArrayAxes] = {"counts": ("int64", "bins"), "missing": ("int64", 1)}

    low: float
    step: float
    counts: Ints
    missing: Ints = field(default_factory=lambda: np.zeros(1, np.int64))

    def __post_init__(self) -> None:
        if len(self.counts) < 3 or self.counts.min() < 0 or not self.step > 0:
            raise ValueError("no histogram has such counts, or such a step")

    @classmethod
    def create(cls, lo: float, hi: float, step: float) -> DifferenceHistogram:
        """Return an empty histogram whose bin centres, multiples of ``step``, cover lo to hi.

        Raises
        ------
        ValueError
            If the range is not finite or is upside down, or ``step`` is not positive.
        """
        if not (math.isfinite(lo) and math.isfinite(hi) and lo <= hi and step > 0):
            raise ValueError(f"no histogram from {lo} to {hi} in steps of {step}")
        first, last = math.floor(lo / step), math.ceil(hi / step)
        return cls(first * step, step, np.zeros(last - first + 3, np.int64))

    @classmethod
    def from_joint(
        cls,
        stats: JointStatistics,
        gain: float,
        offset: float,
        others: Iterable[tuple[float, float]] = (),
    ) -> DifferenceHistogram:
        """Return an empty histogram that holds every post - (gain * pre + offset) of ``stats``.

        So it does for ``others``, further gains with their offsets. The step is a power of two of
        the grey level, 1/32 of it or more, such that there are at
        most 32768 bins.
        """
        pre, post = np.nonzero(stats.joint)
        if len(pre) == 0:
            return cls.create(0, 0, stats.grey_level / 32)
        low, high = math.inf, -math.inf
        for slope, constant in ((gain, offset), *others):
            difference = stats.centres[post] - (slope * stats.centres[pre] + constant)
            # Half a bin on either axis, and as much again for what interpolation overshoots.
            margin = (1 + abs(slope)) * stats.width
            low = min(low, float(difference.min() - margin))
            high = max(high, float(difference.max() + margin))
        step = stats.grey_level / 32
        while (high - low) / step > (1 << 15) - 2:
            step *= 2
        return cls.create(low, high, step)

    def add(self, difference: Floats32) -> None:
        """Count a block (rows, cols); one instance per thread."""
        values = np.ascontiguousarray(difference, dtype=np.float32)
        start, bins = self.low - self.step / 2, len(self.counts)
        kernel("count_values")(
            values, values.size, start, self.step, self.counts, bins, self.missing
        )

    @property
    def centres(self) -> Floats:
        """Centres of the bins, (bins,), in grey levels."""
        return np.asarray(self.low + self.step * np.arange(len(self.counts) - 2), np.float64)

    @property
    def total(self) -> int:
        """Number of values, without NaN."""
        return int(self.counts.sum())

    def quantile(self, q: float) -> float:
        """Smallest bin centre that a share ``q`` of the values does not exceed; NaN if empty."""
        cumulative = np.cumsum(self.counts)
        if cumulative[-1] == 0:
            return math.nan
        rank = min(max(math.ceil(q * cumulative[-1]), 1), int(cumulative[-1]))
        return float(self._values()[np.searchsorted(cumulative, rank)])

    def median(self) -> float:
        """Return the median in grey levels: exact where values are multiples of the step."""
        return _find_weighted_median(self._values(), self.counts)

    def mad(self) -> float:
        """Return the median absolute deviation from the median, in grey levels (not scaled)."""
        away = np.abs(self._values() - self.median())
        order = np.argsort(away, kind="stable")
        return _find_weighted_median(away[order], self.counts[order])

    def _values(self) -> Floats:
        return np.asarray(self.low + self.step * np.arange(-1, len(self.counts) - 1), np.float64)


HISTOGRAM = "details/difference.histogram.npz"
"""Where the histograms of all methods are from the directory of ``scale.json``."""


def load_methods(path: Path, own: str) -> dict[str, DifferenceHistogram]:
    """Read all histograms of a file by method, as `Counts.load` does; ``own`` is the default."""
    return {name or own: one for name, one in DifferenceHistogram.load_all(path).items()}


def _find_weighted_median(values: Floats, counts: Ints) -> float:
    cumulative = np.cumsum(counts)
    total = int(cumulative[-1])
    if total == 0:
        return math.nan
    middle = np.searchsorted(cumulative, [(total + 1) // 2, total // 2 + 1])
    return float(values[middle].mean())


SIDE = 64
"""Side of a square, px; it divides the sides of all shards that are larger."""


@dataclass(eq=False, slots=True)
class BackgroundMedians(Saved):
    """Medians of squares of `SIDE` x `SIDE` px that start at the first pixel of the image.

    Attributes
    ----------
    shape
        (rows, columns) of the image, px.
    medians
        (ny, nx) float32, grey levels; squares at the end of the image are cut by it. NaN where less
        than half of a square has data.
    """

    PARAMETERS = (("side", (int,)), ("shape", (int, int)))
    ARRAYS: ClassVar[ArrayAxes] = {"medians": ("float32", "ny", "nx")}

    shape: tuple[int, int]
    medians: Floats32
    side: int = SIDE

    def __post_init__(self) -> None:
        """Refuse squares of another size, which a file of another version may hold."""
        if self.side != SIDE:
            raise ValueError(f"squares of {self.side} px")

    @classmethod
    def create(cls, shape: tuple[int, int]) -> BackgroundMedians:
        """Return squares without medians for an image of (rows, columns)."""
        grid = -(-shape[0] // SIDE), -(-shape[1] // SIDE)
        return cls(shape, np.full(grid, np.nan, np.float32))

    def add(self, difference: Floats32, origin: tuple[int, int]) -> None:
        """Take the squares of a block (rows, cols); blocks may be added from several threads.

        Parameters
        ----------
        difference
            NaN where there is no data.
        origin
            [row, col] of the first pixel in the image.

        Raises
        ------
        ValueError
            If the block leaves the image or cuts through squares.
        """
        for start, size, whole in zip(origin, difference.shape, self.shape, strict=True):
            stop = start + size
            if start < 0 or stop > whole or start % SIDE or (stop % SIDE and stop != whole):
                raise ValueError(
                    f"a block from {start} to {stop} of {whole} px cuts through squares"
                )
        block = np.ascontiguousarray(difference, dtype=np.float32)
        rows, cols = block.shape
        medians = np.empty((-(-rows // SIDE), -(-cols // SIDE)), np.float32)
        keys = np.empty((SIDE, SIDE), np.int32)
        kernel("square_medians")(block, rows, cols, SIDE, keys, medians)
        top, left = (start // SIDE for start in origin)
        self.medians[top : top + len(medians), left : left + medians.shape[1]] = medians
