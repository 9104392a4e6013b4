"""How many candidates are to be believed: false discoveries, from the negative side and controls.

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
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.detection.poisson import poisson_limits

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from unglow.io.search_counts import SearchCounts

    Floats = NDArray[np.float64]

STEP = 0.05
"""Distance of thresholds, in units of the signal-to-noise ratio."""
HIGHEST = 50.0
_TAIL = 20
_TOLD = (0.25, 10.0)


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
    bright: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    dark: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

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
        place = np.floor((np.asarray(snr, dtype=np.float64) - self.lowest) / STEP)
        return np.clip(place, 0, len(self.bright) - 1).astype(np.intp)

    @property
    def thresholds(self) -> NDArray[np.float64]:
        """The begin of each bin."""
        return np.round(self.lowest + STEP * np.arange(len(self.bright)), 6)

    @property
    def above(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Numbers of bright and dark sources from each threshold on."""
        return self.bright[::-1].cumsum()[::-1], self.dark[::-1].cumsum()[::-1]

    def expected_dark(self) -> NDArray[np.float64]:
        """Dark sources to be expected from each threshold on, (bins,)."""
        return with_tail(self.dark)

    def rates(self) -> NDArray[np.float64]:
        """False-discovery rate from each threshold on, (bins,): falling, 0 to 1.

        1 where nothing bright is left.
        """
        bright = self.above[0]
        raw = np.where(bright > 0, self.expected_dark() / np.maximum(bright, 1), 1.0)
        # that of a threshold is the best that a lower one has: more candidates, and fewer false
        return np.minimum(np.minimum.accumulate(raw), 1.0)

    def choose(self, wanted: float) -> float | None:
        """Return the lowest threshold with a false-discovery rate of at most ``wanted``, or None.

        A threshold from which nothing bright is left is none.
        """
        return self.lowest_with(self.rates(), wanted)

    def lowest_with(self, rates: NDArray[np.float64], wanted: float) -> float | None:
        """Return the lowest threshold at which ``rates`` (bins,) are that low, as `choose` does."""
        good = (rates <= wanted) & (self.above[0] > 0)
        return float(self.thresholds[np.flatnonzero(good)[0]]) if good.any() else None

    def table(
        self, controls: Controls | None = None, by_controls: ControlRates | None = None
    ) -> list[dict[str, Any]]:
        """Return counts and rates by threshold, in steps of 0.25 up to 10.

        With rates by controls also these, and what was found in the controls.
        """
        bright, dark = self.above
        rates = self.rates()
        stride, end = round(_TOLD[0] / STEP), _TOLD[1]
        rows: list[dict[str, Any]] = []
        for k in range(0, len(bright), stride):
            if self.thresholds[k] > end:
                break
            rows.append({
                "snr": float(self.thresholds[k]),
                "candidates": int(bright[k]),
                "negative": int(dark[k]),
                "fdr": round(float(rates[k]), 4),
            })  # fmt: skip
            if controls is not None and by_controls is not None:
                rows[-1] |= {"control": int(controls.counts[k]), **by_controls.told(k)}
        return rows


def with_tail(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return numbers to be expected from each threshold on, of those in each bin, (bins,).

    Where fewer than 20 are left they say little, and where none is left chance has not ended: there
    the number falls off exponentially, by the mean excess of those 20. The tail of normal noise
    falls faster, so this does not promise too much.
    """
    above = counts[::-1].cumsum()[::-1].astype(np.float64)
    if above[0] == 0:
        return above
    start = int(np.flatnonzero(above >= min(_TAIL, above[0]))[-1])
    beyond = np.arange(start, len(above)) - start
    excess = float((counts[start:] * ((beyond + 0.5) * STEP)).sum() / above[start])
    above[start:] = above[start] * np.exp(-beyond * STEP / excess)
    return above


@dataclass(frozen=True, eq=False)
class ControlRates:
    """False-discovery rate from each threshold on by the controls, each (bins,), 0 to 1.

    Attributes
    ----------
    fdr
        The rate, falling.
    low, high
        Its 95 % interval: of the Poisson mean behind the number that was found in the controls.
    """

    fdr: Floats
    low: Floats
    high: Floats

    def told(self, place: int) -> dict[str, Any]:
        """Return what detection.json says of the threshold of a bin."""
        fdr, *ends = (float(f"{values[place]:.3g}") for values in (self.fdr, self.low, self.high))
        return {"fdr_control": fdr, "fdr_control_ci95": ends}


@dataclass(frozen=True, eq=False)
class Controls:
    """The controls of a dye, in the order of their samples.

    Attributes
    ----------
    samples
        Names of their samples.
    tallies
        What was counted in each of them; some may not have been searched.
    """

    samples: tuple[str, ...]
    tallies: tuple[SearchCounts, ...]

    @property
    def used(self) -> list[SearchCounts]:
        """Those that were searched."""
        return [tally for tally in self.tallies if tally.searched_px]

    @property
    def searched_px(self) -> int:
        """How many px were searched in all of them."""
        return sum(tally.searched_px for tally in self.used)

    @property
    def counts(self) -> NDArray[np.int64]:
        """What was found in all of them from each threshold on, (bins,)."""
        total = np.stack([tally.bright for tally in self.used]).sum(axis=0, dtype=np.int64)
        return np.asarray(total[::-1].cumsum()[::-1])

    def expected(self) -> Floats:
        """Return what is found by chance in as many px from each threshold on, (bins,).

        What was found, or where fewer than 20 are left the exponential fall-off of those 20, if
        that is more: a threshold above which a small control has nothing is not free of chance.
        Where nothing at all was found one is taken, which on average does not promise too much
        (as the +1 of Barber and Candes 2015, Annals of Statistics 43, 2055).
        """
        found = self.counts
        if not found[0]:
            return np.ones(len(found))
        each = found - np.append(found[1:], 0)
        return np.maximum(found, with_tail(each))

    def rates(self, own: Sides, searched_px: int) -> ControlRates | None:
        """Return the rates of a pair; None if no control was searched.

        Parameters
        ----------
        own
            Counts of the pair, in the same steps as those of the controls.
        searched_px
            px that were searched in the pair.
        """
        if not self.used:
            return None
        bright = own.above[0]
        factor = searched_px / self.searched_px / np.maximum(bright, 1)
        raw = np.where(bright > 0, np.minimum(self.expected() * factor, 1), 1)
        # as on the negative side, that of a threshold is the best that a lower one has
        best = np.maximum.accumulate(
            np.where(raw <= np.minimum.accumulate(raw), np.arange(len(raw)), 0)
        )
        low, high = (np.minimum(ends * factor, 1) for ends in poisson_limits(self.counts))
        return ControlRates(raw[best], low[best], np.maximum(high, raw)[best])

    def told(self, place: int | None) -> list[dict[str, Any]]:
        """Return what detection.json tells of each control.

        ``place`` is the bin of the chosen threshold, from which on candidates are counted; None if
        there is none.
        """
        return [
            {
                "sample": sample,
                "searched_px": tally.searched_px,
                "candidates": int(tally.bright[place:].sum())
                if tally.searched_px and place is not None
                else None,
                "reason": tally.reason or None,
            }
            for sample, tally in zip(self.samples, self.tallies, strict=True)
        ]
