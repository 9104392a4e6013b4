"""Numbers and names as they are shown: short, and free of what could act on a terminal."""

from __future__ import annotations

import time

from unglow.shown import clean

__all__ = ["OUTCOMES", "clean", "clock", "count", "duration", "megabytes", "memory", "stopwatch"]

OUTCOMES = {
    "ok": "ended well",
    "failed": "failed",
    "interrupted": "was interrupted",
    "killed": "was killed",
    "running": "has been running",
    "": "left no record of its end",
}
"""How a run ended, after its name."""


def duration(seconds: float) -> str:
    """Return a time in at most two units: ``42 s``, ``3 min 05 s``, ``2 h 10 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min"


def stopwatch(seconds: float) -> str:
    """Return a time as ``0:42``, ``3:05`` or ``2:10:00``, for a column."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def memory(mb: float | None) -> str:
    """Return MB with its unit, from 10000 MB on as GB; a question mark if it is not known."""
    if mb is None:
        return "?"
    return f"{mb:.0f} MB" if mb < 9999.5 else f"{mb / 1000:.1f} GB"


def megabytes(mb: float | None) -> str:
    """Return MB as a whole number without unit, for a column; empty if it is not known."""
    return "" if mb is None else f"{mb:.0f}"


def count(number: int, name: str) -> str:
    """Return a number with its noun, as in ``1 job``, ``2 jobs``."""
    return f"{number} {name}{'' if number == 1 else 's'}"


def clock(wall: float) -> str:
    """Return the local time of day of a Unix time."""
    return time.strftime("%H:%M:%S", time.localtime(wall))
