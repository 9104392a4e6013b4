"""Records of runs and attempts: the processes that they name, whether these live, and their end.

Whoever may write to a directory may write telemetry into it. A record is therefore believed only
if nobody but the caller can have written it, and signals go only to processes of this machine that
it proves (number, start and boot).
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unglow.core.errors import InputError
from unglow.core.process import Process, host, ignores
from unglow.telemetry.attempt_files import LOST, attempt_files, read_ends, run_files
from unglow.telemetry.jsonl import unix_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, slots=True)
class Trace:
    """The file of a run or of an attempt: its first line, who wrote it, and how it ended.

    The process that began it is the first. ``own``: nobody but the caller can have written it.
    """

    path: Path
    fields: Mapping[str, Any]
    processes: tuple[Process, ...] = ()
    ended: bool = False
    own: bool = False

    def lives(self) -> bool:
        """Whether one of its processes is there, on this machine."""
        return any(process.lives() for process in self.processes)

    @property
    def host(self) -> str:
        """The machine."""
        return str(self.fields.get("host", ""))

    @property
    def since(self) -> str:
        """When it began, local time, in words."""
        wall = unix_time(self.fields.get("wall"))
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(wall)) if wall else "?"

    @property
    def command(self) -> list[str]:
        """The words of the command of a run, as they were typed."""
        command = self.fields.get("command")
        return [str(word) for word in command] if isinstance(command, list) else []


def is_own(about: os.stat_result) -> bool:
    """Whether a file is the caller's, and nobody else may write to it."""
    shared = about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return about.st_uid == os.geteuid() and not shared


def read_trace(path: Path) -> Trace | None:
    """Return the record in the file of a run or an attempt; None before its first line."""
    try:
        ends = read_ends(path)
    except OSError:  # it was deleted just now
        return None
    head = ends.head
    if not head or head.get("kind") == LOST:
        return None
    lines = [head, *(line for line in ends.first if line.get("kind") == "process")]
    processes = [
        Process(str(head.get("host")), str(head.get("boot")), line["pid"], line.get("started"))
        for line in lines
        if isinstance(line.get("pid"), int)
    ]
    return Trace(path, head, tuple(processes), ends.end is not None, is_own(ends.about))


def last_run(results: Path) -> Trace | None:
    """Return the run that began last; None if none has left a file."""
    traces = (read_trace(path) for path in run_files(results / "telemetry"))
    known = [trace for trace in traces if trace is not None]
    return max(known, key=lambda t: (unix_time(t.fields.get("wall")), t.path.name), default=None)


def was_killed(results: Path) -> bool:
    """Whether the last run began on this machine, has no end, and no process of it lives."""
    run = last_run(results)
    if run is None or run.ended or run.host != host():
        return False
    if run.lives():
        return False
    again = read_trace(run.path)  # it may have ended since it was read
    return again is not None and not again.ended


def open_attempts(results: Path) -> list[Trace]:
    """Return the attempts that have not ended and could still publish: the last one at each job."""
    last = {path.parent: path for path in attempt_files(results / "telemetry")}
    traces = (read_trace(path) for path in last.values())
    return [trace for trace in traces if trace is not None and not trace.ended]


def find_directory(run: Trace) -> Path:
    """Return the working directory that a run names, there or not; raises `InputError` if none."""
    directory = run.fields.get("directory")
    if isinstance(directory, str) and directory:  # an empty path would be the current directory
        return Path(directory)
    raise InputError(
        f"{run.path} does not say where the last run worked: start it again the way it was."
    )


def find_start_directory(run: Trace) -> Path:
    """Return the directory in which the command of a run was given."""
    started_in = run.fields.get("started_in")
    return Path(started_in) if isinstance(started_in, str) and started_in else find_directory(run)


def same_place(one: Path, other: Path) -> bool:
    """Whether two paths lead to one directory."""
    try:
        return one.samefile(other)
    except OSError:
        return False


PATIENCE_S = 30.0
"""How long Snakemake and its jobs may take to end by themselves after ``--now``, s."""
_LOOK_S = 0.1


def find_running(results: Path) -> Trace | None:
    """Return the run that is at work on a results directory; None if none is.

    Raises
    ------
    InputError
        It is at work on another machine, or its record may be the word of somebody else.
    """
    traces = (read_trace(path) for path in reversed(run_files(results / "telemetry")))
    open_runs = [trace for trace in traces if trace is not None and not trace.ended]
    for run in open_runs:
        if run.lives():
            if not run.own:
                raise InputError(
                    f"{run.path} is not yours, or others may write to it, so the process that it "
                    "names is not ended: ask who started the run."
                )
            return run
    for run in open_runs[:1]:
        if run.processes and run.host != host():
            raise InputError(
                f"the run began on {run.host} (process {run.processes[0].pid}, {run.since}): "
                f"give `unglow stop {shlex.quote(str(results.absolute()))}` there."
            )
    return None


def finish_jobs(run: Trace) -> None:
    """Have Snakemake end once its running jobs are done: no other job begins."""
    send(run.processes[0], signal.SIGTERM)


def end_jobs(run: Trace, results: Path) -> None:
    """End running jobs and Snakemake, as Ctrl-C does; return when they are gone.

    Raises
    ------
    InputError
        Snakemake is still there after `PATIENCE_S`.
    """
    snakemake = run.processes[0]
    # a command that a script has put into the background does not hear Ctrl-C
    deaf = ignores(snakemake.pid, signal.SIGINT)
    send(snakemake, signal.SIGTERM if deaf else signal.SIGINT)
    for process in _jobs(results):
        send(process, signal.SIGTERM if ignores(process.pid, signal.SIGINT) else signal.SIGINT)
    if not wait_for_end(run, PATIENCE_S):
        raise InputError(
            f"Snakemake (process {snakemake.pid}) is still there after {PATIENCE_S:.0f} s: give "
            f"`kill -9 {snakemake.pid}`, then `unglow resume`."
        )


def wait_for_end(run: Trace, seconds: float | None = None) -> bool:
    """Wait until the Snakemake of a run is gone, at most this long; return whether it is."""
    end = None if seconds is None else time.monotonic() + seconds
    while run.processes[0].lives():
        if end is not None and time.monotonic() > end:
            return False
        time.sleep(_LOOK_S)
    return True


def _jobs(results: Path) -> Iterator[Process]:
    """Yield the processes of this machine that jobs of the caller run in, without watchdogs."""
    for trace in open_attempts(results):
        if trace.own:
            yield from (process for process in trace.processes[1:] if process.lives())


def send(process: Process, number: int) -> None:
    """Send a signal to a process that lives; one of another user is left alone."""
    if process.lives():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, number)
