"""Forecast: how long what is left to do will take, in numbers and in words.

A small file for each machine and version of unglow holds what the jobs of the last runs took. It is
not an error if it is missing or cannot be read or written: forecasts are then a first guess.

The table of stages has a first guess of every job. The jobs of a rule take as many times longer as
those of most similar size have taken before; a rule that has never run, as all others.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from unglow import __version__
from unglow.core.errors import UnglowError
from unglow.core.files import write_text
from unglow.core.machine import busy_processors, cache_directory, processors
from unglow.core.process import host
from unglow.core.records import RecordError, read_record, to_plain
from unglow.core.rounding import number, round_digits
from unglow.telemetry.reading.history import History
from unglow.telemetry.reading.records import ENDED_WELL
from unglow.telemetry.reading.totals import split
from unglow.workflow.job_resources import work_mpx
from unglow.workflow.schedule import simulate
from unglow.workflow.stage_table import NEVER_MEASURED, STAGES, Time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from unglow.telemetry.reading.records import Attempt
    from unglow.workflow.batch import Batch
    from unglow.workflow.schedule import Capacity, Job

    Kind = Literal["seconds", "cpu_s"]

MOST_RUNS = 16
"""This many runs are kept, the last ones."""
# Raised when what the file holds changes, so that old ones are ignored.
_FORMAT = 2
LAUNCH, START, END = "launch", "start", "end"
SNAKEMAKE = {
    LAUNCH: Time(0.25),  # of a job: a new Python that imports Snakemake
    START: Time(2.3, 0.07),  # until the first job: libraries, then pairs instead of million px
    END: Time(1.0, 0.02),  # after the last one: summary and report, pairs as well
}
"""Times of Snakemake itself, on a machine that is as fast as that of the table."""
# Jobs of a rule follow this many sizes that have run, the nearest ones.
_NEAREST = 5
# The interval holds this share of the errors of earlier forecasts, with this factor as one of them.
_SHARE, _GUESS_FACTOR = 0.9, 1.93
# Snakemake takes this long for each job that ends, one after the other, s.
_DISPATCHING_S = 0.05
# Fewer processors that others want are not worth a word.
_BUSY = 0.75
_UNITS = (("s", 1.0), ("min", 60.0), ("h", 3600.0))
# From this many of a unit on, the next one is used.
_MOST = 100.0


_Possible = Annotated[float, Meta(ge=0, lt=1e9)]
_Count = Annotated[int, Meta(ge=0, lt=10**9)]
"""Numbers that a job can have."""


@dataclass(frozen=True, slots=True)
class Times:
    """Times of jobs of one ``rule`` that had as much to do, with as many ``threads``.

    ``mpx`` is what one of them had to do, million px (`job_resources.work_mpx`); ``jobs`` their
    number; ``seconds`` and ``cpu_s`` the medians of what one of them took, s.
    """

    rule: str
    mpx: _Possible
    threads: _Count
    jobs: _Count
    seconds: _Possible
    cpu_s: _Possible


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """The times of a run; ``id`` is the name of its file in telemetry."""

    id: str
    times: tuple[Times, ...]


class _File(msgspec.Struct):
    format: int
    runs: tuple[EarlierRun, ...]


def file_of_machine(executor: str | None = None) -> Path:
    """Return the file for this machine, or for a batch system that jobs are handed to from it."""
    where = host().replace("/", "_") + (f"-{executor}" if executor else "")
    return cache_directory() / "unglow" / f"times-{where}-{__version__}.json"


def read_runs(path: Path) -> tuple[EarlierRun, ...]:
    """Return the runs that a file holds, the oldest first; none if it cannot be read."""
    with suppress(OSError, RecordError):
        stored = read_record(path, _File)
        return stored.runs if stored.format == _FORMAT else ()
    return ()


def add_run(path: Path, run: EarlierRun) -> None:
    """Add a run to a file, in one step."""
    runs = [one for one in read_runs(path) if one.id != run.id][1 - MOST_RUNS :]
    content = to_plain(_File(_FORMAT, (*runs, run)))
    with suppress(UnglowError):  # a home that cannot be written
        write_text(path, json.dumps(content))


def remember_run(results: Path, run_id: str, batch: Batch, executor: str | None = None) -> None:
    """At the end of a run, in its process: keep what its jobs took.

    Without the time in which they waited for a processor: how busy others keep the machine says
    nothing about the next run.
    """
    for own in (h for h in History.read(results).runs if h.run.id == run_id):
        well = [a for a in own.attempts if a.outcome == ENDED_WELL]
        if well:
            add_run(file_of_machine(executor), EarlierRun(run_id, tuple(_group_times(well, batch))))


def _group_times(attempts: Sequence[Attempt], batch: Batch) -> list[Times]:
    """Return the times of jobs, those with as much to do (within 10 %) as one."""
    groups: dict[tuple[str, int, str], list[tuple[float, float, float]]] = defaultdict(list)
    for job in attempts:
        mpx = work_mpx(batch, job.rule, job.wildcards)
        parts = split(job)
        took = mpx, parts.computing + parts.moving, job.cpu_s or parts.computing
        groups[job.rule, job.threads, f"{mpx:.1e}"].append(took)
    found = []
    for (rule, threads, _), jobs in groups.items():
        mpx, seconds, cpu_s = (round_digits(median(n), 4) for n in zip(*jobs, strict=True))
        found.append(Times(rule, mpx, threads, len(jobs), seconds, cpu_s))
    return found


class Throughput:
    """Times of jobs on this machine, learnt from earlier runs; with none it is a first guess.

    Attributes
    ----------
    runs
        How many runs it was learnt from.
    factor
        9 of 10 forecasts of these runs from the others were within this factor.
    """

    def __init__(self, runs: Sequence[EarlierRun]) -> None:
        times = [[t for t in run.times if t.rule in STAGES] for run in runs]
        self.runs = len(runs)
        self._known = {kind: _Slower(times, kind) for kind in ("seconds", "cpu_s")}
        factors = sorted([_GUESS_FACTOR, *_factors(times)])
        self.factor = factors[math.ceil(_SHARE * len(factors)) - 1]

    def seconds(self, rule: str, mpx: float, threads: int) -> float:
        """Return the time of a job, s."""
        return self._known["seconds"].time_of(rule, mpx, threads)

    def cpu_s(self, rule: str, mpx: float) -> float:
        """Return what a job takes of processors, s."""
        return self._known["cpu_s"].time_of(rule, mpx, 1)


class _Slower:
    """How many times longer than the table jobs have taken, as logarithms: by rule and size."""

    def __init__(self, runs: Iterable[Iterable[Times]], kind: Kind) -> None:
        self._rules: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for t in (t for run in runs for t in run):
            took = t.cpu_s if kind == "cpu_s" else t.seconds
            table = _time_by_table(t.rule, t.mpx, 1 if kind == "cpu_s" else t.threads)
            if took and table:
                self._rules[t.rule].append((math.log(t.mpx + 1), math.log(took / table)))
        ratios = [ratio for of_rule in self._rules.values() for _, ratio in of_rule]
        self._common = sum(ratios) / max(1, len(ratios))

    def time_of(self, rule: str, mpx: float, threads: int) -> float:
        """Return the time of a job, s: as much longer than the table as those nearest in size.

        Their geometric mean, with the mean of all rules counted as one more.
        """
        size = math.log(mpx + 1)
        by_distance = sorted((abs(one - size), ratio) for one, ratio in self._rules.get(rule, ()))
        nearest = [self._common, *(ratio for _, ratio in by_distance[:_NEAREST])]
        return _time_by_table(rule, mpx, threads) * math.exp(sum(nearest) / len(nearest))


def _factors(runs: Sequence[Sequence[Times]]) -> Iterable[float]:
    """Yield by which factor each run differs from what the others make of it."""
    for own in runs:
        others = _Slower((run for run in runs if run is not own), "seconds")
        took = sum(t.jobs * t.seconds for t in own)
        expected = sum(t.jobs * others.time_of(t.rule, t.mpx, t.threads) for t in own)
        if took and expected:
            yield max(took / expected, expected / took)


def _time_by_table(rule: str, mpx: float, threads: int) -> float:
    """Return the first guess of a job, s."""
    time = SNAKEMAKE.get(rule) or (STAGES[rule].time if rule in STAGES else Time(*NEVER_MEASURED))
    return time.fixed + time.per_mpx_with(threads) * mpx


@dataclass(frozen=True, slots=True)
class Forecast:
    """The time that a run is expected to take.

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
            rule: {"jobs": jobs, "seconds": round_digits(seconds, 4)}
            for rule, (jobs, seconds) in self.rules.items()
        }
        return {**{name: round_digits(time, 4) for name, time in times.items()}, "rules": rules}

    def words(self) -> str:
        """Return it as a line: ``about 4 min (3 to 6 min) on 2 cores, 6.2 CPU-min; ...``."""
        if self.seconds is None:
            jobs = sum(count for count, _ in self.rules.values())
            text = (
                f"about {time_in_words(self.core_s, self.factor, 'core ')} in {jobs} "
                f"job{'s' * (jobs != 1)}, the longest about {_write_time(self.longest_s)}"
            )
        else:
            on = f" on {self.cores} core{'s' * (self.cores != 1)}" if self.cores else ""
            cpu = _write_time(self.cpu_s, "CPU-")
            text = f"about {time_in_words(self.seconds, self.factor)}{on}, {cpu}"
        if self.runs:
            runs = f"{self.runs} runs" if self.runs > 1 else "run"
            text += f"; from the last {runs} on this machine"
        else:
            text += "; a first guess, until a run has ended on this machine"
        if self.busy < _BUSY:
            return text
        wanted = number(self.busy, digits=1)
        processors = f"{wanted} processor{'s' * (wanted != '1')}"
        return f"{text}. Longer while other programs want {processors}"


