"""Estimated error of the map, and what it may make of pre: edges of the section become noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unglow.core.kernels import kernel
from unglow.detection.coarse_grid import CoarseGrid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.transform import Transform

    Floats = NDArray[np.float32]

SPAN = 3
"""Margin, px, that `predict_squared_shift` reads; greater distances count like this one."""


def estimate_error(transform: Transform) -> CoarseGrid:
    """Return the error of a map over post, px: of its field, or the overall 95th percentile."""
    field = transform.displacement
    if field is not None and field.error_px.size:
        return CoarseGrid(field.error_px, field.spacing_px, -field.spacing_px)
    return CoarseGrid.constant(transform.error_px.p95)


def predict_squared_shift(filtered: Floats, error: Floats) -> Floats:
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
