"""What each step of the jobs of a rule took: time, processors, bytes.

The sums that samples hold, read off at begin and end of a step: between two samples (0.1 s apart)
they are taken to grow evenly, so short steps are known roughly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unglow.telemetry.reading.parsing import number
from unglow.telemetry.reading.records import once_per_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from unglow.telemetry.reading.records import Attempt, Placed


@dataclass(slots=True)
class StepTally:
    """What the steps of one name took, in all attempts at jobs of a rule.

    Attributes
    ----------
    rule, name, depth
        The rule, the step, and how many steps it is inside of.
    count
        How many there were.
    seconds, cpu_s, read, written
        s and bytes, all together; with the steps inside.
    pixels
        Pixels of the jobs that had such a step, where they counted them; else 0.
    share
        Of the time of the rule's attempts.
    """

    rule: str
    name: str
    depth: int
    count: int = 0
    seconds: float = 0.0
    cpu_s: float = 0.0
    read: float = 0.0
    written: float = 0.0
    pixels: float = 0.0
    share: float = 0.0


def by_step(placed: Iterable[Placed]) -> list[StepTally]:
    """Return a row for each step of each rule, in the order in which they first began."""
    found: dict[tuple[str, str, int], StepTally] = {}
    whole: dict[str, float] = {}
    for attempt in (a.attempt for a in placed):
        whole[attempt.rule] = whole.get(attempt.rule, 0.0) + attempt.seconds
        seen = set()
        for name, depth, took in _costs(attempt):
            key = attempt.rule, name, depth
            tally = found.setdefault(key, StepTally(*key))
            tally.count += 1
            tally.seconds += took[0]
            tally.cpu_s += took[1]
            tally.read += took[2]
            tally.written += took[3]
            tally.pixels += 0.0 if key in seen else _pixels(attempt)
            seen.add(key)
    for tally in found.values():
        tally.share = tally.seconds / whole[tally.rule] if whole[tally.rule] > 0 else 0.0
    return list(found.values())


def steps_of(attempt: Attempt) -> list[tuple[str, float, float, int]]:
    """Return name, begin, end (s) and depth of the steps; one that did not end lasts to the end."""
    return [
        (s.name, s.begin, s.end if s.end is not None else max(s.begin, attempt.seconds), s.depth)
        for s in attempt.steps
    ]


@once_per_object
def _costs(attempt: Attempt) -> list[tuple[str, int, list[float]]]:
    """Return name, depth, and seconds, CPU, bytes read and written of each step."""
    steps = steps_of(attempt)
    edges = np.array([(begin, end) for _, begin, end, _ in steps]).reshape(-1, 2)
    grown = [np.diff(edges)[:, 0], *(_growth(edges, *sums) for sums in _sums(attempt))]
    costs = np.stack(grown, axis=1).tolist()
    return [(name, depth, cost) for (name, _, _, depth), cost in zip(steps, costs, strict=True)]


def _sums(attempt: Attempt) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Yield times and values of what only grows: CPU, bytes read, bytes written."""
    samples = attempt.samples
    t = np.concatenate([[0.0], samples.t, [max([attempt.seconds, *samples.t[-1:]])]])
    ends = (
        (samples.cpu, attempt.cpu_s),
        (samples.read, attempt.read),
        (samples.written, attempt.written),
    )
    for sampled, total in ends:
        values = np.concatenate([[0.0], sampled, [np.nan if total is None else total]])
        known = ~np.isnan(values)
        yield t[known], np.maximum.accumulate(values[known])


def _growth(
    edges: NDArray[np.float64], t: NDArray[np.float64], sums: NDArray[np.float64]
) -> NDArray[np.float64]:
    return np.diff(np.interp(edges, t, sums))[:, 0]


def _pixels(attempt: Attempt) -> float:
    return 0.0 if attempt.end is None else number(attempt.end.more.get("pixels")) or 0.0
