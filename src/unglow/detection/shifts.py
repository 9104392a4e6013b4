"""What a map that is off may make of the filtered pre: how much it changes within the error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unglow.core.kernels import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

SPAN = 3
"""px around a window that `squared_shift` looks at; what lies beyond counts like this distance."""


def squared_shift(filtered: Floats, error: Floats) -> Floats:
    """Return the expected square of the change that an error of the map makes.

    A shift by e in a random direction changes a slope g by e g / sqrt(2) (root mean square), and by
    e g at most: half the square of the largest change within e is what to expect. On ridges and
    peaks, where there is no slope, the change grows with the square of e.

    Parameters
    ----------
    filtered
        (rows + 2 `SPAN`, cols + 2 `SPAN`) float32, filtered pre; NaN where there is none.
    error
        (rows, cols) float32: estimated length of the error, px.

    Returns
    -------
    (rows, cols) float32, grey levels of pre squared; NaN where a px that is looked at has no value.
    """
    image, off = (np.ascontiguousarray(a, dtype=np.float32) for a in (filtered, error))
    out = np.empty(off.shape, dtype=np.float32)
    kernel("squared_shift")(image, off, out, *out.shape)
    return out
