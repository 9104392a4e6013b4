"""Estimate of the time that a run still takes, with its uncertainty.

What each job takes is what was expected of its rule, corrected by what this run has measured so
far: the ratio of both, of few jobs drawn towards that of all rules. The rest of the work is shared
among as many jobs at a time as run on average, and never takes less than its longest chain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unglow.core.rounding import duration
from unglow.telemetry.reading import plan
from unglow.telemetry.reading.parsing import number
from unglow.telemetry.reading.records import ENDED_WELL, RUNNING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from unglow.telemetry.reading.history import Placed, RunHistory

# Expected times count as much as so many jobs that were measured.
_PRIOR_JOBS = 2.0
# Relative standard errors: of expected times, where the record says nothing of theirs; of a single
# job of a rule; of how many run at a time; and of all together at most. As the last jobs do not end
# at one time, there is one of this part of the longest job to come. In 40 finished runs on a busy
# machine, cut off at five points each, the bounds of 90 % held in 85 % of cases.
_OF_EXPECTED, _OF_JOB, _AT_A_TIME, _MOST_ERROR = 0.5, 0.5, 0.2, 1.0
_OF_LAST = 0.7
# The forecast of how many jobs run at a time counts as much as this share of its time.
_PRIOR_SHARE = 0.1
# A job that takes longer than it should goes on for this share of the time that it has had.
_OVERDUE = 0.1
_Z = 1.645  # of 90 %
# What is more is no time, s.
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


def time_left(
    history: RunHistory,
    earlier: Iterable[RunHistory] = (),
    of_jobs: Mapping[int, str] | None = None,
) -> Left | None:
    """Estimate how long a run will still take; None if that cannot be known.

    Parameters
    ----------
    history
        The run.
    earlier
        Other runs of the same directory: what they took is expected, where the record of the run
        holds no forecast.
    of_jobs
        What `plan.states` has returned for the run, if that is known.
    """
    if history.outcome != RUNNING or not history.run.totals:
        return None
    forecast = _Forecast.of(history, earlier)
    if forecast is None:
        return None
    known = plan.states(history) if of_jobs is None else of_jobs
    jobs = _Jobs(history, forecast, known)
    at_a_time = _at_a_time(history, forecast)
    seconds = max(jobs.work / at_a_time, jobs.chain())
    last = _OF_LAST * jobs.longest / seconds if seconds > 0 else 0.0
    spread = math.exp(_Z * min(math.hypot(jobs.error, last), _MOST_ERROR))
    if not seconds * spread < _LONGEST_S:
        return None
    return Left(seconds, seconds / spread, seconds * spread)


@dataclass(frozen=True, slots=True)
class _Forecast:
    """What was expected: s of a job by rule, of all of them on average, its relative error."""

    of_job: Mapping[str, float]
    mean: float
    error: float
    at_a_time: float | None = None
    seconds: float = 0.0

    @classmethod
    def of(cls, history: RunHistory, earlier: Iterable[RunHistory]) -> _Forecast | None:
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
        """Return the forecast in the head of a run; None if there is none that can be used."""
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
        return cls(of_job, mean, error, max(1.0, sum(work.values()) / seconds), seconds)


class _Jobs:
    """What each job of a run still takes, s, and how well that is known."""

    def __init__(self, h: RunHistory, forecast: _Forecast, known: Mapping[int, str]) -> None:
        self._h, self._known, self._forecast = h, known, forecast
        self._measured = _times(h.attempts)
        ended = sum(len(times) for times in self._measured.values())
        expected = sum(len(t) * self._expected(rule) for rule, t in self._measured.items())
        measured = sum(sum(times) for times in self._measured.values())
        prior = _PRIOR_JOBS * forecast.mean
        self._ratio = (measured + prior) / (expected + prior) if prior else 1.0
        self._ratio_error = forecast.error / math.sqrt(1 + ended / _PRIOR_JOBS)
        self._of_job = {rule.rule: self._time(rule.rule) for rule in plan.by_rule(h, known)}
        self._left = self._running()
        self._rest = {
            rule.rule: rule.ready + rule.submitted + rule.waiting for rule in plan.by_rule(h, known)
        }
        to_come = sum(n * self._of_job[rule] for rule, n in self._rest.items())
        self.work = to_come + sum(self._left.values())

    def _expected(self, rule: str) -> float:
        return self._forecast.of_job.get(rule, self._forecast.mean)

    def _time(self, rule: str) -> float:
        times = self._measured.get(rule, [])
        prior = _PRIOR_JOBS * self._expected(rule) * self._ratio
        return (sum(times) + prior) / (len(times) + _PRIOR_JOBS)

    def _running(self) -> dict[int, float]:
        """Return what running jobs still take, by their number."""
        had = {
            job.jobid: self._h.seconds - max(job.when("started"), default=self._h.seconds)
            for job in self._h.run.jobs
            if self._known[job.jobid] == RUNNING
        }
        for a in self._h.attempts:
            if a.outcome == RUNNING and a.job is not None and a.job.jobid in had:
                had[a.job.jobid] = max(a.attempt.seconds, had[a.job.jobid])
        rules = {job.jobid: job.rule for job in self._h.run.jobs}
        return {
            jobid: max(self._of_job[rules[jobid]] - s, _OVERDUE * s) for jobid, s in had.items()
        }

    def chain(self) -> float:
        """Return the longest time that jobs take which wait for one another."""
        until: dict[int, float] = {}
        for job in self._h.run.plan:
            begin = max((until.get(n, 0.0) for n in job.after), default=0.0)
            until[job.jobid] = begin + self._own(job.jobid, job.rule)
        return max(until.values(), default=0.0)

    def _own(self, jobid: int, rule: str) -> float:
        if jobid in self._left:
            return self._left[jobid]
        open_states = (plan.READY, plan.SUBMITTED, plan.WAITING)
        return self._of_job[rule] if self._known[jobid] in open_states else 0.0

    @property
    def longest(self) -> float:
        """Time of the longest job that is to come or runs."""
        to_come = [self._of_job[rule] for rule, n in self._rest.items() if n]
        return max([*to_come, *self._left.values()], default=0.0)

    @property
    def error(self) -> float:
        """Relative standard error of the work that is left."""
        by_rule, alone = 0.0, 0.0
        for rule, n in self._rest.items():
            weight = _PRIOR_JOBS / (len(self._measured.get(rule, [])) + _PRIOR_JOBS)
            of_mean = math.hypot(weight * self._ratio_error, _OF_JOB * weight)
            by_rule += n * self._of_job[rule] * of_mean
            alone += n * (self._of_job[rule] * _OF_JOB) ** 2
        alone += sum((s * _OF_JOB) ** 2 for s in self._left.values())
        shared = math.hypot(by_rule, math.sqrt(alone)) / self.work if self.work > 0 else 0.0
        return math.hypot(shared, _AT_A_TIME)


def _times(placed: Iterable[Placed]) -> dict[str, list[float]]:
    """Return what jobs of each rule took that ended well, s, with what it takes to start them."""
    times: dict[str, list[float]] = {}
    for a in placed:
        if a.outcome == ENDED_WELL:
            begin = a.start if a.launched is None else a.launched
            times.setdefault(a.attempt.rule, []).append(a.end - begin)
    return times


def _at_a_time(history: RunHistory, forecast: _Forecast) -> float:
    """Return how many jobs run at a time, at least one: so far, and as was expected."""
    spans = [(a.start if a.launched is None else a.launched, a.end) for a in history.attempts]
    begun = min((begin for begin, _ in spans), default=0.0)
    ended = max((end for _, end in spans), default=0.0)
    busy = sum(end - begin for begin, end in spans)
    if forecast.at_a_time is not None:
        prior = _PRIOR_SHARE * forecast.seconds
        busy, ended = busy + prior * forecast.at_a_time, ended + prior
    return max(1.0, busy / (ended - begun)) if ended > begun else 1.0
