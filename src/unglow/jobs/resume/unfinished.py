"""What runs and attempts have left in a results directory: who they were, and whether they ended.

Only the first and the last lines of each file are read, however long it has become.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unglow.core.process import Process
from unglow.telemetry.reading.follower import RUNS, attempt_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_HEAD, _TAIL = 1 << 16, 1 << 14
_TURN = "turn-"
# Neither what a link names nor what would have to be waited for is a record.
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


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
    outcome: str | None = None

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
        with contextlib.suppress(OSError), self.path.open("rb") as stream:
            return stream.seek(0, os.SEEK_END)
        return 0


def _ends(path: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]], bool]:
    """Return the objects in the first and in the last lines of a file, and if it is the caller's.

    Only lines that are whole count. Raises `OSError`.
    """
    with open(os.open(path, _FLAGS), "rb") as stream:  # noqa: PTH123 (of a descriptor)
        about = os.fstat(stream.fileno())
        if not stat.S_ISREG(about.st_mode):
            return [], [], False
        head = stream.read(_HEAD)
        if b"\n" not in head:  # a long configuration: the first line is read whole
            stream.seek(0)
            head = stream.readline()
        stream.seek(max(0, about.st_size - _TAIL))
        return list(_objects(head)), list(_objects(stream.read())), is_own(about)


def is_own(about: os.stat_result) -> bool:
    """Whether a file is the caller's, and nobody else may write to it."""
    shared = about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return about.st_uid == os.geteuid() and not shared


def _objects(text: bytes) -> Iterator[dict[str, Any]]:
    for line in text.split(b"\n"):
        if line.startswith(b"{"):
            with contextlib.suppress(ValueError, RecursionError):
                yield json.loads(line)


def trace_of(path: Path) -> Trace | None:
    """Return what the file of a run or an attempt tells; None before its first line."""
    try:
        first, last, own = _ends(path)
    except OSError:  # it was deleted just now
        return None
    if not first:
        return None
    head = first[0]
    writers = [head, *(line for line in first if line.get("kind") == "process")]
    processes = [
        Process(str(head.get("host")), str(head.get("boot")), line["pid"], line.get("started"))
        for line in writers
        if isinstance(line.get("pid"), int)
    ]
    end = next((line for line in last if line.get("kind") == "end"), None)
    outcome = None if end is None else str(end.get("outcome"))
    return Trace(path, head, tuple(processes), end is not None, own, outcome)


def last_run(results: Path) -> Trace | None:
    """Return the run that began last; None if none has left a file."""
    place = results / "telemetry" / RUNS
    traces = (trace_of(path) for path in sorted(place.glob("*.jsonl")))
    known = [trace for trace in traces if trace is not None]
    return max(known, key=lambda t: (t.fields.get("wall") or 0.0, t.path.name), default=None)


def open_attempts(results: Path) -> list[Trace]:
    """Return the attempts that have not ended and could still publish.

    Those that a later attempt at the same job has followed are left out: they cannot.
    """
    found = []
    for path in attempt_files(results / "telemetry"):
        trace = trace_of(path)
        if trace is None or trace.ended:
            continue
        turn = trace.fields.get("turn")
        highest = _highest_turn(path.parent)
        if turn is None or highest is None or turn >= highest:
            found.append(trace)
    return found


def _highest_turn(place: Path) -> int | None:
    names = (path.name.removeprefix(_TURN) for path in place.glob(f"{_TURN}*"))
    return max((int(name) for name in names if name.isdecimal()), default=None)
