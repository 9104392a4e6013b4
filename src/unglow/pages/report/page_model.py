"""The model of a page, as JSON (docs/telemetry.md); the page draws it and computes little."""

from __future__ import annotations

import math
import re
import time
from collections import Counter, defaultdict
from dataclasses import asdict
from functools import lru_cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow import __version__
from unglow.core.levels import name_of
from unglow.core.progress import MOST_LISTED
from unglow.core.workflow_files import is_foreign
from unglow.results.groups import is_group
from unglow.results.pair_rows import costs_of, outliers
from unglow.telemetry.jsonl import number
from unglow.telemetry.reading.incidents import incidents
from unglow.telemetry.reading.records import ROUNDED_MB, RUNNING, once_per_object
from unglow.telemetry.reading.totals import group_by_rule, group_by_step, steps_of, sums_of
from unglow.telemetry.speedscope import SUFFIX, Profile, read_profile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.results.runs import Run, Runs
    from unglow.telemetry.reading.history import History, RunHistory
    from unglow.telemetry.reading.records import Attempt
    from unglow.telemetry.speedscope import Frame, Stack

    Bins = Mapping[int, float]
    Floats = NDArray[np.float64]

SCHEMA = 1
Model = dict[str, Any]
# Bins of a curve over the run that is shown first, and over any other run.
_BINS, _FEW_BINS = 600, 150
# Bins per attempt below which its images are not listed: there are too many attempts.
_FEW_POINTS = 30
# What a page has of a run and of an attempt as it is.
_OF_RUN = (
    *("id", "wall", "command", "cores", "budget_mb", "machine_mb", "done", "of"),
    "config",
)
_OF_ATTEMPT = (
    *("id", "rule", "title", "number", "host", "threads", "declared_mb", "peak_mb"),
    *("cpu_s", "read", "written", "log", "done", "of", "unit", "message"),
)
_ENVIRONMENT = (
    *("unglow", "snakemake", "python", "platform", "packages", "executor", "resources"),
    *("host", "user", "cores", "machine_mb", "cgroup_mb"),
    *("directory", "workflow", "results", "config_files"),
)


def build(runs: Runs, *, live: bool = False, charts: Model | None = None) -> Model:
    """Return the model of a page.

    Parameters
    ----------
    runs
        All runs of a results directory.
    live
        Whether the page is updated.
    charts
        An earlier result of `charts_of`, which takes longest, if it is new enough.
    """
    results, pairs = runs.results, runs.rows
    model = {
        "schema": SCHEMA,
        "unglow": __version__,
        "made": time.time(),
        "live": live,
        "results": str(results.absolute()),
        **({"foreign": True} if is_foreign(results) else {}),
        **(charts_of(runs) if charts is None else charts),
        "incidents": [
            asdict(i) | {"numbers": dict(i.numbers or {})}
            for i in incidents(runs.history, results, pairs)
        ],
        "pairs": [{k: v for k, v in row.items() if k != "working"} for row in pairs],
        "batch": _batch(runs.history, pairs),
        "working": {name_of(row): row["working"] for row in pairs if row.get("working")},
    }
    if slides := slides_of(pairs):
        model["slides"] = slides
    profiled = None if live else flames_of(runs)
    return model | {"flames": profiled} if profiled else model


def build_comparison(named: Mapping[str, Run]) -> Model:
    """Return the model of a page that shows runs of any directories, by name, without results."""
    placed = [(n, a) for n, run in enumerate(named.values()) for a in run.history.attempts]
    bins = bins_for(len(placed))
    return {
        "schema": SCHEMA,
        "unglow": __version__,
        "made": time.time(),
        "live": False,
        "results": "",
        "foreign": True,
        "shown": 0,
        "runs": [_run(run, _BINS) | {"name": name} for name, run in named.items()],
        "attempts": [_attempt(a, n, 1, bins) for n, a in placed],
        "incidents": [],
        "pairs": [],
        "batch": {"pairs": [], "groups": []},
    }


