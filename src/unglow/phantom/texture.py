"""Noise as a pure function of position: hashed gradient noise and hashed mineral-like domains.

Nothing here knows about blocks or images. A value depends on a coordinate and a key alone, because
all randomness comes from a counter-based hash of lattice positions, so any point can be evaluated
at any time, in any order, on any thread, with the same bits.

The gradient noise is Perlin's (K. Perlin, Improving noise, SIGGRAPH 2002: quintic fade), the
domains are Worley's (S. Worley, A cellular texture basis function, SIGGRAPH 1996) with borders
smoothed over a given width. The hash is the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar, cast

import numba
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_F = TypeVar("_F", bound="Callable[..., object]")


def compiled(func: _F) -> _F:
    """Compile a kernel to machine code that runs without the interpreter lock (cached on disk)."""
    return cast("_F", numba.njit(nogil=True, cache=True, error_model="numpy")(func))


# Numba turns a mixture of signed and unsigned integers into floats: every constant is a uint64.
_MIX1, _MIX2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_STEP_X, _STEP_Y = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03)
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)
_S21, _S42, _LOW21 = np.uint64(21), np.uint64(42), np.uint64(0x1FFFFF)
_S40, _LOW6 = np.uint64(40), np.uint64(63)

_ANGLES = 2.0 * np.pi * np.arange(64) / 64
# Scaled so that the noise has unit variance (that of unit gradients was measured: 0.2164**2).
_GRADIENT_X, _GRADIENT_Y = np.cos(_ANGLES) / 0.2164, np.sin(_ANGLES) / 0.2164
# Domain centres stay this far (of a lattice cell) around the middle of their cell, so that the
# nearest centre is always one of the nine around a point.
_JITTER = 0.56


@compiled
def lattice_hash(i: int | np.int64, j: int | np.int64, key: np.uint64) -> np.uint64:
    """Return 64 random bits that belong to the lattice point (i, j) and the key."""
    h = key + np.uint64(i) * _STEP_X + np.uint64(j) * _STEP_Y
    h = (h ^ (h >> _S30)) * _MIX1
    h = (h ^ (h >> _S27)) * _MIX2
    return h ^ (h >> _S31)


def derive_key(seed: int, *path: int) -> np.uint64:
    """Return a key for one purpose (a path of small integers) under a user's seed."""
    state = np.random.SeedSequence([seed, *path]).generate_state(1, np.uint64)
    return cast("np.uint64", state[0])


@compiled
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
    angle = float(key >> _S40) * (math.pi / 2**24)
    c, s = math.cos(angle) / spacing, math.sin(angle) / spacing
    last_i, last_j = np.int64(-(2**62)), np.int64(-(2**62))
    ax = ay = bx = by = cx = cy = dx = dy = 0.0
    for n in range(x.size):
        u, v = c * x[n] - s * y[n], s * x[n] + c * y[n]
        fi, fj = math.floor(u), math.floor(v)
        i, j = np.int64(fi), np.int64(fj)
        if i != last_i or j != last_j:
            last_i, last_j = i, j
            h = lattice_hash(i, j, key) & _LOW6
            ax, ay = _GRADIENT_X[h], _GRADIENT_Y[h]
            h = lattice_hash(i + 1, j, key) & _LOW6
            bx, by = _GRADIENT_X[h], _GRADIENT_Y[h]
            h = lattice_hash(i, j + 1, key) & _LOW6
            cx, cy = _GRADIENT_X[h], _GRADIENT_Y[h]
            h = lattice_hash(i + 1, j + 1, key) & _LOW6
            dx, dy = _GRADIENT_X[h], _GRADIENT_Y[h]
        u -= fi
        v -= fj
        fade_u = u * u * u * (u * (u * 6.0 - 15.0) + 10.0)
        fade_v = v * v * v * (v * (v * 6.0 - 15.0) + 10.0)
        a = ax * u + ay * v
        b = bx * (u - 1.0) + by * v
        d = cx * u + cy * (v - 1.0)
        e = dx * (u - 1.0) + dy * (v - 1.0)
        low = a + fade_u * (b - a)
        out[n] += amplitude * (low + fade_v * (d + fade_u * (e - d) - low))


@compiled
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
    last_i, last_j = np.int64(-(2**62)), np.int64(-(2**62))
    centre_x, centre_y = np.zeros(9), np.zeros(9)
    attributes = np.zeros((9, 3))
    distance = np.zeros(9)
    reach = border / spacing
    angle = float(key >> _S40) * (math.pi / 2**24)
    c, s = math.cos(angle) / spacing, math.sin(angle) / spacing
    for n in range(x.size):
        u, v = c * x[n] - s * y[n], s * x[n] + c * y[n]
        i, j = np.int64(math.floor(u)), np.int64(math.floor(v))
        if i != last_i or j != last_j:
            last_i, last_j = i, j
            for k in range(9):
                ci, cj = i + k % 3 - 1, j + k // 3 - 1
                h = lattice_hash(ci, cj, key)
                centre_x[k] = ci + 0.5 + _JITTER * (float(h & _LOW21) / 2**21 - 0.5)
                centre_y[k] = cj + 0.5 + _JITTER * (float((h >> _S21) & _LOW21) / 2**21 - 0.5)
                attributes[k, 0] = float(h >> _S42) / 2**22
                h = lattice_hash(ci, cj, key ^ _MIX1)
                attributes[k, 1] = float(h & _LOW21) / 2**21
                attributes[k, 2] = float((h >> _S21) & _LOW21) / 2**21
        nearest = 1e300
        for k in range(9):
            du, dv = u - centre_x[k], v - centre_y[k]
            distance[k] = du * du + dv * dv
            nearest = min(nearest, distance[k])
        nearest = math.sqrt(nearest)
        limit = (nearest + reach) ** 2
        total = first = second = third = 0.0
        for k in range(9):
            if distance[k] < limit:
                t = (math.sqrt(distance[k]) - nearest) / reach
                weight = 1.0 - t * t * (3.0 - 2.0 * t)
                total += weight
                first += weight * attributes[k, 0]
                second += weight * attributes[k, 1]
                third += weight * attributes[k, 2]
        out[0, n], out[1, n], out[2, n] = first / total, second / total, third / total
        # The nearest domain has weight 1, so its share is 1 / total.
        out[3, n] = min(1.0, 2.0 * (1.0 - 1.0 / total))
