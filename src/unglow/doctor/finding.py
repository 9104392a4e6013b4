"""What a check has found, and how bad that is."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class Level(StrEnum):
    """How bad something is: a fault stops runs or spoils them, a warning may slow or surprise."""

    OK = "ok"
    WARNING = "warning"
    FAULT = "fault"


class Complaint(NamedTuple):
    """Something that is not well: how bad, what, and what helps."""

    level: Level
    what: str
    remedy: str


class Finding(NamedTuple):
    """What one check has found, on a line; the remedy is empty where all is well."""

    name: str
    level: Level
    found: str
    remedy: str = ""


def judged(name: str, found: str, complaints: Iterable[Complaint | None] = ()) -> Finding:
    """Return what was found with all complaints, as bad as the worst of them."""
    real = [one for one in complaints if one is not None]
    order = list(Level)
    level = max((one.level for one in real), key=order.index, default=Level.OK)
    words = "; ".join([*([found] if found else []), *(one.what for one in real)])
    return Finding(name, level, words, "; ".join(dict.fromkeys(one.remedy for one in real)))


def fault(true: bool, what: str, remedy: str) -> Complaint | None:  # noqa: FBT001 (a condition)
    """Return a complaint about a fault if it is true."""
    return Complaint(Level.FAULT, what, remedy) if true else None


def warning(true: bool, what: str, remedy: str) -> Complaint | None:  # noqa: FBT001 (a condition)
    """Return a complaint that is a warning if it is true."""
    return Complaint(Level.WARNING, what, remedy) if true else None
