"""Totals of a run: of rules and steps, where time went, and the memory that jobs left behind.

Steps: the sums that samples hold, read at start and end of a step. Between two samples (0.5 s
apart) they are assumed to grow evenly, so short steps are known roughly.

Memory of a process is given back when it ends. Processes that outlive their job keep theirs, and so
do files in memory file systems: only these count as left behind. Other programs may be the reason
why the machine has less memory after a job (`left_behind_mb`): that alone is not a leak.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from math import inf
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from unglow.telemetry.jsonl import number
from unglow.telemetry.reading.records import ENDED_WELL, RUNNING, once_per_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from unglow.telemetry.reading.history import RunHistory
    from unglow.telemetry.reading.records import Attempt

_TOTALS = ("seconds", "cpu_s", "read", "written")
_MOVED = 1 << 16
"""Fewer bytes between two samples than this are a line in a log, not work on files."""


@dataclass(frozen=True, slots=True)
class Split:
    """Where the time of an attempt went, s; together they are its duration.

    Attributes
    ----------
    computing
        At least one processor was at work for it (an interval counts as long as the CPU time used
        in it).
    moving
        No processor was, while bytes were read or written or the disk was waited for.
    waiting
        Neither: it waited for a processor (though bytes were moved, if it could have run), for a
        lock, or for the network.
    """

    computing: float = 0.0
    moving: float = 0.0
    waiting: float = 0.0

    def __add__(self, other: Split) -> Split:
        return Split(*map(sum, zip(astuple(self), astuple(other), strict=True)))


@once_per_object
def split(attempt: Attempt) -> Split:
    """Return where the time of an attempt went, from its samples and the sums at its end."""
    samples = attempt.samples
    ends = (attempt.seconds, attempt.cpu_s, (attempt.read or 0.0) + (attempt.written or 0.0))
    t = np.append(samples.t, max([ends[0], *samples.t[-1:]]))
    cpu = np.append(samples.cpu, np.nan if ends[1] is None else ends[1])
    moved = np.append(samples.read + samples.written, ends[2])
    took = np.diff(t, prepend=0.0)
    computing = np.minimum(_steps(cpu), took)
    state = np.append(samples.state, "")
    with_files = (_steps(moved) >= _MOVED) & (state != "R") if len(samples) else state == "D"
    busy = with_files | (state == "D")
    rest = took - computing
    return Split(float(computing.sum()), float(rest[busy].sum()), float(rest[~busy].sum()))


def _steps(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what a sum grew by between samples; it does not fall where a process is gone."""
    filled = np.fmax.accumulate(np.nan_to_num(sums))
    return np.diff(filled, prepend=0.0)


@dataclass(frozen=True, slots=True)
class RuleTally:
    """Time, memory and bytes of the attempts at the jobs of one rule.

    Attributes
    ----------
    rule
        Its name.
    attempts, ended_well, running
        How many there were, how many of them ended ``ok``, and how many have not ended.
    declared_mb, peak_mb
        Of the attempt that came nearest to (or furthest beyond) what it had declared.
    largest_mb
        The largest peak of all; None if none is known, like the two above.
    longest_s, seconds
        Duration of the longest, and of all together.
    cpu_s, read, written
        s and bytes, all together.
    split
        Where these seconds went.
    pixels
        All together, where jobs counted them; else 0.
    lost_median_mb, lost_most_mb
        Memory that the machine lacked after an attempt; None if not known.
    """

    rule: str
    attempts: int
    ended_well: int
    running: int
    declared_mb: float | None
    peak_mb: float | None
    largest_mb: float | None
    longest_s: float
    seconds: float
    cpu_s: float
    read: float
    written: float
    split: Split
    pixels: float
    lost_median_mb: float | None
    lost_most_mb: float | None


def group_by_rule(placed: Iterable[Attempt]) -> list[RuleTally]:
    """Return a row for each rule, in the order of their first start."""
    groups: dict[str, list[Attempt]] = {}
    for a in placed:
        groups.setdefault(a.rule, []).append(a)
    return [_tally(rule, group) for rule, group in groups.items()]


def _tally(rule: str, attempts: Sequence[Attempt]) -> RuleTally:
    total = {key: sum(getattr(a, key) or 0.0 for a in attempts) for key in _TOTALS}
    peaks = [(a.peak_mb, a.declared_mb) for a in attempts if a.peak_mb is not None]
    shares = [(peak / declared, declared, peak) for peak, declared in peaks if declared]
    _, declared_mb, peak_mb = max(shares, default=(None, None, None))
    lost = lost_mb(attempts)
    return RuleTally(
        rule=rule,
        attempts=len(attempts),
        ended_well=sum(a.outcome == ENDED_WELL for a in attempts),
        running=sum(a.outcome == RUNNING for a in attempts),
        declared_mb=declared_mb,
        peak_mb=peak_mb,
        largest_mb=max((peak for peak, _ in peaks), default=None),
        longest_s=max(a.seconds for a in attempts),
        **total,
        split=sum((split(a) for a in attempts), Split()),
        pixels=sum(map(_pixels, attempts)),
        lost_median_mb=median(lost) if lost else None,
        lost_most_mb=lost[-1] if lost else None,
    )


