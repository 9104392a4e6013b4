"""Records of runs and attempts: the processes that they name, and whether these have ended.

Whoever may write to a directory may write telemetry into it. A record is therefore believed only
if nobody but the caller can have written it.
"""

from __future__ import annotations

import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unglow.core.errors import InputError
from unglow.core.process import Process
from unglow.telemetry.attempt_files import LOST, attempt_files, read_ends, run_files

if TYPE_CHECKING:
    from collections.abc import Mapping


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

    @property
    def host(self) -> str:
        """The machine."""
        return str(self.fields.get("host", ""))

    @property
    def since(self) -> str:
        """When it began, local time, in words."""
        wall = self.fields.get("wall")
        known = isinstance(wall, int | float)
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(wall)) if known else "?"

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
    return max(known, key=lambda t: (t.fields.get("wall") or 0.0, t.path.name), default=None)


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
