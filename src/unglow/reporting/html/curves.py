"""Curves made short for a view, without losing a peak."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from unglow.telemetry.reading.records import once_per_object

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from unglow.telemetry.reading.records import Attempt, Placed

Numbers = list[float | None]
# All curves of a report together have about as many points as this.
_POINTS = 100_000
_FEWEST, _MOST = 12, 240


def bins_for(attempts: int) -> int:
    """Return how many bins a curve may have: halves, so that few are computed again."""
    limit, bins = _POINTS // max(1, 4 * attempts), _MOST
    while bins > max(limit, _FEWEST):
        bins = max(_FEWEST, bins // 2)
    return bins


@once_per_object
def compute_curve(attempt: Attempt, most: int) -> dict[str, Numbers] | None:
    """Return the curves of an attempt in equal bins over its duration; None without samples.

    Parameters
    ----------
    attempt
        The attempt.
    most
        How many bins there may be.

    Returns
    -------
    ``hi`` and ``lo``, the largest and smallest memory in each bin, MB: resident of one process,
    with shared pages counted once of several, and in ``hi`` the true peak of a process; ``pss``,
    the largest with shared pages counted once; ``private``, the largest of what is neither of files
    nor shared; ``cpu``, mean number of processors; ``io``, mean
    MB/s read and written. None where a bin has no sample.
    """
    samples, seconds = attempt.samples, attempt.seconds
    if not len(samples) or seconds <= 0:
        return None
    bins = min(most, len(samples))
    edges = np.linspace(0.0, seconds, bins + 1)
    low, high = low_high(samples.t, samples.resident, edges)
    most_of_one = low_high(samples.t, samples.largest, edges)[1]
    if attempt.peak_mb is not None and not np.any(most_of_one >= attempt.peak_mb):
        most_of_one[-1] = attempt.peak_mb  # after the last sample
    high = np.fmax(high, most_of_one)
    moved = samples.read + samples.written
    width = seconds / bins
    return {
        "hi": round_values(high, 1),
        "lo": round_values(low, 1),
        "pss": round_values(low_high(samples.t, samples.pss, edges)[1], 1),
        "private": round_values(low_high(samples.t, samples.private, edges)[1], 1),
        "cpu": round_values(np.diff(_sum_until(edges, samples.t, samples.cpu)) / width, 2),
        "io": round_values(np.diff(_sum_until(edges, samples.t, moved)) / width / 1e6, 2),
    }


def low_high(
    t: NDArray[np.float64], values: NDArray[np.float64], edges: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the smallest and the largest value in each bin, NaN where there is none.

    Parameters
    ----------
    t, values
        (n,) each; NaN are ignored.
    edges
        (m + 1,) rising; a value at an edge counts to the bin that starts there.
    """
    finite = ~np.isnan(values)
    place = np.clip(np.searchsorted(edges, t[finite], side="right") - 1, 0, len(edges) - 2)
    low, high = np.full(len(edges) - 1, np.inf), np.full(len(edges) - 1, -np.inf)
    np.minimum.at(low, place, values[finite])
    np.maximum.at(high, place, values[finite])
    empty = np.isinf(high)
    low[empty] = high[empty] = np.nan
    return low, high


def bound_steps(
    t: NDArray[np.float64], values: NDArray[np.float64], edges: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the smallest and largest value in each bin of what holds from each time to the next.

    Before the first time it is 0.
    """
    if not len(t):
        return np.zeros(len(edges) - 1), np.zeros(len(edges) - 1)
    last = np.searchsorted(t, edges[:-1], side="right") - 1
    held = np.where(last >= 0, values[np.maximum(last, 0)], 0.0)
    low, high = low_high(t, values, edges)
    return np.fmin(low, held), np.fmax(high, held)


def rates(
    placed: Iterable[Placed], edges: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return processors in use and MB/s moved by all jobs together, the mean of each bin."""
    cpu, moved = np.zeros(len(edges)), np.zeros(len(edges))
    for a in placed:
        samples = a.attempt.samples
        cpu += _sum_until(edges - a.start, samples.t, samples.cpu)
        moved += _sum_until(edges - a.start, samples.t, samples.read + samples.written)
    width = np.diff(edges)
    return np.diff(cpu) / width, np.diff(moved) / width / 1e6


def _sum_until(
    when: NDArray[np.float64], t: NDArray[np.float64], sums: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return what a sum that never falls had come to at given times; 0 at first."""
    finite = ~np.isnan(sums)
    if not finite.any():
        return np.zeros(len(when))
    rising = np.maximum.accumulate(sums[finite])
    return np.asarray(np.interp(when, np.append(0.0, t[finite]), np.append(0.0, rising)))


def round_values(values: NDArray[np.float64], digits: int) -> Numbers:
    """Return numbers for JSON, None for those that are not finite."""
    return [v if math.isfinite(v) else None for v in np.round(values, digits).tolist()]
