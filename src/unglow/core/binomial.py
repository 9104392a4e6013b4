"""Exact intervals of shares, in numpy: scipy takes long to import."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TAIL = 0.025
_STEPS = 60
"""Halvings of an interval of 1: to the last bits of a float64."""


def binomial_interval(successes: int, trials: int) -> tuple[float, float]:
    """Return the exact central 95 % interval of a share (Clopper and Pearson 1934).

    The lower end is the share at which ``successes`` or more of ``trials``, the upper end that at
    which as many or fewer, have a chance of 2.5 %.
    """
    if not 0 <= successes <= trials or not trials:
        raise ValueError(f"{successes} of {trials} is no share")
    return _lower(successes, trials), 1.0 - _lower(trials - successes, trials)


def _lower(successes: int, trials: int) -> float:
    """Return the share at which ``successes`` or more have a chance of 2.5 %."""
    if successes == 0:
        return 0.0
    counts = np.arange(successes, trials + 1, dtype=np.float64)
    ways = _log_ways(trials)[successes:]
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        share = (low + high) / 2
        logs = ways + counts * np.log(share) + (trials - counts) * np.log1p(-share)
        if np.exp(logs).sum() < _TAIL:
            low = share
        else:
            high = share
    return (low + high) / 2


def _log_ways(trials: int) -> NDArray[np.float64]:
    """Logarithms of the binomial coefficients of 0 to ``trials``, (trials + 1,)."""
    factorials = np.zeros(trials + 1)
    np.cumsum(np.log(np.arange(1, trials + 1)), out=factorials[1:])
    return np.asarray(factorials[-1] - factorials - factorials[::-1])
