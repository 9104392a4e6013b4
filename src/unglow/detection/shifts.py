"""What a map that is off may make of the filtered pre: how much it changes within the error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

SPAN = 3
"""px around a window that `squared_shift` looks at; what lies beyond counts like this distance."""
# Neighbours, rows and columns, that are new at each distance: never further than that distance.
_RINGS = (
    ((0, 1), (0, -1), (1, 0), (-1, 0)),
    ((0, 2), (0, -2), (2, 0), (-2, 0), (1, 1), (1, -1), (-1, 1), (-1, -1)),
    ((0, 3), (0, -3), (3, 0), (-3, 0), (2, 2), (2, -2), (-2, 2), (-2, -2)),
)


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
    slope = _squared_slope(filtered)
    largest = _squared_step(filtered, 0)
    short = np.minimum(error, np.float32(1))
    short *= short
    # where e is at most 1: the slope, and what the next px have beyond it
    found = short * slope + short * short * np.maximum(largest - slope, 0)
    if np.nanmax(error, initial=0) > 1:
        for distance in range(1, SPAN):
            before = np.maximum(largest, slope) if distance == 1 else largest
            largest = np.maximum(before, _squared_step(filtered, distance))
            part = np.clip(error - distance, 0, 1)
            found += part * (largest - before)
    found *= np.float32(0.5)
    return np.asarray(found, dtype=np.float32)


def _squared_slope(filtered: Floats) -> Floats:
    """Squared gradient by central differences."""
    across = _moved(filtered, 0, 1) - _moved(filtered, 0, -1)
    down = _moved(filtered, 1, 0) - _moved(filtered, -1, 0)
    return np.asarray((across * across + down * down) * np.float32(0.25), dtype=np.float32)


def _squared_step(filtered: Floats, ring: int) -> Floats:
    """Largest squared difference to the neighbours of a ring."""
    centre = _moved(filtered, 0, 0)
    largest = np.zeros_like(centre)
    for rows, cols in _RINGS[ring]:
        np.maximum(largest, np.abs(_moved(filtered, rows, cols) - centre), out=largest)
    return np.asarray(largest * largest, dtype=np.float32)


def _moved(filtered: Floats, rows: int, cols: int) -> Floats:
    height, width = filtered.shape
    return filtered[SPAN + rows : height - SPAN + rows, SPAN + cols : width - SPAN + cols]
