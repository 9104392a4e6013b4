"""One finding of a comparison: how much something differs, in a word and in a sentence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from unglow.core.errors import UnglowError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from unglow.results.pair import PairResults

Verdict = Literal["identical", "equal", "different", "unknown"]
WORDS: dict[Verdict, str] = {
    "different": "different",
    "unknown": "not compared",
    "equal": "equal within errors",
    "identical": "identical",
}
"""Verdicts, worst first, as people read them."""
_UNFIT = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Errors of comparing if a file holds other things than unglow writes."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a comparison found of one thing.

    Attributes
    ----------
    what
        ``input``, ``status``, ``map``, ``gain``, ``candidates`` or ``pixels``.
    verdict
        ``identical`` (the same bytes), ``equal`` (within the errors of both sides),
        ``different``, or ``unknown`` where it could not be compared.
    sentence
        What differs and how much, or why it could not be compared; without a point.
    excess
        How many times what errors allow; 0 where nothing differs.
    numbers
        Columns of the table.
    points
        Places in post to look at: a word, x, y (px) and signal-to-noise ratio of each.
    """

    what: str
    verdict: Verdict
    sentence: str
    excess: float = 0.0
    numbers: dict[str, float | int] = field(default_factory=dict)
    points: tuple[tuple[str, float, float, float], ...] = ()


def compare_file(
    what: str, name: str, a: PairResults, b: PairResults, compare: Callable[[Path, Path], Finding]
) -> Finding:
    """Compare a file of two results: by its digests, or else by ``compare``, given both paths."""
    digests = a.digest(name), b.digest(name)
    if digests[0] is not None and digests[0] == digests[1]:
        return Finding(what, "identical", f"{what} identical")
    one, other = a.find(name), b.find(name)
    if one is None or other is None:
        sides = " and ".join(side for side, path in (("A", one), ("B", other)) if path is None)
        differs = "" if None in digests else ", but its digest is another one"
        return Finding(what, "unknown", f"{what}: {name} is not in {sides}{differs}")
    try:
        return compare(one, other)
    except (UnglowError, OSError) as error:
        return Finding(what, "unknown", f"{what}: {error}")
    except _UNFIT as error:
        sentence = f"{name} of A or B is damaged, or of another version of unglow ({error})"
        return Finding(what, "unknown", f"{what}: {sentence}")
