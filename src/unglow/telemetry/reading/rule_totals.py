"""Totals of rules over the attempts of a run, and where time went."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from unglow.telemetry.reading.leftovers import lost_mb
from unglow.telemetry.reading.records import ENDED_WELL, RUNNING, once_per_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from unglow.telemetry.reading.history import RunHistory
    from unglow.telemetry.reading.records import Attempt, Placed

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
        return Split(
            self.computing + other.computing,
            self.moving + other.moving,
            self.waiting + other.waiting,
        )


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
    """What the attempts at the jobs of one rule took.

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
        What the machine had less of after an attempt; None if not known.
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

    @property
    def mb_per_s(self) -> float | None:
        """Bytes through read and write calls, MB, in each second of a job."""
        return (self.read + self.written) / 1e6 / self.seconds if self.seconds > 0 else None

    @property
    def cores(self) -> float | None:
        """Processors that a job kept busy on average."""
        return self.cpu_s / self.seconds if self.seconds > 0 else None


def by_rule(placed: Iterable[Placed]) -> list[RuleTally]:
    """Return a row for each rule, in the order in which they first began."""
    groups: dict[str, list[Placed]] = {}
    for a in placed:
        groups.setdefault(a.attempt.rule, []).append(a)
    return [_tally(rule, group) for rule, group in groups.items()]


def _tally(rule: str, group: Sequence[Placed]) -> RuleTally:
    attempts = [a.attempt for a in group]
    peaks = [(a.peak_mb, a.declared_mb) for a in attempts if a.peak_mb is not None]
    shares = [(peak / declared, declared, peak) for peak, declared in peaks if declared]
    _, declared_mb, peak_mb = max(shares, default=(None, None, None))
    ends = [a.end for a in attempts if a.end is not None]
    lost = lost_mb(attempts)
    return RuleTally(
        rule=rule,
        attempts=len(group),
        ended_well=sum(a.outcome == ENDED_WELL for a in group),
        running=sum(a.outcome == RUNNING for a in group),
        declared_mb=declared_mb,
        peak_mb=peak_mb,
        largest_mb=max((peak for peak, _ in peaks), default=None),
        longest_s=max(a.seconds for a in attempts),
        seconds=sum(a.seconds for a in attempts),
        cpu_s=sum(a.cpu_s or 0.0 for a in attempts),
        read=sum(a.read or 0.0 for a in attempts),
        written=sum(a.written or 0.0 for a in attempts),
        split=sum((split(a) for a in attempts), Split()),
        pixels=sum(float(end.more.get("pixels") or 0.0) for end in ends),
        lost_median_mb=median(lost) if lost else None,
        lost_most_mb=lost[-1] if lost else None,
    )


@dataclass(frozen=True, slots=True)
class Overhead:
    """What Snakemake itself took of a run, s.

    Attributes
    ----------
    before, after
        From the run's begin to the first attempt, and from the end of the last to the run's.
    launching, closing
        From Snakemake's start of a job to the begin of its attempt (a new Python that imports
        Snakemake), and from its end until Snakemake took note: means over the jobs of which it is
        known, None if there are none.
    idle
        While no attempt ran, between the first and the last.
    """

    before: float
    after: float
    launching: float | None
    closing: float | None
    idle: float


def overhead(history: RunHistory) -> Overhead | None:
    """Return what Snakemake took of a run; None if it left no file or did nothing."""
    placed = history.attempts
    if not placed or not history.run.fields:
        return None
    over = history.outcome != RUNNING
    last = max(a.end for a in placed)
    idle, until = 0.0, placed[0].start
    for a in placed:
        idle += max(0.0, a.start - until)
        until = max(until, a.end)
    return Overhead(
        before=max(0.0, placed[0].start),
        after=max(0.0, history.seconds - last) if over else 0.0,
        launching=_mean([a.start - a.launched for a in placed if a.launched is not None]),
        closing=_mean([a.closed - a.end for a in placed if a.closed is not None]),
        idle=idle,
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
