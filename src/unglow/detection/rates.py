"""Rates of a search: what share of the candidates is false, and what share of spots is found.

Noise, and what an imperfect map leaves, is as often too dark as too bright; microbes are bright. So
the same search on the negated difference shows how many of the bright ones are chance:
FDR(t) = N-(t) / N+(t) for all of at least the signal-to-noise ratio t.

A control is a section imaged twice in the same way without stain in between: all that is found in
it is false. Controls of a pair's dye together give how many false ones there are per searched px,
from each threshold on, and so how many are to be expected in the pair:
FDR(t) = (C(t) / control px) * own px / N(t). The signal-to-noise ratio is in units of each pair's
own noise, so that equal thresholds mean the same in both. Unlike the negative side, controls also
show what is false and bright alone, such as dust that came in between; unlike it, they are other
sections.

The share of spots that is found rises with their brightness: isotonic regression gives the limits
of detection, a bootstrap their errors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.poisson import poisson_interval, poisson_limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from unglow.core.arrays import Array, Bools, Floats, Ints
    from unglow.core.windows import Window
    from unglow.images.detection_results import SearchCounts

    Counts = Ints


STEP = 0.05
"""Distance of thresholds, in units of the signal-to-noise ratio."""
HIGHEST = 50.0
"""Highest threshold, a signal-to-noise ratio: far above what chance reaches."""
_TAIL = 30
"""Below this many sources an exponential tail is fitted: the standard error of its mean is 18 %."""
_PRIOR = 4
"""As many sources of normal noise are taken into the mean of the tail."""
_TABLE_STEP, _TABLE_END = 0.25, 10.0
"""Thresholds in the table of detection.json, signal-to-noise ratios; a higher choice is reached."""
_DRAWS = 50
"""Draws of the bootstrap: the standard error that they give is known to 10 %."""
_GROUP = 15
"""Trials are put together by this many, in the order of their brightness."""
_LEAST_GROUPS = 4
"""With fewer groups there is no limit."""
_LEAST_DRAWN = 0.9
"""Share of the draws in which a limit has to be reached."""


@dataclass(frozen=True, eq=False)
class Sides:
    """Numbers of sources by signal-to-noise ratio, bright and dark.

    Attributes
    ----------
    lowest
        Lowest threshold.
    bright, dark
        (bins,) int64: those in each step of `STEP` from ``lowest`` on, all above `HIGHEST` in the
        last one.
    """

    lowest: float
    bright: Counts = field(default_factory=lambda: np.zeros(0, np.int64))
    dark: Counts = field(default_factory=lambda: np.zeros(0, np.int64))

    @classmethod
    def create(cls, lowest: float) -> Sides:
        """Return empty counts."""
        bins = max(1, math.ceil((HIGHEST - lowest) / STEP)) + 1
        return cls(lowest, np.zeros(bins, np.int64), np.zeros(bins, np.int64))

    def add(self, bright: ArrayLike, dark: ArrayLike) -> None:
        """Count sources by their signal-to-noise ratios (N,)."""
        for counts, values in ((self.bright, bright), (self.dark, dark)):
            np.add.at(counts, self.bins(values), 1)

    def bins(self, snr: ArrayLike) -> NDArray[np.intp]:
        """Return the bin of each signal-to-noise ratio (N,)."""
        steps = np.floor((np.asarray(snr, dtype=np.float64) - self.lowest) / STEP)
        return np.clip(steps, 0, len(self.bright) - 1).astype(np.intp)

    @property
    def thresholds(self) -> Floats:
        """The start of each bin."""
        return np.round(self.lowest + STEP * np.arange(len(self.bright)), 6)

    @property
    def counts_above(self) -> tuple[Counts, Counts]:
        """Numbers of bright and dark sources from each threshold on."""
        return _sum_from_each(self.bright), _sum_from_each(self.dark)

    def rates(self) -> Floats:
        """False-discovery rate from each threshold on, (bins,): falling, 0 to 1.

        1 where nothing bright is left.
        """
        bright = self.counts_above[0]
        raw = np.where(bright > 0, extend_tail(self.dark, self.lowest) / np.maximum(bright, 1), 1.0)
        # that of a threshold is the best that a lower one has: more candidates, and fewer false
        return np.minimum(np.minimum.accumulate(raw), 1.0)

    def interval(self, first_bin: int) -> list[float]:
        """Return the 95 % interval of the rate from a bin on, by the number of its dark sources.

        Exact for the Poisson mean behind it (Garwood 1936); it knows nothing of what is false and
        bright alone.
        """
        bright, dark = (int(counts[first_bin]) for counts in self.counts_above)
        return [min(1.0, float(f"{end / max(bright, 1):.3g}")) for end in poisson_interval(dark)]

    def choose(self, wanted: float, rates: Floats | None = None) -> float | None:
        """Return the lowest threshold with a false-discovery rate of at most ``wanted``, or None.

        A threshold from which nothing bright is left is none. ``rates`` (bins,) represent `rates`.
        """
        good = ((self.rates() if rates is None else rates) <= wanted) & (self.counts_above[0] > 0)
        return float(self.thresholds[np.flatnonzero(good)[0]]) if good.any() else None

    def table(
        self, by_controls: ControlRates | None = None, chosen_bin: int | None = None
    ) -> list[dict[str, Any]]:
        """Return counts and rates by threshold, in steps of 0.25 up to 10 or the chosen threshold.

        With rates by controls also these, and what was found in the controls.
        """
        bright, dark = self.counts_above
        rates, thresholds = self.rates(), self.thresholds
        rows: list[dict[str, Any]] = []
        step, bins = round(_TABLE_STEP / STEP), int(np.count_nonzero(thresholds <= _TABLE_END))
        if chosen_bin is not None and thresholds[chosen_bin] > _TABLE_END:
            bins = min(chosen_bin + step, len(thresholds))
        for k in range(0, bins, step):
            rows.append({
                "snr": float(thresholds[k]),
                "candidates": int(bright[k]),
                "negative": int(dark[k]),
                "fdr": round(float(rates[k]), 4),
            })  # fmt: skip
            if by_controls is not None:
                rows[-1] |= {"control": int(by_controls.counts[k]), **by_controls.to_json(k)}
        return rows


def _sum_from_each(counts: Counts) -> Counts:
    """Return how many there are from each bin on, of those in each bin, (bins,)."""
    return np.asarray(counts[::-1].cumsum()[::-1])


def extend_tail(counts: Counts, lowest: float) -> Floats:
    """Return numbers to be expected from each threshold on, of those in each bin, (bins,).

    Where fewer than 30 are left they say little, and where none is left chance has not ended: there
    the number falls off exponentially, by the mean excess of those 30, or is what was found if that
    is more. The threshold is where the expectation happens to be low: with what was found left out,
    of 40 candidates 0.057 were false for 0.045 that were expected.

    The excess is taken with four more sources of normal noise, which is 1 / t above a threshold t.
    Where there are fewer than 30 in all, one is added to them (as the +1 of Barber and Candes 2015,
    Annals of Statistics 43, 2055): without, a third of the searches with one false source at most
    listed it, and of lists with two true ones 0.17 to 0.29 was false.

    Parameters
    ----------
    counts
        Those in each step of `STEP` from ``lowest`` on, (bins,).
    lowest
        The first threshold.
    """
    found = _sum_from_each(counts)
    above = found.astype(np.float64)
    start = int(np.flatnonzero(above >= min(_TAIL, above[0]))[-1]) if above[0] else 0
    beyond = np.arange(start, len(above)) - start
    sum_of_excess = float((counts[start:] * ((beyond + 0.5) * STEP)).sum())
    excess = (sum_of_excess + _PRIOR / (lowest + STEP * start)) / (above[start] + _PRIOR)
    few = above[0] < _TAIL
    above[start:] = (above[start] + few) * np.exp(-beyond * STEP / excess)
    return np.maximum(above, found)


@dataclass(frozen=True, eq=False)
class ControlRates:
    """False-discovery rate from each threshold on by the controls, each (bins,), 0 to 1.

    Attributes
    ----------
    fdr
        The rate, falling.
    low, high
        Its 95 % interval: of the Poisson mean behind the number that was found in the controls.
    counts
        That number, from each threshold on.
    """

    fdr: Floats
    low: Floats
    high: Floats
    counts: Counts

    def to_json(self, first_bin: int) -> dict[str, Any]:
        """Return the entries of detection.json for the threshold of a bin."""
        fdr, *ends = (float(f"{v[first_bin]:.3g}") for v in (self.fdr, self.low, self.high))
        return {"fdr_control": fdr, "fdr_control_ci95": ends}


@dataclass(frozen=True, eq=False)
class Controls:
    """The controls of a dye, in the order of their samples.

    Attributes
    ----------
    samples
        Names of their samples.
    search_counts
        What was counted in each of them; some may not have been searched.
    """

    samples: tuple[str, ...]
    search_counts: tuple[SearchCounts, ...]

    @property
    def _valid_counts(self) -> list[SearchCounts]:
        return [one for one in self.search_counts if one.searched_px]

    @property
    def searched_px(self) -> int:
        """How many px were searched in all of them."""
        return sum(one.searched_px for one in self._valid_counts)

    @property
    def counts(self) -> Counts:
        """What was found in all of them from each threshold on, (bins,)."""
        found = [one.bright for one in self._valid_counts]
        return _sum_from_each(np.sum(found, axis=0, dtype=np.int64))

    def predict(self, lowest: float) -> Floats:
        """Return what is found by chance in as many px from each threshold on, (bins,).

        As `extend_tail`: a threshold above which a small control has nothing is not free of chance.
        Where nothing at all was found one is taken, which on average does not promise too much
        (as the +1 of Barber and Candes 2015, Annals of Statistics 43, 2055).
        """
        counts = self.counts
        if not counts[0]:
            return np.ones(len(counts))
        return extend_tail(counts - np.append(counts[1:], 0), lowest)

    def rates(self, own: Sides, searched_px: int) -> ControlRates | None:
        """Return the rates of a pair; None if no control was searched.

        Parameters
        ----------
        own
            Counts of the pair, in the same steps as those of the controls.
        searched_px
            px that were searched in the pair.
        """
        if not self._valid_counts:
            return None
        bright, counts = own.counts_above[0], self.counts
        factor = searched_px / self.searched_px / np.maximum(bright, 1)
        raw = np.where(bright > 0, np.minimum(self.predict(own.lowest) * factor, 1), 1)
        # as on the negative side, that of a threshold is the best that a lower one has
        best = np.maximum.accumulate(
            np.where(raw <= np.minimum.accumulate(raw), np.arange(len(raw)), 0)
        )
        low, high = (np.minimum(ends * factor, 1) for ends in poisson_limits(counts))
        return ControlRates(raw[best], low[best], np.maximum(high, raw)[best], counts)

    def to_json(self, first_bin: int | None) -> list[dict[str, Any]]:
        """Return the entry of detection.json for each control.

        ``first_bin`` is that of the chosen threshold, from which on candidates are counted; None if
        there is none.
        """
        return [
            {
                "sample": sample,
                "searched_px": one.searched_px,
                "candidates": int(one.bright[first_bin:].sum())
                if one.searched_px and first_bin is not None
                else None,
                "reason": one.reason or None,
            }
            for sample, one in zip(self.samples, self.search_counts, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class Trials:
    """Spots that were looked for: x, y (px), peak (grey levels) and whether found, (N,) each."""

    x: Floats
    y: Floats
    peak: Floats
    found: Bools

    def __len__(self) -> int:
        return len(self.x)

    @classmethod
    def join(cls, parts: Sequence[Trials]) -> Trials:
        """Put several together, in their order."""
        names = ("x", "y", "peak", "found")
        return cls(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))

    def keep(self, which: Array) -> Trials:
        """Return those that an index or flags, (N,), name."""
        return Trials(self.x[which], self.y[which], self.peak[which], self.found[which])

    def select(self, window: Window) -> Trials:
        """Return those in a window."""
        inside = (self.x >= window.x0 - 0.5) & (self.x < window.x1 - 0.5)
        inside &= (self.y >= window.y0 - 0.5) & (self.y < window.y1 - 0.5)
        return self.keep(inside)

    def curve(self, bins: int) -> list[dict[str, Any]]:
        """Return numbers of spots and of found ones by peak, in bins of equal ratio."""
        if not len(self):
            return []
        edges = np.geomspace(self.peak.min(), self.peak.max(), bins + 1)
        which = np.clip(np.searchsorted(edges, self.peak, side="right") - 1, 0, bins - 1)
        injected = np.bincount(which, minlength=bins)
        found = np.bincount(which[self.found], minlength=bins)
        peaks = [float(f"{peak:.4g}") for peak in np.sqrt(edges[:-1] * edges[1:])]
        columns = zip(peaks, injected.tolist(), found.tolist(), strict=True)
        return [dict(zip(("peak", "injected", "found"), row, strict=True)) for row in columns]


@dataclass(frozen=True, slots=True)
class Limit:
    """A peak and its standard error, grey levels."""

    value: float
    error: float


def find_limits(trials: Trials, shares: Sequence[float]) -> list[Limit | None]:
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
    rising = fit_isotonic(means, counts)
    crossings: list[float | None] = []
    for share in shares:
        k = int(np.searchsorted(rising, share))
        if k in (0, groups):
            crossings.append(None)
            continue
        part = (share - rising[k - 1]) / (rising[k] - rising[k - 1])
        crossings.append(float(np.exp(level[k - 1] + part * (level[k] - level[k - 1]))))
    return crossings


def fit_isotonic(values: Floats, weights: Floats) -> Floats:
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
