"""Data of a flame graph: one tree of calls, and the time of each attempt in them."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import lru_cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from unglow.telemetry.speedscope import SUFFIX, Profile, read_profile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from unglow.telemetry.reading.records import Placed
    from unglow.telemetry.speedscope import Frame, Stack

    Bins = Mapping[int, float]

Model = dict[str, Any]
# Calls with less than this share of an attempt's time count to what called them: they would be
# narrower than a pixel, and a report of a thousand attempts is to stay small.
_LEAST_SHARE = 0.001
# Largest amount of numbers of an attempt; above it, its bins of time become wider.
_MOST_ENTRIES = 1000
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
        bin_s, stacks = _known(results / "telemetry" / (a.attempt.id + SUFFIX))
        own: dict[int, dict[int, float]] = {}
        for stack, bins in stacks:
            node = 0
            for frame in stack:
                number = frames.setdefault(frame, len(frames))
                node = nodes.setdefault((node, number), len(nodes) + 1)
            _add(own.setdefault(node, {}), bins)
        if rows := _milliseconds(own):
            columns = map(list, zip(*rows, strict=True))
            numbers = dict(zip(("node", "bin", "ms"), columns, strict=True))
            attempts.append({"attempt": a.attempt.id, "bin_s": bin_s, **numbers})
    if not attempts:
        return None
    return {
        "frames": [list(frame) for frame in frames],
        "in": [parent for parent, _ in nodes],
        "frame": [frame for _, frame in nodes],
        "attempts": attempts,
    }


def _milliseconds(own: Mapping[int, Bins]) -> list[tuple[int, int, int]]:
    """Return (call, bin, ms); what is rounded off goes to the next bin."""
    rows = []
    for node, bins in own.items():
        rest = 0.0
        for number, seconds in sorted(bins.items()):
            ms = round(1000 * seconds + rest)
            rest += 1000 * seconds - ms
            if ms:
                rows.append((node, number, ms))
    return rows


def _add(own: dict[int, float], bins: Bins) -> None:
    for number, seconds in bins.items():
        own[number] = own.get(number, 0.0) + seconds


def _known(path: Path) -> tuple[float, tuple[tuple[Stack, Bins], ...]]:
    try:
        about = path.stat()
    except OSError:
        return 0.0, ()
    return _read(path, about.st_mtime_ns)


@lru_cache(maxsize=256)
def _read(path: Path, _time: int) -> tuple[float, tuple[tuple[Stack, Bins], ...]]:
    profile = _at_work(read_profile(path))
    while profile.bin_s and sum(map(len, profile.times.values())) > _MOST_ENTRIES:
        profile.merge_bins()
    return profile.bin_s, tuple(profile.times.items())


def _at_work(profile: Profile) -> Profile:
    """Return the stacks of threads that do not only wait, without small calls."""
    seconds: dict[Stack, dict[int, float]] = {}
    for stack, bins in profile.times.items():
        if stack and not _waits(stack[-1]):
            _add(seconds.setdefault(_clean_stack(stack), {}), bins)
    found = Profile(profile.bin_s)
    for stack, own in _long_calls({stack: sum(bins.values()) for stack, bins in seconds.items()}):
        _add(found.times.setdefault(own, {}), seconds[stack])
    return found


def _long_calls(seconds: Mapping[Stack, float]) -> Iterator[tuple[Stack, Stack]]:
    """Yield each stack, and as much of it as took long enough."""
    within: defaultdict[Stack, float] = defaultdict(float)
    for stack, s in seconds.items():
        for depth in range(1, len(stack) + 1):
            within[stack[:depth]] += s
    least = _LEAST_SHARE * sum(seconds.values())
    for stack in seconds:
        depth = len(stack)
        while depth and within[stack[:depth]] < least:
            depth -= 1
        yield stack, stack[:depth]


def _waits(frame: Frame) -> bool:
    names = _WAITING.get(PurePath(frame.file).name, ())
    return frame.name.rpartition(".")[2] in names


def _clean_stack(stack: Stack) -> Stack:
    """Return the calls without the inside of ``import``, and with one name for each script."""
    calls = (frame for frame in stack if not frame.file.startswith(_IMPORTING))
    return tuple(frame._replace(file=_COPIED.sub("scripts/", frame.file)) for frame in calls)
