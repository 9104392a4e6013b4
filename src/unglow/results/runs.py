"""Runs of the workflow as plain records: plan, progress, attempts, pairs, problems.

Everything that shows a run reads it here (docs/commands.md); nothing is drawn. Units: s since the
start of the run, MB (1e6 bytes), bytes, cores; ``wall`` is Unix time.
"""

from __future__ import annotations

import copy
import math
import shlex
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unglow.core.errors import InputError
from unglow.core.levels import VARIANT
from unglow.core.machine import memory_available_mb
from unglow.core.records import to_plain
from unglow.core.workflow_files import OWN, is_foreign
from unglow.telemetry.attempt_files import RUNS
from unglow.telemetry.jsonl import SUFFIX, number, whole_number
from unglow.telemetry.reading.follower import Follower
from unglow.telemetry.reading.history import UNRECORDED, History, follow
from unglow.telemetry.reading.incidents import Incident, incidents
from unglow.telemetry.reading.plan import Machine, machine_mb
from unglow.telemetry.reading.records import RUNNING, Attempt, Planned, Samples, Step, last_of
from unglow.telemetry.reading.time_left import time_left

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from unglow.telemetry.reading.history import RunHistory
    from unglow.telemetry.reading.plan import RuleProgress
    from unglow.telemetry.reading.records import Job
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
_OF_ATTEMPT = (
    *("id", "rule", "title", "wildcards", "number", "host", "start", "end", "outcome", "threads"),
    *("declared_mb", "peak_mb", "cpu_s", "read", "written", "message", "remedy", "log", "steps"),
    *("stalls", "profile_file"),
)
# States in which pairs are counted, those that need attention first.
_STATES = ("failed", "skipped", "incomplete", "running", "suspect", "ok", "waiting")
STARTING = "starting"
"""Step of a job that has been started, and of which nothing has been measured yet."""


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
    later_s
        For how long it has been running since its record was read, s.
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
        self.seconds, self.later_s = history.seconds, 0.0
        self.directory = str(head.get("directory") or self.results.absolute().parent)
        self.host = record.host or (history.attempts[-1].host if history.attempts else "")
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
        heads = [self.history.run.fields, *(a.fields for a in self.history.attempts)]
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
    def left_words(self) -> str:
        """Time left in words; empty if there is no estimate."""
        return "" if self.left is None else self.left.words

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
    def jobs(self) -> tuple[Planned, ...]:
        """The plan, with the state of each job."""
        run, states = self.history.run, self.history.states
        known = {job.jobid: job for job in run.plan}
        new = (j for j in run.jobs if j.jobid not in known)
        jobs = (*run.plan, *(Planned(j.jobid, j.rule, j.wildcards) for j in new))
        return tuple(replace(job, state=states[job.jobid]) for job in jobs)

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """The attempts at jobs, by start."""
        return self.history.attempts

    @cached_property
    def running(self) -> tuple[Attempt, ...]:
        """The running attempts, then the jobs that were started and have not written a file yet.

        The latter have no id.
        """
        at_work = [a for a in self.attempts if a.outcome == RUNNING]
        seen, states = {a.key for a in at_work}, self.history.states
        started = (j for j in self.history.run.jobs if states[j.jobid] == RUNNING)
        return (*at_work, *(_start(job) for job in started if job.key not in seen))

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
            if a.outcome == RUNNING and a.host == self.host
            if (mb := last_of(a.samples.available)) is not None
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
        bad = ("failed", "skipped") if self.is_over else ("failed",)
        failed: dict[object, Row] = {}
        for row in (row for row in self.pairs if row["status"] in bad):
            key = row["sample"], row["dye"], row["reasons"]
            all_variants = dict.fromkeys(VARIANT, "") if key in failed else {}
            failed[key] = {**row, **all_variants, "wall": self.find_end(row)}
        return tuple(incidents(History((self.history,)), self.results, failed.values()))

    @cached_property
    def _ends(self) -> dict[tuple[str, str], float]:
        ends: dict[tuple[str, str], float] = {}
        for a in self.attempts:
            pair = a.wildcards.get("sample", ""), a.wildcards.get("dye", "")
            ends[pair] = max(ends.get(pair, 0.0), self.wall + a.end)
        return ends

    def find_end(self, row: Row) -> float | None:
        """Return when the last attempt for a pair ended, Unix time, s; None if there was none."""
        pair, slide = (row["sample"], row["dye"]), (row["sample"], "")
        return self._ends.get(pair, self._ends.get(slide))

    def later(self, seconds: float) -> Run:
        """Return the run with its clocks set forward."""
        run = copy.copy(self)
        run.seconds, run.later_s = self.seconds + seconds, seconds
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
        from unglow.results.pair_rows import rows_of  # loads OpenCV

        return rows_of(self.results, self.history, self._known)


class RunReader:
    """Reads a results directory again and again, each byte once; it need not exist yet."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self._follower = Follower(results)
        self._placed: dict[str, Attempt] = {}
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
    runs = find_runs(Path(path))
    found = [one for one in runs if run in (None, one.id)]
    if not found:
        known = ", ".join(one.id for one in runs[-3:])
        raise InputError(f"{path} has no run {run}; the last ones are {known}.")
    return found[-1]


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


def _start(job: Job) -> Attempt:
    """Return an attempt at a job of which nothing has been measured yet."""
    declared, steps = number(job.resources.get("mem_mb")), (Step(STARTING, 0.0),)
    of_job = ("", job.rule, job.rule, job.wildcards, job.threads)
    return Attempt(*of_job, Samples.empty(), declared, steps=steps, job=job)


def _largest(values: NDArray[np.float64]) -> float | None:
    return float(values.max()) if len(values) else None


def _plain(record: Any) -> Any:
    """Return a record as a dictionary for JSON."""
    if isinstance(record, Attempt):
        times = {"start": round(record.start, 3), "end": round(record.end, 3)}
        record = {name: getattr(record, name) for name in _OF_ATTEMPT} | times
    elif isinstance(record, dict):
        record = {key: value for key, value in record.items() if key != "working"}
    return to_plain(record)
