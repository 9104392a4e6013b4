"""Moments of small cells of co-registered pixels, a sample of them from all over the section.

Means of cells are nearly free of the noise that bends every fit to single pixels, and variances
within cells show how large that noise is. A cell's moments come from its own pixels alone, added up
in one order: how the image is cut into blocks cannot change a byte.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from unglow.core.archive import Saved
from unglow.core.kernels import kernel, pixel_type, select_type
from unglow.memory import CELL, CELLS

if TYPE_CHECKING:
    from unglow.core.archive import ArrayAxes
    from unglow.core.arrays import Array, Bools, Floats, Floats32


# Cells worked on at a time, which bounds the memory.
_AT_A_TIME = 1 << 14


@dataclass(eq=False, slots=True)
class CellMoments(Saved):
    """Moments of cells of 4 x 4 px (`unglow.memory.CELL`) on a regular lattice in the post frame.

    The lattice keeps one cell of each ``every`` x ``every``, the least that leaves at most
    `unglow.memory.CELLS` of them.
    A pixel is usable if both images have data there and neither is at its image's maximum
    (saturated, or as good as). Values are NaN where a cell has no usable pixel.

    Attributes
    ----------
    shape
        (rows, columns) of the post image, px.
    every
        Step of the lattice, in cells.
    tops
        Largest value of post and of pre.
    count
        (ny, nx) float32: usable pixels, 0 to 16.
    post, pre
        (ny, nx) float32: means over the usable pixels, grey levels.
    post_var, pre_var, cov
        (ny, nx) float32: population variances and covariance within the cell, grey levels^2.
    gradient
        (ny, nx) float32: mean of gx^2 + gy^2 of aligned pre, by central differences inside the
        cell, (grey levels / px)^2, noise included; NaN where a direction has none.
    """

    PARAMETERS = (("shape", (int, int)), ("every", (int,)), ("tops", (float, float)))
    ARRAYS: ClassVar[ArrayAxes] = dict.fromkeys(
        ("count", "post", "pre", "post_var", "pre_var", "cov", "gradient"), ("float32", "ny", "nx")
    )
    LEVEL = 1  # noisy numbers: it saves as much as 6, in a third of the time

    shape: tuple[int, int]
    every: int
    tops: tuple[float, float]
    count: Floats32
    post: Floats32
    pre: Floats32
    post_var: Floats32
    pre_var: Floats32
    cov: Floats32
    gradient: Floats32

    @classmethod
    def create(cls, shape: tuple[int, int], tops: tuple[float, float]) -> CellMoments:
        """Return a lattice without pixels.

        Parameters
        ----------
        shape
            (rows, columns) of the post image, px; it alone decides where cells lie.
        tops
            Largest value of post and of pre, grey levels.
        """
        every = 1
        while np.prod([_cells(n, every) for n in shape]) > CELLS:
            every += 1
        grid = _cells(shape[0], every), _cells(shape[1], every)
        values = (np.full(grid, np.nan, np.float32) for _ in list(cls.ARRAYS)[1:])
        return cls(shape, every, tops, np.zeros(grid, np.float32), *values)

    def add(self, post: Array, pre: Floats32, origin: tuple[int, int] = (0, 0)) -> None:
        """Take the cells of one pair of blocks; blocks may be added from several threads at once.

        Parameters
        ----------
        post, pre
            (rows, cols): post in its stored dtype, aligned pre as float32 with NaN where it has
            no data.
        origin
            [row, col] of the first pixel in the post image.

        Raises
        ------
        ValueError
            If the blocks differ in shape, leave the image, or cut through cells.
        """
        if post.ndim != 2 or post.shape != pre.shape:
            raise ValueError(f"post {post.shape} and pre {pre.shape} are not blocks of one shape")
        step = CELL * self.every
        spans = [
            _span(start, size, whole, self.every)
            for start, size, whole in zip(origin, post.shape, self.shape, strict=True)
        ]
        (top, bottom), (left, right) = spans
        if right <= left:
            return
        row, col = (
            _first(self.every) + begin * step - at
            for begin, at in zip((top, left), origin, strict=True)
        )
        signal, pre = select_type(post), np.ascontiguousarray(pre, np.float32)
        images = signal, pixel_type(signal.dtype), pre, signal.shape[1]
        tops, rows = np.array(self.tops, np.float64), max(1, _AT_A_TIME // (right - left))
        for begin in range(top, bottom, rows):
            end = min(bottom, begin + rows)
            out = np.empty((len(self.ARRAYS), end - begin, right - left), np.float32)
            first = row + (begin - top) * step
            kernel("cell_moments")(*images, first, col, step, tops, out, *out.shape[1:])
            for name, values in zip(self.ARRAYS, out, strict=True):
                getattr(self, name)[begin:end, left:right] = values

    def exclude(self, cells: Bools) -> CellMoments:
        """Return the same moments without those of some cells, (ny, nx)."""
        return replace(self, count=np.where(cells, np.float32(0), self.count))

    @property
    def centres_xy(self) -> Floats:
        """Centres of the cells in post, (ny * nx, 2) (x, y) px, in row order."""
        ny, nx = self.count.shape
        first = _first(self.every) + (CELL - 1) / 2
        y, x = np.meshgrid(
            *(first + CELL * self.every * np.arange(n) for n in (ny, nx)), indexing="ij"
        )
        return np.stack([x.ravel(), y.ravel()], axis=1)


def _first(every: int) -> int:
    """First row and column of the first cell: the middle one of ``every``."""
    return CELL * (every // 2)


def _cells(side: int, every: int) -> int:
    """Return how many complete cells of the lattice are on a side, px."""
    room = side - _first(every) - CELL
    return 0 if room < 0 else room // (CELL * every) + 1


def _span(start: int, size: int, whole: int, every: int) -> tuple[int, int]:
    """First and last + 1 of the lattice's cells that are in a block, along one axis."""
    stop = start + size
    if start < 0 or stop > whole or start % CELL or (stop % CELL and stop != whole):
        raise ValueError(f"a block from {start} to {stop} of {whole} px cuts through cells")
    step = CELL * every
    begin, end = (max(0, -((_first(every) - at) // step)) for at in (start, stop))
    return begin, min(end, _cells(whole, every))
