"""What a flame graph is drawn from: one tree of calls, and the time of each attempt in them."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from functools import lru_cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from unglow.telemetry.speedscope import SUFFIX, read_profile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from unglow.telemetry.reading.history import Placed
    from unglow.telemetry.speedscope import Frame, Stack

Model = dict[str, Any]
# Calls with less than this share of an attempt's time count to what called them: they would be
# narrower than a pixel, and a report of a thousand attempts is to stay small.
_LEAST_SHARE = 0.001
_IMPORTING = "<frozen importlib"
# Snakemake copies a script to a new name for each job.
_COPIED = re.compile(r"^\.snakemake/scripts/tmp[^.]*\.")
# Of a thread that only waits for another one, a queue or a process, the innermost call is one of
# these.
_WAITING = {
    "queue.py": ("get", "put"),
    "selectors.py": ("select",),
    "socket.py": ("accept",),
    "subprocess.py": ("_try_wait", "_communicate"),
    "thread.py": ("_worker",),
    "threading.py": ("_wait_for_tstate_lock", "join", "wait"),
}


def flames(results: Path, shown: Iterable[Placed]) -> Model | None:
    """Return what a flame graph of profiled attempts is drawn from; None if none was profiled.

    Parameters
    ----------
    results
        The results directory.
    shown
        Attempts of one run.
    """
    frames: dict[Frame, int] = {}
    nodes: dict[tuple[int, int], int] = {}  # by the node that calls, and the frame
    attempts = []
    for a in shown:
        own: Counter[int] = Counter()
        for stack, seconds in _known(results / "telemetry" / (a.attempt.id + SUFFIX)):
            node = 0
            for frame in stack:
                number = frames.setdefault(frame, len(frames))
                node = nodes.setdefault((node, number), len(nodes) + 1)
            own[node] += round(1000 * seconds)
        if own.total():
            attempts.append({"attempt": a.attempt.id, "node": list(own), "ms": list(own.values())})
    if not attempts:
        return None
    return {
        "frames": [list(frame) for frame in frames],
        "in": [parent for parent, _ in nodes],
        "frame": [frame for _, frame in nodes],
        "attempts": attempts,
    }


def _known(path: Path) -> tuple[tuple[Stack, float], ...]:
    try:
        about = path.stat()
    except OSError:
        return ()
    return _read(path, about.st_mtime_ns)


@lru_cache(maxsize=256)
def _read(path: Path, _time: int) -> tuple[tuple[Stack, float], ...]:
    return tuple(_at_work(path))


def _at_work(path: Path) -> Iterator[tuple[Stack, float]]:
    """Give the stacks of threads that do not only wait, and their seconds, without small calls."""
    seconds: defaultdict[Stack, float] = defaultdict(float)
    for stack, s in read_profile(path).items():
        if stack and not _waits(stack[-1]):
            seconds[_cleaned(stack)] += s
    within: defaultdict[Stack, float] = defaultdict(float)
    for stack, s in seconds.items():
        for depth in range(1, len(stack) + 1):
            within[stack[:depth]] += s
    least = _LEAST_SHARE * sum(seconds.values())
    for stack, s in seconds.items():
        depth = len(stack)
        while depth and within[stack[:depth]] < least:
            depth -= 1
        yield stack[:depth], s


def _waits(frame: Frame) -> bool:
    names = _WAITING.get(PurePath(frame.file).name, ())
    return frame.name.rpartition(".")[2] in names


def _cleaned(stack: Stack) -> Stack:
    """Return the calls without the inside of ``import``, and with one name for each script."""
    calls = (frame for frame in stack if not frame.file.startswith(_IMPORTING))
    return tuple(frame._replace(file=_COPIED.sub("scripts/", frame.file)) for frame in calls)
