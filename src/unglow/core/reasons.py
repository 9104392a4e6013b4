"""Reasons of a verdict: one table of sentences (reasons.toml), numbers behind each, and help.

A stage finds a fact and calls `explain` with its key. A reason with ``is_note`` casts no doubt on
the result; any other one makes a pair, a marker or a cycle ``suspect`` (or says why it failed).
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from unglow.core.files import read_file
from unglow.core.records import to_plain, to_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Place = tuple[float, float]
DETAILS = "details"
"""Column of rows that pages show, with what is behind their reasons and notes: `list_details`."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A row of reasons.toml; its texts are templates of `str.format`.

    Attributes
    ----------
    sentence
        At most 20 plain words.
    numbers
        What was measured, and the setting it is compared with; pages fold it.
    help
        What helps; may be empty.
    is_note
        Whether it is no doubt.
    """

    sentence: str
    numbers: str = ""
    help: str = ""
    is_note: bool = False


@cache
def read_table() -> dict[str, Kind]:
    """Read reasons.toml; most jobs give no reason, and are not made to wait for it."""
    text = read_file(Path(__file__).with_suffix(".toml")).decode()
    return {key: Kind(**row) for key, row in tomllib.loads(text).items()}


class _Sentence(str):
    """A sentence in a result file: a text in words of its own, or a `Reason`."""

    __slots__ = ()

    @staticmethod
    def from_plain(value: str | Mapping[str, Any]) -> _Sentence:
        """Return the sentence of a result file; RecordError if it is none."""
        if isinstance(value, str):
            return _Sentence(value)
        entry = to_record(value, _Entry)
        return _make(entry.key, entry.sentence, entry.numbers, entry.help, entry.at)

    def to_plain(self) -> str | dict[str, Any]:
        """Return what result files have of it."""
        return str(self)


if TYPE_CHECKING:  # a text to whoever has it, and a type of records
    Sentence: TypeAlias = str
else:
    Sentence = _Sentence


class _Entry(msgspec.Struct):
    key: str
    sentence: str
    numbers: str
    help: str
    at: Place | None


class Reason(_Sentence):
    """A sentence of the table with what is behind it; it is that sentence wherever text is.

    Attributes
    ----------
    key
        In reasons.toml.
    numbers, help
        Texts as in `Kind`, filled.
    at
        (x, y) of the place to look at, px of post; None for none.
    """

    key: str
    numbers: str
    help: str
    at: Place | None

    __slots__ = ("at", "help", "key", "numbers")

    def to_plain(self) -> dict[str, Any]:
        """Return what result files and pages have of it."""
        about = {"key": self.key, "sentence": str(self), "numbers": self.numbers, "help": self.help}
        return {**about, "at": None if self.at is None else list(self.at)}


def explain(key: str, **values: Any) -> Reason:
    """Return the reason of a key: values for its templates, and ``at``, (x, y) in px of post."""
    kind, at = read_table()[key], values.pop("at", None)
    sentence, numbers = kind.sentence.format(**values), kind.numbers.format(**values)
    return _make(key, sentence, numbers, kind.help.format(**values), at)


def _make(key: str, sentence: str, numbers: str, help_: str, at: Place | None) -> Reason:
    made = Reason(sentence)
    made.key, made.numbers, made.help = key, numbers, help_
    made.at = None if at is None else (round(float(at[0]), 1), round(float(at[1]), 1))
    return made


# Failures of the search for a map, which landmarks replace.
_SEARCH = ("unlike", "scale_beyond", "sheared", "small_overlap", "few_blocks", "different")


def can_landmarks_help(reasons: Iterable[str]) -> bool:
    """Return whether landmarks may help a registration that failed for these reasons."""
    return not {read_table()[key].sentence for key in _SEARCH}.isdisjoint(reasons)


def split_notes(reasons: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return those that cast doubt, plain sentences with them, and those that are notes."""
    parts: tuple[list[str], list[str]] = ([], [])
    for one in dict.fromkeys(reasons):
        parts[isinstance(one, Reason) and read_table().get(one.key, Kind("")).is_note].append(one)
    return parts


def list_details(reasons: Iterable[str]) -> list[dict[str, Any]]:
    """Return those of the table, as pages fold what is behind them."""
    return [one.to_plain() for one in dict.fromkeys(reasons) if isinstance(one, Reason)]


def to_json(reasons: Iterable[str]) -> list[str | dict[str, Any]]:
    """Return reasons as result files have them; refusals in words of their own are text."""
    plain: list[str | dict[str, Any]] = to_plain(list(reasons))
    return plain


def from_json(reasons: Iterable[Any]) -> list[str]:
    """Read what `to_json` gave; RecordError if that is something else."""
    return list(to_record(list(reasons), list[Sentence]))
