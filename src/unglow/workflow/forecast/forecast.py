"""Forecast: how long what is left to do will take, in numbers and in words.

A small file for each machine and version of unglow holds what the jobs of the last runs took. One
that is not there, or cannot be read or written, is no error: forecasts are then a first guess.

The table of stages has a first guess of every job. The jobs of a rule take as many times longer as
those of most similar size have taken before; a rule that has never run, as all others.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from unglow.core.errors import UnglowError
from unglow.core.files import read_json, write_text
from unglow.core.machine import busy_processors, cache_directory, processors
from unglow.core.process import host
from unglow.core.rounding import number, round_digits
from unglow.core.version import __version__
from unglow.workflow.stage_table import STAGES, Time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from unglow.workflow.preflight.pending_jobs import Capacity, PendingJob


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
"""What Snakemake itself takes, on a machine that is as fast as that of the table."""
# Jobs of a rule follow this many sizes that have run, the nearest ones.
_NEAREST = 5
# The first guess counts as this many runs that were wrong by this factor, as a logarithm.
_GUESS_RUNS, _GUESS_ERROR = 2, 0.4


@dataclass(frozen=True, slots=True)
class Times:
    """What jobs of one rule took that had as much to do, with as many threads.

    Attributes
    ----------
    rule
        Its name.
    mpx
        What one of them had to do, million px (`job_resources.work_mpx`).
    threads, jobs
        Threads of each job, and how many jobs there were.
    seconds, cpu_s
        What one of them took, s: the median.
    """

    rule: str
    mpx: float
    threads: int
    jobs: int
    seconds: float
    cpu_s: float


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """The times of a run; ``id`` is the name of its file in telemetry."""

    id: str
    times: tuple[Times, ...]


def file_of_machine(executor: str | None = None) -> Path:
    """Return the file for this machine, or for a batch system that jobs are handed to from it."""
    where = host().replace("/", "_") + (f"-{executor}" if executor else "")
    return cache_directory() / "unglow" / f"times-{where}-{__version__}.json"


def read_runs(path: Path) -> tuple[EarlierRun, ...]:
    """Return the runs that a file holds, the oldest first; none if it cannot be read."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        stored = read_json(path)
        if stored["format"] == _FORMAT:
            return tuple(
                EarlierRun(str(run["id"]), tuple(_times(row) for row in run["times"]))
                for run in stored["runs"]
            )
    return ()


def add_run(path: Path, run: EarlierRun) -> None:
    """Add a run to a file, in one step."""
    runs = [one for one in read_runs(path) if one.id != run.id][1 - MOST_RUNS :]
    content = {"format": _FORMAT, "runs": [asdict(one) for one in (*runs, run)]}
    with suppress(UnglowError):  # a home that cannot be written
        write_text(path, json.dumps(content))


def _times(row: dict[str, object]) -> Times:
    """Return a row of a file; raises `ValueError` for numbers that no job can have."""
    times = Times(**row)  # type: ignore[arg-type]
    numbers = (times.mpx, times.threads, times.jobs, times.seconds, times.cpu_s)
    if not isinstance(times.rule, str) or not all(0 <= n < 1e9 for n in numbers):
        raise ValueError(row)
    return times


@dataclass(frozen=True, slots=True)
class Throughput:
    """What jobs take on this machine; learnt from so many ``runs``, with 0 it is a first guess."""

    runs: int
    error: float
    """Standard deviation of the logarithm of the time of a run."""
    _slower: _Slower
    _cpu_slower: _Slower

    @classmethod
    def of(cls, runs: Sequence[EarlierRun]) -> Throughput:
        """Learn from earlier runs: from the jobs of rules that this version has."""
        times = [[t for t in run.times if t.rule in STAGES] for run in runs]
        squares = _GUESS_RUNS * _GUESS_ERROR**2
        for own in times:  # each is forecast from the others
            others = _Slower.of((t for run in times if run is not own for t in run), cpu=False)
            took = sum(t.jobs * t.seconds for t in own)
            expected = sum(t.jobs * others.seconds(t.rule, t.mpx, t.threads) for t in own)
            squares += math.log(took / expected) ** 2 if took and expected else 0.0
        error = math.sqrt(squares / (_GUESS_RUNS + len(runs)))
        known = [t for run in times for t in run]
        return cls(len(runs), error, _Slower.of(known, cpu=False), _Slower.of(known, cpu=True))

    def seconds(self, rule: str, mpx: float, threads: int) -> float:
        """Return the time of a job, s."""
        return self._slower.seconds(rule, mpx, threads)

    def cpu_s(self, rule: str, mpx: float) -> float:
        """Return what a job takes of processors, s."""
        return self._cpu_slower.seconds(rule, mpx, 1)


@dataclass(frozen=True, slots=True)
class _Slower:
    """How many times longer than the table jobs have taken: of all, and by rule with its size.

    Numbers are logarithms.
    """

    common: float
    rules: Mapping[str, Sequence[tuple[float, float]]]

    @classmethod
    def of(cls, times: Iterable[Times], *, cpu: bool) -> _Slower:
        rules: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for t in times:
            took = t.cpu_s if cpu else t.seconds
            table = _by_table(t.rule, t.mpx, 1 if cpu else t.threads)
            if took and table:
                rules[t.rule].append((math.log(t.mpx + 1), math.log(took / table)))
        known = [ratio for of_rule in rules.values() for _, ratio in of_rule]
        return cls(sum(known) / max(1, len(known)), rules)

    def seconds(self, rule: str, mpx: float, threads: int) -> float:
        """Return the time of a job, s: as much longer than the table as those nearest in size.

        Their geometric mean, with what is common to all rules counted as one more.
        """
        size = math.log(mpx + 1)
        by_distance = sorted((abs(one - size), ratio) for one, ratio in self.rules.get(rule, ()))
        nearest = [self.common, *(ratio for _, ratio in by_distance[:_NEAREST])]
        return _by_table(rule, mpx, threads) * math.exp(sum(nearest) / len(nearest))


def _by_table(rule: str, mpx: float, threads: int) -> float:
    """Return the first guess of a job, s."""
    time = SNAKEMAKE.get(rule) or STAGES[rule].time
    return time.fixed + time.per_mpx_with(threads) * mpx


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
            rule: {"jobs": jobs, "seconds": round_digits(seconds, 4)}
            for rule, (jobs, seconds) in self.rules.items()
        }
        return {**{name: round_digits(time, 4) for name, time in times.items()}, "rules": rules}

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


def time_in_words(seconds: float, high: float) -> str:
    """Return a time with its 90 % interval, given its upper end: ``4 min (3 to 6 min)``."""
    return _interval(seconds, high / seconds)


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
