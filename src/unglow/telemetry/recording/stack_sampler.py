"""Sampling profiler in the job: the stacks of its threads, by default a hundred times a second.

A thread of the job needs no privileges and no other program; while compiled code holds the
interpreter's lock it sees nothing, which `unglow.telemetry.recording.py_spy` does.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from typing import TYPE_CHECKING

from unglow.core.errors import UnglowError
from unglow.telemetry.speedscope import Frame, Profile, write_profile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import FrameType

    from unglow.telemetry.speedscope import Stack

VARIABLE = "UNGLOW_PROFILE"
"""Environment variable with the rules to profile, separated by commas, or ``all``."""
INTERVAL = "UNGLOW_PROFILE_INTERVAL_MS"
"""Environment variable with the time between two looks at the stacks, ms."""
_INTERVAL_MS = 10.0
# A sample stands for the time since the one before, but not for more than this, s, or two
# intervals: while compiled code holds the interpreter's lock nobody knows what else was going on.
_LONGEST_S = 0.2
# Time between two writes of the file, s: what remains of a job that is killed.
_WRITE_S = 10.0


def wanted(rule: str) -> bool:
    """Whether the jobs of a rule are to be profiled."""
    rules = os.environ.get(VARIABLE, "").split(",")
    return rule in rules or "all" in rules


def interval_s() -> float:
    """Return the time between two looks at the stacks, s: 0.001 to 1."""
    try:
        interval = float(os.environ.get(INTERVAL, _INTERVAL_MS))
    except ValueError:
        interval = _INTERVAL_MS
    return min(max(interval, 1.0), 1000.0) / 1000


class StackSampler:
    """Takes the stacks of all threads of this process, from `start` to `stop`.

    Parameters
    ----------
    path
        The file that is written.
    clock
        Monotonic time of the start of the attempt, s.
    warn
        Called once with a sentence, if it cannot be written.
    """

    def __init__(self, path: Path, clock: float, warn: Callable[[str], None]) -> None:
        self._path, self._clock, self._warn = path, clock, warn
        self._interval_s = interval_s()
        self._profile = Profile()
        self._frames: dict[Frame, Frame] = {}  # each is held once
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="unglow-stacks", daemon=True)

    def start(self) -> None:
        """Start; this costs about 1 % of a processor at 100 looks a second."""
        self._thread.start()

    def stop(self) -> None:
        """End, with everything written."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        last = written = time.monotonic()
        longest = max(_LONGEST_S, 2 * self._interval_s)
        while not self._over.wait(max(0.0, last + self._interval_s - time.monotonic())):
            now = time.monotonic()
            self._take(now - self._clock, min(now - last, longest))
            last = now
            if now - written >= _WRITE_S:
                with contextlib.suppress(UnglowError):  # the disk is full, perhaps not forever
                    write_profile(self._path, "unglow", self._profile)
                written = time.monotonic()
        try:
            write_profile(self._path, "unglow", self._profile)
        except UnglowError as error:  # telemetry is not a reason to lose a result
            self._warn(str(error))

    def _take(self, t: float, seconds: float) -> None:
        frames = sys._current_frames()  # noqa: SLF001 (documented, and what every profiler uses)
        # this very call, which with a variable that holds it would keep all that others hold alive
        del frames[threading.get_ident()]
        for innermost in frames.values():
            self._profile.add(self._stack(innermost), t, seconds)

    def _stack(self, at: FrameType | None) -> Stack:
        """Return the calls of a thread, without anything that would keep its code alive."""
        calls = []
        while at is not None:
            code = at.f_code
            frame = Frame(code.co_qualname, code.co_filename, code.co_firstlineno)
            calls.append(self._frames.setdefault(frame, frame))
            at = at.f_back
        return tuple(reversed(calls))
