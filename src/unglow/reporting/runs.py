"""Runs of the workflow as plain records: plan, progress, attempts, pairs, problems.

Everything that shows a run reads it here (docs/commands.md); nothing is drawn. Units: s since the
start of the run, MB (1e6 bytes), bytes, cores; ``wall`` is Unix time.
"""

from __future__ import annotations

import copy
import math
import shlex
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.errors import InputError
from unglow.core.levels import names_of
from unglow.core.machine import memory_available_mb
from unglow.core.workflow_files import OWN, is_foreign
from unglow.telemetry.attempt_files import RUNS
from unglow.telemetry.jsonl import SUFFIX, number, whole_number
from unglow.telemetry.reading.follower import Follower
from unglow.telemetry.reading.history import UNRECORDED, History, follow
from unglow.telemetry.reading.incidents import Incident, incidents
from unglow.telemetry.reading.pairs import covers, find_failed_pairs
from unglow.telemetry.reading.plan import Machine, machine_mb
from unglow.telemetry.reading.records import RUNNING
from unglow.telemetry.reading.time_left import time_left
from unglow.telemetry.speedscope import SUFFIX as PROFILE
from unglow.telemetry.speedscope import Stack, read_profile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from unglow.telemetry.reading.history import RunHistory
    from unglow.telemetry.reading.plan import RuleProgress
    from unglow.telemetry.reading.records import Attempt, Job, Placed, Planned, Stall, Step
    from unglow.telemetry.reading.samples import Samples
    from unglow.telemetry.reading.time_left import Left

    Row = dict[str, Any]
    Known = dict[str, tuple[object, list[Row]]]

SCHEMA = 1
"""Raised when a key of `Run.to_json` changes its meaning or is removed."""
# Keys of a run in JSON. Samples are not in it: they are long, and their files are JSON lines.
_VALUES = (
    *("id", "outcome", "directory", "host", "pid", "wall", "seconds", "left_s", "command"),
    *("config", "unglow", "snakemake", "cores", "budget_mb", "machine_mb", "peak_mb"),
    "most_declared_mb",
)
_LISTS = ("jobs", "attempts", "pairs", "incidents", "messages")
# Fields of a `JobAttempt` that its record has under the same name.
_OF_ATTEMPT = (
    *("id", "rule", "title", "number", "host", "threads", "declared_mb", "peak_mb", "cpu_s"),
    *("read", "written", "log", "steps", "samples"),
)
# States in which pairs are counted, those that need attention first.
_STATES = ("failed", "skipped", "incomplete", "running", "suspect", "ok", "waiting")
STARTING = "starting"
"""Step of a job that has been started, and of which nothing has been measured yet."""
# CPU use is the mean over this time, s.
_CPU_OVER_S = 2.0


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A job of the plan of a run.

    Attributes
    ----------
    state
        ``waiting``, ``ready``, ``submitted``, ``running``, ``done``, ``failed`` or ``blocked``.
    after
        Ids of the jobs that it waits for.
    """

    jobid: int
    rule: str
    wildcards: Mapping[str, str]
    state: str
    after: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class JobAttempt:
    """One attempt at a job.

    Attributes
    ----------
    id
        Its file below ``telemetry``, without suffix.
    number
        1 the first time that the run tried the job.
    start, end
        s since the start of the run; of one that is running, the end is its last sign of life.
    outcome
        A word of docs/telemetry.md, or ``running``.
    declared_mb, peak_mb
        Its memory limit, and the largest resident set of one process; None if not known.
    cpu_s, read, written
        s on processors, and bytes; None if not known.
    message, remedy
        How it ended in a sentence, and a command to copy; empty if there is none.
    samples
        Memory, processors and bytes over time, as arrays.
    profile_file
        Path of its profile (`profile` reads it); empty if it was not profiled.
    """

    id: str
    rule: str
    title: str
    wildcards: Mapping[str, str]
    number: int
    host: str
    start: float
    end: float
    outcome: str
    threads: int
    declared_mb: float | None
    peak_mb: float | None
    cpu_s: float | None
    read: float | None
    written: float | None
    message: str
    remedy: str
    log: str
    steps: tuple[Step, ...]
    stalls: tuple[Stall, ...]
    samples: Samples
    profile_file: str

    @property
    def profile(self) -> Mapping[Stack, float]:
        """How long each stack of calls was seen, s; empty if the job was not profiled."""
        return read_profile(Path(self.profile_file)).seconds


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that is running now.

    Attributes
    ----------
    title, step
        Stage and wildcards; the step that it is in, or `STARTING`.
    number
        1 for the first attempt.
    seconds
        Since its start.
    now_mb, peak_mb, declared_mb
        Memory: resident, or of several processes as `shared_mb`; the largest resident set of one
        process; None where not known.
    shared_mb
        Memory with pages that several processes share counted once (PSS).
    cores, threads
        Processors that it keeps busy (None where not known), and that it was given.
    share
        Part of its work that is done, 0 to 1; None if not known.
    host
        Its machine.
    attempt
        Id of the attempt; empty if it has not written its file yet.
    """

    title: str
    step: str = ""
    number: int = 1
    seconds: float | None = None
    now_mb: float | None = None
    shared_mb: float | None = None
    peak_mb: float | None = None
    declared_mb: float | None = None
    cores: float | None = None
    threads: int = 1
    share: float | None = None
    host: str = ""
    attempt: str = ""


