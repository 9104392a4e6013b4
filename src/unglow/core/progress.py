"""What a job records of itself: its steps, how far they are, and the bytes of images it moves.

Steps are marked in the package: ``with step("match"): ...``. Their start and end become lines of
the attempt's file, written by the job itself next to the samples of its watchdog. Readers and
writers of pixels count bytes; small files (tables, JSON) and libraries do not. Outside a job
nothing of this is recorded.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import re
import sys
import threading
import time
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TextIO, TypeVar

from unglow.core.machine import Mount, mount_of, mounts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


# Shorter waits give no message; then one line in this many seconds, more often at a terminal.
_QUIET_S, _TERMINAL_S = 3.0, 0.5
# Most lines about progress per second.
_PER_S = 5.0


T = TypeVar("T")


def track_progress(items: Sequence[T], what: str, stream: TextIO | None = None) -> Iterator[T]:
    """Yield items; after some seconds say how many are done, as ``what: 120 of 3000``.

    Parameters
    ----------
    stream
        Where that goes: at a terminal one line that changes; None for standard error.
    """
    stream = stream or sys.stderr
    at_terminal, every = stream.isatty(), _TERMINAL_S if stream.isatty() else _QUIET_S
    due, shown = time.monotonic() + _QUIET_S, False
    for done, item in enumerate(items):
        if time.monotonic() >= due:
            line = f"{what}: {done} of {len(items)}"
            stream.write(f"\r{line}" if at_terminal else f"{line}\n")
            stream.flush()
            due, shown = time.monotonic() + every, True
        yield item
    if shown and at_terminal:
        stream.write("\r\033[K")
        stream.flush()


class LineSink(Protocol):
    """Where lines about steps go: a file of them."""

    def write(self, content: dict[str, Any]) -> None:
        """Take one."""


@dataclass(slots=True)
class _Recording:
    """Where the steps of this process are recorded."""

    file: LineSink
    origin: float
    ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    lock: threading.Lock = field(default_factory=threading.Lock)
    reported_s: float = -1.0

    def clock(self) -> float:
        return round(time.monotonic() - self.origin, 4)


_recording: _Recording | None = None
_inside: ContextVar[int | None] = ContextVar("unglow_step", default=None)


def record_steps(file: LineSink | None, origin: float = 0.0) -> None:
    """From here on, write the steps of this process to a file of its attempt, or nowhere.

    The attempt started at ``origin``, monotonic time, s.
    """
    global _recording  # noqa: PLW0603 (a process is one job)
    _recording = None if file is None else _Recording(file, origin)


def is_recording() -> bool:
    """Whether steps of this process are recorded."""
    return _recording is not None


@contextlib.contextmanager
def step(name: str) -> Iterator[None]:
    """Mark what the block does as a step of the job; steps may be nested in steps.

    Its name is a word or two, the same in every job of the rule.
    """
    recording = _recording
    if recording is None:
        yield
        return
    number = next(recording.ids)
    started = {
        "kind": "step",
        "t": recording.clock(),
        "name": name,
        "edge": "begin",
        "id": number,
    }
    recording.file.write({**started, "in": _inside.get()})
    token = _inside.set(number)
    try:
        yield
    finally:
        _inside.reset(token)
        recording.file.write({"kind": "step", "t": recording.clock(), "edge": "end", "id": number})


def progress(done: int, of: int, unit: str) -> None:
    """Report how much of the step is done; any thread may, as often as it likes.

    ``unit`` names one of what is counted: ``shard``.
    """
    recording = _recording
    if recording is None:
        return
    now = recording.clock()
    with recording.lock:
        if done < of and now < recording.reported_s + 1 / _PER_S:
            return
        recording.reported_s = now
    recording.file.write({"kind": "progress", "t": now, "done": done, "of": of, "unit": unit})


MOST_LISTED = 20
"""Images of a job that are listed: those with the most bytes."""
# A store that is being written has a hidden name next to its own.
_PARTIAL = re.compile(r"\.(.+)\.[0-9a-f]{12}\.partial")


_AMOUNTS = ("read", "written", "decoded", "encoded")


@dataclass(slots=True)
class Transfer:
    """What was read from and written to one image.

    Attributes
    ----------
    read, written
        Bytes as stored.
    decoded, encoded
        Bytes of the pixels that these hold; what is read again counts again.
    first, last
        When, monotonic time, s.
    """

    read: int = 0
    written: int = 0
    decoded: int = 0
    encoded: int = 0
    first: float = math.inf
    last: float = 0.0

    def add(self, other: Transfer) -> None:
        """Add what was moved at other times."""
        for name in _AMOUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.first, self.last = min(self.first, other.first), max(self.last, other.last)


_transfer_lock = threading.Lock()
_transfers: dict[str, Transfer] | None = None


def record_transfers() -> None:
    """From here on, count."""
    global _transfers  # noqa: PLW0603 (a process is one job)
    _transfers = {}


def count_transfer(
    path: Path | str, *, read: int = 0, written: int = 0, decoded: int = 0, encoded: int = 0
) -> None:
    """Add bytes of an image, as stored and of pixels; thread-safe."""
    if _transfers is None:
        return
    now = time.monotonic()
    with _transfer_lock:
        one = Transfer(read, written, decoded, encoded, now, now)
        _transfers.setdefault(str(path), Transfer()).add(one)


def list_transfers(origin: float) -> list[dict[str, Any]]:
    """Return the counts: the images with the most bytes first, at most `MOST_LISTED`.

    Parameters
    ----------
    origin
        Times count from here, monotonic time, s.

    Returns
    -------
    Path, amounts and times as in `Transfer`, ``kind`` of the file system, and whether it is
    ``remote``; none of both if they are not known.
    """
    found: dict[str, Transfer] = {}
    for path, more in (_transfers or {}).items():
        head, name = os.path.split(path)
        if hidden := _PARTIAL.fullmatch(name):
            path = os.path.join(head, hidden[1])  # noqa: PTH118, PLW2901 (as it came)
        found.setdefault(path, Transfer()).add(more)
    largest = sorted(found.items(), key=lambda item: -(item[1].read + item[1].written))
    mounted = mounts() if found else []
    return [_list_transfer(path, one, origin, mounted) for path, one in largest[:MOST_LISTED]]


def _list_transfer(path: str, one: Transfer, origin: float, mounted: list[Mount]) -> dict[str, Any]:
    amounts = {name: getattr(one, name) for name in _AMOUNTS}
    times = {"first": round(one.first - origin, 2), "last": round(one.last - origin, 2)}
    mount = mount_of(os.path.realpath(path), mounted)
    on = {} if mount is None else {"kind": mount.kind, "remote": mount.remote}
    return {"path": path, **amounts, **times, **on}
