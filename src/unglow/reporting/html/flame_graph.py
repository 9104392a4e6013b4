"""What a flame graph is drawn from: a tree of calls, and what each took when (docs/report.md).

The files of stacks hold more: here times are summed in equal bins, as narrow as there is room for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.telemetry.reading.profiles import Calls, read_profile
from unglow.telemetry.recording.stack_sampler import SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.telemetry.reading.history import Placed
    from unglow.telemetry.reading.profiles import Call, Span

Model = dict[str, Any]
# The narrowest bin, ms. Bins are doubled while there are more than so many entries: with about
# 12 characters for each of these, and 35 for a call, an hour of two threads is less than 1 MB.
_NARROWEST_MS = 50
_MOST_ENTRIES = 50_000
_MOST_CALLS = 8_000
_IMPORTING = "<frozen importlib"
# Snakemake copies a script to a new name for each job.
_COPIED = re.compile(r"^\.snakemake/scripts/tmp[^.]*\.")


@dataclass(frozen=True, slots=True)
class _Times:
    """Times of calls, (n,) each: ``ms`` of ``node`` in each of ``length`` bins from ``first``."""

    first: NDArray[np.int64]
    length: NDArray[np.int64]
    node: NDArray[np.int64]
    ms: NDArray[np.int64]


def flames(results: Path, shown: Iterable[tuple[int, Placed]]) -> Model | None:
    """Return what a flame graph of profiled attempts is drawn from; None if none has stacks.

    Parameters
    ----------
    results
        The results directory.
    shown
        Attempts of one run, with their places in the report's list of attempts.
    """
    calls, profiles = Calls(), []
    for place, a in shown:
        path = results / "telemetry" / (a.attempt.id + SUFFIX)
        if path.is_file():
            profiles.append((place, a.start, read_profile(path, calls)))
    return packed(calls, profiles)


def packed(calls: Calls, profiles: Sequence[tuple[int, float, Sequence[Span]]]) -> Model | None:
    """Return tree and times of profiles; None if they have no time.

    Parameters
    ----------
    calls
        Their calls.
    profiles
        Place in the list of attempts, begin (s since the run began) and spans of each.
    """
    times = [(place, _binned(spans, start)) for place, start, spans in profiles if spans]
    if not times:
        return None
    calls, numbers = _without_importing(calls)
    times = [(place, _renumbered(t, numbers)) for place, t in times]
    calls, numbers = _largest(calls, [t for _, t in times])
    times = [(place, _renumbered(t, numbers)) for place, t in times]
    width = _NARROWEST_MS
    joined = [(place, _joined(t)) for place, t in times]
    while sum(len(t.node) for _, t in joined) > _MOST_ENTRIES:
        if not any(t.first.any() for _, t in times):
            break  # one bin for the whole run: as many entries as calls
        width *= 2
        times = [(place, _halved(t)) for place, t in times]
        joined = [(place, _joined(t)) for place, t in times]
    return {"bin_ms": width, **_tree(calls), "attempts": [_columns(p, t) for p, t in joined]}


def _binned(spans: Sequence[Span], start: float) -> _Times:
    """Cut spans at the edges of the narrowest bins, and sum those of one call in one bin."""
    edges = np.array([(span.start, span.end) for span in spans])
    begin, end = (np.rint(1000 * edges).astype(np.int64) + round(1000 * start)).T
    node = np.array([span.node for span in spans], dtype=np.int64)
    first = begin // _NARROWEST_MS
    count = np.maximum((end - 1) // _NARROWEST_MS, first) - first + 1
    of = np.repeat(np.arange(len(spans)), count)
    cell = first[of] + np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
    upper = np.minimum(end[of], (cell + 1) * _NARROWEST_MS)
    return _summed(cell, node[of], upper - np.maximum(begin[of], cell * _NARROWEST_MS))


def _summed(cell: NDArray[np.int64], node: NDArray[np.int64], ms: NDArray[np.int64]) -> _Times:
    """Sum what one call took in one bin; ordered by call, then by bin."""
    order = np.lexsort((cell, node))
    cell, node, ms = cell[order], node[order], ms[order]
    new = np.append(True, (np.diff(cell) != 0) | (np.diff(node) != 0))
    at = np.flatnonzero(new)
    sums = np.add.reduceat(ms, at)
    some = sums > 0
    cell, node, sums = cell[at][some], node[at][some], sums[some]
    return _Times(cell, np.ones_like(cell), node, sums)


def _renumbered(times: _Times, numbers: NDArray[np.int64]) -> _Times:
    return _summed(times.first, numbers[times.node], times.ms)


def _halved(times: _Times) -> _Times:
    return _summed(times.first // 2, times.node, times.ms)


def _joined(times: _Times) -> _Times:
    """Join what is the same in consecutive bins; ordered by time."""
    same = (np.diff(times.node) == 0) & (np.diff(times.first) == 1) & (np.diff(times.ms) == 0)
    at = np.flatnonzero(np.append(True, ~same))
    length = np.diff(np.append(at, len(times.node)))
    order = np.lexsort((times.node[at], times.first[at]))
    at, length = at[order], length[order]
    return _Times(times.first[at], length, times.node[at], times.ms[at])


def _without_importing(calls: Calls) -> tuple[Calls, NDArray[np.int64]]:
    """Return the tree without the inside of ``import``, and the new number of each call.

    Its own time goes to the module that imports.
    """
    kept, numbers = Calls(), [0]
    for call, parent in zip(calls.calls[1:], calls.parents[1:], strict=True):
        above = numbers[parent]
        inside = call is None or call.file.startswith(_IMPORTING)
        numbers.append(above if inside or call is None else kept.node(above, _lasting(call)))
    return kept, np.array(numbers)


def _lasting(call: Call) -> Call:
    """Return a call with the file that was written, not a copy that was made to run it."""
    return replace(call, file=_COPIED.sub("scripts/", call.file))


def _largest(calls: Calls, times: Iterable[_Times]) -> tuple[Calls, NDArray[np.int64]]:
    """Return the tree of the calls that took the most, and the new number of each call.

    The time of the others goes to what called them. None took more than that, so the tree is whole.
    """
    took = np.zeros(len(calls.calls), dtype=np.int64)
    for t in times:
        np.add.at(took, t.node, t.ms)
    for node in range(len(took) - 1, 0, -1):
        took[calls.parents[node]] += took[node]
    most = np.zeros(len(took), dtype=bool)
    most[np.lexsort((np.arange(len(took)), -took))[: _MOST_CALLS + 1]] = True
    kept, numbers = Calls(), [0]
    for node in range(1, len(took)):
        above, call = numbers[calls.parents[node]], calls.calls[node]
        numbers.append(kept.node(above, call) if most[node] and call is not None else above)
    return kept, np.array(numbers)


def _tree(calls: Calls) -> Model:
    """Return the calls as columns; names and files are places in tables."""
    names: dict[str, int] = {}
    files: dict[str, int] = {}
    known = [call for call in calls.calls if call is not None]
    return {
        "in": calls.parents[1:],
        "name": [names.setdefault(call.name, len(names)) for call in known],
        "file": [files.setdefault(call.file, len(files)) for call in known],
        "line": [call.line for call in known],
        "waits": [node for node, call in enumerate(known, start=1) if call.waits],
        "names": list(names),
        "files": list(files),
    }


def _columns(place: int, times: _Times) -> Model:
    return {
        "attempt": place,
        "after": np.diff(times.first, prepend=0).tolist(),
        "bins": times.length.tolist(),
        "node": times.node.tolist(),
        "ms": times.ms.tolist(),
    }
