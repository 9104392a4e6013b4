"""The level that a line leaves around each cell: what is smooth in the difference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unglow.photometry.sizes import CELL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.photometry.cell_moments import BinSamples

    Floats = NDArray[np.float64]

SIDE_PX = 128
"""Side of the squares whose median is a level, px; candidates are looked for above the same."""
# On a sparse lattice squares grow until they are so many cells wide.
_WIDE = 16
_LEAST = 64


def local_level(bins: BinSamples, gain: float, offset: float) -> Floats:
    """Return medians of post - (gain * pre + offset) over the squares around cells, (ny, nx).

    Each half of a square has the median of the square around it; 0 where that holds too few cells.
    """
    left = bins.post.astype(np.float64) - (gain * bins.pre.astype(np.float64) + offset)
    left[bins.count < CELL**2] = np.nan
    half = max(SIDE_PX // (CELL * bins.every), _WIDE) // 2
    level = np.zeros(left.shape)
    for row in range(0, left.shape[0], half):
        for col in range(0, left.shape[1], half):
            rows, cols = (slice(max(0, n - half // 2), n + half + half // 2) for n in (row, col))
            known = left[rows, cols]
            known = known[np.isfinite(known)]
            if len(known) >= _LEAST:
                level[row : row + half, col : col + half] = np.median(known)
    return level
