"""Estimate of the time that a run still takes, with its uncertainty.

What each job takes is what was expected of its rule, corrected by what this run has measured so
far: the ratio of both, of few jobs drawn towards that of all rules. The rest of the plan is
simulated on the cores and the memory of the run (on a batch system, on as many places as are
taken), and takes as many times longer as what is done has taken, gaps between jobs included.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unglow.core.rounding import duration
from unglow.core.schedule import Task, simulate
from unglow.telemetry.jsonl import number
from unglow.telemetry.reading import plan
from unglow.telemetry.reading.records import ENDED_WELL, RUNNING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from unglow.telemetry.reading.history import RunHistory
    from unglow.telemetry.reading.records import Attempt

# Number of measured jobs that expected times count as much as.
_PRIOR_JOBS = 2.0
# Relative standard errors: of expected times, where the record says nothing of theirs; of a single
# job; of the schedule; and of all together at most. As the last jobs do not end at one time, there
# is one of this part of the longest job to come.
_OF_EXPECTED, _OF_JOB, _OF_SCHEDULE, _MOST_ERROR = 0.5, 0.5, 0.3, 1.0
_OF_LAST = 0.7
# The forecast counts as much as this share of its time.
_PRIOR_SHARE = 0.1
# A job that takes longer than expected still needs this share of the time that it has had.
_OVERDUE = 0.1
_Z = 1.645  # of 90 %
# Longest time that is possible, s.
_LONGEST_S = 1e9


@dataclass(frozen=True, slots=True)
class Left:
    """Time left, s, with the bounds that it is between in 90 % of cases."""

    seconds: float
    low: float
    high: float

    @property
    def words(self) -> str:
        """As in ``about 2 min 40 s left (2 to 4 min)``."""
        return f"about {duration(_coarse(self.seconds))} left ({_range(self.low, self.high)})"


def _coarse(seconds: float) -> float:
    """Round to 5 s, from 5 min on to 30 s: the rest means nothing."""
    step = 1 if seconds < 20 else 5 if seconds < 300 else 30
    return step * round(seconds / step)


def _range(low: float, high: float) -> str:
    unit, name = next(
        (u, n) for u, n, most in ((1, "s", 100), (60, "min", 6000), (3600, "h", math.inf))
        if high < most
    )  # fmt: skip
    step = 5 if unit == 1 and high >= 20 else 1
    first, last = (step * f(s / unit / step) for f, s in ((math.floor, low), (math.ceil, high)))
    return f"{first} to {last} {name}" if first > 0 else f"up to {last} {name}"


def time_left(history: RunHistory, earlier: Iterable[RunHistory] = ()) -> Left | None:
    """Estimate how long a run will still take; None if that cannot be known.

    ``earlier`` are other runs of the same directory: their times are expected, where the record of
    the run holds no forecast.
    """
    if history.outcome != RUNNING or not history.run.plan:
        return None
    forecast = _Forecast.build(history, earlier)
    if forecast is None:
        return None
    measured = _times(history.attempts)
    of_job = forecast.correct(measured, {row.rule for row in history.rules})
    running = _running(history, of_job)
    tasks, limits = _schedule(history, of_job, running)
    seconds = simulate(tasks, limits)
    whole = simulate(*_schedule(history, of_job))
    done = whole - seconds + _PRIOR_SHARE * whole
    took = history.seconds + _PRIOR_SHARE * (forecast.seconds or whole)
    seconds *= max(1.0, took / done) if done > 0 else 1.0
    if not 0 <= seconds < _LONGEST_S:
        return None
    ended = sum(map(len, measured.values()))
    errors = (
        forecast.error / math.sqrt(1 + ended / _PRIOR_JOBS),
        _OF_JOB / math.sqrt(max(1, len(tasks))),
        _OF_SCHEDULE,
        _OF_LAST * max(task.seconds for task in tasks) / seconds if seconds else 0.0,
    )
    spread = math.exp(_Z * min(math.hypot(*errors), _MOST_ERROR))
    return Left(seconds, seconds / spread, seconds * spread)


@dataclass(frozen=True, slots=True)
class _Forecast:
    """Expected times: s of a job by rule, of all of them on average, its relative error."""

    of_job: Mapping[str, float]
    mean: float
    error: float
    seconds: float = 0.0

    @classmethod
    def build(cls, history: RunHistory, earlier: Iterable[RunHistory]) -> _Forecast | None:
        found = cls._recorded(history.run.fields.get("expected"))
        if found is not None:
            return found
        times = _times(a for h in earlier for a in h.attempts)
        of_job = {rule: sum(own) / len(own) for rule, own in times.items()}
        if of_job:
            return cls(of_job, sum(of_job.values()) / len(of_job), _OF_EXPECTED / 2)
        own = [s for group in _times(history.attempts).values() for s in group]
        return cls({}, sum(own) / len(own), _OF_EXPECTED) if own else None

    @classmethod
    def _recorded(cls, expected: object) -> _Forecast | None:
        """Return the forecast in the head of a run; None if there is no usable one."""
        known: Mapping[str, Any] = expected if isinstance(expected, dict) else {}
        rules = known.get("rules")
        rows = {r: row for r, row in (rules if isinstance(rules, dict) else {}).items()
                if isinstance(row, dict)}  # fmt: skip
        jobs = {rule: number(row.get("jobs")) or 0.0 for rule, row in rows.items()}
        work = {rule: number(row.get("seconds")) or 0.0 for rule, row in rows.items()}
        seconds, low, high = (number(known.get(key)) or 0.0 for key in ("seconds", "low", "high"))
        if sum(work.values()) <= 0 or seconds <= 0:
            return None
        of_job = {rule: work[rule] / jobs[rule] for rule in rows if jobs[rule] > 0}
        error = math.log(high / low) / (2 * _Z) if high > low > 0 else _OF_EXPECTED
        mean = sum(work.values()) / max(1.0, sum(jobs.values()))
        return cls(of_job, mean, error, seconds)

    def correct(
        self, measured: Mapping[str, Sequence[float]], rules: Iterable[str]
    ) -> dict[str, float]:
        """Return what a job of each rule takes, s, by what was expected and has been measured."""
        prior = _PRIOR_JOBS * self.mean
        took = prior + sum(map(sum, measured.values()))
        expected = prior + sum(
            len(times) * self.of_job.get(rule, self.mean) for rule, times in measured.items()
        )
        ratio = took / expected if prior else 1.0
        of_job = {}
        for rule in rules:
            own = measured.get(rule, ())
            prior = _PRIOR_JOBS * ratio * self.of_job.get(rule, self.mean)
            of_job[rule] = (sum(own) + prior) / (len(own) + _PRIOR_JOBS)
        return of_job


def _running(history: RunHistory, of_job: Mapping[str, float]) -> dict[int, float]:
    """Return what running jobs still take, s, by their number."""
    left = {}
    for job in history.run.jobs:
        if history.states[job.jobid] == RUNNING:
            had = history.seconds - max(job.list_times("started"), default=history.seconds)
            own = (a for a in history.attempts if a.job is job and a.outcome == RUNNING)
            had = max([had, *(a.seconds for a in own)])
            left[job.jobid] = max(of_job[job.rule] - had, _OVERDUE * had)
    return left


def _schedule(
    history: RunHistory, of_job: Mapping[str, float], running: Mapping[int, float] | None = None
) -> tuple[list[Task], tuple[float | None, ...]]:
    """Return jobs, with what they need, and the limits of that.

    ``running`` are the times of those that run, for all that are open; None for the entire plan.
    """
    run, is_over = history.run, {plan.DONE, plan.FAILED, plan.BLOCKED}
    known = running or {}
    jobs = [j for j in run.plan if running is None or history.states[j.jobid] not in is_over]
    places = {job.jobid: n for n, job in enumerate(jobs)}
    needs: dict[str, tuple[float, ...]] = defaultdict(lambda: (1.0, 0.0))
    needs |= {j.rule: (j.threads, number(j.resources.get("mem_mb")) or 0.0) for j in run.jobs}
    limits: tuple[float | None, ...] = run.cores or None, run.budget_mb
    if not all(job.local for job in run.jobs):
        at_once = sum(state == RUNNING for state in history.states.values())
        needs, limits = defaultdict(lambda: (1.0,)), (max(1, at_once),)
    return [
        Task(
            known.get(job.jobid, of_job[job.rule]),
            needs[job.rule],
            [places[n] for n in job.after if n in places and job.jobid not in known],
        )
        for job in jobs
    ], limits


def _times(placed: Iterable[Attempt]) -> dict[str, list[float]]:
    """Return times of successful jobs by rule, s, starting them included."""
    times: dict[str, list[float]] = {}
    for a in placed:
        if a.outcome == ENDED_WELL:
            start = a.start if a.launched is None else a.launched
            times.setdefault(a.rule, []).append(a.end - start)
    return times
