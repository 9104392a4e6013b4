"""Folding: bounds of how a field changes areas, which show whether it folds or pinches a section.

Bounds are pairs (low, high), stacked along the first axis; sums and products of them are those of
interval arithmetic.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from unglow.transform import jacobians

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.transform.displacement import Displacement

    Floats = NDArray[np.float64]

_INSERTIONS = 2
"""Times that knots are inserted: each quarters what the bounds are too wide by."""
_BAND = 32
"""Rows of control points at a time, which bounds the memory."""


def pinch(field: Displacement, matrix: Floats) -> tuple[float, float]:
    """Bounds of the area ratio of the whole map over that of the matrix alone.

    They hold everywhere, not only at samples: between knots, a derivative of the spline lies
    between the extremes of its own control points. These are made denser by knot insertion, so that
    little is lost. A lower bound above 0 proves that nothing folds. (A homography counts with its
    derivatives at the middle of each of these small cells.)
    """
    smooth = field.smooth
    bounds = [
        _pinch_of(
            replace(smooth, coefficients=smooth.coefficients[:, first : first + _BAND + 3]),
            matrix,
            first * smooth.spacing_px,
        )
        for first in range(0, smooth.coefficients.shape[1] - 3, _BAND)
    ]
    lows, highs = zip(*bounds, strict=True)
    return float(np.min(lows)), float(np.max(highs))


def _pinch_of(band: Displacement, matrix: Floats, top: int) -> tuple[float, float]:
    """Bounds in the cells of some rows of control points, the first beginning at ``top`` px."""
    fine = band
    for _ in range(_INSERTIONS):
        if fine.spacing_px % 2 == 0:
            _, ny, nx = fine.coefficients.shape
            frame = (ny - 3) * fine.spacing_px + 1, (nx - 3) * fine.spacing_px + 1
            fine = fine.finer(frame)
    c, spacing = fine.coefficients, fine.spacing_px
    _, ny, nx = c.shape
    # bounds of the four derivatives in each cell between knots: [component][axis][low, high]
    slopes = [
        [_hull(np.diff(c[k], axis=1 - axis) / spacing, 4 - axis, 3 + axis) for axis in range(2)]
        for k in range(2)
    ]
    row, col = np.indices((ny - 3, nx - 3))
    middle = (np.column_stack([col.ravel(), row.ravel()]) + 0.5) * spacing + [0, top]
    inverse = np.asarray(np.linalg.inv(jacobians(matrix, middle)), dtype=np.float64)
    inverse = inverse.reshape(ny - 3, nx - 3, 2, 2)
    ratio = [
        [
            _times(inverse[..., i, 0], slopes[0][j]) + _times(inverse[..., i, 1], slopes[1][j])
            for j in range(2)
        ]
        for i in range(2)
    ]
    for k in range(2):
        ratio[k][k] = ratio[k][k] + 1.0
    straight, crossed = _product(ratio[0][0], ratio[1][1]), _product(ratio[0][1], ratio[1][0])
    return float((straight[0] - crossed[1]).min()), float((straight[1] - crossed[0]).max())


def _hull(values: Floats, rows: int, cols: int) -> Floats:
    """Least and greatest of the control points of each cell, (2, rows, cols)."""
    windows = np.lib.stride_tricks.sliding_window_view(values, (rows, cols))
    return np.stack([windows.min(axis=(2, 3)), windows.max(axis=(2, 3))])


def _times(factor: Floats, interval: Floats) -> Floats:
    both = factor * interval
    return np.stack([both.min(axis=0), both.max(axis=0)])


def _product(one: Floats, other: Floats) -> Floats:
    four = (one[:, None] * other[None]).reshape(4, *one.shape[1:])
    return np.stack([four.min(axis=0), four.max(axis=0)])
