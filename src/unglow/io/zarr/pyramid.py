"""One pyramid step in the stored dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.windows import halve

if TYPE_CHECKING:
    from numpy.typing import NDArray

STRIP = 256
"""Rows taken at a time, px: the temporaries stay in cache and far below the size of a shard."""


def halve_stored(block: NDArray[Any]) -> NDArray[Any]:
    """Average 2 x 2 px and keep the dtype; an odd last row or column is dropped.

    Parameters
    ----------
    block
        (rows, cols) of a stored dtype.

    Returns
    -------
    (rows // 2, cols // 2) of the same dtype. Integers are rounded half to even. Floating pixels are
    averaged in float32 and ignore NaN; the mean of four NaN is NaN.
    """
    out = np.empty((block.shape[0] // 2, block.shape[1] // 2), dtype=block.dtype)
    integer = np.issubdtype(block.dtype, np.integer)
    for top in range(0, out.shape[0], STRIP // 2):
        strip = block[2 * top : 2 * top + STRIP]
        rows = slice(top, top + STRIP // 2)
        if not integer:
            out[rows] = halve(strip)
        elif block.dtype.itemsize <= 2:
            # Sums of four are below 2**24, so float32 holds them exactly.
            np.rint(halve(strip), out=out[rows], casting="unsafe")
        else:
            out[rows] = _halve_wide(strip)
    return out


def _halve_wide(block: NDArray[Any]) -> NDArray[np.int64]:
    """Average 2 x 2 px of 32-bit integers exactly, half to even."""
    rows, cols = (n // 2 * 2 for n in block.shape)
    quads = (block[i:rows:2, j:cols:2].astype(np.int64) for i in (0, 1) for j in (0, 1))
    total = sum(quads, np.zeros((), dtype=np.int64))
    mean, rest = total >> 2, total & 3
    mean += (rest == 3) | ((rest == 2) & (mean & 1 == 1))
    return np.asarray(mean)
