"""Exact intervals of Poisson means, in numpy: scipy.special takes 0.2 s to import."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.rounding import round_digits

if TYPE_CHECKING:
    from unglow.core.arrays import Floats, Ints


_NORMAL = 1.959963984540054
"""97.5 % of a normal distribution are below this many of its standard deviations."""
_LARGE = 1000.0
"""From this shape on an expansion is exact to 13 digits; below it takes a few steps more."""
_STEPS = 4
"""Steps of Halley's method, each of which triples the exact digits."""
_SMALL = 1e-17
"""A series ends where a term is this share of its sum: below the last bit of a float64."""


def poisson_limits(counts: Ints) -> tuple[Floats, Floats]:
    """Return the exact central 95 % intervals of Poisson means, of counts (N,) (Garwood 1936)."""
    values, index = np.unique(counts, return_inverse=True)
    low = np.where(values > 0, _find_gamma_quantile(np.maximum(values, 1), -1), 0.0)
    return low[index], _find_gamma_quantile(values + 1, 1)[index]


def poisson_interval(count: int) -> tuple[float, float]:
    """Return the exact central 95 % interval of one Poisson mean."""
    low, high = poisson_limits(np.array([count]))
    return float(low[0]), float(high[0])


def poisson_density(count: int, area: float) -> tuple[float, list[float]]:
    """Return the count per unit of area and its 95 % interval, rounded for reports."""
    return round_digits(count / area), [round_digits(end / area) for end in poisson_interval(count)]


def _find_gamma_quantile(shape: Ints, side: int) -> Floats:
    """Return the 2.5 % (side -1) or 97.5 % (1) quantiles of gamma distributions, shapes (N,) >= 1.

    From large shapes on by the expansion of Cornish and Fisher (1960, Technometrics 2, 209).
    """
    a = shape.astype(np.float64)
    z, root = side * _NORMAL, np.sqrt(a)
    x = a + z * root + (z**2 - 1) / 3 + (z**3 - 7 * z) / (36 * root)
    x -= (3 * z**4 + 7 * z**2 - 16) / (810 * a)
    x += (9 * z**5 + 256 * z**3 - 433 * z) / (38880 * a * root)
    x += (12 * z**6 - 243 * z**4 - 923 * z**2 + 1472) / (204120 * a**2)
    small = a < _LARGE
    x[small] = _refine(a[small], x[small], 0.5 + side * 0.475)
    return x


def _refine(a: Floats, x: Floats, share: float) -> Floats:
    """Return where a ``share`` of gamma distributions is reached, by Halley's method from ``x``."""
    logs = np.array([math.lgamma(one) for one in a.tolist()])
    for _ in range(_STEPS):
        density = np.exp((a - 1) * np.log(x) - x - logs)
        off = _sum_series(a, x) * x / a - share / density
        x = x - off / (1 - 0.5 * np.minimum(1, off * ((a - 1) / x - 1)))
    return x


def _sum_series(a: Floats, x: Floats) -> Floats:
    """Return 1 + x / (a + 1) + x^2 / ((a + 1) (a + 2)) + ..., of each."""
    term, total, n = np.ones_like(x), np.ones_like(x), 0
    while (term > _SMALL * total).any():
        n += 1
        term *= x / (a + n)
        total += term
    return total
