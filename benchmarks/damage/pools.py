"""Outcomes of many pairs together, and what is promised of them."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tables import table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from damage.judging import Outcome

_REASON_WORDS = 9


@dataclass(frozen=True)
class Pool:
    """Some pairs, each of which counts by its candidates, microbes and pixels."""

    outcomes: tuple[Outcome, ...]

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> Pool:
        """Put pairs together."""
        return cls(tuple(outcomes))

    @property
    def ok(self) -> Pool:
        """Those of them without a reason to doubt them."""
        return Pool.of(o for o in self.outcomes if o.is_ok)

    @property
    def judged(self) -> int:
        """Candidates that are true or false; those inside of damage may be neither."""
        return sum(o.true + o.false for o in self.outcomes)

    @property
    def false_share(self) -> float:
        """Share of false ones among the candidates that are true or false; NaN for none."""
        false = sum(o.false for o in self.outcomes)
        return false / self.judged if self.judged else math.nan

    @property
    def recall_ratio(self) -> float:
        """Microbes that are found outside of damage over those in undamaged pairs; NaN for none."""
        before = sum(o.found_undamaged for o in self.outcomes)
        return sum(o.found for o in self.outcomes) / before if before else math.nan

    @property
    def said(self) -> float:
        """False-discovery rate that the lists claim, each weighted by its candidates."""
        listed = [o for o in self.outcomes if o.counted and not math.isnan(o.said)]
        count = sum(o.counted for o in listed)
        return sum(o.counted * o.said for o in listed) / count if count else math.nan

    @property
    def covered(self) -> float:
        """Share of the spoilt area that was found; NaN without any."""
        spoilt = [o for o in self.outcomes if o.place_share > 0]
        area = sum(o.place_share for o in spoilt)
        return sum(o.place_share * o.covered for o in spoilt) / area if spoilt else math.nan

    @property
    def wrong_share(self) -> float:
        """Mean share of the section that was called spoilt and is not."""
        return float(np.mean([o.wrong_share for o in self.outcomes])) if self.outcomes else math.nan

    @property
    def worst_gain(self) -> float:
        """Gain error that is furthest from 0; NaN if no gain was found."""
        errors = [o.gain_error for o in self.outcomes if not math.isnan(o.gain_error)]
        return max(errors, key=abs, default=math.nan)

    @property
    def statuses(self) -> str:
        """Numbers of pairs that are ok, suspect, and anything else."""
        count = Counter(o.status for o in self.outcomes)
        others = len(self.outcomes) - count["ok"] - count["suspect"]
        return f"{count['ok']}/{count['suspect']}/{others}"


@dataclass(frozen=True)
class Promise:
    """One promise; ``kept`` is None where nothing was there to judge it by."""

    text: str
    reached: str
    limit: str
    kept: bool | None


def at_most(text: str, value: float, limit: float, form: str = "{:.1%}") -> Promise:
    """Promise that a value is not above a limit; NaN is not judged."""
    return Promise(
        text, as_text(value, form), "at most " + form.format(limit), _kept(value <= limit, value)
    )


def at_least(text: str, value: float, limit: float, form: str = "{:.3f}") -> Promise:
    """Promise that a value is not below a limit; NaN is not judged."""
    return Promise(
        text, as_text(value, form), "at least " + form.format(limit), _kept(value >= limit, value)
    )


def _kept(fits: bool, value: float) -> bool | None:  # noqa: FBT001
    return None if math.isnan(value) else bool(fits)


def as_text(value: float, form: str) -> str:
    """Format a number; a dash for NaN."""
    return "-" if math.isnan(value) else form.format(value)


def print_promises(promises: Sequence[Promise]) -> int:
    """Print promises next to what was reached; return 1 if one is missed."""
    words = {None: "not judged", True: "kept", False: "MISSED"}
    rows = [(p.text, p.reached, p.limit, words[p.kept]) for p in promises]
    print("\n" + table(("promise", "reached", "limit", ""), rows))
    return int(any(p.kept is False for p in promises))


def print_reasons(outcomes: Iterable[Outcome]) -> None:
    """Print the first words of all reasons with the pairs that have them."""
    names: dict[str, list[str]] = {}
    for o in outcomes:
        if not o.is_ok:
            words = " ".join(o.reason.split()[:_REASON_WORDS])
            names.setdefault(f"{o.status}: {words}", []).append(o.name)
    lines = [f"{key} ({len(some)}: {', '.join(some)})" for key, some in names.items()]
    print("", *(lines or ["all pairs are ok"]), sep="\n")