def forecast(
    jobs: Sequence[Job], capacity: Capacity, throughput: Throughput, pairs: int
) -> Forecast | None:
    """Forecast a run of some jobs of a batch of N ``pairs``; None if nothing is to be done."""
    if not jobs:
        return None
    local = capacity.available_mb is not None
    start, end = (throughput.seconds(name, pairs, 1) for name in (START, END))
    # on a node, each job reads the workflow for itself
    launch = throughput.seconds(*((LAUNCH, 0) if local else (START, 1)), 1)
    kinds = [(job.rule, job.mpx, job.threads) for job in jobs]
    times = {kind: throughput.seconds(*kind) for kind in set(kinds)}
    seconds = [launch + times[kind] for kind in kinds]
    cpu_s = start + end + launch * len(jobs)
    rules: dict[str, tuple[int, float]] = {}
    for kind, count in Counter(kinds).items():
        jobs_of_rule, of_rule = rules.get(kind[0], (0, 0.0))
        rules[kind[0]] = jobs_of_rule + count, of_rule + count * times[kind]
        cpu_s += count * throughput.cpu_s(*kind[:2])
    wall = max(simulate(jobs, seconds, capacity), len(jobs) * _DISPATCHING_S)
    if capacity.cores is not None and capacity.cores <= processors():
        wall = max(wall, cpu_s / processors())
    return Forecast(
        seconds=start + wall + end if local else None,
        core_s=sum(kind[2] * s for s, kind in zip(seconds, kinds, strict=True)),
        cpu_s=cpu_s,
        factor=throughput.factor,
        longest_s=max(seconds),
        rules=rules,
        cores=capacity.cores,
        runs=throughput.runs,
        busy=busy_processors() if local else 0.0,
    )


def _write_time(seconds: float, kind: str = "") -> str:
    name, unit = _choose_unit(seconds)
    return f"{number(seconds / unit, digits=2)} {kind}{name}"


def time_in_words(seconds: float, factor: float, kind: str = "") -> str:
    """Return a time with its 90 % interval in the same unit: ``4 min (3 to 6 min)``."""
    name, unit = _choose_unit(seconds)
    low, high = (
        number(s / unit, digits=2 if s < 10 * unit else 1)
        for s in (seconds / factor, seconds * factor)
    )
    return f"{_write_time(seconds, kind)} ({low} to {high} {kind}{name})"


def _choose_unit(seconds: float) -> tuple[str, float]:
    return next((one for one in _UNITS if seconds < _MOST * one[1]), _UNITS[-1])
