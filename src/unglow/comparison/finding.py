"""What a comparison finds of one thing: how much it differs, in a word and in a sentence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from unglow.core import files
from unglow.core.archive import make_damage_error
from unglow.core.errors import StoreError, UnglowError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from unglow.comparison.directories import Entry

Verdict = Literal["identical", "equal", "different", "unknown"]
WORDS: dict[Verdict, str] = {
    "different": "different",
    "unknown": "not compared",
    "equal": "equal within errors",
    "identical": "identical",
}
"""Verdicts, worst first, as people read them."""
_UNFIT = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What comparing raises if a file holds other things than unglow writes."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a comparison found of one thing.

    Attributes
    ----------
    what
        ``input``, ``status``, ``map``, ``gain``, ``candidates`` or ``pixels``.
    verdict
        ``identical`` (the same bytes), ``equal`` (within the errors that both sides tell),
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

    @classmethod
    def within(
        cls, what: str, excess: float, sentence: str, numbers: dict[str, float | int]
    ) -> Finding:
        """Return what follows from how many times the allowed it differs."""
        return cls(what, "equal" if excess <= 1 else "different", sentence, excess, numbers)


def of_file(
    what: str, name: str, a: Entry, b: Entry, compare: Callable[[Path, Path], Finding]
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
        return Finding(what, "unknown", f"{what}: {lacking(name, error)}")


def read_json(path: Path) -> dict[str, Any]:
    """Read an object of JSON.

    Raises
    ------
    StoreError
        It is no such object.
    """
    try:
        content = files.read_json(path)
    except ValueError as error:
        raise make_damage_error(path) from error
    if not isinstance(content, dict):
        raise make_damage_error(path)
    return content


def lacking(name: str, error: Exception) -> StoreError:
    """Return the error of files of that name whose content is not what a comparison needs."""
    key = f" ({error} is missing)" if isinstance(error, KeyError) else ""
    return StoreError(f"{name} of A or B is damaged, or of another version of unglow{key}")
