"""The part of a slide that is measured: windows spread evenly over its frame.

They hold as many cells as the estimators take, so more would cost time and add nothing. Put side
by side they are an image of their own, the mosaic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.windows import Window
from unglow.photometry.cell_moments import CellMoments

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


"""Sizes that results and memory of slides depend on."""

BLOCK = 256
"""Side of the blocks that residual shifts are measured on, px."""
WINDOW, ACROSS = 512, 8
"""Slides are measured in windows of this side, px, at most this many across and down the frame."""
OVERVIEW = 512
"""No side of an overview is longer, px."""
OVERVIEWS_PX = 1 << 22
"""Those of all markers have no more px than this together, for one of three kinds."""
ALIGNED_ROWS = 512
"""A background is aligned this many rows at a time, of which there is a copy as float32."""
COMPARED = 1024
"""Cycles are compared in windows of this side, px."""

PART_MPX = 12_000.0
"""Million px of all channels in a part, about: 15 minutes on two cores."""
PART_WINDOW = 2048
"""Parts begin and end at multiples of this, px."""


def bands_of(shape: tuple[int, int], channels: int) -> list[range]:
    """Return the rows of the parts of a slide of (rows, columns); none if it is made in one job."""
    count = math.ceil(shape[0] * shape[1] / 1e6 * channels / PART_MPX)
    windows = -(-shape[0] // PART_WINDOW)
    count = min(count, windows)
    starts = [n * windows // count * PART_WINDOW for n in range(count)]
    ends = [*starts[1:], shape[0]]
    return [range(*ends_) for ends_ in zip(starts, ends, strict=True)] if count > 1 else []


@dataclass(frozen=True, slots=True)
class Sample:
    """Windows of a slide.

    Attributes
    ----------
    shape
        (rows, columns) of the slide.
    rows, cols
        First rows and columns of the windows, multiples of `WINDOW` px.
    """

    shape: tuple[int, int]
    rows: tuple[int, ...]
    cols: tuple[int, ...]

    @classmethod
    def of(cls, shape: tuple[int, int]) -> Sample:
        """Return the windows of a slide of (rows, columns): all there are, or 8 x 8."""
        return cls(shape, *(_starts(side) for side in shape))

    @property
    def extent(self) -> tuple[int, int]:
        """Rows and columns of the mosaic."""
        rows, cols = (
            sum(min(WINDOW, side - start) for start in starts)
            for side, starts in zip(self.shape, (self.rows, self.cols), strict=True)
        )
        return rows, cols

    @property
    def windows(self) -> list[tuple[Window, tuple[int, int]]]:
        """Windows in row order, each with [row, col] of its first px in the mosaic."""
        return [
            (Window(y, y + WINDOW, x, x + WINDOW).clip(self.shape), (i * WINDOW, j * WINDOW))
            for i, y in enumerate(self.rows)
            for j, x in enumerate(self.cols)
        ]

    def in_slide(self, points_xy: Floats) -> Floats:
        """Return where points (N, 2) (x, y) of the mosaic lie in the slide."""
        starts = np.array(self.cols), np.array(self.rows)
        moved = [
            of_axis[(at // WINDOW).astype(np.intp)] + at % WINDOW
            for of_axis, at in zip(starts, points_xy.T, strict=True)
        ]
        return np.column_stack(moved).astype(np.float64)


def _starts(side: int) -> tuple[int, ...]:
    """Return where windows begin along a side, px."""
    count = -(-side // WINDOW)
    few = min(count, ACROSS)
    return tuple((2 * k + 1) * count // (2 * few) * WINDOW for k in range(few))


@dataclass(eq=False, slots=True)
class SampledCells(CellMoments):
    """Cells of the mosaic, with their places in the slide, (cells, 2) (x, y)."""

    places: Floats = field(default_factory=lambda: np.zeros((0, 2)))

    @classmethod
    def placed(cls, cells: CellMoments, sample: Sample) -> SampledCells:
        """Return the cells of a mosaic where they lie in the slide."""
        places = sample.in_slide(cells.centres_xy)
        return cls(sample.shape, cells.every, cells.tops, **cells.arrays, places=places)

    @property
    def centres_xy(self) -> Floats:
        """Centres of the cells in the slide, in row order."""
        return self.places
