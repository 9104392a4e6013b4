"""Noise as a pure function of position: hashed gradient noise and hashed mineral-like domains.

Nothing here knows about blocks or images. A value depends on a coordinate and a key alone, because
all randomness comes from a counter-based hash of lattice positions, so any point can be evaluated
at any time, in any order, on any thread, with the same bits.

The gradient noise is Perlin's (K. Perlin, Improving noise, SIGGRAPH 2002: quintic fade), the
domains are Worley's (S. Worley, A cellular texture basis function, SIGGRAPH 1996) with borders
smoothed over a given width. The hash is the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from unglow.core.kernels import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ANGLES = 2.0 * np.pi * np.arange(64) / 64
# Scaled so that the noise has unit variance (that of unit gradients was measured: 0.2164**2).
_GRADIENTS = np.array([np.cos(_ANGLES) / 0.2164, np.sin(_ANGLES) / 0.2164])


def derive_key(seed: int, *path: int) -> np.uint64:
    """Return a key for one purpose (a path of small integers) under a user's seed."""
    state = np.random.SeedSequence([seed, *path]).generate_state(1, np.uint64)
    return cast("np.uint64", state[0])


def generator(seed: int, *stream: int) -> np.random.Generator:
    """Return the generator of one purpose (see `catalogue`, `geometry`, `render` and `damage`)."""
    return np.random.Generator(np.random.Philox(seed=np.random.SeedSequence([seed, *stream])))


def add_noise(
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    spacing: float,
    key: np.uint64,
    amplitude: float,
    out: NDArray[np.float64],
) -> None:
    """Add smooth noise of zero mean to ``out``.

    Parameters
    ----------
    x, y
        (N,) coordinates in px. Neighbours in memory should be neighbours in space: the lattice
        cell of the previous point is kept, which makes coarse noise cheap.
    spacing
        Lattice spacing in px; features are about that large.
    key
        Selects the noise; it also turns the lattice, so that octaves share no axes.
    amplitude
        Standard deviation of what is added.
    out
        (N,) float64, added to in place.
    """
    kernel("add_noise")(x, y, x.size, spacing, int(key), amplitude, _GRADIENTS, out)


def domains(
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    spacing: float,
    border: float,
    key: np.uint64,
    out: NDArray[np.float64],
) -> None:
    """Fill ``out`` with three random attributes per domain and a measure of being at a border.

    Parameters
    ----------
    x, y
        (N,) coordinates in px.
    spacing
        Mean distance of domain centres, px.
    border
        Width over which neighbouring domains blend, in px of difference of their distances.
    key
        Selects the tessellation and turns its lattice.
    out
        (4, N) float64: three attributes in [0, 1), and 0 inside a domain rising to 1 where two
        domains meet.
    """
    kernel("domains")(x, y, x.size, spacing, border, int(key), out)
