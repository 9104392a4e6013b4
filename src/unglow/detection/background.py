"""Background left in the difference: a gain or an offset that is a little wrong.

Microbes are looked for above it. Half a grey level that is left everywhere would make chance appear
on the bright side alone, and false-discovery rates worthless.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unglow.core.windows import Window, grid
from unglow.detection.coarse_grid import CoarseGrid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.core.windows import Pixels
    from unglow.spoilt.mask import SpoiltMask

BLOCK_PX = 128
"""Side of the blocks that have a level of their own, px: many times as wide as a microbe."""
_LEVEL = 2
"""Pyramid level that is read: means of 4 x 4 px, as large as a spot. On dense stain (1500 spots in
1e6 px) medians of means of 16 x 16 px, most of which hold some, gave three times the negatives."""
_LEAST_SHARE = 0.25
"""A block has a level if this share of its px has data."""
_AT_ONCE = 8
"""Rows of blocks that are read together."""


def estimate_background(difference: Pixels, spoilt: SpoiltMask | None = None) -> CoarseGrid:
    """Return the level of the difference around each px, grey levels: medians over `BLOCK_PX`.

    They are medians of small means, those of a pyramid level, few of which hold stain. A block
    without data takes the mean of its neighbours. Means in places that are ``spoilt`` do not count.
    """
    level = min(_LEVEL, difference.levels - 1)
    side = BLOCK_PX >> level
    rows, cols = difference.level_shape(level)
    least = _LEAST_SHARE * min(side * side, rows * cols)
    values = np.full((max(1, -(-rows // side)), max(1, -(-cols // side))), np.nan, np.float32)
    for window in grid((rows, cols), (_AT_ONCE * side, max(1, cols))):
        image = difference.read(window, level)
        fine = Window(*(v << level for v in (window.y0, window.y1, window.x0, window.x1)))
        if spoilt is not None and spoilt.touches(fine):
            image = np.where(spoilt.mask_window(fine, 1 << level), np.float32(np.nan), image)
        for top in range(0, len(image), side):
            row = (window.y0 + top) // side
            values[row] = _medians(image[top : top + side], side, least)
    return CoarseGrid(_fill_gaps(values), BLOCK_PX, (BLOCK_PX - 1) / 2)


def _medians(line: NDArray[np.float32], side: int, least: float) -> NDArray[np.float32]:
    """Medians of a row of blocks, ``side`` columns each but for the last; NaN for too few data."""
    blocks = np.pad(line, ((0, 0), (0, -line.shape[1] % side)), constant_values=np.nan)
    blocks = blocks.reshape(len(line), -1, side).swapaxes(0, 1).reshape(-1, len(line) * side)
    has_data = np.isfinite(blocks)
    out = np.full(len(blocks), np.nan, dtype=np.float32)
    whole = has_data.all(axis=1) & (blocks.shape[1] >= least)
    out[whole] = np.median(blocks[whole], axis=1)
    for row in np.flatnonzero(~whole):
        some = blocks[row, has_data[row]]
        if some.size >= max(1, least):
            out[row] = np.median(some)
    return out


def _fill_gaps(values: NDArray[np.float32]) -> NDArray[np.float32]:
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
