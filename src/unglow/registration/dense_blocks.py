"""Displacements of blocks on a dense grid, against a map that may already hold a field."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

from unglow.registration.block_placement import (
    HELD_OUT,
    SMALLEST_PX,
    centroids,
    dense_corners,
    fifths,
    rim_corners,
)
from unglow.registration.phase_correlation import (
    MIN_PEAK_RATIO,
    block_shifts,
    block_weights,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from unglow.core.arrays import Array, Bools, Floats, Ints
    from unglow.registration.pair import Pair
    from unglow.transform.displacement import Displacement

    Cells = Ints

TAPER_SIGMA = 0.14
"""Standard deviation, along an axis, of the squared taper of a block, as a share of its side."""
NEAR_PX = 2.0
"""Blocks within this distance of a field agree with it."""
_SLOPE = 0.02
"""Without a field, displacements of neighbours may differ by this share of their distance more."""
_LEAST_NEIGHBOURS = 3
_ISLAND_SHARE, _ISLAND_BLOCKS = 0.02, 8
"""Blocks that hang together count if they are this share of the agreeing ones, and this many."""
_PART = 1 << 13
"""Blocks whose neighbours are held at a time, which bounds the memory."""
_COLUMNS = ("post", "pre", "displacement", "peak_ratio", "cell", "corner")


@dataclass(frozen=True, slots=True)
class DenseMatches:
    """N measured blocks on a grid.

    Attributes
    ----------
    post
        (N, 2) float64 centres (x, y) of what the blocks see of the section, level-0 px.
    pre
        (N, 2) float64 measured positions, level-0 px.
    displacement
        (N, 2) float64 measured positions minus those of the global model, px.
    peak_ratio
        (N,) float64, see `block_shift`.
    cell
        (N, 2) int (column, row) on the grid.
    corner
        (N, 2) int (x, y) of the first pixel, level-0 px.
    size, step
        Side and distance of the blocks, level-0 px; along rims there may be smaller ones.
    level
        Pyramid level that they were measured on.
    """

    post: Floats
    pre: Floats
    displacement: Floats
    peak_ratio: Floats
    cell: Cells
    corner: Ints
    size: int
    step: int
    level: int = 0

    def __len__(self) -> int:
        return len(self.peak_ratio)

    @property
    def is_held_out(self) -> Bools:
        """(N,) every fifth block, spatially interleaved, which no fit may use."""
        mask: Bools = fifths(self.cell) == HELD_OUT
        return mask

    @property
    def weights(self) -> Floats:
        """(N,) inverse variances up to a factor: `block_weights`."""
        return block_weights(self.peak_ratio)

    def subtract_field(self, field: Displacement | None) -> Floats:
        """(N, 2) displacements next to a field, px; all of them if it is None."""
        return self.displacement if field is None else self.displacement - field.evaluate(self.post)

    def spread_on_grid(self, values: Floats) -> tuple[Floats, Ints]:
        """Spread (N,) or (N, K) values over the grid and a rim of one cell, NaN for no block.

        Returns
        -------
        (rows + 2, cols + 2[, K]), and the flat index of each block in it.
        """
        cell = self.cell - self.cell.min(axis=0) + 1
        cols, rows = (int(n) for n in cell.max(axis=0) + 2)
        out = np.full((rows * cols, *values.shape[1:]), np.nan)
        index = cell[:, 1] * cols + cell[:, 0]
        out[index] = values
        return out.reshape(rows, cols, *values.shape[1:]), index

    def find_agreeing(self, field: Displacement | None = None) -> Bools:
        """(N,) blocks that are near the median of the blocks around them, next to a field."""
        clear = self.peak_ratio >= MIN_PEAK_RATIO
        if not clear.any():
            return clear
        rest = self.subtract_field(field)
        middle, number = self.compute_neighbour_medians(np.where(clear[:, None], rest, np.nan))
        enough = clear & (number >= _LEAST_NEIGHBOURS)
        with np.errstate(invalid="ignore"):
            near = np.hypot(*(rest - middle).T) <= self._reach(field)
        return np.asarray(enough & near, dtype=np.bool_)

    def _reach(self, field: Displacement | None) -> float:
        """How much a displacement may change from block to block, px."""
        return NEAR_PX if field is not None else NEAR_PX + _SLOPE * self.step

    def mainland(self, agreeing: Bools, field: Displacement | None) -> Bools:
        """(N,) agreeing blocks from which one comes to many others in small steps.

        Dirt on the glass moves on its own: a few blocks of it, at the edge of the section, agree
        with each other and with nothing else.
        """
        grid, index = self.spread_on_grid(
            np.where(agreeing[:, None], self.subtract_field(field), np.nan)
        )
        (rows, cols), reach = grid.shape[:2], self._reach(field)
        # blocks are at even places of a finer grid, and between two of them is what links them
        mask = np.zeros((2 * rows - 1, 2 * cols - 1), np.uint8)
        mask[::2, ::2] = np.isfinite(grid[..., 0])
        with np.errstate(invalid="ignore"):
            mask[1::2, ::2] = np.hypot(*np.moveaxis(np.diff(grid, axis=0), -1, 0)) <= reach
            mask[::2, 1::2] = np.hypot(*np.moveaxis(np.diff(grid, axis=1), -1, 0)) <= reach
        _, labels = cv2.connectedComponents(mask, connectivity=4)
        label = labels[::2, ::2].ravel()[index]
        sizes = np.bincount(label[agreeing], minlength=int(labels.max()) + 1)
        least = max(_ISLAND_BLOCKS, _ISLAND_SHARE * np.count_nonzero(agreeing))
        return np.asarray(agreeing & (sizes >= least)[label], dtype=np.bool_)

    def replace(self, again: DenseMatches) -> DenseMatches:
        """Return these blocks with those that were measured again in their cells."""
        cells = np.concatenate([self.cell, again.cell])
        # of blocks in the same cell the last one counts
        _, last = np.unique(cells[::-1], axis=0, return_index=True)
        keep = len(cells) - 1 - np.sort(last)[::-1]
        joined: dict[str, Any] = {
            name: np.concatenate([getattr(self, name), getattr(again, name)])[keep]
            for name in _COLUMNS
        }
        return replace(self, **joined)

    def compute_neighbour_medians(self, values: Floats) -> tuple[Floats, Ints]:
        """Median (N, K) of the up to 8 blocks around each block, NaN for none; and their number."""
        middle = np.full_like(values, np.nan)
        number = np.zeros(len(values), np.int64)
        for start in range(0, len(values), _PART):  # in parts, so that memory stays put
            part = slice(start, start + _PART)
            ordered = np.sort(self.neighbours(values, part), axis=0)  # NaN comes last
            count = np.isfinite(ordered).sum(axis=0)
            low, high = (
                np.take_along_axis(ordered, np.maximum(k, 0)[None], axis=0)[0]
                for k in ((count - 1) // 2, np.minimum(count // 2, len(ordered) - 1))
            )
            middle[part] = np.where(count > 0, (low + high) / 2, np.nan)
            number[part] = count[:, 0]
        return middle, number

    def neighbours(self, values: Floats, part: slice = slice(None)) -> Floats:
        """(8, n, K) values (N, K) of the blocks around each block of a part, NaN for none."""
        grid, index = self.spread_on_grid(values)
        cols = grid.shape[1]
        flat = grid.reshape(-1, values.shape[1])
        steps = [dy * cols + dx for dy in (-1, 0, 1) for dx in (-1, 0, 1) if dy or dx]
        return np.stack([flat[index[part] + step] for step in steps])


def measure(
    pair: Pair,
    size: int,
    step: int,
    *,
    field: Displacement | None = None,
    level: int = 0,
    only: Callable[[Cells], Bools] | None = None,
) -> DenseMatches:
    """Match blocks of ``size`` px, ``step`` px apart (level-0 px), on a pyramid level.

    Parameters
    ----------
    pair
        Images and global model.
    field
        What is known of the displacement; None unless ``level`` is 0.
    only
        Marks the cells (N, 2) (column, row) of the blocks to measure; all if None.
    """
    corners, cells = dense_corners(pair, size, step, 2**level)
    groups = [(corners, cells, size)]
    if level == 0 and size >= 2 * SMALLEST_PX:  # blocks of half the side are for rims
        groups.append((*rim_corners(pair, size, step, cells), size // 2))
    parts = []
    for corners, cells, side in groups:
        chosen = slice(None) if only is None else only(cells)
        parts.append(_match_side(pair, field, corners[chosen], cells[chosen], side, level))
    joined: dict[str, Any] = {
        name: np.concatenate([part[name] for part in parts]) for name in parts[0]
    }
    return DenseMatches(**joined, size=size, step=step, level=level)


def _match_side(
    pair: Pair,
    field: Displacement | None,
    corners: Ints,
    cells: Cells,
    size: int,
    level: int,
) -> dict[str, Array]:
    """Match blocks of one side: the columns of `DenseMatches`."""
    unit = 2**level
    shifts = block_shifts(pair.select_level(level, field), corners // unit, size // unit)
    measured = np.isfinite(shifts[:, 2])
    corners, cells, shifts = corners[measured], cells[measured], shifts[measured]
    centres = centroids(pair.post_thumb, corners, size)
    pre = pair.select_level(0, field).map(centres - shifts[:, :2] * unit)
    displacement = pre - pair.select_level(0).map(centres)
    columns = centres, pre, displacement, shifts[:, 2], cells, corners
    return dict(zip(_COLUMNS, columns, strict=True))


def one_of(wanted: Cells) -> Callable[[Cells], Bools]:
    """Return a function that marks the cells (N, 2) that are among the wanted ones."""
    listed = {(c, r) for c, r in wanted.tolist()}

    def mark(cells: Cells) -> Bools:
        return np.array([(c, r) in listed for c, r in cells.tolist()], dtype=bool)

    return mark
