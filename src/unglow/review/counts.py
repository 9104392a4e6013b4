"""Results of a review: counts, purity with its interval, and density of each region.

Exact intervals are in numpy: scipy takes long to import.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.poisson import poisson_density
from unglow.core.rounding import round_digits
from unglow.review.decisions import DECISIONS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.review.decisions import Review
    from unglow.review.polygons import Region


_TAIL = 0.025
_STEPS = 60
"""Halvings of an interval of 1: to the last bits of a float64."""


def binomial_interval(successes: int, trials: int) -> tuple[float, float]:
    """Return the exact central 95 % interval of a share (Clopper and Pearson 1934).

    The lower end is the share at which ``successes`` or more of ``trials``, the upper end that at
    which as many or fewer, have a chance of 2.5 %.
    """
    if not 0 <= successes <= trials or not trials:
        raise ValueError(f"{successes} of {trials} is not a share")
    return _find_lower_end(successes, trials), 1.0 - _find_lower_end(trials - successes, trials)


def _find_lower_end(successes: int, trials: int) -> float:
    """Return the share at which ``successes`` or more have a chance of 2.5 %."""
    if successes == 0:
        return 0.0
    counts = np.arange(successes, trials + 1, dtype=np.float64)
    factorials = np.zeros(trials + 1)  # logarithms
    np.cumsum(np.log(np.arange(1, trials + 1)), out=factorials[1:])
    ways = (factorials[-1] - factorials - factorials[::-1])[successes:]
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        share = (low + high) / 2
        logs = ways + counts * np.log(share) + (trials - counts) * np.log1p(-share)
        if np.exp(logs).sum() < _TAIL:
            low = share
        else:
            high = share
    return (low + high) / 2


@dataclass(frozen=True, slots=True)
class ReviewCounts:
    """How many candidates were decided on.

    Attributes
    ----------
    accepted, rejected, unsure
        Candidates of the list as it is now.
    without_candidate
        Decisions about none of them.
    """

    accepted: int
    rejected: int
    unsure: int
    without_candidate: int

    @classmethod
    def from_review(cls, review: Review) -> ReviewCounts:
        """Count the decisions of a review."""
        made = [one.decision for one in review.row_decisions.values()]
        alone = len(review.decisions) - len(made)
        accepted, rejected, unsure = (made.count(decision) for decision in DECISIONS)
        return cls(accepted, rejected, unsure, alone)

    @property
    def reviewed(self) -> int:
        """Candidates with a decision."""
        return self.accepted + self.rejected + self.unsure

    @property
    def purity(self) -> float | None:
        """Share of the accepted among those accepted or rejected; None if there are none."""
        decided = self.accepted + self.rejected
        return self.accepted / decided if decided else None

    @property
    def purity_ci95(self) -> tuple[float, float] | None:
        """Exact 95 % interval of the purity, as of a random sample (Clopper and Pearson 1934)."""
        decided = self.accepted + self.rejected
        return binomial_interval(self.accepted, decided) if decided else None

    def to_json(self) -> dict[str, Any]:
        """Return all of it, shares rounded to 6 digits."""
        interval = self.purity_ci95
        return {
            "reviewed": self.reviewed,
            **{name: getattr(self, name) for name in DECISIONS},
            "without_candidate": self.without_candidate,
            "purity": None if self.purity is None else round_digits(self.purity),
            "purity_ci95": None if interval is None else [round_digits(end) for end in interval],
        }


def density(count: int, area_px: int, pixel_size_um: tuple[float, float] | None) -> dict[str, Any]:
    """Return area and density with its exact 95 % Poisson interval; None for what is not known.

    Per mm² where the size of a px is known, and per megapixel otherwise (``unit``).
    """
    if not area_px:
        return {"unit": None, "area": None, "density": None, "density_ci95": None}
    unit = "Mpx" if pixel_size_um is None else "mm2"
    area = area_px * (1.0 if pixel_size_um is None else pixel_size_um[0] * pixel_size_um[1]) / 1e6
    mean, ends = poisson_density(count, area)
    return {"unit": unit, "area": round_digits(area), "density": mean, "density_ci95": ends}


def describe_region(
    region: Region,
    review: Review,
    counted: NDArray[np.bool_],
    area_px: int,
    pixel_size_um: tuple[float, float] | None,
) -> dict[str, Any]:
    """Return the content of a region: its candidates, and those of them that were accepted.

    Parameters
    ----------
    region
        Part of post.
    review
        Decisions and the list of candidates.
    counted
        (N,) which rows of that list are counted as candidates.
    area_px
        px of the region that were searched, or all that it has.
    pixel_size_um
        (x, y) in micrometres, or None.
    """
    inside = region.holds_points(review.listed.xy) & counted
    accepted = np.zeros(len(inside), dtype=np.bool_)
    accepted[[r for r, one in review.row_decisions.items() if one.decision == DECISIONS[0]]] = True
    counts = int(np.count_nonzero(inside)), int(np.count_nonzero(inside & accepted))
    return {
        "name": region.name,
        "kind": region.kind,
        "candidates": {"count": counts[0], **density(counts[0], area_px, pixel_size_um)},
        "accepted": {"count": counts[1], **density(counts[1], area_px, pixel_size_um)},
    }
