"""Adding catalogued spots to a window of an image."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from unglow.phantom.texture import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.blocks import Window
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
    hit = (areas[:, 0] < window.y1) & (areas[:, 1] > window.y0)
    hit &= (areas[:, 2] < window.x1) & (areas[:, 3] > window.x0)
    for n in np.flatnonzero(hit):
        y0, y1, x0, x1 = areas[n]
        rows = slice(max(y0, window.y0) - window.y0, min(y1, window.y1) - window.y0)
        cols = slice(max(x0, window.x0) - window.x0, min(x1, window.x1) - window.x0)
        _add_spot(
            x[rows, cols],
            y[rows, cols],
            (spots.x[n], spots.y[n], spots.peak[n]),
            (spots.sigma[n], spots.sigma_long[n], spots.theta[n]),
            out[rows, cols],
        )


@compiled
def _add_spot(
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    place: tuple[float, float, float],
    form: tuple[float, float, float],
    out: NDArray[np.float64],
) -> None:
    cx, cy, peak = place
    sigma, sigma_long, theta = form
    ux, uy = math.cos(theta) / sigma_long, math.sin(theta) / sigma_long
    vx, vy = -math.sin(theta) / sigma, math.cos(theta) / sigma
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            dx, dy = x[i, j] - cx, y[i, j] - cy
            along, across = ux * dx + uy * dy, vx * dx + vy * dy
            q = along * along + across * across
            if q < CUTOFF_SIGMAS * CUTOFF_SIGMAS:
                out[i, j] += peak * math.exp(-0.5 * q)
