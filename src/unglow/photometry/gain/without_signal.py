"""Which cells have no signal, given the residuals of a fit: a mixture of distributions.

In units of its noise, the residual of a cell is normal if it has no signal. With signal it is that
plus something positive: log-uniform within each of some octaves, whose shares are free, so that
signal may have any distribution (the flanks of a cell give each octave as much area). And a few
residuals are anything. (Dempster, Laird and Rubin 1977, J. R. Statist. Soc. B 39, 1.)
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from unglow.core.arrays import Floats


_FIRST, _LAST, _STEP = -8.0, 40.0, 0.02
"""Residuals are counted in steps from the first to the last; those beyond are in the ends."""
_FAINTEST, _OCTAVES = 0.5, 6
"""Faintest signal that differs from none, and octaves above it; brighter signal is one part."""
_POINTS = 16
"""An octave is the mean of this many brightnesses."""
_STEPS = 10
"""Steps of the shares each time: they cost nothing, since residuals are counted."""


def first_shares() -> Floats:
    """Return the shares to begin with: no signal, octaves, brighter signal, anything."""
    count = _OCTAVES + 3
    return np.array([0.7, *[0.3 / (count - 1)] * (count - 1)])


def weigh(residuals: Floats, shares: Floats) -> tuple[Floats, Floats]:
    """Return how likely each cell has no signal, 0 to 1, and better shares of the parts.

    Parameters
    ----------
    residuals
        (N,) in units of the noise of each cell.
    shares
        (9,) as from `first_shares`, or from the last call.
    """
    parts = _parts()
    count = parts.shape[1]
    at = np.clip(np.rint((residuals - _FIRST) / _STEP), 0, count - 1).astype(np.intp)
    counts = np.bincount(at, minlength=count) / max(1, len(at))
    for _ in range(_STEPS):
        shares = shares * (parts @ (counts / (shares @ parts)))
    return (shares[0] * parts[0] / (shares @ parts))[at], shares


@cache
def _parts() -> Floats:
    """Return the probability of each step of residuals, (parts, steps)."""
    z = np.arange(_FIRST, _LAST + _STEP / 2, _STEP)
    octave = 2 ** ((np.arange(_POINTS) + 0.5) / _POINTS)
    signals = [_FAINTEST * 2.0**n * octave for n in range(_OCTAVES)]
    levels = [np.zeros(1), *signals]
    normal = [np.exp(-0.5 * (z[:, None] - one) ** 2).mean(axis=1) for one in levels]
    brighter = z > _FAINTEST * 2.0**_OCTAVES
    parts = np.array([*normal, brighter, np.ones(len(z))])
    return np.asarray(parts / parts.sum(axis=1, keepdims=True))
