"""The steps of a job, marked in the package: ``with step("match"): ...``.

Outside a job they do nothing. In one, start and end become lines of its attempt's file, written by
the job itself next to the samples of its watchdog.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import time
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TextIO, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


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

    def now(self) -> float:
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
    started = {"kind": "step", "t": recording.now(), "name": name, "edge": "begin", "id": number}
    recording.file.write({**started, "in": _inside.get()})
    token = _inside.set(number)
    try:
        yield
    finally:
        _inside.reset(token)
        recording.file.write({"kind": "step", "t": recording.now(), "edge": "end", "id": number})


def progress(done: int, of: int, unit: str) -> None:
    """Report how much of the step is done; any thread may, as often as it likes.

    ``unit`` names one of what is counted: ``shard``.
    """
    recording = _recording
    if recording is None:
        return
    now = recording.now()
    with recording.lock:
        if done < of and now < recording.reported_s + 1 / _PER_S:
            return
        recording.reported_s = now
    recording.file.write({"kind": "progress", "t": now, "done": done, "of": of, "unit": unit})
