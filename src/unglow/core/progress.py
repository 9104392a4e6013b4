"""The steps of a job, marked in the package: ``with step("match"): ...``.

Outside a job they do nothing. In one, begin and end become lines of its attempt's file, written by
the job itself beside the samples of its watchdog.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator


# Lines about progress, at most so many per second.
_PER_S = 5.0


class Lines(Protocol):
    """Where lines about steps go: a file of them."""

    def write(self, content: dict[str, Any]) -> None:
        """Take one."""


@dataclass(slots=True)
class _Room:
    """Where the steps of this process go."""

    file: Lines
    origin: float
    ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    lock: threading.Lock = field(default_factory=threading.Lock)
    told_s: float = -1.0

    def now(self) -> float:
        return round(time.monotonic() - self.origin, 4)


_room: _Room | None = None
_inside: ContextVar[int | None] = ContextVar("unglow_step", default=None)


def record_steps(file: Lines | None, origin: float = 0.0) -> None:
    """From here on, write the steps of this process to a file, or nowhere.

    Parameters
    ----------
    file
        Of the attempt that this process is.
    origin
        The monotonic time at which it began, s.
    """
    global _room  # noqa: PLW0603 (a process is one job)
    _room = None if file is None else _Room(file, origin)


@contextlib.contextmanager
def step(name: str) -> Iterator[None]:
    """Mark what the block does as a step of the job; steps may lie within steps.

    Parameters
    ----------
    name
        A word or two, the same in every job of the rule.
    """
    room = _room
    if room is None:
        yield
        return
    number = next(room.ids)
    begun = {"kind": "step", "t": room.now(), "name": name, "edge": "begin", "id": number}
    room.file.write({**begun, "in": _inside.get()})
    token = _inside.set(number)
    try:
        yield
    finally:
        _inside.reset(token)
        room.file.write({"kind": "step", "t": room.now(), "edge": "end", "id": number})


def progress(done: int, of: int, unit: str) -> None:
    """Tell how much of the step is done; any thread may, as often as it likes.

    Parameters
    ----------
    done, of
        How many.
    unit
        Of what, one of them: ``shard``.
    """
    room = _room
    if room is None:
        return
    now = room.now()
    with room.lock:
        if done < of and now < room.told_s + 1 / _PER_S:
            return
        room.told_s = now
    room.file.write({"kind": "progress", "t": now, "done": done, "of": of, "unit": unit})
