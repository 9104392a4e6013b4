"""What chance does: tails of the binomial distribution, and intervals over pairs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

_DRAWS = 4000


def at_least(count: int, of: int, rate: float) -> float:
    """Return the probability of ``count`` or more out of ``of`` that each happen with ``rate``."""
    return min(1.0, math.fsum(_point(k, of, rate) for k in range(max(count, 0), of + 1)))


def at_most(count: int, of: int, rate: float) -> float:
    """Return the probability of ``count`` or fewer out of ``of`` that each happen with ``rate``."""
    return min(1.0, math.fsum(_point(k, of, rate) for k in range(min(count, of) + 1)))


def _point(count: int, of: int, rate: float) -> float:
    if not 0.0 < rate < 1.0:
        return float(count == (of if rate >= 1.0 else 0))
    ways = math.lgamma(of + 1) - math.lgamma(count + 1) - math.lgamma(of - count + 1)
    return math.exp(ways + count * math.log(rate) + (of - count) * math.log1p(-rate))


def interval_over_pairs(parts: Sequence[int], wholes: Sequence[int]) -> tuple[float, float]:
    """Return the 95 % interval of sum(parts) / sum(wholes), by drawing pairs again.

    Percentiles of the bootstrap (Efron & Tibshirani 1993, chapter 13), with the same random numbers
    each time: candidates of one pair have a threshold and a background in common. NaN for nothing.
    """
    if not sum(wholes):
        return math.nan, math.nan
    part, whole = np.array(parts, float), np.array(wholes, float)
    drawn = np.random.default_rng(1).integers(0, len(part), (_DRAWS, len(part)))
    counts = whole[drawn].sum(axis=1)
    shares = part[drawn].sum(axis=1)[counts > 0] / counts[counts > 0]
    low, high = np.quantile(shares, [0.025, 0.975])
    return float(low), float(high)
