"""Profiles read back: which calls took which time, of one attempt or of many together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from unglow.telemetry.reading.parsing import moment, number, parsed
from unglow.telemetry.recording.stack_sampler import HZ

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

# A sample stands for the time since the one before, but not for more than this, s: while compiled
# code holds the interpreter's lock nobody knows what else was going on.
_MOST_S = 20 / HZ


@dataclass(frozen=True, slots=True)
class Call:
    """A function, called from where its node hangs in the tree.

    ``waits`` says that it does nothing but wait for another thread, or for a file.
    """

    name: str
    file: str
    line: int
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """A thread in one call, from ``start`` to ``end`` (s since the attempt began)."""

    start: float
    end: float
    node: int


@dataclass(slots=True)
class Calls:
    """A tree of calls: node 0 is the root, and every other one hangs in a node before it."""

    calls: list[Call | None] = field(default_factory=lambda: [None])
    parents: list[int] = field(default_factory=lambda: [0])
    _known: dict[tuple[int, Call], int] = field(default_factory=dict)

    def node(self, parent: int, call: Call) -> int:
        """Return the node of a call below a node; it is made if there is none."""
        found = self._known.get((parent, call))
        if found is None:
            found = self._known[parent, call] = len(self.calls)
            self.calls.append(call)
            self.parents.append(parent)
        return found


def read_profile(path: Path, into: Calls) -> list[Span]:
    """Read the stacks of an attempt.

    Parameters
    ----------
    path
        A file of `unglow.telemetry.recording.stack_sampler`; torn lines and unknown kinds are
        passed over.
    into
        The tree that its calls are put into.

    Returns
    -------
    What its threads did, by start; consecutive samples of one call are one span.
    """
    numbers = {0: 0}
    spans: list[Span] = []
    open_: dict[int, Span] = {}  # by place in the sample, which is a thread as long as none ends
    last = None
    for line in _lines(path):
        if isinstance(line, dict):
            if line.get("kind") == "node":
                numbers[line["id"]] = into.node(numbers.get(line["in"], 0), _call(line))
            continue
        t, *nodes = line
        begin = max(last, t - _MOST_S) if last is not None else max(0.0, t - 1 / HZ)
        now = dict(enumerate(numbers.get(node, 0) for node in nodes))
        for place, span in list(open_.items()):
            if now.get(place) != span.node or span.end < begin:
                spans.append(open_.pop(place))
        for place, node in now.items():
            start = open_[place].start if place in open_ else begin
            open_[place] = Span(start, t, node)
        last = t
    return sorted([*spans, *open_.values()], key=lambda span: (span.start, span.node))


def seconds_by_node(calls: Calls, spans: Iterable[Span]) -> list[float]:
    """Return the time of each node with all that hangs below it, s of threads."""
    took = [0.0] * len(calls.calls)
    for span in spans:
        took[span.node] += span.end - span.start
    for node in range(len(took) - 1, 0, -1):  # parents come before their children
        took[calls.parents[node]] += took[node]
    return took


def _call(line: dict[str, Any]) -> Call:
    return Call(line["name"], line["file"], line["line"], bool(line.get("waits")))


def _lines(path: Path) -> Iterator[dict[str, Any] | list[Any]]:
    for text in path.read_bytes().splitlines():
        line = parsed(text)
        if (isinstance(line, dict) and _is_whole(line)) or (isinstance(line, list) and _fits(line)):
            yield line


def _is_whole(line: dict[str, Any]) -> bool:
    """Whether a line that tells of a call has what one needs."""
    texts = all(isinstance(line.get(key), str) for key in ("name", "file"))
    numbers = all(isinstance(line.get(key), int) for key in ("id", "in", "line"))
    return line.get("kind") != "node" or (texts and numbers)


def _fits(line: list[Any]) -> bool:
    """Whether a list is a sample: a time, and numbers of calls."""
    t = number(line[0]) if line else None
    sample = all(isinstance(node, int) for node in line[1:])
    return t is not None and moment(abs(t)) == abs(t) and sample
