"""Loops over what stands out of an image: px above a level, and which of them touch.

Only `unglow.kernels.loops` imports this module; what it says about its loops holds here too. A run
is what a row has of neighbouring px above the level: (row, first column, column after the last).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba import carray  # type: ignore[attr-defined]

from unglow.kernels.splines import jit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int32]


@jit
def _count(image: NDArray[np.float32], level: np.float32) -> int:
    count = 0
    for row in range(image.shape[0]):
        line = image[row]
        count += line[0] > level
        for col in range(1, line.size):
            count += (line[col] > level) & (not line[col - 1] > level)
    return count


def count_runs(image: Any, rows: int, cols: int, level: Any, count: Any) -> None:
    """Count the runs of an image above a level."""
    carray(count, (1,))[0] = _count(carray(image, (rows, cols)), carray(level, (1,))[0])


@jit
def _root(parents: Ints, run: int) -> int:
    while parents[run] != run:
        parents[run] = parents[parents[run]]
        run = parents[run]
    return run


@jit
def _find(image: NDArray[np.float32], level: np.float32, runs: Ints, parents: Ints) -> None:
    """Fill in runs, and for each one an earlier run, or itself, that it is connected with."""
    before, begin = 0, 0
    for row in range(image.shape[0]):
        line = image[row]
        now, col = begin, 0
        while col < line.size:
            if not line[col] > level:
                col += 1
                continue
            first = col
            while col < line.size and line[col] > level:
                col += 1
            runs[now, 0], runs[now, 1], runs[now, 2] = row, first, col
            parents[now] = now
            now += 1
        above = before
        for run in range(begin, now):
            # runs of the row above that end before this one begins touch no later one either
            while above < begin and runs[above, 2] < runs[run, 1]:
                above += 1
            other = above
            while other < begin and runs[other, 1] <= runs[run, 2]:
                a, b = _root(parents, run), _root(parents, other)
                parents[max(a, b)] = min(a, b)
                other += 1
        before, begin = begin, now


@jit
def _number(parents: Ints) -> None:
    """Replace what each run is connected with by the number of its component."""
    count = 0
    for run in range(parents.size):
        if parents[run] == run:
            parents[run] = -count - 1
            count += 1
        else:
            # the run before has its number already
            parents[run] = parents[parents[run]]
    for run in range(parents.size):
        parents[run] = -parents[run] - 1


def connect_runs(
    image: Any, rows: int, cols: int, level: Any, runs: Any, labels: Any, count: int
) -> None:
    """Find the ``count`` runs (count, 3), and number the components in the order of their first px.

    Px touch across corners as well.
    """
    numbers = carray(labels, (count,))
    _find(carray(image, (rows, cols)), carray(level, (1,))[0], carray(runs, (count, 3)), numbers)
    _number(numbers)


def copy_runs(
    image: Any, rows: int, cols: int, runs: Any, moves: Any, count: int, out: Any, width: int
) -> None:
    """Copy runs to places of another image, ``width`` px wide, moved by (rows, columns) each."""
    source, wanted, by = (
        carray(image, (rows, cols)),
        carray(runs, (count, 3)),
        carray(moves, (count, 2)),
    )
    target = carray(out, (1,))
    for run in range(count):
        row = wanted[run, 0]
        start = (row + by[run, 0]) * width + by[run, 1]
        for col in range(wanted[run, 1], wanted[run, 2]):
            target[start + col] = source[row, col]
