"""State of the jobs of a pair: they run, they wait, or a fault has stopped one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from unglow.core.levels import PAIR, VARIANT
from unglow.telemetry.reading import plan
from unglow.telemetry.reading.records import ENDED_WELL, RUNNING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from unglow.telemetry.reading.history import History
    from unglow.telemetry.reading.records import Attempt, Job, Placed, Planned

T = TypeVar("T")
WAITING, STOPPED = "waiting", "incomplete"
# Ends without a fault: the job is done elsewhere, or its user did not want it.
_NO_FAULT = (ENDED_WELL, RUNNING, "interrupted", "superseded")
# Prefixes of names of rules whose jobs show results and change none.
_SHOWING = ("figures", "slide_figures", "export", "comparison", "snr")


def last_attempts(history: History) -> dict[tuple[str, str], list[Placed]]:
    """Return the last attempt at each job of each pair (sample and dye)."""
    return _group_by_pair((a.attempt.wildcards, a) for a in history.last_attempts.values())


class Work:
    """Work of the runs of a results directory on each pair: done, running, still to do."""

    def __init__(self, history: History) -> None:
        self._last = history.last
        self._of_last = frozenset(self._last.attempts if self._last is not None else ())
        self._attempts = last_attempts(history)
        self._started: dict[tuple[str, str], list[Job]] = {}
        self._open: dict[tuple[str, str], list[Planned]] = {}
        if self._last is not None and self._last.outcome == RUNNING:
            run = self._last.run
            known = self._last.states
            started = (j for j in run.jobs if known[j.jobid] == RUNNING)
            self._started = _group_by_pair((j.wildcards, j) for j in started)
            to_do = (j for j in run.plan if known[j.jobid] != plan.DONE)
            self._open = _group_by_pair((j.wildcards, j) for j in to_do)

    def _own(self, names: Mapping[str, object]) -> list[Placed]:
        attempts = select_pair(self._attempts, names)
        return [a for a in attempts if works_for(a.attempt.wildcards, names)]

    def remaining(self, names: Mapping[str, object]) -> list[str]:
        """Return the rules of jobs that the run still has to do before a pair's result is known.

        None are known where nothing runs, or its record holds no plan.
        """
        jobs = select_pair(self._open, names) if names.get("sample") else []
        rules = (j.rule for j in jobs if works_for(j.wildcards, names))
        return [rule for rule in rules if not rule.startswith(_SHOWING)]

    def at(self, names: Mapping[str, object]) -> str:
        """Return the stages of a pair that run, and how much of each is done; empty for none."""
        own = [a for a in self._own(names) if a.outcome == RUNNING]
        stages = [at_work(a.attempt) for a in own]
        # and jobs of which no attempt is heard of yet, or any more
        heard = {a.job.jobid for a in own if a.job is not None}
        stages += [
            job.rule
            for job in select_pair(self._started, names)
            if job.jobid not in heard and works_for(job.wildcards, names)
        ]
        return ", ".join(stages)

    def state_of(self, names: Mapping[str, object]) -> tuple[str, str]:
        """Return the state of a pair that is not done, as far as telemetry shows.

        Parameters
        ----------
        names
            Sample and dye, and the variant if only one is meant.

        Returns
        -------
        ``running`` and its stages, ``incomplete`` (a fault of machine or program) and a sentence,
        or ``waiting`` and nothing.
        """
        if stages := self.at(names):
            return RUNNING, stages
        stopped = [a for a in self._own(names) if self._is_stopped(a)]
        if stopped:
            return STOPPED, sentence_of(max(stopped, key=lambda a: a.attempt.wall))
        return WAITING, ""

    def _is_stopped(self, a: Placed) -> bool:
        """Whether an attempt of the last run has failed, and is not about to be tried again."""
        last = self._last
        if last is None or a.outcome in _NO_FAULT or a not in self._of_last:
            return False
        return last.outcome != RUNNING or a.job is None or a.job.state == "failed"


def _group_by_pair(
    items: Iterable[tuple[Mapping[str, object], T]],
) -> dict[tuple[str, str], list[T]]:
    found: dict[tuple[str, str], list[T]] = {}
    for names, item in items:
        found.setdefault(_pair(names), []).append(item)
    return found


def select_pair(found: Mapping[tuple[str, str], list[T]], names: Mapping[str, object]) -> list[T]:
    """Return those of a pair, or of a marker's slide, whose jobs have no dye."""
    sample, dye = _pair(names)
    return [*found.get((sample, dye), ()), *(found.get((sample, ""), ()) if dye else ())]


def _pair(names: Mapping[str, object]) -> tuple[str, str]:
    sample, dye = (str(names.get(key) or "") for key in PAIR)
    return sample, dye


def works_for(wildcards: Mapping[str, str], names: Mapping[str, object]) -> bool:
    """Whether a job works for a pair, for a variant or all variants of it, or a marker's slide."""
    sample, dye = PAIR
    own = not names.get(dye) or wildcards.get(dye, names[dye]) == names[dye]
    pair = wildcards.get(sample) == names[sample] and own
    swept = [key for key in VARIANT if names.get(key) and wildcards.get(key)]
    return pair and all(wildcards[key] == names[key] for key in swept)


def at_work(attempt: Attempt) -> str:
    """Return the stage of an attempt and how much of it is done: ``register 45 %``."""
    if not attempt.of or attempt.done is None:
        return attempt.stage
    return f"{attempt.stage} {100 * min(1.0, attempt.done / attempt.of):.0f} %"


def sentence_of(a: Placed) -> str:
    """Return stage and message of an attempt, or else how it ended."""
    end = a.attempt.end
    message = end.message if end is not None and end.message else a.outcome.replace("_", " ")
    return f"{a.attempt.stage}: {message}"