class Run:
    """A run of the workflow; most of it is computed when it is asked for.

    Attributes
    ----------
    id, outcome
        Name of its file in ``telemetry/runs`` (empty for jobs without the record of a run);
        ``running``, ``ok``, ``failed``, ``interrupted``, ``killed`` or ``not recorded``.
    results, directory
        The results directory, and the directory that the workflow ran in.
    host, pid, wall, seconds
        Machine, process (0 if not known) and time (Unix) of its start, and how long it took or
        has been running.
    command, config, unglow, snakemake
        The command as it was typed, all settings, versions; empty where not recorded.
    cores, budget_mb, machine_mb
        Cores and memory for all jobs together, memory of the machine, MB; None where not known.
    messages
        Warnings and errors of Snakemake.
    history
        The records that all of this is read from.
    """

    def __init__(self, runs: Runs, history: RunHistory) -> None:
        self._runs, self.history = runs, history
        self.results = runs.results
        record = history.run
        head, command = record.fields, record.fields.get("command")
        self.id, self.wall, self.messages = record.id, record.wall, record.messages
        self.outcome = history.outcome or "not recorded"
        self.seconds = history.seconds
        self.directory = str(head.get("directory") or self.results.absolute().parent)
        self.host = record.host or (history.attempts[-1].attempt.host if history.attempts else "")
        self.pid = whole_number(head.get("pid"))
        self.command = shlex.join(map(str, command)) if isinstance(command, list) else ""
        self.config = record.config
        self.unglow, self.snakemake = (str(head.get(k) or "") for k in ("unglow", "snakemake"))
        self.cores = record.cores or None
        self.budget_mb = record.budget_mb

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.outcome != RUNNING

    @cached_property
    def machine_mb(self) -> float | None:
        """Memory of the machine, MB, as the run or else its jobs have recorded it."""
        heads = [self.history.run.fields, *(a.attempt.fields for a in self.history.attempts)]
        known = (mb for fields in heads if (mb := machine_mb(fields)))
        return next(known, None) if self.id != UNRECORDED else max(known, default=None)

    @cached_property
    def peak_mb(self) -> float | None:
        """Most memory that all jobs together took, MB."""
        return _largest(self.history.memory[1])

    @cached_property
    def most_declared_mb(self) -> float | None:
        """Most memory that jobs running at the same time had declared, MB."""
        return _largest(self.history.declared[1])

    @cached_property
    def left(self) -> Left | None:
        """Estimate of the time left; None if there is none."""
        others = (h for h in self._runs.history.runs if h is not self.history)
        return time_left(self.history, others)

    @property
    def left_s(self) -> float | None:
        """Time left, s; None if there is no estimate."""
        return None if self.left is None else self.left.seconds

    @property
    def rules(self) -> tuple[RuleProgress, ...]:
        """Progress of each rule, in the order in which Snakemake named them."""
        return self.history.rules

    @cached_property
    def done(self) -> int:
        """Number of jobs that are done."""
        return sum(row.done for row in self.rules)

    @cached_property
    def of(self) -> int:
        """Number of all jobs; 0 if not known."""
        return sum(row.of for row in self.rules)

    @cached_property
    def jobs(self) -> tuple[PlannedJob, ...]:
        """The plan, with the state of each job."""
        run, states = self.history.run, self.history.states
        after = {job.jobid: job.after for job in run.plan}
        both: tuple[Planned | Job, ...] = (*run.plan, *run.jobs)
        known = {job.jobid: job for job in both}
        return tuple(
            PlannedJob(n, job.rule, dict(job.wildcards), states[n], after.get(n, ()))
            for n, job in known.items()
        )

    @cached_property
    def attempts(self) -> tuple[JobAttempt, ...]:
        """The attempts at jobs, by start."""
        return tuple(_attempt(self.results, a) for a in self.history.attempts)

    @cached_property
    def running(self) -> tuple[RunningJob, ...]:
        """The running attempts, then the jobs that were started and have not written a file yet."""
        at_work = [a.attempt for a in self.history.attempts if a.outcome == RUNNING]
        seen, states = {a.job for a in at_work}, self.history.states
        started = (j for j in self.history.run.jobs if states[j.jobid] == RUNNING)
        new = (_starting(job) for job in started if job.key not in seen)
        return (*map(_running_job, at_work), *new)

    @property
    def used_mb(self) -> float:
        """Memory (PSS) of all running jobs together, and never less than that of one of them."""
        largest = max((job.now_mb or 0.0 for job in self.running), default=0.0)
        return max(largest, sum(job.shared_mb or 0.0 for job in self.running))

    @property
    def declared_mb(self) -> float:
        """Memory that the running jobs have declared together, MB."""
        return sum(job.declared_mb or 0.0 for job in self.running)

    @cached_property
    def available_mb(self) -> float | None:
        """Free memory of the machine now, MB; None if not known, or if the run is over."""
        if self.is_over:
            return None
        if self.host == self._runs.machine.host:
            return memory_available_mb()
        samples = [
            (a.end, mb)
            for a in self.history.attempts
            if a.outcome == RUNNING and a.attempt.host == self.host
            if (mb := _last(a.attempt.samples.available)) is not None
        ]
        return max(samples, default=(-math.inf, None))[1]

    @property
    def pairs(self) -> tuple[Row, ...]:
        """Rows as in summary.tsv, of the last run only.

        A pair that is not done has the status ``waiting``, ``running`` or ``incomplete``.
        """
        return tuple(self._runs.rows) if self.history is self._runs.history.last else ()

    @cached_property
    def pair_counts(self) -> str:
        """Number of pairs in each state, as in ``1 failed, 2 ok``; empty without pairs."""
        found = [row["status"] for row in self.pairs]
        counts = ((found.count(state), state) for state in _STATES)
        return ", ".join(f"{n} {state}" for n, state in counts if n)

    @cached_property
    def incidents(self) -> tuple[Incident, ...]:
        """Problems of the run, failed and skipped pairs first, then the newest first."""
        head = self.history.run.fields
        failed = find_failed_pairs(self.results, head.get("pairs"))
        if slides := head.get("slides"):
            from unglow.reporting.marker_rows import find_failed_markers  # noqa: PLC0415 (loads OpenCV)

            failed += find_failed_markers(self.results, slides)
        if self.is_over:
            known = [names_of(row) for row in failed]
            failed += [
                row
                for row in self.pairs
                if row["status"] in ("failed", "skipped")
                and not any(covers(names, names_of(row)) for names in known)
            ]
        return tuple(incidents(History((self.history,)), self.results, failed))

    def later(self, seconds: float) -> Run:
        """Return the run with its clocks set forward."""
        run = copy.copy(self)
        run.seconds = self.seconds + seconds
        run.running = tuple(
            job if job.seconds is None else replace(job, seconds=job.seconds + seconds)
            for job in self.running
        )
        return run

    def to_json(self) -> dict[str, Any]:
        """Return all but the samples as lists, objects, numbers and words for JSON."""
        kept = {name: getattr(self, name) for name in _VALUES}
        lists = {name: [_plain(one) for one in getattr(self, name)] for name in _LISTS}
        return {"schema": SCHEMA, "results": str(self.results.absolute()), **kept, **lists}


