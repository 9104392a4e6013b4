"""Detection limits: isotonic regression of the share that is found, errors by bootstrap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from unglow.core.windows import Window

    Floats = NDArray[np.float64]

_DRAWS = 50
"""Draws of the bootstrap: the standard error that they give is known to 10 %."""
_GROUP = 15
"""Trials are put together by this many, in the order of their brightness."""
_LEAST_GROUPS = 4
"""With fewer groups there is no limit."""
_LEAST_DRAWN = 0.9
"""Share of the draws in which a limit has to be reached."""


@dataclass(frozen=True, eq=False)
class Trials:
    """Spots that were looked for: x, y (px), peak (grey levels) and whether found, (N,) each."""

    x: Floats
    y: Floats
    peak: Floats
    found: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.x)

    @classmethod
    def join(cls, parts: Sequence[Trials]) -> Trials:
        """Put several together, in their order."""
        names = ("x", "y", "peak", "found")
        return cls(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))

    def take(self, which: NDArray[Any]) -> Trials:
        """Return those that an index or flags, (N,), name."""
        return Trials(self.x[which], self.y[which], self.peak[which], self.found[which])

    def inside(self, window: Window) -> Trials:
        """Return those in a window."""
        inside = (self.x >= window.x0 - 0.5) & (self.x < window.x1 - 0.5)
        inside &= (self.y >= window.y0 - 0.5) & (self.y < window.y1 - 0.5)
        return self.take(inside)

    def curve(self, bins: int) -> list[dict[str, Any]]:
        """Return numbers of spots and of found ones by peak, in bins of equal ratio."""
        if not len(self):
            return []
        edges = np.geomspace(self.peak.min(), self.peak.max(), bins + 1)
        which = np.clip(np.searchsorted(edges, self.peak, side="right") - 1, 0, bins - 1)
        injected = np.bincount(which, minlength=bins)
        found = np.bincount(which[self.found], minlength=bins)
        return [
            {
                "peak": float(f"{np.sqrt(edges[k] * edges[k + 1]):.4g}"),
                "injected": int(injected[k]),
                "found": int(found[k]),
            }
            for k in range(bins)
        ]


@dataclass(frozen=True, slots=True)
class Limit:
    """A peak and its standard error, grey levels."""

    value: float
    error: float


def limits(trials: Trials, shares: Sequence[float]) -> list[Limit | None]:
    """Return the peaks from which on some shares of the spots are found.

    The share found is taken to rise with the peak and to be nothing else (isotonic regression of
    groups of 15 spots); between groups it is linear in the logarithm of the peak. The error is the
    standard deviation over 50 draws of as many spots, with replacement.

    Returns
    -------
    For each share; None if it is not passed between the faintest and the brightest spots, or if it
    is not in a tenth of the draws.
    """
    count = len(trials)
    if count // _GROUP < _LEAST_GROUPS:
        return [None] * len(shares)
    order = np.argsort(trials.peak, kind="stable")
    rows = np.stack([np.log(trials.peak), trials.found])[:, order]
    values = _crossings(rows, shares)
    random = np.random.default_rng(0)
    rank = np.empty(count, dtype=np.intp)
    rank[order] = np.arange(count)
    draws = [
        _crossings(rows[:, np.sort(rank[random.integers(0, count, count)])], shares)
        for _ in range(_DRAWS)
    ]
    out: list[Limit | None] = []
    for value, drawn in zip(values, zip(*draws, strict=True), strict=True):
        reached = [draw for draw in drawn if draw is not None]
        if value is None or len(reached) < _LEAST_DRAWN * _DRAWS:
            out.append(None)
        else:
            out.append(Limit(value, float(np.std(reached, ddof=1))))
    return out


def _crossings(rows: Floats, shares: Sequence[float]) -> list[float | None]:
    """Return where the isotonic share passes some values, None where it does not.

    ``rows`` (2, N) are the logarithm of the peak, rising, and 1 for what was found, 0 else.
    """
    groups = rows.shape[1] // _GROUP
    starts = np.arange(groups) * rows.shape[1] // groups
    counts = np.diff(starts, append=rows.shape[1]).astype(np.float64)
    level, means = np.add.reduceat(rows, starts, axis=1) / counts
    rising = isotonic(means, counts)
    crossings: list[float | None] = []
    for share in shares:
        k = int(np.searchsorted(rising, share))
        if k in (0, groups):
            crossings.append(None)
            continue
        part = (share - rising[k - 1]) / (rising[k] - rising[k - 1])
        crossings.append(float(np.exp(level[k - 1] + part * (level[k] - level[k - 1]))))
    return crossings


def isotonic(values: Floats, weights: Floats) -> Floats:
    """Return the rising sequence nearest to ``values`` (N,), by pooling adjacent violators."""
    means: list[float] = []
    sums: list[float] = []
    counts: list[int] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        mean, total, count = value, weight, 1
        while means and means[-1] >= mean:
            before = sums.pop()
            mean = (means.pop() * before + mean * total) / (before + total)
            total += before
            count += counts.pop()
        means.append(mean)
        sums.append(total)
        counts.append(count)
    return np.repeat(means, counts)
