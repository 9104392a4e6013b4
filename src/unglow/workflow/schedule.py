"""Jobs of a run, how many of them can run at once, and how long all of them take.

Plain data in and out: `unglow.workflow.job_graph` reads the jobs from Snakemake. MB are 1e6 bytes.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, NamedTuple

from unglow.core.schedule import Task
from unglow.core.schedule import simulate as simulate_tasks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from unglow.memory import AnyDemand


@dataclass(frozen=True, slots=True)
class Job:
    """One job that a run will do.

    Attributes
    ----------
    rule, title
        Its rule, under unglow's own name, and what it belongs to, for messages: ``Rock7 SYTO9``.
    threads, mem_mb
        What Snakemake gives it.
    after
        The places, in the list of all jobs, of those that make what it reads.
    reason
        Why it runs, as Snakemake words it.
    demand
        Its memory demand; None for a job of another workflow.
    launcher_mb
        Memory that starting it takes in addition: 0 unless it runs on a batch system.
    disk_mb, disk
        Upper bound of its outputs that are missing, and a directory on the file system they go to.
    mpx
        What its time grows with, million px.
    disk_streams
        1 if it mostly reads or writes large files from end to end, else 0.
    advice
        What else would help if its memory is too much; '' for nothing.
    is_fixed
        Whether each attempt is given the same ``mem_mb``: a number was set for the rule.
    """

    rule: str
    title: str
    threads: int
    mem_mb: int
    after: tuple[int, ...] = ()
    reason: str = ""
    demand: AnyDemand | None = None
    launcher_mb: int = 0
    disk_mb: int = 0
    disk: str = ""
    mpx: float = 0.0
    disk_streams: int = 0
    advice: str = ""
    is_fixed: bool = False

    @property
    def name(self) -> str:
        """What it is, for messages."""
        return f"{self.rule} of {self.title}"

    @property
    def least_mb(self) -> int:
        """Memory with one block in flight, MB."""
        return self.asks_mb(0, 1)

    def asks_mb(self, budget_mb: float, threads: int) -> int:
        """Return the memory that it asks for within a budget, MB."""
        if self.demand is None:
            return self.mem_mb
        return self.demand.peak_mb(budget_mb, threads) + self.launcher_mb

    def resize(self, capacity: Capacity, budget_mb: float) -> Job:
        """Return it as it would be with other cores and another budget."""
        threads = self.threads if capacity.cores is None else min(self.threads, capacity.cores)
        asked = min(self.asks_mb(budget_mb, threads), capacity.limit_mb or math.inf)
        return replace(self, threads=threads, mem_mb=int(asked))


@dataclass(frozen=True, slots=True)
class Capacity:
    """Cores, memory and disks of a machine, and what Snakemake may use of them.

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


class AtOnce(NamedTuple):
    """Upper bounds of what runs at once: the number of jobs, and their memory, MB."""

    jobs: int
    mb: int


def cover_with_chains(jobs: Sequence[Job]) -> list[list[Job]]:
    """Divide jobs among chains in which each waits for the one before: one of each runs at once.

    The heaviest choose first what they follow, the last of what they wait for that is free.
    """
    depth = [0] * len(jobs)
    for n in TopologicalSorter({n: job.after for n, job in enumerate(jobs)}).static_order():
        depth[n] = 1 + max((depth[before] for before in jobs[n].after), default=0)
    follows: dict[int, int] = {}
    free = set(range(len(jobs)))
    for n in sorted(range(len(jobs)), key=lambda n: -jobs[n].mem_mb):
        before = max((b for b in jobs[n].after if b in free), key=depth.__getitem__, default=None)
        if before is not None:
            free.discard(before)
            follows[before] = n
    chains = []
    for start in set(range(len(jobs))).difference(follows.values()):
        chain = [start]
        while chain[-1] in follows:
            chain.append(follows[chain[-1]])
        chains.append([jobs[n] for n in chain])
    return chains


def bound_at_once(jobs: Sequence[Job], capacity: Capacity) -> AtOnce:
    """Bound what can run at once, whatever time jobs take.

    One job of each of the chains that cover the graph: the heaviest in all for the cores, and the
    smallest ones for their number.
    """
    chains = cover_with_chains(jobs)
    limit = math.inf if capacity.limit_mb is None else capacity.limit_mb
    threads = sorted(min(job.threads for job in chain) for chain in chains)
    least = sorted(min(job.mem_mb for job in chain) for chain in chains)
    streams = math.inf if capacity.disk_streams is None else capacity.disk_streams
    if streams < len(chains):  # of chains of which every job streams, so many run
        streams += sum(any(not job.disk_streams for job in chain) for chain in chains)
    cores = sum(max(job.threads for job in chain) for chain in chains)
    cores = cores if capacity.cores is None else min(cores, capacity.cores)
    heaviest = [0] * (cores + 1)  # by the cores that they have at most
    for chain in chains:
        options: dict[int, int] = {}
        for job in chain:
            options[job.threads] = max(job.mem_mb, options.get(job.threads, 0))
        heaviest = [
            max(mb, *(heaviest[n - t] + more for t, more in options.items() if t <= n), 0)
            for n, mb in enumerate(heaviest)
        ]
    count = min(_count_within(threads, cores), _count_within(least, limit), streams)
    return AtOnce(int(count), int(min(heaviest[cores], limit)))


def _count_within(needs: Iterable[float], limit: float) -> int:
    """Return how many of the needs, in their order, are met."""
    return sum(total <= limit for total in itertools.accumulate(needs))


def simulate(jobs: Sequence[Job], seconds: Sequence[float], capacity: Capacity) -> float:
    """Return how long jobs take together, s (`unglow.core.schedule.simulate`)."""
    limits = capacity.cores, capacity.limit_mb, capacity.disk_streams
    tasks = [
        Task(s, (job.threads, job.mem_mb, job.disk_streams), job.after)
        for job, s in zip(jobs, seconds, strict=True)
    ]
    return simulate_tasks(tasks, limits)