class Runs:
    """Runs of a results directory, the oldest first, at the moment when they were read.

    Parameters
    ----------
    results, history
        The directory and its records.
    machine
        The machine that asks.
    known
        For readers who read again and again: rows of pairs as they were, which is filled.
    """

    def __init__(
        self, results: Path, history: History, machine: Machine, known: Known | None = None
    ) -> None:
        self.results, self.history, self.machine = results, history, machine
        self._known = known

    @classmethod
    def read(cls, results: Path, machine: Machine | None = None) -> Runs:
        """Read a directory once, as it looks from a machine (this one, now, if None)."""
        return RunReader(results).read(machine)

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """All runs."""
        return tuple(Run(self, h) for h in self.history.runs)

    @property
    def last(self) -> Run | None:
        """The run that started last; None without any."""
        return self.runs[-1] if self.runs else None

    @property
    def shown(self) -> list[Run]:
        """The runs that are running; if there is none, the last one."""
        return [run for run in self.runs if not run.is_over] or list(self.runs[-1:])

    @cached_property
    def rows(self) -> list[Row]:
        """A row for each pair, as in summary.tsv; none for other workflows."""
        if is_foreign(self.results):
            return []
        from unglow.reporting.pair_rows import rows_of  # noqa: PLC0415 (loads OpenCV)

        return rows_of(self.results, self.history, self._known)

    def find(self, run: str | None = None) -> Run:
        """Return a run by its id, the last one for None; raises `InputError` without it."""
        found = [one for one in self.runs if run in (None, one.id)]
        if not found:
            known = ", ".join(one.id for one in self.runs[-3:])
            sentence = f"{self.results} has no run {run}; the last ones are {known}."
            raise InputError(sentence if known else _NO_RUN.format(self.results))
        return found[-1]


