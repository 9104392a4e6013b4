"""Concurrent jobs: which may run at once, as far as cores, memory and the order of stages go."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unglow.core.demand import AnyDemand


@dataclass(frozen=True, slots=True)
class PendingJob:
    """One job that is still to be done.

    Attributes
    ----------
    title
        What it belongs to, for messages: ``Rock7 SYTO9``.
    rule
        Name of its rule.
    demand
        Its memory demand.
    threads
        Threads that its rule asks for.
    variant, step
        Jobs of one variant of a pair run one step after the other; those of one step may run side
        by side.
    declared_mb
        Memory that the user has set for its rule; None to follow the demand.
    disk_mb, disk
        Upper bound of what it leaves on disk, and a directory on the file system it goes to.
    advice
        What else would help if its memory is too much; '' for nothing.
    mpx
        What its time grows with, million px.
    disk_streams
        1 if it mostly reads or writes large files from end to end, else 0.
    """

    title: str
    rule: str
    demand: AnyDemand
    threads: int = 1
    variant: tuple[str, ...] = ()
    step: int = 0
    declared_mb: int | None = None
    disk_mb: int = 0
    disk: str = ""
    advice: str = ""
    mpx: float = 0.0
    disk_streams: int = 0

    @property
    def least_mb(self) -> int:
        """Memory with one block in flight, MB."""
        return self.demand.peak_mb(0, 1)

    @property
    def is_given_too_little(self) -> bool:
        """Whether the user has set less memory for its rule than it needs."""
        return self.declared_mb is not None and self.least_mb > self.declared_mb

    def threads_on(self, cores: int | None) -> int:
        """Return the threads that Snakemake gives it."""
        return self.threads if cores is None else max(1, min(self.threads, cores))

    def asks_mb(self, cores: int | None, budget_mb: float) -> int:
        """Return the memory that it asks for, MB."""
        if self.declared_mb is not None:
            return self.declared_mb
        return self.demand.peak_mb(budget_mb, self.threads_on(cores))


@dataclass(frozen=True, slots=True)
class Capacity:
    """What there is to run on, and what Snakemake may use of it.

    Attributes
    ----------
    cores
        Cores for all jobs together; None if there is no limit.
    limit_mb
        Memory for all jobs together (``--resources mem_mb``); None if there is no limit. Snakemake
        cuts a job that asks for more down to it without a word.
    available_mb
        Memory that can be taken now; None if jobs run elsewhere.
    free_mb
        Free space of each file system by a directory on it.
    disk_streams
        How many jobs may stream from disk at a time; None if there is no limit.
    """

    cores: int | None
    limit_mb: int | None
    available_mb: float | None
    free_mb: Mapping[str, float]
    disk_streams: int | None = None


@dataclass(frozen=True, slots=True)
class ConcurrentJobs:
    """The heaviest jobs that may run at once: their MB, largest first, and what limits them."""

    mb: tuple[int, ...]
    limited_by: str


def heaviest_at_once(
    jobs: Sequence[PendingJob], capacity: Capacity, budget_mb: float
) -> ConcurrentJobs:
    """Choose the heaviest jobs that Snakemake may start together, as far as cores and limit go.

    Heaviest for each core first, of each variant one step only: once the step of the job that comes
    first, once the step that is heaviest as a whole; the heavier choice counts.
    """
    limit = math.inf if capacity.limit_mb is None else capacity.limit_mb
    weighed = []
    steps: Counter[tuple[tuple[str, ...], int]] = Counter()
    for job in jobs:
        mb = int(min(job.asks_mb(capacity.cores, budget_mb), limit))
        weighed.append((mb, job.threads_on(capacity.cores), job))
        steps[job.variant, job.step] += mb
    weighed.sort(key=lambda w: (-w[0] / w[1], -w[0]))
    heaviest: dict[tuple[str, ...], int] = {}
    for (variant, step), _ in steps.most_common():
        heaviest.setdefault(variant, step)
    of_heaviest = [w for w in weighed if w[2].step == heaviest[w[2].variant]]
    choices = [_fill(choice, capacity) for choice in (weighed, of_heaviest)]
    return max(choices, key=lambda at_once: sum(at_once.mb))


def _fill(weighed: Sequence[tuple[int, int, PendingJob]], capacity: Capacity) -> ConcurrentJobs:
    """Take (MB, threads, job) in their order for as long as cores and memory last."""
    limit = math.inf if capacity.limit_mb is None else capacity.limit_mb
    cores = math.inf if capacity.cores is None else capacity.cores
    steps: dict[tuple[str, ...], int] = {}
    chosen: list[int] = []
    short_of_memory = False
    for mb, threads, job in weighed:
        if cores < 1:
            break
        if threads > cores or steps.get(job.variant, job.step) != job.step:
            continue
        if mb > limit:
            short_of_memory = True
            continue
        steps[job.variant] = job.step
        chosen.append(mb)
        cores -= threads
        limit -= mb
    why = "cores" if cores < 1 else ("memory" if short_of_memory else "what there is to do")
    return ConcurrentJobs(tuple(sorted(chosen, reverse=True)), why)
