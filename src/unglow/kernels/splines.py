"""Loops over knots of cubic B-splines: their weights, and fits to scattered points.

Only `unglow.kernels.loops` imports this module; what it says about its loops holds here too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

import numba
import numpy as np
from numba import carray  # type: ignore[attr-defined]

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

F = TypeVar("F", bound="Callable[..., Any]")


def jit(function: F) -> F:
    """Compile a function that kernels call."""
    return cast("F", numba.njit(error_model="numpy", boundscheck=False)(function))


@jit
def cell(position: int, spacing: int, count: int) -> tuple[int, np.float64]:
    """First of the four control points of a pixel, and its fraction (0..1) past the knot."""
    inside = min(max(position, 0), spacing * (count - 3))
    first = min(inside // spacing, count - 4)
    return first, np.float64(inside - first * spacing) / np.float64(spacing)


@jit
def spline(t: np.float64) -> tuple[np.float64, np.float64, np.float64, np.float64]:
    """Return cubic B-spline weights for a fraction ``t`` in [0, 1]."""
    rest = 1.0 - t
    return (
        rest * rest * rest / 6.0,
        ((3.0 * t - 6.0) * t * t + 4.0) / 6.0,
        ((3.0 * rest - 6.0) * rest * rest + 4.0) / 6.0,
        t * t * t / 6.0,
    )


@jit
def _tie(normal: NDArray[np.float64], row: int, col: int, other: int, k: int, add: float) -> None:
    """Add to the normal equation of a control point the product with one up to 3 px away."""
    normal[other - row + 3, k - col + 3, row, col] += add


@jit
def _square(
    normal: NDArray[np.float64],
    down: tuple[float, float, float, float],
    rows: int,
    across: tuple[float, float, float, float],
    cols: int,
    factor: np.float64,
) -> None:
    """Add the sum of squares of a difference: the first ``rows`` of ``down`` times ``across``."""
    for row in range(normal.shape[2] - rows + 1):
        for col in range(normal.shape[3] - cols + 1):
            for a in range(rows * cols):
                i, k = a // cols, a % cols
                here = factor * down[i] * across[k]
                for b in range(rows * cols):
                    m, n = b // cols, b % cols
                    _tie(normal, row + i, col + k, row + m, col + n, here * down[m] * across[n])


@jit
def _penalise(
    normal: NDArray[np.float64], stiffness: np.float64, bending: np.float64, ridge: np.float64
) -> None:
    """Squares of third and of second differences, and a weak pull towards zero."""
    here, first = (1.0, 0.0, 0.0, 0.0), (1.0, -1.0, 0.0, 0.0)
    second, third = (1.0, -2.0, 1.0, 0.0), (1.0, -3.0, 3.0, -1.0)
    _square(normal, here, 1, here, 1, ridge)
    _square(normal, here, 1, second, 3, bending)
    _square(normal, first, 2, first, 2, 2.0 * bending)
    _square(normal, second, 3, here, 1, bending)
    _square(normal, here, 1, third, 4, stiffness)
    _square(normal, first, 2, second, 3, 3.0 * stiffness)
    _square(normal, second, 3, first, 2, 3.0 * stiffness)
    _square(normal, third, 4, here, 1, stiffness)


@jit
def _gather(
    points: NDArray[np.float64],
    targets: NDArray[np.float64],
    weights: NDArray[np.float64],
    spacing: int,
    normal: NDArray[np.float64],
    right: NDArray[np.float64],
) -> None:
    """Add the weighted points to the normal equations; ``right`` has a margin of 3."""
    ny, nx = normal.shape[2], normal.shape[3]
    for n in range(points.shape[0]):
        weight = weights[n]
        if weight == 0.0:
            continue
        x = min(max(points[n, 0], 0.0), np.float64(spacing * (nx - 3)))
        y = min(max(points[n, 1], 0.0), np.float64(spacing * (ny - 3)))
        col = min(int(x) // spacing, nx - 4)
        row = min(int(y) // spacing, ny - 4)
        wx = spline((x - np.float64(col * spacing)) / np.float64(spacing))
        wy = spline((y - np.float64(row * spacing)) / np.float64(spacing))
        for a in range(16):
            share = weight * wy[a // 4] * wx[a % 4]
            i, k = row + a // 4, col + a % 4
            right[0, i + 3, k + 3] += share * targets[n, 0]
            right[1, i + 3, k + 3] += share * targets[n, 1]
            for b in range(16):
                _tie(normal, i, k, row + b // 4, col + b % 4, share * wy[b // 4] * wx[b % 4])


@jit
def _times(
    normal: NDArray[np.float64], values: NDArray[np.float64], out: NDArray[np.float64]
) -> np.float64:
    """Product of the normal matrix with values that have a margin of 3; values times product.

    The innermost loop runs along a row, so that it is done for several control points at once.
    """
    total = np.float64(0.0)
    ny, nx = normal.shape[2], normal.shape[3]
    for row in range(ny):
        product = out[row + 3, 3 : nx + 3]
        product[:] = 0.0
        for i in range(7):
            given = values[row + i]
            for col in range(nx):
                here = product[col]
                here += normal[i, 0, row, col] * given[col]
                here += normal[i, 1, row, col] * given[col + 1]
                here += normal[i, 2, row, col] * given[col + 2]
                here += normal[i, 3, row, col] * given[col + 3]
                here += normal[i, 4, row, col] * given[col + 4]
                here += normal[i, 5, row, col] * given[col + 5]
                here += normal[i, 6, row, col] * given[col + 6]
                product[col] = here
        for col in range(nx):
            total += product[col] * values[row + 3, col + 3]
    return total


@jit
def _solve(
    normal: NDArray[np.float64],
    right: NDArray[np.float64],
    solution: NDArray[np.float64],
    work: NDArray[np.float64],
    most: int,
    tolerance: np.float64,
) -> None:
    """Conjugate gradients with the diagonal as preconditioner, from ``solution`` on."""
    ny, nx = normal.shape[2], normal.shape[3]
    towards, product, error = work[0], work[1], work[2]
    _times(normal, solution, product)
    before, least = 0.0, 0.0
    for row in range(3, ny + 3):
        for col in range(3, nx + 3):
            error[row, col] = right[row, col] - product[row, col]
            towards[row, col] = error[row, col] / normal[3, 3, row - 3, col - 3]
            before += error[row, col] * towards[row, col]
            least += right[row, col] * right[row, col] / normal[3, 3, row - 3, col - 3]
    least *= tolerance * tolerance
    for _ in range(most):
        if before <= least:
            return
        step = before / _times(normal, towards, product)
        after = 0.0
        for row in range(3, ny + 3):
            for col in range(3, nx + 3):
                solution[row, col] += step * towards[row, col]
                error[row, col] -= step * product[row, col]
                after += error[row, col] * error[row, col] / normal[3, 3, row - 3, col - 3]
        for row in range(3, ny + 3):
            for col in range(3, nx + 3):
                scaled = error[row, col] / normal[3, 3, row - 3, col - 3]
                towards[row, col] = scaled + after / before * towards[row, col]
        before = after


def fit_spline(
    points: Any,
    targets: Any,
    weights: Any,
    count: int,
    spacing: int,
    numbers: Any,
    most: int,
    normal: Any,
    right: Any,
    work: Any,
    solution: Any,
    rows: int,
    cols: int,
) -> None:
    """Fit control points (rows, cols) to weighted targets, both (count, 2), at points.

    ``numbers`` are what third and second differences and values count, and the tolerance;
    ``normal`` (7, 7, rows, cols), and ``right`` (2, rows + 6, cols + 6) and ``work`` (3, rows + 6,
    cols + 6), come in as zeros; ``solution`` (2, rows + 6, cols + 6) comes in as a first guess with
    a margin of zeros.
    """
    given = carray(numbers, (4,))
    matrix = carray(normal, (7, 7, rows, cols))
    sums = carray(right, (2, rows + 6, cols + 6))
    room = carray(work, (3, rows + 6, cols + 6))
    found = carray(solution, (2, rows + 6, cols + 6))
    _penalise(matrix, given[0], given[1], given[2])
    _gather(
        carray(points, (count, 2)),
        carray(targets, (count, 2)),
        carray(weights, (count,)),
        spacing,
        matrix,
        sums,
    )
    for axis in range(2):
        _solve(matrix, sums[axis], found[axis], room, most, given[3])
