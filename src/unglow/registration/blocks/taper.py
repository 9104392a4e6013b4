"""Noise that blocks share where they overlap."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_SAMPLES = 128


def overlap_correlation(apart: Floats) -> Floats:
    """Correlation (...) of the noise of two blocks that lie ``apart`` (..., 2) sides from another.

    Both see the noise of the same pixels, weighted by the squared taper of
    `unglow.registration.blocks.phase_correlation`: 1 for the same block, 3/70 for blocks half a
    side apart, 0 for blocks that only touch. NaN counts as far away.
    """
    at = np.arange(_SAMPLES) / _SAMPLES
    taper = np.sin(np.pi * (at + 0.5 / _SAMPLES)) ** 4
    shared = np.array([(taper[k:] * taper[: _SAMPLES - k]).sum() for k in range(_SAMPLES)])
    away = np.abs(np.nan_to_num(apart, nan=1.0))
    both = np.interp(away, at, shared / shared[0], right=0.0)
    return np.asarray(both.prod(axis=-1))
