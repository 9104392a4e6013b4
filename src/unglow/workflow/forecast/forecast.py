"""Forecast: how long what is left to do will take, in numbers and in words."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unglow.core.machine import busy_processors, processors
from unglow.core.rounding import number, rounded
from unglow.workflow.forecast.schedule import TimedJob, makespan
from unglow.workflow.forecast.throughput import END, LAUNCH, START

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unglow.workflow.forecast.throughput import Throughput
    from unglow.workflow.preflight.concurrency import Capacity, PendingJob

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
    timed = [
        TimedJob(job, launch[0] + times[kind][0], kind[2])
        for job, kind in zip(jobs, kinds, strict=True)
    ]
    # the errors of all rules add up: what a machine does more slowly it does so in all of them
    errors = start[1] + end[1] + launch[1] * len(jobs)
    expected = cpu_s = start[0] + end[0] + launch[0] * len(jobs)
    rules: dict[str, tuple[int, float]] = {}
    for kind, count in Counter(kinds).items():
        seconds, error = times[kind]
        jobs_of_rule, of_rule = rules.get(kind[0], (0, 0.0))
        rules[kind[0]] = jobs_of_rule + count, of_rule + count * seconds
        expected, errors = expected + count * seconds, errors + count * error
        cpu_s += count * throughput.cpu_s(*kind[:2])
    relative = math.hypot(errors / expected, throughput.spread)
    wall = makespan(timed, capacity, budget_mb)
    wall = max(wall, cpu_s / processors(), len(jobs) * _DISPATCHING_S)
    return Forecast(
        seconds=start[0] + wall + end[0] if local else None,
        core_s=sum(t.core_s for t in timed),
        cpu_s=cpu_s,
        factor=math.exp(_Z90 * relative),
        longest_s=max(t.seconds for t in timed),
        rules=rules,
        cores=capacity.cores,
        runs=throughput.runs,
        busy=busy_processors() if local else 0.0,
    )


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
