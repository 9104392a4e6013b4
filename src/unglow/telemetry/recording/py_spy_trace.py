"""Traces of py-spy in Chrome's format, turned into the samples of a file of stacks.

A trace says when each thread began and ended its calls; `unglow.telemetry.recording.stack_sampler`
describes the lines that it is turned into.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from unglow.telemetry.recording.stack_sampler import HZ, told

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# A thread that was not there at a look is taken to have ended so long, s, after the one before.
_LINGER_S = 0.1
_STEP_US = 1_000_000 // HZ
_THREAD = re.compile(r"thread \((\d+)\)")

Nodes = dict[tuple[int, str, str, int], int]
"""Numbers of calls: by the call that made it, name, file, and line where the function begins."""


def events(trace: str) -> Iterator[dict[str, Any]]:
    """Return the events of a trace in Chrome's format one by one, up to where it may be cut."""
    decoder = json.JSONDecoder()
    at = trace.find("{")
    while at >= 0:
        try:
            event, end = decoder.raw_decode(trace, at)
        except ValueError:
            return
        yield event
        at = trace.find("{", end)


@dataclass(slots=True)
class _Thread:
    """A thread: its number, when it ended at the latest (s), and its calls, the outermost first."""

    tid: int = 0
    until: float = math.inf
    calls: list[int] = field(default_factory=list)


def converted(
    found: Iterable[Mapping[str, Any]],
    nodes: Nodes,
    *,
    origin: float,
    seen: Mapping[int, float],
    until: float = math.inf,
) -> list[dict[str, Any] | list[Any]]:
    """Return the lines of a file of stacks for a segment: samples midway between those of py-spy.

    Parameters
    ----------
    found
        Events by time: ``ph`` (``B`` or ``E``: begin or end of a call), ``ts`` (us since
        ``origin``), ``tid``, ``name``, and ``args`` with ``filename`` and ``line``. The outermost
        call of each thread is named ``thread (number): name``.
    nodes
        Calls that were written before; new ones are added.
    origin
        When the segment began, s since the attempt did.
    seen
        When each thread was last seen, s since the attempt began. py-spy leaves one that has ended
        in its last call until the end of the segment; it is cut off here.
    until
        When the job had ended, s since the attempt began: py-spy may see that a second later.
    """
    lines: list[dict[str, Any] | list[Any]] = []
    threads: dict[int, _Thread] = {}
    looked = max(seen.values(), default=0.0)
    due: int | None = None  # us
    for event in found:
        due = event["ts"] + _STEP_US // 2 if due is None else due
        while due < event["ts"] and origin + due / 1e6 <= until:
            lines.append(_sample(origin + due / 1e6, threads))
            due += _STEP_US
        thread = threads.setdefault(event["tid"], _Thread())
        name, args = event["name"], event["args"]
        if event["ph"] == "E":
            del thread.calls[-1:]
        elif not thread.calls and (match := _THREAD.match(name)):
            thread.tid = int(match[1])
            last = max(seen.get(thread.tid, 0.0), origin + event["ts"] / 1e6)
            thread.until = math.inf if last >= looked else last + _LINGER_S
            thread.calls.append(0)
        else:
            key = (thread.calls[-1] if thread.calls else 0, name, args["filename"], args["line"])
            if key not in nodes:
                nodes[key] = len(nodes) + 1
                lines.append(told(nodes[key], *key))
            thread.calls.append(nodes[key])
    return lines


def _sample(t: float, threads: Mapping[int, _Thread]) -> list[Any]:
    there = sorted(threads.values(), key=lambda thread: thread.tid)
    calls = [thread.calls[-1] for thread in there if thread.calls and t <= thread.until]
    return [round(t, 3), *(call for call in calls if call)]
