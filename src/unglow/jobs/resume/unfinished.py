"""Runs and attempts that a results directory tells of: who they were, and whether they ended."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unglow.core.errors import InputError
from unglow.core.files import open_file
from unglow.core.process import Process
from unglow.telemetry.attempt_files import LOST, attempt_files, read_ends, run_files

if TYPE_CHECKING:
    from collections.abc import Mapping


_LOCKS = Path(".snakemake/locks")
_OWN_LOCK = Path(".snakemake/unglow/resume.lock")


def hold_lock(directory: Path) -> int:
    """Keep every other `unglow resume` out of a directory; returns the descriptor that does.

    Programs that this process turns into keep it, so it holds until Snakemake ends. Raises
    `InputError` if another one holds it.
    """
    path = directory / _OWN_LOCK
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise InputError(
            f"another `unglow resume`, or the Snakemake that it has started, is at work in "
            f"{directory}; wait for it, or end it first."
        ) from error
    os.set_inheritable(descriptor, True)  # noqa: FBT003 (its only form)
    return descriptor


def locks_left_behind(directory: Path) -> list[Path]:
    """Return the files by which Snakemake keeps others out of a directory."""
    return sorted((directory / _LOCKS).glob("*.lock"))


def remove_locks(files: list[Path]) -> None:
    """Unlock, as ``snakemake --unlock`` does; locks that have come since stay."""
    for path in files:
        path.unlink(missing_ok=True)


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

    def size(self) -> int:
        """Return the size of the file, bytes; opening it makes a network drive look anew."""
        with contextlib.suppress(OSError), open_file(self.path) as stream:
            return stream.seek(0, os.SEEK_END)
        return 0


def is_own(about: os.stat_result) -> bool:
    """Whether a file is the caller's, and nobody else may write to it."""
    shared = about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return about.st_uid == os.geteuid() and not shared


def trace_of(path: Path) -> Trace | None:
    """Return what the file of a run or an attempt tells; None before its first line."""
    try:
        ends = read_ends(path)
    except OSError:  # it was deleted just now
        return None
    head = ends.head
    if not head or head.get("kind") == LOST:
        return None
    begun = [head, *(line for line in ends.first if line.get("kind") == "process")]
    processes = [
        Process(str(head.get("host")), str(head.get("boot")), line["pid"], line.get("started"))
        for line in begun
        if isinstance(line.get("pid"), int)
    ]
    return Trace(path, head, tuple(processes), ends.end is not None, is_own(ends.about))


def last_run(results: Path) -> Trace | None:
    """Return the run that began last; None if none has left a file."""
    traces = (trace_of(path) for path in run_files(results / "telemetry"))
    known = [trace for trace in traces if trace is not None]
    return max(known, key=lambda t: (t.fields.get("wall") or 0.0, t.path.name), default=None)


def open_attempts(results: Path) -> list[Trace]:
    """Return the attempts that have not ended and could still publish: the last one at each job."""
    last = {path.parent: path for path in attempt_files(results / "telemetry")}
    traces = (trace_of(path) for path in last.values())
    return [trace for trace in traces if trace is not None and not trace.ended]
