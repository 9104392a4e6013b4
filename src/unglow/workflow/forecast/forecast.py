"""Forecast: how long what is left to do will take, in numbers and in words."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unglow.core.machine import busy_processors, processors
from unglow.core.rounding import number, rounded
from unglow.workflow.forecast.throughput import END, LAUNCH, START
from unglow.workflow.stage_table import STAGES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unglow.workflow.forecast.throughput import Throughput
    from unglow.workflow.preflight.pending_jobs import Capacity, PendingJob

_Z90 = 1.645  # standard deviations on either side that hold 90 %
# Snakemake takes so long for each job that ends, one after the other, s.
_DISPATCHING_S = 0.05
# Fewer processors that others want are not worth a word.
_BUSY = 0.75
_UNITS = (("s", 1.0), ("min", 60.0), ("h", 3600.0))
# From so many of a unit on, the next one is used.
_MOST = 100.0


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run is expected to take.

    Attributes
    ----------
    seconds
        From the command to its end; None on a batch system, where nobody knows how long jobs wait.
    core_s
        Time of cores that jobs hold, s.
    cpu_s
        Time on processors, that of Snakemake included, s.
    factor
        The 90 % interval of every time is from it divided by this to it times this.
    longest_s
        The longest job, s.
    rules
        Jobs of each rule, and what they take together, s.
    cores
        For all jobs together; None if there is no limit.
    runs
        How many earlier runs it follows from; with 0 it is a first guess.
    busy
        How many processors other programs keep busy just now, so that it will take longer.
    """

    seconds: float | None
    core_s: float
    cpu_s: float
    factor: float
    longest_s: float
    rules: Mapping[str, tuple[int, float]]
    cores: int | None
    runs: int
    busy: float = 0.0

    def record(self) -> dict[str, Any] | None:
        """Return what the file of a run says of it, s; None on a batch system."""
        if self.seconds is None:
            return None
        times = {
            "seconds": self.seconds,
            "low": self.seconds / self.factor,
            "high": self.seconds * self.factor,
            "cpu_s": self.cpu_s,
        }
        rules = {
            rule: {"jobs": jobs, "seconds": rounded(seconds, 4)}
            for rule, (jobs, seconds) in self.rules.items()
        }
        return {**{name: rounded(time, 4) for name, time in times.items()}, "rules": rules}

    def words(self) -> str:
        """Return it as a line: ``about 4 min (3 to 6 min) on 2 cores, 6.2 CPU-min; ...``."""
        if self.seconds is None:
            jobs = sum(count for count, _ in self.rules.values())
            text = (
                f"about {_interval(self.core_s, self.factor, 'core ')} in {jobs} "
                f"job{'s' * (jobs != 1)}, the longest about {_in_words(self.longest_s)}"
            )
        else:
            on = f" on {self.cores} core{'s' * (self.cores != 1)}" if self.cores else ""
            text = (
                f"about {_interval(self.seconds, self.factor)}{on}, {_in_words(self.cpu_s, 'CPU-')}"
            )
        if self.runs:
            text += f"; by the last {f'{self.runs} runs' if self.runs > 1 else 'run'} here"
        else:
            text += "; a first guess, until a run has ended on this machine"
        if self.busy < _BUSY:
            return text
        wanted = number(self.busy, digits=1)
        processors = f"{wanted} processor{'s' * (wanted != '1')}"
        return f"{text}; longer while other programs want {processors}"


def forecast(
    jobs: Sequence[PendingJob],
    capacity: Capacity,
    budget_mb: float,
    throughput: Throughput,
    pairs: int,
) -> Forecast | None:
    """Forecast a run of the jobs of a batch of so many ``pairs``; None if nothing is to be done."""
    if not jobs:
        return None
    local = capacity.available_mb is not None
    start, end = (throughput.seconds(name, pairs, 1) for name in (START, END))
    # on a node, each job reads the workflow for itself
    launch = throughput.seconds(*((LAUNCH, 0) if local else (START, 1)), 1)
    kinds = [(job.rule, job.mpx, job.threads_on(capacity.cores)) for job in jobs]
    times = {kind: throughput.seconds(*kind) for kind in set(kinds)}
    timed = [(job, launch + times[kind]) for job, kind in zip(jobs, kinds, strict=True)]
    cpu_s = start + end + launch * len(jobs)
    rules: dict[str, tuple[int, float]] = {}
    for kind, count in Counter(kinds).items():
        jobs_of_rule, of_rule = rules.get(kind[0], (0, 0.0))
        rules[kind[0]] = jobs_of_rule + count, of_rule + count * times[kind]
        cpu_s += count * throughput.cpu_s(*kind[:2])
    wall = makespan(timed, capacity, budget_mb)
    wall = max(wall, cpu_s / processors(), len(jobs) * _DISPATCHING_S)
    return Forecast(
        seconds=start + wall + end if local else None,
        core_s=sum(kind[2] * s for (_, s), kind in zip(timed, kinds, strict=True)),
        cpu_s=cpu_s,
        factor=math.exp(_Z90 * throughput.error),
        longest_s=max(seconds for _, seconds in timed),
        rules=rules,
        cores=capacity.cores,
        runs=throughput.runs,
        busy=busy_processors() if local else 0.0,
    )


def makespan(
    jobs: Sequence[tuple[PendingJob, float]], capacity: Capacity, budget_mb: float
) -> float:
    """Return how long jobs take together, s, from each with its own time.

    They fill what as many of their kind as can run at once leave nothing free of, but never take
    less than the longest chain of those of a pair that wait for one another.
    """
    filled = 0.0
    longest: dict[tuple[str, ...], dict[str, float]] = defaultdict(dict)
    for job, seconds in jobs:
        needs = (
            (job.threads_on(capacity.cores), capacity.cores),
            (job.asks_mb(capacity.cores, budget_mb), capacity.limit_mb),
            (job.disk_streams, capacity.disk_streams),
        )
        at_once = [limit // need for need, limit in needs if limit is not None and need]
        filled += seconds / max(1, min(at_once)) if at_once else 0.0
        of_pair = longest[job.variant[:2]]
        of_pair[job.rule] = max(seconds, of_pair.get(job.rule, 0.0))
    in_the_end = sum(s for times in longest.values() for rule, s in times.items() if _is_last(rule))
    return max(filled, in_the_end + max(map(_chain, longest.values()), default=0.0))


def _is_last(rule: str) -> bool:
    """Whether the job of a rule waits for those of all pairs."""
    return STAGES[rule].level == "run"


def _chain(times: Mapping[str, float]) -> float:
    """Return how long the jobs of a pair take that wait for one another, from the time by rule."""
    until: dict[str, float] = {}
    for rule, stage in STAGES.items():  # each stands behind those that it waits for
        own = 0.0 if _is_last(rule) else times.get(rule, 0.0)
        until[rule] = own + max((until[before] for before in stage.after), default=0.0)
    return max(until.values())


def _in_words(seconds: float, kind: str = "") -> str:
    name, unit = _unit(seconds)
    return f"{number(seconds / unit, digits=2)} {kind}{name}"


def _interval(seconds: float, factor: float, kind: str = "") -> str:
    """Return a time with its 90 % interval in the same unit."""
    name, unit = _unit(seconds)
    low, high = (
        number(s / unit, digits=2 if s < 10 * unit else 1)
        for s in (seconds / factor, seconds * factor)
    )
    return f"{_in_words(seconds, kind)} ({low} to {high} {kind}{name})"


def _unit(seconds: float) -> tuple[str, float]:
    return next((one for one in _UNITS if seconds < _MOST * one[1]), _UNITS[-1])
