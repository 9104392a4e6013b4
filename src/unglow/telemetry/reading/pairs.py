"""State of each pair, by telemetry and its own results: its jobs run or wait, it failed, and why.

Of results only the small files of plan, registration and scale are read, and each state of them
once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from unglow.core.levels import PAIR, RESULT_OF, VARIANT, names_of, place_of, variants_in
from unglow.core.reasons import Reason, Sentence, can_landmarks_help
from unglow.core.records import RecordError, read_record
from unglow.telemetry.reading import plan
from unglow.telemetry.reading.records import ENDED_WELL, RUNNING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from unglow.telemetry.reading.history import History
    from unglow.telemetry.reading.records import Attempt, Job, Planned


T = TypeVar("T")
WAITING, STOPPED = "waiting", "incomplete"
# Ends without a fault: the job is done elsewhere, or its user did not want it.
_NO_FAULT = (ENDED_WELL, RUNNING, "interrupted", "superseded")
# Prefixes of names of rules whose jobs show results and change none.
_SHOWING = ("figures", "slide_figures", "export", "snr")


def last_attempts(history: History) -> dict[tuple[str, str], list[Attempt]]:
    """Return the last attempt at each job of each pair (sample and dye)."""
    last = {a.key: a for h in history.runs for a in h.attempts}
    return _group_by_pair((a.wildcards, a) for a in last.values())


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

    def _select_attempts(self, names: Mapping[str, object]) -> list[Attempt]:
        attempts = select_pair(self._attempts, names)
        return [a for a in attempts if works_for(a.wildcards, names)]

    def remaining(self, names: Mapping[str, object]) -> list[str]:
        """Return the rules of jobs that the run still has to do before a pair's result is known.

        None are known where nothing runs, or its record holds no plan.
        """
        jobs = select_pair(self._open, names) if names.get("sample") else []
        rules = (j.rule for j in jobs if works_for(j.wildcards, names))
        return [rule for rule in rules if not rule.startswith(_SHOWING)]

    def describe_running(self, names: Mapping[str, object]) -> str:
        """Return the stages of a pair that run, and how much of each is done; empty for none."""
        own = [a for a in self._select_attempts(names) if a.outcome == RUNNING]
        stages = [describe_work(a) for a in own]
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
        if stages := self.describe_running(names):
            return RUNNING, stages
        stopped = [a for a in self._select_attempts(names) if self._is_stopped(a)]
        if stopped:
            return STOPPED, sentence_of(max(stopped, key=lambda a: a.wall))
        return WAITING, ""

    def _is_stopped(self, a: Attempt) -> bool:
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
        found.setdefault(_key_of(names), []).append(item)
    return found


def select_pair(found: Mapping[tuple[str, str], list[T]], names: Mapping[str, object]) -> list[T]:
    """Return those of a pair, or of a marker's slide, whose jobs have no dye."""
    sample, dye = _key_of(names)
    return [*found.get((sample, dye), ()), *(found.get((sample, ""), ()) if dye else ())]


def _key_of(names: Mapping[str, object]) -> tuple[str, str]:
    sample, dye = (str(names.get(key) or "") for key in PAIR)
    return sample, dye


def works_for(wildcards: Mapping[str, str], names: Mapping[str, object]) -> bool:
    """Whether a job works for a pair, for a variant or all variants of it, or a marker's slide."""
    sample, dye = PAIR
    own = not names.get(dye) or wildcards.get(dye, names[dye]) == names[dye]
    pair = wildcards.get(sample) == names[sample] and own
    swept = [key for key in VARIANT if names.get(key) and wildcards.get(key)]
    return pair and all(wildcards[key] == names[key] for key in swept)


def describe_work(attempt: Attempt) -> str:
    """Return the stage of an attempt and how much of it is done: ``register 45 %``."""
    done = attempt.share
    return attempt.stage if done is None else f"{attempt.stage} {100 * done:.0f} %"


def sentence_of(a: Attempt) -> str:
    """Return stage and message of an attempt, or else how it ended."""
    return f"{a.stage}: {a.message or a.outcome.replace('_', ' ')}"


# Levels whose files may say it; the first one counts.
_LEVELS = ("ingestion", "registration", "subtraction")

_USABLE = ("ok", "suspect")


def reasons_of(path: Path) -> str | None:
    """Return why plan.json, transform.json or scale.json says that the pair failed.

    None if it does not say so, is not there, or cannot be read.
    """
    status, reasons = _status(path)
    return " ".join(reasons) if status == "failed" else None


def first_reasons(paths: Iterable[Path]) -> str | None:
    """Return the reasons of the first of some files that says so; None if none does."""
    return next((reasons for path in paths if (reasons := reasons_of(path)) is not None), None)


def find_refusal(results: Path, row: Mapping[str, Any]) -> Path | None:
    """Return the file that says why a pair failed; None if none does."""
    paths = (place_of(results, row, level) / RESULT_OF[level] for level in _LEVELS)
    return next((path for path in paths if reasons_of(path) is not None), None)


def suggest_help(results: Path, row: Mapping[str, Any]) -> str:
    """Return what helps a pair whose registration failed, in a sentence; empty for other failures.

    Parameters
    ----------
    results
        The results directory.
    row
        Names and reasons of the pair, as in the summary.
    """
    sample, dye, *_ = names_of(row)
    status, reasons = _status(place_of(results, row, "registration") / "transform.json")
    refused = reasons_of(place_of(results, row, "ingestion") / RESULT_OF["ingestion"])
    if not sample or status != "failed" or refused:
        return ""
    if not can_landmarks_help(reasons):
        return next((one.help for one in reasons if isinstance(one, Reason)), "")
    others = [d for d in _list_registered(results / sample) if d != dye]
    by_dye = f", or take the map of {others[0]} (register: from: {others[0]})" if others else ""
    return f"Mark the same three places in both images (Landmarks in the viewer){by_dye}."


def _list_registered(sample: Path) -> list[str]:
    """Return the dyes of a sample that have a map."""
    return sorted(
        dye.name
        for dye in sample.iterdir()
        if any(_status(p / "transform.json")[0] in _USABLE for p, _ in variants_in(dye))
    )


def _status(path: Path) -> tuple[str, list[str]]:
    """Return status and reasons of a file; empty where there are none."""
    try:
        about = path.stat()
        return _read(str(path), about.st_mtime_ns, about.st_size)
    except OSError:
        return "", []


@lru_cache(maxsize=1 << 14)
def _read(path: str, _time: int, _size: int) -> tuple[str, list[str]]:
    try:
        result = read_record(path, _Result)
    except (OSError, RecordError):
        return "", []
    reasons = result.reasons or ([result.reason] if result.reason else [])
    return result.status, reasons


class _Result(msgspec.Struct):
    status: str = ""
    reason: str | None = None
    reasons: list[Sentence] = msgspec.field(default_factory=list)