class RunReader:
    """Reads a results directory again and again, each byte once; it need not exist yet."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self._follower = Follower(results)
        self._placed: dict[str, Placed] = {}
        self._rows: Known = {}

    def read(self, machine: Machine | None = None) -> Runs:
        """Return the runs as they look from a machine (this one, now, if None)."""
        machine = machine or Machine()
        history = follow(self._follower, machine, self._placed)
        return Runs(self.results, history, machine, self._rows)


def open_run(path: Path | str, run: str | None = None) -> Run:
    """Return a run of the workflow.

    Parameters
    ----------
    path
        A working directory, its results directory, or the file of a run in ``telemetry/runs``.
    run
        Its id (see `list_runs`); the last one if None.

    Raises
    ------
    InputError
        There is no record of it.
    """
    results, named = find_results(Path(path))
    return Runs.read(results).find(run or named)


def list_runs(path: Path | str) -> list[str]:
    """Return the ids of all runs of a working or results directory, the oldest first.

    Raises
    ------
    InputError
        There is no record of any.
    """
    return [run.id for run in find_runs(Path(path))]


def find_runs(path: Path) -> list[Run]:
    """Return the runs that a path names, the oldest first; raises `InputError` without any."""
    results, named = find_results(path)
    runs = [run for run in Runs.read(results).runs if named in (None, run.id)]
    if not runs:
        raise InputError(_NO_RUN.format(path))
    return runs


_NO_RUN = (
    "{} has no record of a run; give a working directory, a results directory, or a file of "
    f"results/telemetry/{RUNS}."
)


def find_results(path: Path) -> tuple[Path, str | None]:
    """Return the results directory of a path, and the id of the run if it is the file of one.

    Raises
    ------
    InputError
        There is none, or there are several.
    """
    if path.is_file() and path.parent.name == RUNS:
        return path.parents[2], path.name.removesuffix(SUFFIX)
    for results in (path, path / "results", path / OWN):
        if (results / "telemetry").is_dir():
            return results, None
    below = sorted(place.parent for place in path.glob("[!.]*/telemetry") if place.is_dir())
    if not below:
        raise InputError(_NO_RUN.format(path))
    if len(below) > 1:
        names = " and ".join(map(str, below))
        raise InputError(f"{path} contains several results directories: name one, {names}.")
    return below[0], None


def cores_busy(samples: Samples) -> float | None:
    """Return how many processors were busy lately; None before there are two samples."""
    finite = ~np.isnan(samples.cpu)
    t, cpu = samples.t[finite], samples.cpu[finite]
    if len(t) < 2:
        return None
    first = min(int(np.searchsorted(t, t[-1] - _CPU_OVER_S)), len(t) - 2)
    took = float(t[-1] - t[first])
    return max(0.0, float(cpu[-1] - cpu[first])) / took if took > 0 else None


def _running_job(attempt: Attempt) -> RunningJob:
    samples = attempt.samples
    open_steps = [s.name for s in attempt.steps if s.end is None]
    counts_work = bool(attempt.of) and attempt.done is not None
    return RunningJob(
        attempt.title,
        step=open_steps[-1] if open_steps else "",
        number=attempt.number,
        seconds=attempt.seconds,
        now_mb=_last(samples.resident),
        shared_mb=_last(samples.shared_once),
        peak_mb=attempt.peak_mb,
        declared_mb=attempt.declared_mb,
        cores=cores_busy(samples),
        threads=attempt.threads,
        share=min(1.0, (attempt.done or 0.0) / (attempt.of or 1.0)) if counts_work else None,
        host=attempt.host,
        attempt=attempt.id,
    )


def _starting(job: Job) -> RunningJob:
    declared = number(job.resources.get("mem_mb"))
    return RunningJob(job.title, STARTING, declared_mb=declared, threads=job.threads)


def _last(values: NDArray[np.float64]) -> float | None:
    finite = values[~np.isnan(values)]
    return float(finite[-1]) if len(finite) else None


def _largest(values: NDArray[np.float64]) -> float | None:
    return float(values.max()) if len(values) else None


def _plain(record: Any) -> dict[str, Any]:
    """Return a record as a dictionary for JSON."""
    if isinstance(record, dict):
        return {key: value for key, value in record.items() if key != "working"}
    kept = {f.name: getattr(record, f.name) for f in fields(record) if f.name != "samples"}
    return {
        key: [asdict(part) if hasattr(part, "__dataclass_fields__") else part for part in value]
        if isinstance(value, tuple)
        else value
        for key, value in kept.items()
    }


def _attempt(results: Path, a: Placed) -> JobAttempt:
    attempt, end = a.attempt, a.attempt.end
    profile = results / "telemetry" / (attempt.id + PROFILE)
    return JobAttempt(
        **{name: getattr(attempt, name) for name in _OF_ATTEMPT},
        wildcards=dict(attempt.wildcards),
        start=round(a.start, 3),
        end=round(a.end, 3),
        outcome=a.outcome,
        message=end.message if end is not None else "",
        remedy=end.remedy if end is not None else "",
        stalls=tuple(attempt.complete_stalls),
        profile_file=str(profile) if profile.is_file() else "",
    )
