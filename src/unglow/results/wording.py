"""Times, counts, outcomes and the end of a run as they are shown, dry runs, and the console."""

from __future__ import annotations

import io
import os
import shlex
import textwrap
import time
from typing import TYPE_CHECKING, Any

from unglow.core.printable import PREFLIGHT, clean, wrap_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import TextIO

    from rich.console import Console

    from unglow.results.runs import Run


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
# Characters of a reason or a message.
_LONGEST = 200


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


def describe_end(run: Run) -> str:
    """Return how many pairs are in each state, and how the run ended."""
    ended = f"the run {OUTCOMES.get(run.outcome, clean(run.outcome))}"
    return f"pairs: {run.pair_counts}; {ended}" if run.pair_counts else ended


def name_outcome(run: Run) -> str:
    """Return how a run ended, for a table: of one whose jobs all ended well, its pairs too.

    Pairs are known of the last run of a directory only.
    """
    if run.outcome != "ok":
        return clean(run.outcome)
    return f"finished: {run.pair_counts}" if run.pair_counts else "finished"


def first_sentence(text: str) -> str:
    """Return the first sentence of a text, or its beginning if that is too long."""
    head, stop, _ = clean(text).partition(". ")
    return textwrap.shorten(head + stop.rstrip(), _LONGEST, placeholder=" …")


def clock(wall: float) -> str:
    """Return the local time of day of a Unix time."""
    return time.strftime("%H:%M:%S", time.localtime(wall))


def make_console(stream: TextIO, *, colours: bool = True) -> Console:
    """Return a console that shows text as it is; it follows NO_COLOR, COLUMNS and TERM.

    Characters that the terminal's encoding does not have are replaced.
    """
    from rich.console import Console  # `unglow status` draws nothing

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


_NAMED = 3
# Lines of what is said of each of them; what helps comes last.
_MOST_OF_ONE = 5
_WIDTH = 100
_MOST_LINES = 24
_DRY = ("-n", "--dry-run", "--dryrun")


class DryRun:
    """Facts about a run that is not started.

    Parameters
    ----------
    command
        The words that the user typed.

    Attributes
    ----------
    pairs
        Sample and dye of each pair of the batch, and of each slide, whose dye is ''.
    skipped
        Why inputs are skipped, in sentences.
    preflight
        Lines on memory, disk and time, with a head.
    refusal
        Why a real run would be refused, in a sentence; '' if it would not.
    is_done
        Whether nothing is to do.
    is_locked
        Whether the lock of a killed run is still there, which only `unglow resume` removes.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = [word for word in command if word not in _DRY]
        self.pairs: list[tuple[str, str]] = []
        self.skipped: list[str] = []
        self.preflight: list[str] = []
        self.refusal = ""
        self.is_done = self.is_locked = False
        self._rules: dict[str, int] = {}
        self._to_do: set[tuple[str, str]] = set()

    def add_job(self, job: Mapping[str, Any]) -> None:
        """Take a job that would run, as Snakemake reports it."""
        names = dict(job["wildcards"] or {})
        self._to_do.add((str(names.get("sample", "")), str(names.get("dye", ""))))

    def set_rules(self, stats: Mapping[str, int]) -> None:
        """Take the number of jobs of each rule."""
        kept = {rule: int(n) for rule, n in stats.items() if rule != "total"}
        self._rules = {rule: n for rule, n in kept.items() if not rule.endswith("all")}

    def lines(self) -> list[str]:
        """Return the lines."""
        skipped = self._skipped()
        if self.is_done or not self._rules:
            done = f"Nothing to do: {count_pairs(self.pairs)} finished."
            return [done, *skipped, "Show them: unglow status"] if self.is_done else skipped
        to_do = [pair for pair in self.pairs if pair in self._to_do]
        rest = len(self.pairs) - len(to_do)
        head = f"To do: {name_pairs(to_do)}" + (f"; {rest} finished" if rest else "")
        if not to_do:  # what is left is of all pairs together
            head = f"{count_pairs(self.pairs)} in this batch"
        rules = ", ".join(f"{n} {rule}" for rule, n in self._rules.items())
        jobs = f"{count(sum(self._rules.values()), 'job')}: {rules}"
        words = ["unglow", "resume"] if self.is_locked else self._command
        last = f"Refused: {self.refusal}" if self.refusal else f"Run it: {shlex.join(words)}"
        above, below = [head, *skipped], [*wrap_text(jobs, _WIDTH), last]
        preflight, space = self.preflight[1:], _MOST_LINES - len(above) - len(below)
        if len(preflight) > space and PREFLIGHT not in os.environ:
            preflight[space - 1 :] = ["  ... (`unglow preflight` shows all)"]
        return [*above, *preflight, *below]

    def _skipped(self) -> list[str]:
        if not self.skipped:
            return []
        lines = [f"{count(len(self.skipped), 'input')} skipped:"]
        for message in self.skipped[:_NAMED]:
            whole = wrap_text(clean(message), _WIDTH, "  - ", "    ")
            is_long = len(whole) > _MOST_OF_ONE
            lines += [*whole[: _MOST_OF_ONE - 1], "    ..."] if is_long else whole
        more = len(self.skipped) - _NAMED
        return lines + ([f"  and {more} more: `unglow survey`"] if more > 0 else [])


def count_pairs(keys: Sequence[tuple[str, str]]) -> str:
    """Return how many pairs and slides (dye '') there are, as in ``2 pairs and 1 slide``."""
    slides = sum(not dye for _, dye in keys)
    pairs = len(keys) - slides
    words = [count(pairs, "pair")] if pairs or not slides else []
    return " and ".join([*words, *([count(slides, "slide")] if slides else [])])


def name_pairs(keys: Sequence[tuple[str, str]]) -> str:
    """Return how many pairs there are and the first of them: ``4 pairs (a, b, c and 1 more)``."""
    more = len(keys) - _NAMED
    first = ", ".join(clean(" ".join(filter(None, key))) for key in keys[:_NAMED])
    rest = f" and {more} more" if more > 0 else ""
    return count_pairs(keys) + (f" ({first}{rest})" if first else "")