def slides_of(pairs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the slides among the rows of the summary, sorted."""
    return sorted({str(row["sample"]) for row in pairs if row.get("background_channel")})


def charts_of(runs: Runs) -> Model:
    """Return ``runs`` and ``attempts``, with curves, and ``shown``: the run shown first."""
    shown = [(n, a) for n, run in enumerate(runs.runs) for a in run.history.attempts]
    bins = bins_for(len(shown))
    tries = Counter((n, a.key) for n, a in shown)
    main = runs.history.last_work
    return {
        "shown": next((n for n, run in enumerate(runs.runs) if run.history is main), 0),
        "runs": [_run(run, _BINS if run.history is main else _FEW_BINS) for run in runs.runs],
        "attempts": [_attempt(a, n, tries[n, a.key], bins) for n, a in shown],
    }


def flames_of(runs: Runs, most: int | None = None) -> Model | None:
    """Return the flame graph of the run that is shown first; None if no attempt was profiled.

    ``most`` limits the number of attempts, to those that are running or ended last.
    """
    last = runs.history.last_work
    shown = () if last is None else last.attempts
    if most is not None:
        shown = tuple(sorted(shown, key=lambda a: (a.outcome == RUNNING, a.end))[-most:])
    return flames(runs.results, shown)


def _batch(history: History, pairs: Sequence[Mapping[str, Any]]) -> Model:
    """Return the costs of pairs, and the numbers in which they are outliers."""
    costs = costs_of(pairs, history)
    unusual = outliers([{**row, **cost} for row, cost in zip(pairs, costs, strict=True)])
    groups = {column for row in pairs for column in row if is_group(column) and row[column]}
    return {
        "pairs": [cost | {"outlier": o} for cost, o in zip(costs, unusual, strict=True)],
        "groups": sorted(groups),
    }


def _run(run: Run, bins: int) -> Model:
    h, fields = run.history, run.history.run.fields
    return {
        **{name: getattr(run, name) for name in _OF_RUN},
        "recorded": bool(fields),
        "outcome": h.outcome,
        "seconds": round(run.seconds, 3),
        "left": run.left_words,
        "rows": list(h.rows),
        "shifts": dict(h.shifts),
        "lines": _lines(h, bins),
        "rules": [asdict(row) for row in group_by_rule(h.attempts)],
        "steps": [asdict(row) for row in group_by_step(h.attempts)],
        "messages": [asdict(message) for message in run.messages],
        "environment": {k: fields[k] for k in _ENVIRONMENT if fields.get(k) is not None},
    }


def _lines(h: RunHistory, bins: int) -> Model | None:
    """Return the curves of a run, in equal bins; None if nothing was sampled."""
    t, mb = h.memory
    if not len(t) or h.seconds <= 0:
        return None
    edges = np.linspace(0.0, h.seconds, bins + 1)
    high = bound_steps(t, mb, edges)
    declared = bound_steps(*h.declared, edges)
    available = _available(h.attempts, edges)
    cpu, moved = rates(h.attempts, edges)
    peak = int(np.argmax(mb))
    return {
        "hi": round_values(high, 1),
        "declared": round_values(declared, 1),
        "available": round_values(available, 0),
        "cpu": round_values(cpu, 2),
        "io": round_values(moved, 2),
        "peak": {"t": float(t[peak]), "mb": round(float(mb[peak]), 1)},
    }


def _available(placed: Iterable[Attempt], edges: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the least memory that the machine had left in each bin."""
    sampled = [a for a in placed if len(a.samples)]
    t = np.concatenate([a.start + a.samples.t for a in sampled])
    mb = np.concatenate([a.samples.available for a in sampled])
    return -find_highest(t, -mb, edges)


@once_per_object
def _attempt(a: Attempt, run: int, tries: int, bins: int) -> Model:
    return {
        **{name: getattr(a, name) for name in _OF_ATTEMPT},
        "run": run,
        "tries": tries,
        "start": round(a.start, 3),
        "end": round(a.end, 3),
        "outcome": a.outcome,
        "slot": a.slot,
        "reason": a.job.reason if a.job is not None else "",
        "stalls": [[s.t, s.seconds, s.reason] for s in a.stalls],
        "steps": steps_of(a),
        "curve": compute_curve(a, bins),
        **costs_known(a, images=bins > _FEW_POINTS),
    }


_AT_END = (
    *("available_before_mb", "available_after_mb", "left_behind_mb"),
    *("files_before_mb", "files_after_mb", "processes_left", "processes_left_mb"),
    *("disk_read", "disk_written", "opencv_threads"),
)
_AMOUNTS = ("read", "written", "decoded", "encoded", "first", "last")
# Looks, and share of them, with more threads than were asked for that are not by chance.
_LOOKS, _SHARE = 3, 0.1


@once_per_object
def costs_known(attempt: Attempt, *, images: bool = True) -> dict[str, Any]:
    """Return known costs of an attempt, by name; unknown ones are omitted.

    Parameters
    ----------
    attempt
        The attempt.
    images
        Whether to list what it moved of each image: the longest part.

    Returns
    -------
    Those of ``_AT_END`` as its end has them (docs/telemetry.md); ``parts``, MB of private, file,
    shared and swapped memory when most was resident; ``threads_seen`` and ``runnable``, the most of
    all threads and of those that could run at once; ``crowded``, whether these were too many again
    and again; ``at_least``, whether its peak may have been higher; ``transfers``, what it moved of
    each image.
    """
    samples, more = attempt.samples, attempt.ending.more if attempt.ending is not None else {}
    found: dict[str, Any] = {name: _short(more.get(name)) for name in _AT_END}
    if not np.isnan(samples.private).all():
        at = int(np.nanargmax(np.where(np.isnan(samples.private), np.nan, samples.rss)))
        values = (samples.private, samples.file, samples.shmem, samples.swap)
        found["parts"] = [round(float(np.nan_to_num(part[at])), 1) for part in values]
    found["threads_seen"] = _most(samples.threads)
    found["runnable"] = _most(samples.runnable)
    looks = samples.runnable[~np.isnan(samples.runnable)]
    beyond = int((looks > attempt.threads).sum())
    found["crowded"] = (beyond >= _LOOKS and beyond >= _SHARE * len(looks)) or None
    found["at_least"] = attempt.is_peak_bound or None
    found["transfers"] = _transfers(more) if images else None
    return {name: value for name, value in found.items() if value is not None}


def _short(value: object) -> float | int | None:
    """Return a number, an integer without a decimal point."""
    known = number(value)
    return int(known) if known is not None and known.is_integer() else known


def _most(values: NDArray[np.float64]) -> int | None:
    return None if np.isnan(values).all() else int(np.nanmax(values))


def _transfers(more: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the images that an end lists, as far as they are what they should be."""
    listed = more.get("transfers")
    if not isinstance(listed, list):
        return None
    return [
        {name: _short(one.get(name)) or 0 for name in _AMOUNTS}
        | {"path": one["path"], "kind": str(one.get("kind") or "")}
        | {"remote": one.get("remote") is True}
        for one in listed[:MOST_LISTED]
        if isinstance(one, dict) and isinstance(one.get("path"), str)
    ] or None


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
        "cpu": round_values(np.diff(np.interp(edges, *sums_of(attempt)[0])) / width, 2),
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


def rates(placed: Iterable[Attempt], edges: Floats) -> tuple[Floats, Floats]:
    """Return processors in use and MB/s moved by all jobs together, the mean of each bin."""
    cpu, moved = np.zeros(len(edges)), np.zeros(len(edges))
    for a in placed:
        of_cpu, read, written = (np.interp(edges - a.start, *sums) for sums in sums_of(a))
        cpu, moved = cpu + of_cpu, moved + read + written
    width = np.diff(edges)
    return np.diff(cpu) / width, np.diff(moved) / width / 1e6


def round_values(values: Floats, digits: int) -> Numbers:
    """Return numbers for JSON, None for those that are not finite."""
    return [v if math.isfinite(v) else None for v in np.round(values, digits).tolist()]


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


def flames(results: Path, shown: Iterable[Attempt]) -> Model | None:
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
        bin_s, stacks = _known(results / "telemetry" / (a.id + SUFFIX))
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
            attempts.append({"attempt": a.id, "bin_s": bin_s, **numbers})
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
        for place, seconds in sorted(bins.items()):
            ms = round(1000 * seconds + rest)
            rest += 1000 * seconds - ms
            if ms:
                rows.append((node, place, ms))
    return rows


def _add(own: dict[int, float], bins: Bins) -> None:
    for place, seconds in bins.items():
        own[place] = own.get(place, 0.0) + seconds


def _known(path: Path) -> tuple[float, tuple[tuple[Stack, Bins], ...]]:
    try:
        about = path.stat()
    except OSError:
        return 0.0, ()
    return _read(path, about.st_mtime_ns)


@lru_cache(maxsize=256)
def _read(path: Path, _time: int) -> tuple[float, tuple[tuple[Stack, Bins], ...]]:
    profile = _select_working(read_profile(path))
    least = max(_MOST_ENTRIES, len(profile.times))  # each stack keeps one
    while sum(map(len, profile.times.values())) > least:
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
