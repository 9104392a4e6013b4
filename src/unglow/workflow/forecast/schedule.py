"""Schedule: how long jobs take that Snakemake starts as soon as cores, memory and order let it."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unglow.workflow.stage_table import STAGES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeAlias

    from unglow.workflow.preflight.concurrency import Capacity, PendingJob

    Levels: TypeAlias = tuple[int, ...]

MOST_JOBS = 1000
"""Of more jobs, those of some pairs are looked at; the others take as long for as much to do."""
# Of jobs that are ready and do not fit, so many are looked at.
_LOOKED_AT = 20
_ORDER = {rule: n for n, rule in enumerate(STAGES)}


@dataclass(frozen=True, slots=True)
class TimedJob:
    """A job with its time, s, its start included, and the threads that it gets."""

    job: PendingJob
    seconds: float
    threads: int

    @property
    def core_s(self) -> float:
        """Seconds of cores that it takes."""
        return self.threads * self.seconds


def makespan(jobs: Sequence[TimedJob], capacity: Capacity, budget_mb: float) -> float:
    """Return how long jobs take together, s; one may take ``budget_mb`` of memory."""
    by_pair: dict[tuple[str, ...], list[TimedJob]] = defaultdict(list)
    for timed in jobs:
        by_pair[timed.job.variant[:2]].append(timed)
    step = math.ceil(len(jobs) / MOST_JOBS)
    if step == 1:
        return simulated(jobs, capacity, budget_mb)
    pairs = [by_pair[key] for key in by_pair if any(key)]
    some = [timed for pair in pairs[::step] for timed in pair]
    half = [timed for pair in pairs[:: 2 * step] for timed in pair]
    whole, of_some, of_half = (sum(t.core_s for t in part) for part in (jobs, some, half))
    took = simulated(some, capacity, budget_mb)
    more = took - simulated(half, capacity, budget_mb)
    if of_some == of_half:  # one pair of very many jobs
        return took * whole / of_some
    most = (of_some - of_half) / (capacity.cores or math.inf)
    return took + (whole - of_some) / (of_some - of_half) * max(more, most)


def simulated(jobs: Sequence[TimedJob], capacity: Capacity, budget_mb: float) -> float:
    """Return when the last job ends, s, if each is started as soon as it can be."""
    waits, followers = _order(jobs)
    ready = [(_ORDER[t.job.rule], n) for n, t in enumerate(jobs) if not waits[n]]
    heapq.heapify(ready)
    limits = capacity.cores, capacity.limit_mb, capacity.disk_streams
    room = _Room([math.inf if limit is None else limit for limit in limits])
    most_mb = room.free[1]  # to which Snakemake cuts down what a job asks for
    needs = [
        (t.threads, min(most_mb, t.job.asks_mb(capacity.cores, budget_mb)), t.job.disk_streams)
        for t in jobs
    ]
    running: list[tuple[float, int]] = []
    now = 0.0
    while ready or running:
        for n in _start(ready, needs, room):
            heapq.heappush(running, (now + jobs[n].seconds, n))
        now, ended = heapq.heappop(running)
        room.give(needs[ended])
        for follower in followers[ended]:
            waits[follower] -= 1
            if not waits[follower]:
                heapq.heappush(ready, (_ORDER[jobs[follower].job.rule], follower))
    return now


@dataclass(slots=True)
class _Room:
    """What is free of cores, memory and streams from disk."""

    free: list[float]

    def take(self, needs: Sequence[float]) -> bool:
        """Take what a job needs, if all of it is there; return whether it is."""
        if any(need > there for need, there in zip(needs, self.free, strict=True)):
            return False
        self.free = [there - need for need, there in zip(needs, self.free, strict=True)]
        return True

    def give(self, needs: Sequence[float]) -> None:
        """Take back what a job has needed."""
        self.free = [there + need for need, there in zip(needs, self.free, strict=True)]


def _start(
    ready: list[tuple[int, int]], needs: Sequence[Sequence[float]], room: _Room
) -> list[int]:
    """Take jobs that fit from those that are ready; return which."""
    started: list[int] = []
    left: list[tuple[int, int]] = []
    while ready and room.free[0] >= 1 and len(left) < _LOOKED_AT:
        first = heapq.heappop(ready)
        if room.take(needs[first[1]]):
            started.append(first[1])
        else:
            left.append(first)
    for waiting in left:
        heapq.heappush(ready, waiting)
    return started


def _order(jobs: Sequence[TimedJob]) -> tuple[list[int], list[list[int]]]:
    """Return how many jobs each one waits for, and which wait for it, as indices."""
    by_variant = _JobsByVariant(jobs)
    waits = [0] * len(jobs)
    followers: list[list[int]] = [[] for _ in jobs]
    for n, timed in enumerate(jobs):
        job = timed.job
        if STAGES[job.rule].level == "run":
            before = [m for m, other in enumerate(jobs) if other.job.step < job.step]
        else:
            rules = STAGES[job.rule].after
            before = [m for rule in rules for m in by_variant.find(rule, job.variant)]
        waits[n] = len(before)
        for m in before:
            followers[m].append(n)
    return waits, followers


class _JobsByVariant:
    """Jobs by rule and variant, found without comparing each with all others."""

    def __init__(self, jobs: Sequence[TimedJob]) -> None:
        self._jobs = jobs
        self._by_levels: dict[str, dict[Levels, list[int]]] = defaultdict(lambda: defaultdict(list))
        for n, timed in enumerate(jobs):
            self._by_levels[timed.job.rule][_levels_of(timed.job.variant)].append(n)
        self._found: dict[tuple[str, Levels, Levels], dict[tuple[str, ...], list[int]]] = {}

    def find(self, rule: str, variant: Sequence[str]) -> Iterator[int]:
        """Yield the jobs of a rule for the same variant, on the levels that both have."""
        for levels, numbers in self._by_levels.get(rule, {}).items():
            common = tuple(k for k in _levels_of(variant) if k in levels)
            key = rule, levels, common
            if key not in self._found:
                index: dict[tuple[str, ...], list[int]] = defaultdict(list)
                for n in numbers:
                    index[tuple(self._jobs[n].job.variant[k] for k in common)].append(n)
                self._found[key] = index
            yield from self._found[key].get(tuple(variant[k] for k in common), ())


def _levels_of(variant: Sequence[str]) -> Levels:
    """Return the numbers of the levels that a variant has a name on."""
    return tuple(k for k, name in enumerate(variant) if name)
