"""History of a results directory: all runs, each with its attempts, when and where.

Attempts name their run. Times within a run are s since its start, by the monotonic clock where run
and attempt share one. Of an attempt on another machine, wall times are compared; as it cannot start
before Snakemake has started its job, nor end after Snakemake has noticed its end, the clocks of
that machine are corrected if they contradict that.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.digests import OF_RUN
from unglow.telemetry.reading import plan
from unglow.telemetry.reading.follower import Follower
from unglow.telemetry.reading.plan import Machine, boots, outcome_of_attempt, outcome_of_run
from unglow.telemetry.reading.records import ROUNDED_MB, RUNNING, Attempt, Job, JobKey, RunRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

UNRECORDED = ""
"""Id of the run that jobs without the record of a run are given to."""
# Starting a job takes Snakemake longer than this, s.
_SOON_S = 0.2


@dataclass(frozen=True, eq=False)
class RunHistory:
    """A run with its attempts; what follows from them is computed once.

    Attributes
    ----------
    run, outcome
        The run, and how it ended (or ``running``, ``killed``).
    attempts
        By start.
    seconds
        How long it took, or takes by now.
    shifts
        Corrections of the clocks of other machines, s, by host: what was added to their times.
    """

    run: RunRecord
    outcome: str
    attempts: tuple[Attempt, ...]
    seconds: float
    shifts: Mapping[str, float]

    @cached_property
    def states(self) -> Mapping[int, str]:
        """State of each job, by its number (`plan.states`)."""
        return plan.states(self.run, self.outcome, self.attempts)

    @cached_property
    def rules(self) -> tuple[plan.RuleProgress, ...]:
        """Progress of each rule, in the order in which Snakemake named them."""
        return tuple(plan.group_by_rule(self.run, self.outcome, self.states))

    @cached_property
    def memory(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Memory of all jobs together (`sum_memory`)."""
        return sum_memory(self.attempts)

    @cached_property
    def declared(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Memory that all jobs had declared together (`sum_declared`)."""
        return sum_declared(self.attempts)

    @property
    def rows(self) -> tuple[str, ...]:
        """Names of the rows that attempts are drawn on: cores, by host where there are several."""
        last: dict[str, tuple[int, int]] = {}
        for a in self.attempts:
            first, end = last.get(a.host, (a.slot, 0))
            rows = a.slot + a.threads
            last[a.host] = min(first, a.slot), max(end, rows)
        names = [(f"{host} " if len(last) > 1 else "", *span) for host, span in last.items()]
        spans = sorted(names, key=lambda name: name[1])
        return tuple(f"{name}{n + 1}" for name, first, end in spans for n in range(end - first))


@dataclass(frozen=True, eq=False)
class History:
    """All runs of a results directory, the oldest first."""

    runs: tuple[RunHistory, ...]

    @classmethod
    def read(cls, results: Path, machine: Machine | None = None) -> History:
        """Read all telemetry of a results directory, as it looks from a machine (this one, now)."""
        return follow(Follower(results), machine or Machine())

    @property
    def last(self) -> RunHistory | None:
        """The run that started last; None if there is none."""
        return self.runs[-1] if self.runs else None

    @cached_property
    def last_work(self) -> RunHistory | None:
        """The last run that works or did more than sum up what was there; else the last of all."""
        for h in reversed(self.runs):
            if h.outcome == RUNNING or any(a.stage not in OF_RUN for a in h.attempts):
                return h
        return self.last


def follow(
    follower: Follower, machine: Machine, known: dict[str, Attempt] | None = None
) -> History:
    """Read what is new of a results directory and join it (`join`).

    A job may end between the reading of its record and the look for its process, so the record of
    one that is gone is read again.
    """
    follower.poll()
    while machine.finds_gone(follower.open_heads):
        follower.poll()
    return join(follower.runs, follower.attempts, machine, known)


def join(
    runs: Sequence[RunRecord],
    attempts: Iterable[Attempt],
    machine: Machine,
    known: dict[str, Attempt] | None = None,
) -> History:
    """Put each attempt into the run that it belongs to; runs the oldest first.

    ``known`` are attempts as they were placed before, for those who read again and again: the same
    object stands for an attempt that has not changed. It is filled.
    """
    known = {} if known is None else known
    jobs = {run.id: {job.key: job for job in run.jobs} for run in runs}
    members: dict[str, list[Attempt]] = {run.id: [] for run in runs}
    for attempt in attempts:
        run = attempt.run if attempt.run in jobs else UNRECORDED
        members.setdefault(run, []).append(attempt)
    histories = [_history(r, members[r.id], jobs[r.id], machine, known) for r in runs]
    if UNRECORDED in members:
        histories.append(_group_unrecorded(members[UNRECORDED], machine))
    known.update({a.id: a for h in histories for a in h.attempts})
    return History(tuple(sorted(histories, key=lambda h: h.run.wall)))


def _history(
    run: RunRecord,
    attempts: Sequence[Attempt],
    jobs: Mapping[JobKey, Job],
    machine: Machine,
    known: Mapping[str, Attempt],
) -> RunHistory:
    outcome = outcome_of_run(run, machine)
    kept, new = [], []
    for attempt in attempts:
        job, before = jobs.get(attempt.key), known.get(attempt.id)
        is_here = boots(attempt.fields) == boots(run.fields)
        if before and before.job is job and is_here and before.ending and attempt.ending:
            kept.append(before)  # nothing is read behind an end
            continue
        start = attempt.wall - run.wall
        if is_here and math.isfinite(by_clock := attempt.clock - run.clock):
            start = by_clock
        of_run = (run, outcome) if run.id != UNRECORDED else None
        ended = outcome_of_attempt(attempt, of_run, job, machine)
        end = start + attempt.seconds
        new.append(replace(attempt, job=job, start=start, end=end, outcome=ended))
    shifts = _shifts(new, run)
    placed = _give_slots(kept + [_add_launch(_shift(a, shifts)) for a in new])
    placed = tuple(_keep(known.get(a.id), a) for a in placed)
    going = outcome == RUNNING or machine.runs_here(run)
    now = machine.now - run.wall if going and run.outcome is None else 0.0
    seconds = max([run.seen, now, *(a.end for a in placed)])
    return RunHistory(run, outcome, placed, seconds, shifts)


def _keep(before: Attempt | None, a: Attempt) -> Attempt:
    """Return an attempt that has ended as it was placed before, if that is where it is now."""
    names = ("ending", "job", "start", "end", "outcome", "slot", "launched")
    if before is None or a.ending is None:
        return a
    return before if all(getattr(before, k) == getattr(a, k) for k in names) else a


def _group_unrecorded(attempts: Sequence[Attempt], machine: Machine) -> RunHistory:
    """Return a history of attempts whose run left no file."""
    start_of_all = min(attempt.wall for attempt in attempts)
    run = RunRecord(UNRECORDED, start_of_all, math.nan, {}, outcome=UNRECORDED)
    history = _history(run, attempts, {}, machine, {})
    going = any(a.outcome == RUNNING for a in history.attempts)
    return replace(history, outcome=RUNNING) if going else history


def _shifts(placed: Iterable[Attempt], run: RunRecord) -> dict[str, float]:
    """Return corrections of the times of other machines, s, where they are not 0.

    An attempt is between the start of its job and the end that Snakemake saw. The shift is the
    smallest that puts all attempts of a host there, or the mean of the bounds if none does.
    """
    bounds: dict[str, tuple[float, float]] = {}
    for a in placed:
        if a.job is None or boots(a.fields) == boots(run.fields):
            continue
        started, ended = a.job.list_times("started"), a.job.list_times("finished", "failed")
        low, high = bounds.get(a.host, (-math.inf, math.inf))
        if started:
            low = max(low, min(started) - a.start)
        if ended and a.ending is not None:
            high = min(high, max(ended) - a.end)
        bounds[a.host] = low, high
    shifts = {}
    for host, (low, high) in bounds.items():
        shift = (low + high) / 2 if low > high else min(max(0.0, low), high)
        if shift and math.isfinite(shift):
            shifts[host] = shift
    return shifts


def _shift(a: Attempt, shifts: Mapping[str, float]) -> Attempt:
    shift = shifts.get(a.host)
    return replace(a, start=a.start + shift, end=a.end + shift) if shift else a


def _add_launch(a: Attempt) -> Attempt:
    """Add when Snakemake started the job of an attempt."""
    starts = a.job.list_times("started") if a.job is not None else ()
    return replace(a, launched=max((t for t in starts if t <= a.start + _SOON_S), default=None))


def _give_slots(placed: Iterable[Attempt]) -> tuple[Attempt, ...]:
    """Give each attempt the lowest rows, one for each thread, that are free while it runs.

    Each host has rows of its own, below those of the hosts that came before it.
    """
    free: dict[str, list[float]] = {}  # until when each row of a host is taken
    slots = []
    for a in sorted(placed, key=lambda a: (a.start, a.id)):
        taken = free.setdefault(a.host, [])
        rows = a.threads
        slot = next(
            (s for s in range(len(taken)) if all(t <= a.start for t in taken[s : s + rows])),
            len(taken),
        )
        taken += [-math.inf] * (slot + rows - len(taken))
        taken[slot : slot + rows] = [max(a.end, a.start)] * rows
        slots.append((a, slot))
    counts = [len(taken) for taken in free.values()]
    above = dict(zip(free, itertools.accumulate(counts, initial=0), strict=False))
    rows_of = ((a, slot + above[a.host]) for a, slot in slots)
    return tuple(a if a.slot == slot else replace(a, slot=slot) for a, slot in rows_of)


def sum_memory(placed: Iterable[Attempt]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the memory of all jobs together, at each time that one of them was measured.

    It is the sum of their proportional sets (PSS), in which pages that several processes share
    count once, and never less than that of a single process.

    Returns
    -------
    Times, s since the start of the run, and MB from each of them on, (n,) each; empty if no attempt
    has samples.
    """
    parts = [_memory_of(a) for a in placed]
    if all(len(t) == 1 for t, _, _ in parts):
        return np.empty(0), np.empty(0)
    t, mb, order = _sum_steps([t for t, _, _ in parts], [step for _, step, _ in parts])
    return t, np.fmax(mb, np.concatenate([least for _, _, least in parts])[order])


def _memory_of(a: Attempt) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return times of measurements and end, growth of memory at them, and its least values.

    The last is the memory of a single process, NaN where that is not known; the peak that was
    reported at the end is there as well, with the last sample.
    """
    samples = a.samples
    shared_once, least = samples.shared_once, np.append(samples.largest, np.nan)
    last = np.maximum.accumulate(np.where(np.isnan(shared_once), -1, np.arange(len(samples))))
    held = np.where(last >= 0, shared_once[last], 0.0) if len(samples) else shared_once
    peak = a.peak_mb
    most = np.fmax(least[:-1], shared_once)
    if peak is not None and not np.any(most >= peak - ROUNDED_MB):
        least[max(0, len(samples) - 1)] = peak
    return (
        np.append(a.start + samples.t, a.end),
        np.diff(np.append(held, 0.0), prepend=0.0),
        least,
    )


def sum_declared(placed: Iterable[Attempt]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the memory that all jobs together had declared: times, s, and MB from each on."""
    declared = [(a.start, a.end, a.declared_mb) for a in placed if a.declared_mb]
    times = [np.array([start, end]) for start, end, _ in declared]
    return _sum_steps(times, [np.array([mb, -mb]) for _, _, mb in declared])[:2]


def _sum_steps(
    times: Sequence[NDArray[np.float64]], steps: Sequence[NDArray[np.float64]]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.intp]]:
    """Return sorted times, the sum of all steps up to each, and the place of each in the input."""
    if not times:
        return np.empty(0), np.empty(0), np.empty(0, np.intp)
    t, step = np.concatenate(times), np.concatenate(steps)
    # at equal times, what ends goes first: its memory is free when the next one takes some
    order = np.lexsort((step, t))
    return t[order], np.maximum(np.cumsum(step[order]), 0.0), order
