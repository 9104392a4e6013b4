"""Loops of the search for candidates: filters, and what goes into the variance of each px.

Only `unglow.kernels.loops` imports this module; what it says about its loops holds here too. All
sums are of a fixed order, so that a px has the same bits in every window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import carray  # type: ignore[attr-defined]

from unglow.kernels.places import map_of, place_row
from unglow.kernels.splines import jit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.kernels.places import Map

    Floats = NDArray[np.float32]

_SPAN = 3


@jit
def _filter(image: Floats, taps: Floats, line: Floats, out: Floats) -> None:
    rows, cols = out.shape
    for row in range(rows):
        line[:] = 0.0
        for k in range(taps.size):
            weight, source = taps[k], image[row + k]
            for col in range(line.size):
                line[col] += weight * source[col]
        target = out[row]
        target[:] = 0.0
        for k in range(taps.size):
            weight = taps[k]
            for col in range(cols):
                target[col] += weight * line[col + k]


def filtered(
    image: Any, stride: int, taps: Any, count: int, line: Any, out: Any, rows: int, cols: int
) -> None:
    """Correlate an image with ``count`` taps along both axes.

    ``image`` is (rows + count - 1, cols + count - 1), its rows begin ``stride`` px apart; ``out``
    is (rows, cols), and ``line`` is room for (cols + count - 1,).
    """
    wide = cols + count - 1
    _filter(
        carray(image, (rows + count - 1, stride)),
        carray(taps, (count,)),
        carray(line, (wide,)),
        carray(out, (rows, cols)),
    )


@jit
def _known(value: np.float32, other: np.float32) -> np.float32:
    """Return a value, or the other one where it is not known."""
    return other if np.isnan(value) else value


@jit
def _interpolate(
    values: Floats,
    at_row: NDArray[np.int64],
    down: Floats,
    at_col: NDArray[np.int64],
    across: Floats,
    line: Floats,
    out: Floats,
) -> None:
    last_row, last_col = values.shape[0] - 1, values.shape[1] - 1
    one = np.float32(1)
    for row in range(at_row.size):
        above, below = values[at_row[row]], values[min(at_row[row] + 1, last_row)]
        for k in range(line.size):
            first, second = _known(above[k], below[k]), _known(below[k], above[k])
            line[k] = first * (one - down[row]) + second * down[row]
        col = 0
        while col < at_col.size:
            k, stop = at_col[col], col + 1
            while stop < at_col.size and at_col[stop] == k:
                stop += 1
            left, right = line[k], line[min(k + 1, last_col)]
            first, second = _known(left, right), _known(right, left)
            for n in range(col, stop):
                out[row, n] = first * (one - across[n]) + second * across[n]
            col = stop


def interpolate(
    values: Any,
    value_rows: int,
    value_cols: int,
    at_row: Any,
    down: Any,
    rows: int,
    at_col: Any,
    across: Any,
    cols: int,
    line: Any,
    out: Any,
) -> None:
    """Interpolate a lattice: row ``at_row`` and the share ``down`` of the next, columns likewise.

    ``line`` is room for (value_cols,).
    """
    _interpolate(
        carray(values, (value_rows, value_cols)),
        carray(at_row, (rows,)),
        carray(down, (rows,)),
        carray(at_col, (cols,)),
        carray(across, (cols,)),
        carray(line, (value_cols,)),
        carray(out, (rows, cols)),
    )


@jit
def _to_phases(positions: NDArray[np.float64], phases: int) -> None:
    """Replace positions by the phases nearest to them; 0 for what is not finite."""
    steps = np.float64(phases)
    for k in range(positions.size):
        position = positions[k]
        phase = np.floor((position - np.floor(position)) * steps + 0.5)
        positions[k] = phase if 0.0 <= phase < steps else 0.0


@jit
def _look_up(
    known: Map,
    window_y0: int,
    window_x0: int,
    tables: Floats,
    block: int,
    out: Floats,
    positions: NDArray[np.float64],
) -> None:
    rows, cols = out.shape
    phases = tables.shape[2]
    for row in range(rows):
        place_row(known, window_y0 + row, window_x0, cols, positions)
        x, y = positions[0], positions[1]
        _to_phases(x, phases)
        _to_phases(y, phases)
        down = (window_y0 + row) // block - window_y0 // block
        first = window_x0 // block
        col = 0
        while col < cols:
            across = (window_x0 + col) // block
            table = tables[down, across - first]
            stop = min(cols, (across + 1) * block - window_x0)
            for k in range(col, stop):
                out[row, k] = table[int(y[k]), int(x[k])]
            col = stop


def phase_factor(
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
    window_y0: int,
    window_x0: int,
    tables: Any,
    blocks_down: int,
    blocks_across: int,
    phases: int,
    block: int,
    out: Any,
    rows: int,
    cols: int,
    positions: Any,
) -> None:
    """Look up the entry of each px for its phase in pre, in the table of its block.

    Of the map see `unglow.kernels.places.map_of`. The blocks have ``block`` px and begin at
    multiples of it; the first one holds the window's first px. ``positions`` is room for (2, cols).
    """
    _look_up(
        map_of(
            matrix, knots, knot_rows, knot_cols, spacing, seams, offsets, seam_count, axis, of_pre
        ),
        window_y0,
        window_x0,
        carray(tables, (blocks_down, blocks_across, phases, phases)),
        block,
        carray(out, (rows, cols)),
        carray(positions, (2, cols)),
    )


@jit
def _far(image: Floats, row: int, col: int, distance: int) -> np.float32:
    """Largest squared difference of a px to those at a distance of 2 or 3; NaN if one has none."""
    centre = image[row, col]
    largest = np.float32(0)
    for step in range(4):
        # along the axes, and along the diagonals the whole px that are not further away
        sign_y, sign_x = 1 - 2 * (step // 2), 1 - 2 * (step % 2)
        straight = distance * sign_y
        if sign_x > 0:
            beside = image[row + straight, col] - centre
        else:
            beside = image[row, col + straight] - centre
        oblique = image[row + (distance - 1) * sign_y, col + (distance - 1) * sign_x] - centre
        for off in (beside, oblique):
            square: np.float32 = off * off
            if not square <= largest:
                largest = square
                if np.isnan(square):
                    return square
    return largest


@jit
def _shift(image: Floats, error: Floats, out: Floats) -> None:
    rows, cols = out.shape
    zero, one, half, quarter = np.float32(0), np.float32(1), np.float32(0.5), np.float32(0.25)
    for row in range(rows):
        above, here, below = image[row + 2], image[row + 3], image[row + 4]
        far = False
        for col in range(cols):
            left, centre, right = here[col + 2], here[col + 3], here[col + 4]
            up, down = above[col + 3], below[col + 3]
            across, along = right - left, down - up
            slope = (across * across + along * along) * quarter
            a, b, c, d = left - centre, right - centre, up - centre, down - centre
            a, b, c, d = a * a, b * b, c * c, d * d
            a, c = max(a, b), max(c, d)
            largest = max(a, c)
            off = error[row, col]
            far |= off > one
            short = one if off > one else off  # noqa: FURB136 (NaN stays NaN)
            short *= short
            more = max(largest - slope, zero)
            # what is missing spreads, whatever a maximum makes of it
            missing = (across + along + centre) * zero
            out[row, col] = half * (short * slope + short * short * more) + missing
        if not far:
            continue
        for col in range(cols):
            off = error[row, col]
            if not off > one or np.isnan(out[row, col]):
                continue
            # with an error of 1 or more, half the larger of slope and step
            before = np.float32(2) * out[row, col]
            total = before
            for distance in range(2, _SPAN + 1):
                part = min(off - np.float32(distance - 1), one)
                if part <= zero:
                    break
                largest = _far(image, row + _SPAN, col + _SPAN, distance)
                largest = before if largest <= before else largest  # noqa: FURB136 (likewise)
                total += part * (largest - before)
                before = largest
            out[row, col] = half * total


def squared_shift(image: Any, error: Any, out: Any, rows: int, cols: int) -> None:
    """`unglow.detection.shifts.squared_shift`; ``image`` has 3 px more on each side."""
    _shift(
        carray(image, (rows + 2 * _SPAN, cols + 2 * _SPAN)),
        carray(error, (rows, cols)),
        carray(out, (rows, cols)),
    )
