"""State of the jobs of a pair: they run, they wait, or a fault has stopped one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unglow.telemetry.reading.records import ENDED_WELL, RUNNING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unglow.telemetry.reading.history import History, Placed, RunHistory
    from unglow.telemetry.reading.records import Attempt

WAITING, STOPPED = "waiting", "incomplete"
_PAIR, _VARIANTS = ("sample", "dye"), ("registration", "subtraction")
# Ends that are no fault of anything: the job is done elsewhere, or its user did not want it.
_NO_FAULT = (ENDED_WELL, RUNNING, "interrupted", "superseded")


def last_attempts(history: History) -> dict[tuple[str, str], list[Placed]]:
    """Return the last attempt at each job of each pair (sample and dye)."""
    last = {a.attempt.job: a for h in history.runs for a in h.attempts}
    by_pair: dict[tuple[str, str], list[Placed]] = {}
    for a in last.values():
        names = a.attempt.wildcards
        by_pair.setdefault((names.get("sample", ""), names.get("dye", "")), []).append(a)
    return by_pair


def at_work(attempt: Attempt) -> str:
    """Return the stage of an attempt and how much of it is done: ``register 45 %``."""
    if not attempt.of or attempt.done is None:
        return attempt.stage
    return f"{attempt.stage} {100 * min(1.0, attempt.done / attempt.of):.0f} %"


def state_of(
    attempts: Sequence[Placed], run: RunHistory, names: Mapping[str, object]
) -> tuple[str, str]:
    """Return the state of a pair that is not done, as far as telemetry tells.

    Parameters
    ----------
    attempts
        The last attempt at each of its jobs.
    run
        The last run.
    names
        Sample and dye, and the variant if only one is meant.

    Returns
    -------
    ``running`` and its stages, ``incomplete`` (a fault of machine or program) and a sentence, or
    ``waiting`` and nothing.
    """
    own = [a for a in attempts if works_for(a.attempt.wildcards, names)]
    stages = [at_work(a.attempt) for a in own if a.outcome == RUNNING]
    if run.outcome == RUNNING:  # and jobs of which no attempt is heard of yet, or any more
        heard = {a.job.jobid for a in own if a.job is not None and a.outcome == RUNNING}
        stages += [
            job.rule.removesuffix("_band")
            for job in run.run.jobs
            if job.state == "started" and job.jobid not in heard and works_for(job.wildcards, names)
        ]
    if stages:
        return RUNNING, ", ".join(stages)
    stopped = [a for a in own if _is_stopped(a, run)]
    if stopped:
        return STOPPED, sentence_of(max(stopped, key=lambda a: a.attempt.wall))
    return WAITING, ""


def works_for(wildcards: Mapping[str, str], names: Mapping[str, object]) -> bool:
    """Return whether a job works for a pair, or for a variant or all variants of it."""
    pair = all(wildcards.get(key) == names[key] for key in _PAIR)
    swept = [key for key in _VARIANTS if names.get(key) and wildcards.get(key)]
    return pair and all(wildcards[key] == names[key] for key in swept)


def sentence_of(a: Placed) -> str:
    """Return stage and message of an attempt, or else how it ended."""
    end = a.attempt.end
    message = end.message if end is not None and end.message else a.outcome.replace("_", " ")
    return f"{a.attempt.stage}: {message}"


def _is_stopped(a: Placed, run: RunHistory) -> bool:
    """Whether an attempt of the last run has failed, and is not about to be tried again."""
    if a.outcome in _NO_FAULT or not any(a is one for one in run.attempts):
        return False
    return run.outcome != RUNNING or a.job is None or a.job.state == "failed"
