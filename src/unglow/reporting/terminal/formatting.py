"""Times, counts, outcomes and last words as they are shown, and the console that shows them."""

from __future__ import annotations

import io
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import TextIO

    from rich.console import Console


BAD = "bold red"
"""Style of what has failed."""
OUTCOMES = {
    "ok": "finished",
    "failed": "failed",
    "interrupted": "was interrupted",
    "killed": "was killed",
    "running": "is running",
}
"""How a run ended, after its name."""


def stopwatch(seconds: float) -> str:
    """Return a time as ``0:42``, ``3:05`` or ``2:10:00``, for a column."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def megabytes(mb: float | None) -> str:
    """Return MB as a whole number without unit, for a column; empty if it is not known."""
    return "" if mb is None else f"{mb:.0f}"


def count(number: int, name: str) -> str:
    """Return a number with its noun, as in ``1 job``, ``2 jobs``."""
    return f"{number} {name}{'' if number == 1 else 's'}"


def count_inputs(pairs: int, slides: int) -> str:
    """Return how many pairs and slides there are, as in ``2 pairs and 1 slide``."""
    words = [count(pairs, "pair")] if pairs or not slides else []
    return " and ".join([*words, *([count(slides, "slide")] if slides else [])])


def clock(wall: float) -> str:
    """Return the local time of day of a Unix time."""
    return time.strftime("%H:%M:%S", time.localtime(wall))


def make_console(stream: TextIO, *, colours: bool = True) -> Console:
    """Return a console that shows text as it is; it follows NO_COLOR, COLUMNS and TERM.

    Characters that the terminal's encoding does not have are replaced.
    """
    from rich.console import Console  # noqa: PLC0415 (`unglow status` draws nothing)

    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="replace")
    no_color = None if colours else True
    return Console(file=stream, markup=False, highlight=False, emoji=False, no_color=no_color)


HOOKS = "UNGLOW_HOOKS"
"""Variable that is set where the Snakefile's hooks run, which set the exit status for failed pairs.

Without them (`--no-hooks`, some modules) the job of the rule verdict fails instead."""
INTERRUPTED = "Interrupted"
"""The first word of what is said after Ctrl-C."""
_ALLOW = "set allow_failed: true to end with exit status 0."


def has_failures(summary: Iterable[Mapping[str, str]]) -> bool:
    """Whether a pair failed or was skipped."""
    return any(row["status"] in ("failed", "skipped") for row in summary)


def closing_sentence(outcome: str | None, *, any_failed: bool, skipped: int) -> str:
    """Return what to do after a run that did not end well.

    Parameters
    ----------
    outcome
        ``interrupted``, ``failed`` (by a job), or else how a run without failed jobs ended.
    any_failed
        Whether a pair failed, skipped ones not counted.
    skipped
        Number of inputs that were skipped.
    """
    if outcome == "interrupted":
        return f"{INTERRUPTED}. Finished files are kept: the same command continues."
    if outcome == "failed":
        return (
            "A job failed; its error is above and in the report. Finished jobs are kept: fix the "
            "cause and run the same command again."
        )
    if any_failed:
        return f"All other results are complete. Fix what is named above and run again, or {_ALLOW}"
    inputs, them = ("1 input was", "it") if skipped == 1 else (f"{skipped} inputs were", "them")
    return f"All usable pairs are done; {inputs} skipped. Fix {them} and run again, or {_ALLOW}"
