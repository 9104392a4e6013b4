"""Values on a coarse grid over post, interpolated at single px and over windows to equal bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from unglow.core.kernels import kernel
from unglow.core.shapes import reach
from unglow.core.windows import Window, grid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.core.arrays import Bools, Floats32
    from unglow.core.windows import Pixels
    from unglow.detection.section_mask import Section
    from unglow.spoilt.places import SpoiltMask
    from unglow.transform import Transform


@dataclass(frozen=True, eq=False)
class CoarseGrid:
    """Values at points of a regular grid, linear between those that are known.

    Attributes
    ----------
    values
        (ny, nx) float32; NaN where nothing is known. Of one value if it is the same everywhere.
    spacing_px
        Distance of the points.
    first_px
        x and y of the first one.
    """

    values: Floats32
    spacing_px: float = 1.0
    first_px: float = 0.0

    @classmethod
    def constant(cls, value: float) -> Self:
        """Return the same value everywhere."""
        return cls(np.full((1, 1), value, dtype=np.float32))

    @property
    def has_values(self) -> bool:
        """Whether there is a value anywhere."""
        return bool(np.isfinite(self.values).any())

    @property
    def is_flat(self) -> bool:
        """Whether the known values are the same to a hundredth, or none is known."""
        known = self.values[np.isfinite(self.values)]
        return not known.size or float(np.ptp(known)) <= 0.01 * float(known.max())

    def evaluate_window(self, window: Window) -> Floats32:
        """Values at all px of a window, ``window.shape`` float32; NaN where nothing is known.

        Beyond the outermost points theirs continue. A px has the same bits in every window. The
        rows of a constant are the same memory, which cannot be written.
        """
        if self.values.size == 1:
            row = np.full(window.shape[1], self.values[0, 0], dtype=np.float32)
            return np.broadcast_to(row, window.shape)
        rows, down = self._cells(np.arange(window.y0, window.y1), 0)
        cols, across = self._cells(np.arange(window.x0, window.x1), 1)
        out = np.empty(window.shape, dtype=np.float32)
        values = np.ascontiguousarray(self.values, dtype=np.float32)
        line = np.empty(values.shape[1], dtype=np.float32)
        across_and_down = rows, down, len(rows), cols, across, len(cols)
        kernel("interpolate")(values, *values.shape, *across_and_down, line, out)
        return out

    def evaluate(self, x: NDArray[np.intp], y: NDArray[np.intp]) -> Floats32:
        """Values at single px (N,), as `evaluate_window` gives it."""
        if self.values.size == 1:
            return np.full(len(x), self.values[0, 0], dtype=np.float32)
        rows, down = self._cells(y, 0)
        cols, across = self._cells(x, 1)
        v = self.values
        below = np.minimum(rows + 1, v.shape[0] - 1)
        right = np.minimum(cols + 1, v.shape[1] - 1)
        first = _interpolate(v[rows, cols], v[below, cols], down)
        second = _interpolate(v[rows, right], v[below, right], down)
        return _interpolate(first, second, across)

    def _cells(self, px: NDArray[np.intp], axis: int) -> tuple[NDArray[np.intp], Floats32]:
        """Return the point before each px along an axis, and the share of the next one, 0 to 1."""
        last = self.values.shape[axis] - 1
        at = np.clip((px - self.first_px) / self.spacing_px, 0, last)
        cell = np.minimum(at, max(0, last - 1)).astype(np.intp)
        return cell, (at - cell).astype(np.float32)


def _interpolate(a: Floats32, b: Floats32, part: Floats32) -> Floats32:
    """Interpolate; where only one of the two is known, it represents both."""
    a, b = np.where(np.isnan(a), b, a), np.where(np.isnan(b), a, b)
    return np.asarray(a * (1 - part) + b * part, dtype=np.float32)


BLOCK_PX = 128
"""Side of the blocks that have a level of their own, px: many times as wide as a microbe."""
_LEVEL = 2
"""Pyramid level that is read: means of 4 x 4 px, as large as a spot. On dense stain (1500 spots in
1e6 px) medians of means of 16 x 16 px, most of which hold some, gave three times the negatives."""
_LEAST_SHARE = 0.25
"""A block has a level if this share of its px has data."""
_AT_ONCE = 8
"""Rows of blocks that are read together."""
_NEAR_BLOCKS = 17
"""A block is compared with the square of this many blocks around it."""
_ON_SECTION = 0.6
"""A block is compared if this share of it is on the section."""
_LEAST_BLOCKS = 20
"""Fewer blocks on the section have no scatter to speak of."""
_DARK, _LAGS = 0.05, 8
"""The dark end of a block is this quantile of its means; its roughness is how far they are from the
mean of the four at this part of its side, in the median."""
_BEYOND, _ROUGHER = 4.6, 1.3
"""A crowd lifts a median beyond those around by so many times their scatter, and makes its block so
many times as rough as they are; somewhere in it gaps are as dark as what is around, which they are
not where all of the level is higher."""
_SIGMA_OF_MAD = 1.4826


def estimate_background(
    difference: Pixels, spoilt: SpoiltMask | None = None, section: Section | None = None
) -> CoarseGrid:
    """Return the level of the difference around each px, grey levels: medians over `BLOCK_PX`.

    They are medians of small means, those of a pyramid level, few of which hold stain. A block
    without data takes the mean of its neighbours; on a ``section``, if that is known, also one
    whose median a crowd of spots has lifted, or gaps between them would be dark sources. Means in
    places that are ``spoilt`` do not count.
    """
    level = min(_LEVEL, difference.levels - 1)
    side = BLOCK_PX >> level
    rows, cols = difference.level_shape(level)
    least = _LEAST_SHARE * min(side * side, rows * cols)
    values = np.full((max(1, -(-rows // side)), max(1, -(-cols // side))), np.nan, np.float32)
    dark, rough = np.full((2, *values.shape), np.nan, np.float32)
    for window in grid((rows, cols), (_AT_ONCE * side, max(1, cols))):
        image = difference.read(window, level)
        fine = Window(*(v << level for v in (window.y0, window.y1, window.x0, window.x1)))
        if spoilt is not None and spoilt.touches(fine):
            image = np.where(spoilt.mask_window(fine, 1 << level), np.float32(np.nan), image)
        for top in range(0, len(image), side):
            row = (window.y0 + top) // side
            values[row] = _medians(image[top : top + side], side, least)
            if section is not None:
                dark[row], rough[row] = _describe(image[top : top + side], side)
    if section is not None:
        on = section.compute_block_shares(difference.shape, BLOCK_PX) >= _ON_SECTION
        on = on[: values.shape[0], : values.shape[1]]
        values[_find_crowds(values, dark, rough, on)] = np.nan
    return CoarseGrid(_fill_gaps(values), BLOCK_PX, (BLOCK_PX - 1) / 2)


def _describe(line: Floats32, side: int) -> tuple[Floats32, Floats32]:
    """Return dark end and roughness of a row of blocks; NaN for blocks without data."""
    room = (0, side - len(line)), (0, -line.shape[1] % side)
    blocks = np.pad(line, room, constant_values=np.nan).reshape(side, -1, side).swapaxes(0, 1)
    lag = max(1, side // _LAGS)
    inner = slice(lag, -lag)
    bent = blocks[:, : -2 * lag, inner] + blocks[:, 2 * lag :, inner] - 4 * blocks[:, inner, inner]
    bent += blocks[:, inner, : -2 * lag] + blocks[:, inner, 2 * lag :]
    return _choose_ranked(blocks, _DARK), _choose_ranked(np.abs(bent), 0.5)


def _choose_ranked(stacks: Floats32, share: float) -> Floats32:
    """Return a quantile of each array of a stack, NaN left out; NaN where nothing else is."""
    ordered = np.sort(stacks.reshape(len(stacks), -1), axis=1)
    rank = np.maximum(share * (np.isfinite(ordered).sum(axis=1) - 1), 0).astype(np.intp)
    return np.asarray(ordered[np.arange(len(ordered)), rank])


def _find_crowds(levels: Floats32, dark: Floats32, rough: Floats32, on: Bools) -> Bools:
    """Return which blocks (ny, nx) on the section a crowd of spots has lifted."""
    on = on & np.isfinite(levels)
    if np.count_nonzero(on) < _LEAST_BLOCKS:
        return np.zeros_like(on)
    around, usual = (_find_usual(np.where(on, one, np.nan)) for one in (levels, rough))
    above = levels - around
    scatter = _SIGMA_OF_MAD * np.median(np.abs(above[on]))
    lifted = on & (above > _BEYOND * scatter) & (rough > _ROUGHER * usual)
    return reach(lifted & (dark <= around), lifted)


def _find_usual(values: Floats32) -> Floats32:
    """Return the median of the `_NEAR_BLOCKS` x `_NEAR_BLOCKS` blocks around each one."""
    padded = np.pad(values, _NEAR_BLOCKS // 2, constant_values=np.nan)
    near = np.lib.stride_tricks.sliding_window_view(padded, (_NEAR_BLOCKS, _NEAR_BLOCKS))
    return np.stack([_choose_ranked(row, 0.5) for row in near])


def _medians(line: Floats32, side: int, least: float) -> Floats32:
    """Medians of a row of blocks, ``side`` columns each but for the last; NaN for too few data."""
    line = np.ascontiguousarray(line, dtype=np.float32)
    out = np.empty(-(-line.shape[1] // side), dtype=np.float32)
    keys = np.empty((side, side), dtype=np.int32)
    kernel("square_medians")(line, *line.shape, side, keys, out)
    # it knows infinity, and wants half of a block
    unknown = np.logical_or.reduceat(~np.isfinite(line).all(axis=0), np.arange(len(out)) * side)
    unknown[-1] |= line.shape[1] % side != 0
    unknown |= len(line) < side
    for k in np.flatnonzero(unknown):
        block = line[:, k * side : (k + 1) * side]
        some = block[np.isfinite(block)]
        out[k] = np.median(some) if some.size >= max(1, least) else np.nan
    return out


def _fill_gaps(values: Floats32) -> Floats32:
    """Give blocks without data the mean of those around them, and so on; 0 if none has any."""
    values = values.copy()
    if not np.isfinite(values).any():
        return np.zeros_like(values)
    while np.isnan(values).any():
        wide = np.pad(values, 1, constant_values=np.nan)
        around = np.stack(
            [
                wide[1 + i : 1 + i + values.shape[0], 1 + k : 1 + k + values.shape[1]]
                for i in (-1, 0, 1)
                for k in (-1, 0, 1)
            ]
        )
        has_data = np.isfinite(around)
        count = has_data.sum(axis=0)
        mean = np.where(has_data, around, 0).sum(axis=0) / np.maximum(count, 1)
        values = np.where(np.isnan(values) & (count > 0), mean, values).astype(np.float32)
    return values


def estimate_error(transform: Transform) -> CoarseGrid:
    """Return the error of a map over post, px; the overall 95th percentile if it is one."""
    known = transform.error_grid
    return CoarseGrid.constant(transform.error_px.p95) if known is None else CoarseGrid(*known)
