"""One run of the workflow as plain records: what it was to do, did and found (docs/commands.md).

Units: s since the run began, MB (1e6 bytes), bytes; ``wall`` is Unix time. Nothing is drawn here.
"""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unglow.core.errors import InputError
from unglow.core.workflow_files import FOREIGN
from unglow.reporting.pair_rows import rows_of
from unglow.telemetry.attempt_files import RUNS
from unglow.telemetry.jsonl import SUFFIX
from unglow.telemetry.reading import plan
from unglow.telemetry.reading.history import History, declared_of_all, memory_of_all
from unglow.telemetry.reading.incidents import Incident, incidents
from unglow.telemetry.reading.outcomes import machine_mb
from unglow.telemetry.reading.time_left import time_left
from unglow.telemetry.speedscope import SUFFIX as PROFILE
from unglow.telemetry.speedscope import Stack, read_profile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unglow.telemetry.reading.history import Placed, RunHistory
    from unglow.telemetry.reading.records import Job, Message, Planned, Stall, Step
    from unglow.telemetry.reading.samples import Samples

SCHEMA = 1
"""Raised when a key of `Run.to_json` changes its meaning or goes away."""
# Fields that JSON does not hold: samples are long, and their files are JSON lines themselves.
_NOT_IN_JSON = ("samples", "results", "history")


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A job that a run set out to do.

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
        s since the run began; the end is the last sign of life of one that is running.
    outcome
        A word of docs/telemetry.md, or ``running``.
    declared_mb, peak_mb
        Memory that it might take, and the largest resident set of one process; None if not known.
    cpu_s, read, written
        s on processors, and bytes; None if not known.
    message, remedy
        How it ended in a sentence, and a command to copy; empty if there is none.
    samples
        Memory, processors and bytes over time, as arrays.
    profile_file
        Where its profile is, if it was profiled (`profile` reads it).
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


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A run of the workflow, as `unglow.open_run` reads it.

    Attributes
    ----------
    id, outcome
        Name of its file in ``telemetry/runs``; ``running``, ``ok``, ``failed``, ``interrupted`` or
        ``killed``.
    results, directory
        The results directory, and where the workflow ran.
    host, pid, wall, seconds, left_s
        Where and when (Unix time) it began, how long it took or takes, and the estimate of the
        time left, s; None if there is none.
    command, config, unglow, snakemake
        The command as it was typed, all settings, versions; empty where not recorded.
    cores, budget_mb, machine_mb, peak_mb, most_declared_mb
        Cores and memory for all jobs together, memory of the machine, and the most that all jobs
        took and had declared at a time, MB; None where not known.
    jobs, attempts
        The plan with the state of each job, and the attempts by start.
    pairs
        Rows as in summary.tsv of what is known by now; a pair that is not done has the status
        ``waiting``, ``running`` or ``incomplete``.
    incidents, messages
        What went wrong in the run (failed pairs first), and warnings and errors of Snakemake.
    history
        What all of it was read from.
    """

    id: str
    outcome: str
    results: Path
    directory: str
    host: str
    pid: int
    wall: float
    seconds: float
    left_s: float | None
    command: str
    config: Mapping[str, Any]
    unglow: str
    snakemake: str
    cores: int | None
    budget_mb: float | None
    machine_mb: float | None
    peak_mb: float | None
    most_declared_mb: float | None
    jobs: tuple[PlannedJob, ...]
    attempts: tuple[JobAttempt, ...]
    pairs: tuple[Mapping[str, Any], ...]
    incidents: tuple[Incident, ...]
    messages: tuple[Message, ...]
    history: RunHistory = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        """Return all but the samples as lists, objects, numbers and words for JSON."""
        kept = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _NOT_IN_JSON}
        lists = {key: [_plain(one) for one in kept.pop(key)] for key in _LISTS}
        return {"schema": SCHEMA, "results": str(self.results.absolute()), **kept, **lists}


_LISTS = ("jobs", "attempts", "pairs", "incidents", "messages")


def _plain(record: Any) -> dict[str, Any]:
    """Return a record as a dictionary of what JSON knows."""
    if isinstance(record, dict):
        return {key: value for key, value in record.items() if key != "working"}
    kept = {f.name: getattr(record, f.name) for f in fields(record) if f.name not in _NOT_IN_JSON}
    return {
        key: [asdict(part) if hasattr(part, "__dataclass_fields__") else part for part in value]
        if isinstance(value, tuple)
        else value
        for key, value in kept.items()
    }


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
    results, named = results_at(Path(path))
    history = History.read(results)
    return run_of(results, history, run or named)


def list_runs(path: Path | str) -> list[str]:
    """Return the ids of all runs of a working or results directory, the oldest first.

    Raises
    ------
    InputError
        There is no record of any.
    """
    return [h.run.id for h in recorded_runs(Path(path))]


def recorded_runs(path: Path) -> list[RunHistory]:
    """Return the runs that a path names, the oldest first; raises `InputError` without any."""
    results, named = results_at(path)
    runs = [h for h in History.read(results).runs if named in (None, h.run.id)]
    if not runs:
        raise InputError(_NO_RUN.format(path))
    return runs


_NO_RUN = (
    "{} has no record of a run; give a working directory, a results directory, or a file of "
    f"results/telemetry/{RUNS}."
)


def results_at(path: Path) -> tuple[Path, str | None]:
    """Return the results directory that a path leads to, and the run if it is the file of one.

    Raises
    ------
    InputError
        It leads to none, or to several.
    """
    if path.is_file() and path.parent.name == RUNS:
        return path.parents[2], path.name.removesuffix(SUFFIX)
    for results in (path, path / "results", path / FOREIGN):
        if (results / "telemetry").is_dir():
            return results, None
    below = sorted(place.parent for place in path.glob("*/telemetry") if place.is_dir())
    if not below:
        raise InputError(_NO_RUN.format(path))
    if len(below) > 1:
        names = " and ".join(map(str, below))
        raise InputError(f"{path} holds several results directories: name one, {names}.")
    return below[0], None


def run_of(results: Path, history: History, run: str | None = None) -> Run:
    """Return a run of a history that has been read, the last one if none is named.

    Raises
    ------
    InputError
        There is no such run.
    """
    found = [h for h in history.runs if run in (None, h.run.id)]
    if not found:
        known = ", ".join(h.run.id for h in history.runs[-3:])
        sentence = f"{results} has no run {run}; the last ones are {known}."
        raise InputError(sentence if known else _NO_RUN.format(results))
    h = found[-1]
    pairs = rows_of(results, history) if h is history.last else []
    return _run(results, history, h, pairs)


def _run(results: Path, history: History, h: RunHistory, pairs: list[dict[str, Any]]) -> Run:
    head = h.run.fields
    left = time_left(h, [other for other in history.runs if other is not h])
    command = head.get("command")
    return Run(
        id=h.run.id,
        outcome=h.outcome or "not recorded",
        results=results,
        directory=str(head.get("directory") or results.absolute().parent),
        host=h.run.host,
        pid=int(head.get("pid") or 0),
        wall=h.run.wall,
        seconds=h.seconds,
        left_s=None if left is None else left.seconds,
        command=shlex.join(map(str, command)) if isinstance(command, list) else "",
        config=head.get("config") or {},
        unglow=str(head.get("unglow") or ""),
        snakemake=str(head.get("snakemake") or ""),
        cores=h.run.cores or None,
        budget_mb=h.run.budget_mb,
        machine_mb=machine_mb(head),
        peak_mb=largest(memory_of_all(h.attempts)[1]),
        most_declared_mb=largest(declared_of_all(h.attempts)[1]),
        jobs=_jobs(h),
        attempts=tuple(_attempt(results, a) for a in h.attempts),
        pairs=tuple(pairs),
        incidents=tuple(incidents(History((h,)), results, pairs)),
        messages=h.run.messages,
        history=h,
    )


def largest(values: Any) -> float | None:
    """Return the largest of some numbers; None if there are none."""
    return float(max(values)) if len(values) else None


def _jobs(h: RunHistory) -> tuple[PlannedJob, ...]:
    states = plan.states(h)
    after = {job.jobid: job.after for job in h.run.plan}
    both: tuple[Planned | Job, ...] = (*h.run.plan, *h.run.jobs)
    known = {job.jobid: job for job in both}
    return tuple(
        PlannedJob(number, job.rule, dict(job.wildcards), states[number], after.get(number, ()))
        for number, job in known.items()
    )


def _attempt(results: Path, a: Placed) -> JobAttempt:
    attempt, end = a.attempt, a.attempt.end
    profile = results / "telemetry" / (attempt.id + PROFILE)
    return JobAttempt(
        id=attempt.id,
        rule=attempt.rule,
        title=attempt.title,
        wildcards=dict(attempt.wildcards),
        number=attempt.number,
        host=attempt.host,
        start=round(a.start, 3),
        end=round(a.end, 3),
        outcome=a.outcome,
        threads=attempt.threads,
        declared_mb=attempt.declared_mb,
        peak_mb=attempt.peak_mb,
        cpu_s=attempt.cpu_s,
        read=attempt.read,
        written=attempt.written,
        message=end.message if end is not None else "",
        remedy=end.remedy if end is not None else "",
        log=attempt.log,
        steps=attempt.steps,
        stalls=tuple(attempt.whole_stalls),
        samples=attempt.samples,
        profile_file=str(profile) if profile.is_file() else "",
    )
