"""Adding catalogued spots to a window of an image."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unglow.core.kernels import kernel
from unglow.core.windows import Window

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.phantom.catalogue import Spots

# A Gaussian is cut off where it has fallen to exp(-18) = 1.5e-8 of its peak.
CUTOFF_SIGMAS = 6.0


def boxes(
    spots: Spots, centres: NDArray[np.float64], stretch: float, shape: tuple[int, int]
) -> NDArray[np.int64]:
    """Return (N, 4) pixel boxes y0, y1, x0, x1 around spots in a frame of ``shape``.

    ``centres`` are (N, 2) positions in that frame, ``stretch`` bounds how much longer distances
    are there than in post.
    """
    reach = CUTOFF_SIGMAS * spots.sigma_long * stretch + 1.0
    low = np.floor(centres - reach[:, None]).astype(np.int64)
    high = np.ceil(centres + reach[:, None]).astype(np.int64) + 1
    limits = np.array([shape[1], shape[0]])
    low, high = np.clip(low, 0, limits), np.clip(high, 0, limits)
    return np.column_stack([low[:, 1], high[:, 1], low[:, 0], high[:, 0]])


def add_spots(
    spots: Spots,
    areas: NDArray[np.int64],
    window: Window,
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Add spots to a window, in the order of the catalogue.

    Parameters
    ----------
    spots, areas
        The catalogue and its `boxes` in the frame of the window.
    window
        The part of the frame that ``out`` covers.
    x, y
        (rows, cols) post coordinates of the pixels of the window.
    out
        (rows, cols) float64, added to in place.
    """
    x, y = (np.ascontiguousarray(v) for v in (x, y))
    hit = (areas[:, 0] < window.y1) & (areas[:, 1] > window.y0)
    hit &= (areas[:, 2] < window.x1) & (areas[:, 3] > window.x0)
    for n in np.flatnonzero(hit):
        y0, y1, x0, x1 = areas[n]
        rows = slice(max(y0, window.y0) - window.y0, min(y1, window.y1) - window.y0)
        cols = slice(max(x0, window.x0) - window.x0, min(x1, window.x1) - window.x0)
        here = [array[rows, cols] for array in (x, y, out)]
        strides = [array.strides[0] // array.itemsize for array in here]
        kernel("add_spot")(
            here[0],
            strides[0],
            here[1],
            strides[1],
            *(v[n] for v in (spots.x, spots.y, spots.peak)),
            *(v[n] for v in (spots.sigma, spots.sigma_long, spots.theta)),
            CUTOFF_SIGMAS,
            here[2],
            strides[2],
            *here[2].shape,
        )


def add_spots_at(
    spots: Spots, x: NDArray[np.float64], y: NDArray[np.float64], out: NDArray[np.float64]
) -> None:
    """Add spots to pixels that see any post points (x, y), all (rows, cols), in place."""
    if x.size == 0:
        return
    reach = CUTOFF_SIGMAS * spots.sigma_long
    hit = (spots.x > x.min() - reach) & (spots.x < x.max() + reach)
    hit &= (spots.y > y.min() - reach) & (spots.y < y.max() + reach)
    near = spots.select(hit)
    everywhere = Window.from_shape((out.shape[0], out.shape[1]))
    areas = np.tile([0, everywhere.y1, 0, everywhere.x1], (len(near), 1))
    add_spots(near, areas, everywhere, x, y, out)
