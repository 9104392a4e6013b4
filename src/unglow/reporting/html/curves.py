"""Data of charts on a page: curves made short without losing a peak, and the flame graph.

A flame graph is one tree of calls, and the time of each attempt in them.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from functools import lru_cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.telemetry.reading.records import once_per_object
from unglow.telemetry.reading.samples import ROUNDED_MB
from unglow.telemetry.speedscope import SUFFIX, Profile, read_profile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.telemetry.reading.records import Attempt, Placed
    from unglow.telemetry.speedscope import Frame, Stack

    Bins = Mapping[int, float]

    Floats = NDArray[np.float64]


Numbers = list[float | None]
# All curves of a report together have about as many points as this.
_POINTS = 100_000
_FEWEST, _MOST = 12, 240


def bins_for(attempts: int) -> int:
    """Return how many bins a curve may have: halves, so that few are computed again."""
    limit, bins = _POINTS // max(1, 4 * attempts), _MOST
    while bins > max(limit, _FEWEST):
        bins = max(_FEWEST, bins // 2)
    return bins


@once_per_object
def compute_curve(attempt: Attempt, most: int) -> dict[str, Numbers] | None:
    """Return the curves of an attempt in equal bins over its duration; None without samples.

    Parameters
    ----------
    attempt
        The attempt.
    most
        How many bins there may be.

    Returns
    -------
    ``hi``, the largest memory in each bin, MB: resident of one process, with shared pages counted
    once of several, and the true peak of a process; ``private``, the largest of what is neither of
    files nor shared; ``cpu``, mean number of processors. None where a bin has no sample.
    """
    samples, seconds = attempt.samples, attempt.seconds
    if not len(samples) or seconds <= 0:
        return None
    bins = min(most, len(samples))
    edges = np.linspace(0.0, seconds, bins + 1)
    most_of_one = find_highest(samples.t, samples.largest, edges)
    high = np.fmax(find_highest(samples.t, samples.resident, edges), most_of_one)
    if attempt.peak_mb is not None and not np.any(high >= attempt.peak_mb - ROUNDED_MB):
        high[-1] = np.fmax(high[-1], attempt.peak_mb)  # after the last sample
    width = seconds / bins
    return {
        "hi": round_values(high, 1),
        "private": round_values(find_highest(samples.t, samples.private, edges), 1),
        "cpu": round_values(np.diff(_sum_until(edges, samples.t, samples.cpu)) / width, 2),
    }


def find_highest(t: Floats, values: Floats, edges: Floats) -> Floats:
    """Return the largest value in each bin, NaN where there is none.

    Parameters
    ----------
    t, values
        (n,) each; NaN are ignored.
    edges
        (m + 1,) rising; a value at an edge counts to the bin that starts there.
    """
    finite = ~np.isnan(values)
    place = np.clip(np.searchsorted(edges, t[finite], side="right") - 1, 0, len(edges) - 2)
    high = np.full(len(edges) - 1, -np.inf)
    np.maximum.at(high, place, values[finite])
    return np.where(np.isinf(high), np.nan, high)


def bound_steps(t: Floats, values: Floats, edges: Floats) -> Floats:
    """Return the largest value in each bin of what holds from each time to the next.

    Before the first time it is 0.
    """
    if not len(t):
        return np.zeros(len(edges) - 1)
    last = np.searchsorted(t, edges[:-1], side="right") - 1
    held = np.where(last >= 0, values[np.maximum(last, 0)], 0.0)
    return np.fmax(find_highest(t, values, edges), held)


def rates(placed: Iterable[Placed], edges: Floats) -> tuple[Floats, Floats]:
    """Return processors in use and MB/s moved by all jobs together, the mean of each bin."""
    cpu, moved = np.zeros(len(edges)), np.zeros(len(edges))
    for a in placed:
        samples = a.attempt.samples
        cpu += _sum_until(edges - a.start, samples.t, samples.cpu)
        moved += _sum_until(edges - a.start, samples.t, samples.read + samples.written)
    width = np.diff(edges)
    return np.diff(cpu) / width, np.diff(moved) / width / 1e6


def _sum_until(when: Floats, t: Floats, sums: Floats) -> Floats:
    """Return what a sum that never falls had come to at given times; 0 at first."""
    finite = ~np.isnan(sums)
    if not finite.any():
        return np.zeros(len(when))
    rising = np.maximum.accumulate(sums[finite])
    return np.asarray(np.interp(when, np.append(0.0, t[finite]), np.append(0.0, rising)))


def round_values(values: Floats, digits: int) -> Numbers:
    """Return numbers for JSON, None for those that are not finite."""
    return [v if math.isfinite(v) else None for v in np.round(values, digits).tolist()]


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
    profile = _select_working(read_profile(path))
    while profile.bin_s and sum(map(len, profile.times.values())) > _MOST_ENTRIES:
        profile.merge_bins()
    return profile.bin_s, tuple(profile.times.items())


def _select_working(profile: Profile) -> Profile:
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
