"""False discoveries as unstained control pairs show them.

A control is a section imaged twice in the same way without stain in between: all that is found in
it is false. Controls of a pair's dye together give how many false ones there are per searched px,
from each threshold on, and so how many are to be expected in the pair:
FDR(t) = (C(t) / control px) * own px / N(t). The signal-to-noise ratio is in units of each pair's
own noise, so that equal thresholds mean the same in both.

Unlike the negative side, controls also show what is false and bright alone, such as dust that came
in between; unlike it, they are other sections.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.detection.poisson import poisson_limits
from unglow.detection.rates import with_tail

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.detection.rates import Sides
    from unglow.tally import Tally

    Floats = NDArray[np.float64]


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
    tallies: tuple[Tally, ...]

    @property
    def used(self) -> list[Tally]:
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
