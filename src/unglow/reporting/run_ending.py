"""The last words of a run: what is missing, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
