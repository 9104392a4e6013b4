"""What is left of the background in the difference: a gain or an offset that is a little wrong.

Microbes are looked for above it. Half a grey level that is left everywhere would make chance appear
on the bright side alone, and false-discovery rates worthless.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unglow.core.windows import Window
from unglow.detection.coarse_grid import Lattice

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.core.windows import Pixels

BLOCK_PX = 128
"""Side of the blocks that have a level of their own, px."""
_LEVEL = 4
_LEAST_SHARE = 0.25
# Rows of blocks that are read together: of the usual level, those of a chunk.
_AT_ONCE = 64


class Background(Lattice):
    """Level of the difference around each px, grey levels."""

    @classmethod
    def of(cls, difference: Pixels) -> Background:
        """Take medians of small means: those of a pyramid level, over blocks of `BLOCK_PX`.

        What is stained is in few of the means. A block without data takes part of its neighbours.
        """
        level = min(_LEVEL, difference.levels - 1)
        side = BLOCK_PX >> level
        rows, cols = difference.level_shape(level)
        least = _LEAST_SHARE * min(side * side, rows * cols)
        values = np.full((max(1, -(-rows // side)), max(1, -(-cols // side))), np.nan, np.float32)
        for top in range(0, len(values), _AT_ONCE):
            stop = min(top + _AT_ONCE, len(values))
            band = Window(top * side, min(stop * side, rows), 0, cols)
            image = difference.read(band, level)
            for row in range(top, stop):
                line = image[(row - top) * side : (row - top + 1) * side]
                values[row] = _medians(line, side, least)
        return cls(_filled(values), BLOCK_PX, (BLOCK_PX - 1) / 2)


def _medians(line: NDArray[np.float32], side: int, least: float) -> NDArray[np.float32]:
    """Medians of the blocks of a row of them, ``side`` columns each, of which the last may be cut.

    NaN for a block that has data in too few px.
    """
    blocks = np.pad(line, ((0, 0), (0, -line.shape[1] % side)), constant_values=np.nan)
    blocks = blocks.reshape(len(line), -1, side).swapaxes(0, 1).reshape(-1, len(line) * side)
    known = np.isfinite(blocks)
    out = np.full(len(blocks), np.nan, dtype=np.float32)
    whole = known.all(axis=1) & (blocks.shape[1] >= least)
    out[whole] = np.median(blocks[whole], axis=1)
    for row in np.flatnonzero(~whole):
        some = blocks[row, known[row]]
        if some.size >= max(1, least):
            out[row] = np.median(some)
    return out


def _filled(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Give blocks without data the mean of those around them, and so on outwards; 0 if none has."""
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
        known = np.isfinite(around)
        count = known.sum(axis=0)
        mean = np.where(known, around, 0).sum(axis=0) / np.maximum(count, 1)
        values = np.where(np.isnan(values) & (count > 0), mean, values).astype(np.float32)
    return values
