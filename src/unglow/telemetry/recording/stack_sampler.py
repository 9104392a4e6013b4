"""What the threads of a job are doing, a hundred times a second: a statistical profiler.

It is a thread of the job itself, so it needs no privileges, changes no exit status, and sees every
thread that Python knows; while compiled code holds the interpreter's lock it sees nothing, so it is
for where `unglow.telemetry.recording.py_spy` cannot be. The file
beside that of the attempt, ``.stacks`` instead of ``.jsonl``, has a head, the nodes of one tree of
calls as they are met, and for each sample the innermost call of each thread.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from unglow.telemetry.jsonl import SCHEMA

if TYPE_CHECKING:
    from types import FrameType

    from unglow.telemetry.jsonl import LineFile

VARIABLE = "UNGLOW_PROFILE"
"""Environment variable with the rules to profile, separated by commas, or ``all``."""
SUFFIX = ".stacks"
HZ = 100
# Lines are kept for so long, s, before they are written together.
_WRITE_S = 0.5
# Of what a thread does that only waits, the innermost call is one of these.
_WAITING = {
    "queue.py": ("get", "put"),
    "selectors.py": ("select",),
    "socket.py": ("accept",),
    "subprocess.py": ("_try_wait", "_communicate"),
    "thread.py": ("_worker",),
    "threading.py": ("_wait_for_tstate_lock", "join", "wait"),
}


def wanted(rule: str) -> bool:
    """Whether the jobs of a rule are to be profiled."""
    rules = os.environ.get(VARIABLE, "").split(",")
    return rule in rules or "all" in rules


class StackSampler:
    """Takes the stacks of all threads of this process, from `start` to `stop`.

    Parameters
    ----------
    file
        Where to.
    origin
        The monotonic time at which the attempt began, s.
    why
        Why they are not taken from outside.
    """

    def __init__(self, file: LineFile, origin: float, why: str) -> None:
        self._file, self._origin, self._why = file, origin, why
        # not by the code itself: that of a module is freed once it is imported
        self._nodes: dict[tuple[int, str, str, int], int] = {}
        self._lines: list[dict[str, Any] | list[Any]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="unglow-stacks", daemon=True)

    def start(self) -> None:
        """Begin; costs about 1 % of a processor."""
        head = {"kind": "stacks", "schema": SCHEMA, "hz": HZ, "how": "inside", "why": self._why}
        self._file.write(head)
        self._thread.start()

    def stop(self) -> None:
        """End, with everything written."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        self._file.close()

    def _run(self) -> None:
        due = written = time.monotonic()
        while not self._over.wait(max(0.0, due - time.monotonic())):
            now = time.monotonic()
            due = max(due + 1 / HZ, now)  # what was missed is not made up for
            self._take(now)
            if now - written >= _WRITE_S:
                self._write()
                written = now
        self._write()

    def _take(self, now: float) -> None:
        frames = sys._current_frames()  # noqa: SLF001 (documented, and what every profiler uses)
        # this very call, which with a variable that holds it would keep all that others hold alive
        del frames[threading.get_ident()]
        nodes = [self._node(frame) for frame in frames.values()]
        self._lines.append([round(now - self._origin, 3), *nodes])

    def _node(self, frame: FrameType | None) -> int:
        """Return the number of the innermost call of a stack, 0 for none."""
        calls = []
        while frame is not None:
            calls.append(frame.f_code)
            frame = frame.f_back
        node = 0
        for code in reversed(calls):
            key = (node, code.co_qualname, code.co_filename, code.co_firstlineno)
            known = self._nodes.get(key)
            if known is None:
                known = self._nodes[key] = len(self._nodes) + 1
                self._lines.append(told(known, *key))
            node = known
        return node

    def _write(self) -> None:
        lines, self._lines = self._lines, []
        self._file.write_all(lines)


def told(number: int, parent: int, name: str, path: str, line: int) -> dict[str, Any]:
    """Return the line of a call.

    Parameters
    ----------
    number, parent
        Its own number, from 1, and that of the call that made it, 0 for none.
    name, path, line
        The function with the classes that it is in, its file, and the line where it begins.
    """
    parts = PurePath(path).parts
    node = {"kind": "node", "id": number, "in": parent, "name": name}
    node |= {"file": "/".join(parts[-3:]), "line": line}
    waiting = _WAITING.get(parts[-1], ()) if parts else ()
    return {**node, "waits": True} if name.rpartition(".")[2] in waiting else node
