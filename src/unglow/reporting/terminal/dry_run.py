"""Jobs of a dry run, in a screenful of lines for any batch."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from unglow.core.printable import clean, wrap_text
from unglow.reporting.terminal.formatting import count, count_inputs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NAMED = 3
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
    is_refused, is_done
        Whether a real run would be refused; whether nothing is to do.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = [word for word in command if word not in _DRY]
        self.pairs: list[tuple[str, str]] = []
        self.skipped: list[str] = []
        self.preflight: list[str] = []
        self.is_refused = self.is_done = False
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
        if self.is_refused:
            last = "A real run would be refused: it does not fit this machine."
        else:
            last = f"Run it: {shlex.join(self._command)}"
        above, below = [head, *skipped], [*wrap_text(jobs, _WIDTH), last]
        preflight = self.preflight[1:]
        if len(preflight) > (space := _MOST_LINES - len(above) - len(below)):
            preflight[space - 1 :] = ["  ... (`unglow preflight` shows all)"]
        return [*above, *preflight, *below]

    def _skipped(self) -> list[str]:
        if not self.skipped:
            return []
        lines = [f"{count(len(self.skipped), 'input')} skipped:"]
        for message in self.skipped[:_NAMED]:
            lines += wrap_text(clean(message), _WIDTH, "  - ", "    ")[:2]
        more = len(self.skipped) - _NAMED
        return lines + ([f"  and {more} more: `unglow survey`"] if more > 0 else [])


def count_pairs(keys: Sequence[tuple[str, str]]) -> str:
    """Return how many pairs there are, and how many slides, whose dye is ''."""
    slides = sum(not dye for _, dye in keys)
    return count_inputs(len(keys) - slides, slides)


def name_pairs(keys: Sequence[tuple[str, str]]) -> str:
    """Return how many pairs there are and the first of them: ``4 pairs (a, b, c and 1 more)``."""
    more = len(keys) - _NAMED
    first = ", ".join(clean(" ".join(filter(None, key))) for key in keys[:_NAMED])
    rest = f" and {more} more" if more > 0 else ""
    return count_pairs(keys) + (f" ({first}{rest})" if first else "")
