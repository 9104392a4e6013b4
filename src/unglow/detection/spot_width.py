"""Width of the spots that a search has found, whatever width it looked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unglow.core.windows import Window

if TYPE_CHECKING:
    from unglow.core.arrays import Array, Floats
    from unglow.core.windows import Pixels


MOST_SPOTS = 40
"""Spots that are measured: the most significant ones."""
LEAST_SPOTS = 5
"""Fewest spots that give a width."""
_FWHMS = 1.5 * 2.0 ** (np.arange(17) / 4)
"""Widths of the inner Gaussian that are tried, px: 1.5 to 24, so that spots of 1.3 to 18 px are
measured."""
_REACH = 48
"""How far around a spot its image is looked at, px: the wider Gaussian at 2.4 sigma."""
_OF_SPOT = 0.7686
"""Width of a Gaussian spot over that of the inner Gaussian which shows it best: 2 t^2 - 2.5 t = 1.5
for the square t of its inverse."""


def measure_width(difference: Pixels, points_xy: Floats, snr: Floats) -> float | None:
    """Measure the median full width at half maximum of the most significant spots.

    The width of a spot is that at which a Gaussian minus one of twice the width, over the noise
    that it lets through, is largest.

    Parameters
    ----------
    difference
        The image that has the spots; NaN where there are no data.
    points_xy
        (N, 2) (x, y) of the spots, px.
    snr
        (N,) signal-to-noise ratios.

    Returns
    -------
    Width, px; None for fewer than `LEAST_SPOTS` spots.
    """
    if len(points_xy) < LEAST_SPOTS:
        return None
    best = np.lexsort((*points_xy.T, -np.asarray(snr)))[:MOST_SPOTS]
    return round(float(np.median([_measure(difference, *points_xy[n]) for n in best])), 2)


def _measure(difference: Pixels, x: float, y: float) -> float:
    """Return the width of the spot at a point, px."""
    at = Window(round(y), round(y) + 1, round(x), round(x) + 1)
    window = at.grow(_REACH).clip(difference.shape)
    stamp = difference.read(window).astype(np.float64)
    stamp = np.nan_to_num(stamp - np.nanmedian(stamp))
    dy, dx = np.arange(window.y0, window.y1) - y, np.arange(window.x0, window.x1) - x
    (iy, ix), (oy, ox) = ((_weigh(dy, w), _weigh(dx, w)) for w in (_FWHMS, 2 * _FWHMS))
    noise = _multiply(iy, iy) * _multiply(ix, ix) + _multiply(oy, oy) * _multiply(ox, ox)
    noise -= 2 * _multiply(iy, oy) * _multiply(ix, ox)
    ratios = (_multiply(iy @ stamp, ix) - _multiply(oy @ stamp, ox)) / np.sqrt(noise)
    top = min(max(int(np.argmax(ratios)), 1), len(ratios) - 2)
    before, at_top, after = ratios[top - 1 : top + 2]
    slope, bend = (after - before) / 2, (after + before) / 2 - at_top
    step = float(np.clip(-slope / (2 * bend), -1, 1)) if bend < 0 else 0.0
    return float(_OF_SPOT * _FWHMS[0] * 2.0 ** ((top + step) / 4))


def _weigh(away: Array, fwhms: Floats) -> Floats:
    """Return Gaussians of widths (F,) and sum 1 at distances (N,) from their centre, (F, N)."""
    weights = np.exp(-4 * np.log(2) * (away / fwhms[:, None]) ** 2)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _multiply(a: Floats, b: Floats) -> Floats:
    """Return the scalar products of rows (F, N), (F,)."""
    return np.asarray((a * b).sum(axis=1))