@dataclass(slots=True)
class StepTally:
    """Time and bytes of the steps of one name, in all attempts at jobs of a rule.

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


def group_by_step(placed: Iterable[Attempt]) -> list[StepTally]:
    """Return a row for each step of each rule, in the order of their first start."""
    found: dict[tuple[str, str, int], StepTally] = {}
    for attempt in placed:
        seen = set()
        for name, depth, took in _step_costs(attempt):
            key = attempt.rule, name, depth
            tally = found.setdefault(key, StepTally(*key))
            tally.count += 1
            for total, amount in zip(_TOTALS, took, strict=True):
                setattr(tally, total, getattr(tally, total) + amount)
            tally.pixels += 0.0 if key in seen else _pixels(attempt)
            seen.add(key)
    return list(found.values())


def steps_of(attempt: Attempt) -> list[tuple[str, float, float, int]]:
    """Return name, start, end (s) and depth of the steps; one that did not end lasts to the end."""
    return [
        (s.name, s.begin, s.end if s.end is not None else max(s.begin, attempt.seconds), s.depth)
        for s in attempt.steps
    ]


@once_per_object
def _step_costs(attempt: Attempt) -> list[tuple[str, int, list[float]]]:
    """Return name, depth, and seconds, CPU, bytes read and written of each step."""
    steps = steps_of(attempt)
    edges = np.array([(begin, end) for _, begin, end, _ in steps]).reshape(-1, 2)
    at = (np.interp(edges, t, sums) for t, sums in sums_of(attempt))
    grown = [np.diff(values)[:, 0] for values in (edges, *at)]
    costs = np.stack(grown, axis=1).tolist()
    return [(name, depth, cost) for (name, _, _, depth), cost in zip(steps, costs, strict=True)]


@once_per_object
def sums_of(attempt: Attempt) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Return times and values of what only grows: CPU, bytes read, bytes written."""
    samples, found = attempt.samples, []
    t = np.concatenate([[0.0], samples.t, [max([attempt.seconds, *samples.t[-1:]])]])
    ends = attempt.cpu_s, attempt.read, attempt.written
    for sampled, total in zip((samples.cpu, samples.read, samples.written), ends, strict=True):
        values = np.concatenate([[0.0], sampled, [np.nan if total is None else total]])
        known = ~np.isnan(values)
        found.append((t[known], np.maximum.accumulate(values[known])))
    return found


def _pixels(attempt: Attempt) -> float:
    return _find_at_end(attempt, "pixels") or 0.0


MOST_LEFT_MB = 200.0
"""Limit for the memory that finished jobs of a run leave behind on a machine, MB."""


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Memory that the finished jobs of a run have left behind on one machine.

    Attributes
    ----------
    host
        The machine.
    files_mb
        Growth of the user's files in memory since before the first job, MB: those that were there
        before any job that still runs, and still are.
    processes, processes_mb
        How many processes had outlived their jobs, and their memory then, MB.
    worst
        The attempt that left most.
    """

    host: str
    files_mb: float
    processes: int
    processes_mb: float
    worst: Attempt

    @property
    def leaks(self) -> bool:
        """Whether this is more than jobs may leave."""
        return self.files_mb + self.processes_mb > MOST_LEFT_MB


def list_leftovers(h: RunHistory) -> list[Leftovers]:
    """Return what the jobs of a run have left behind, for each machine of which that is known."""
    groups: dict[str, list[Attempt]] = {}
    for a in h.attempts:
        if _find_at_end(a, "files_after_mb") is not None:
            groups.setdefault(a.host, []).append(a)
    running = [a for a in h.attempts if a.outcome == RUNNING]
    return [
        _sum_leftovers(host, group, min((a.start for a in running if a.host == host), default=inf))
        for host, group in groups.items()
    ]


def _sum_leftovers(host: str, group: Sequence[Attempt], before_s: float) -> Leftovers:
    """Sum over attempts; files that appeared after ``before_s`` may be those of running jobs."""
    before = _amount(min(group, key=lambda a: a.start), "files_before_mb")
    since = max((a.end for a in group if a.end <= before_s), default=inf)
    after = min((_amount(a, "files_after_mb") for a in group if a.end >= since), default=before)
    return Leftovers(
        host=host,
        files_mb=max(0.0, after - before),
        processes=int(sum(_amount(a, "processes_left") for a in group)),
        processes_mb=sum(_amount(a, "processes_left_mb") for a in group),
        worst=max(group, key=_left_mb),
    )


def _left_mb(a: Attempt) -> float:
    """Return what an attempt may have left, MB: files grew meanwhile by no more than it wrote."""
    grown = _amount(a, "files_after_mb") - _amount(a, "files_before_mb")
    made = inf if a.written is None else a.written / 1e6 + np.nanmax([0.0, *a.samples.shmem])
    return _amount(a, "processes_left_mb") + float(min(grown, made))


def lost_mb(attempts: Iterable[Attempt]) -> list[float]:
    """Return what the machine had less of after each attempt, MB, where that is known; sorted."""
    values = (_find_at_end(attempt, "left_behind_mb") for attempt in attempts)
    return sorted(mb for mb in values if mb is not None)


def _amount(a: Attempt, name: str) -> float:
    return _find_at_end(a, name) or 0.0


def _find_at_end(attempt: Attempt, name: str) -> float | None:
    return None if attempt.ending is None else number(attempt.ending.more.get(name))
