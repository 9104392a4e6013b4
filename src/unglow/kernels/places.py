"""Where a row of px of post falls in pre: matrix, field and strips.

Only other modules of loops import this one; what `unglow.kernels.loops` says about them holds here
too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import carray  # type: ignore[attr-defined]

from unglow.kernels.splines import cell, jit, spline

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Map = tuple[Floats, Floats, int, Floats, Floats, int, int]
    """Matrix, control points, their spacing, seams and offsets of strips, axis, of pre or not."""


@jit
def _cubic(
    knots: NDArray[np.float64],
    row: int,
    col: int,
    w: tuple[np.float64, np.float64, np.float64, np.float64],
) -> tuple[np.float64, np.float64, np.float64, np.float64]:
    """Powers 0 to 3 of the fraction along a row, between two knots."""
    a, b, c, d = knots[row], knots[row + 1], knots[row + 2], knots[row + 3]
    c0 = (w[0] * a[col] + w[1] * b[col]) + (w[2] * c[col] + w[3] * d[col])
    c1 = (w[0] * a[col + 1] + w[1] * b[col + 1]) + (w[2] * c[col + 1] + w[3] * d[col + 1])
    c2 = (w[0] * a[col + 2] + w[1] * b[col + 2]) + (w[2] * c[col + 2] + w[3] * d[col + 2])
    c3 = (w[0] * a[col + 3] + w[1] * b[col + 3]) + (w[2] * c[col + 3] + w[3] * d[col + 3])
    return (
        (c0 + 4.0 * c1 + c2) / 6.0,
        (c2 - c0) / 2.0,
        (c0 - 2.0 * c1 + c2) / 2.0,
        (c3 - c0 + 3.0 * (c1 - c2)) / 6.0,
    )


@jit
def _bend(
    knots: NDArray[np.float64],
    spacing: int,
    row: int,
    first_col: int,
    cols: int,
    positions: NDArray[np.float64],
) -> None:
    """Add the displacements of a row of pixels to their positions; ``row`` and cols are of post."""
    count = knots.shape[2]
    last = spacing * (count - 3)
    per_px = 1.0 / np.float64(spacing)
    first_row, t = cell(row, spacing, knots.shape[1])
    down = spline(t)
    col = 0
    while col < cols:  # from knot to knot, the field is one cubic along the row
        first, t = cell(first_col + col, spacing, count)
        start = first * spacing - first_col
        stop = cols if first == count - 4 else max(min(start + spacing, cols), col + 1)
        for axis in range(2):
            c0, c1, c2, c3 = _cubic(knots[axis], first_row, first, down)
            for k in range(col, stop):
                t = np.float64(min(max(k, -first_col), last - first_col) - start) * per_px
                positions[axis, k] += ((c3 * t + c2) * t + c1) * t + c0
        col = stop


@jit
def _step(
    seams: NDArray[np.float64],
    offsets: NDArray[np.float64],
    axis: int,
    of_pre: int,
    row: int,
    first_col: int,
    cols: int,
    positions: NDArray[np.float64],
) -> None:
    """Add the displacements of strips to a row of positions that a field has displaced."""
    last = offsets.shape[0] - 1
    strip = 0
    for col in range(cols):
        t = np.float64(row if axis == 1 else first_col + col)
        if of_pre == 1:
            t = positions[axis, col]
        # from px to px the strip hardly ever changes
        while strip < last and t >= seams[strip]:
            strip += 1
        while strip > 0 and t < seams[strip - 1]:
            strip -= 1
        positions[0, col] += offsets[strip, 0]
        positions[1, col] += offsets[strip, 1]


@jit
def _place(
    matrix: NDArray[np.float64],
    row: int,
    first_col: int,
    cols: int,
    positions: NDArray[np.float64],
) -> None:
    """Where the matrix puts a row of pixels of post."""
    affine = matrix[2, 0] == 0.0 and matrix[2, 1] == 0.0
    y = np.float64(row)
    au, av, aw = matrix[0, 0], matrix[1, 0], matrix[2, 0]
    bu = matrix[0, 1] * y + matrix[0, 2]
    bv = matrix[1, 1] * y + matrix[1, 2]
    bw = matrix[2, 1] * y + matrix[2, 2]
    for col in range(cols):
        x = np.float64(first_col + col)
        positions[0, col] = au * x + bu
        positions[1, col] = av * x + bv
    if affine:
        return
    for col in range(cols):
        w = aw * np.float64(first_col + col) + bw
        inverse = 1.0 / w if w > 0.0 else np.nan
        positions[0, col] *= inverse
        positions[1, col] *= inverse


@jit
def map_of(
    matrix: Any,
    knots: Any,
    knot_rows: int,
    knot_cols: int,
    spacing: int,
    seams: Any,
    offsets: Any,
    seam_count: int,
    axis: int,
    of_pre: int,
) -> Map:
    """Put together what kernels are told of a map, as `unglow.warp.map_arguments` gives it.

    A ``spacing`` of 0 means that there is no field, and ``knots`` is not looked at. Strips, if
    there are seams, lie across ``axis`` (0 for x) of post, or of pre if ``of_pre`` is 1.
    """
    return (
        carray(matrix, (3, 3)),
        carray(knots, (2, knot_rows, knot_cols)),
        spacing,
        carray(seams, (seam_count,)),
        carray(offsets, (seam_count + 1, 2)),
        axis,
        of_pre,
    )


@jit
def place_row(
    known: Map, row: int, first_col: int, cols: int, positions: NDArray[np.float64]
) -> None:
    """Fill ``positions``, (2, cols) x and y in pre, for the px of a row of post."""
    matrix, knots, spacing, seams, offsets, axis, of_pre = known
    _place(matrix, row, first_col, cols, positions)
    if spacing > 0:
        _bend(knots, spacing, row, first_col, cols, positions)
    if len(seams) > 0:
        _step(seams, offsets, axis, of_pre, row, first_col, cols, positions)
