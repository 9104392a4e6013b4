"""Which jobs may run at once, as far as cores, memory and the order of stages go."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unglow.core.demand import AnyDemand


@dataclass(frozen=True, slots=True)
class Task:
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
    track, step
        Jobs of one track run one step after the other; those of one step may run side by side.
    declared_mb
        Memory that the user has set for its rule; None to follow the demand.
    disk_mb, place
        Upper bound of what it leaves on disk, and a name of the file system it goes to.
    advice
        What else would help if its memory is too much; '' for nothing.
    """

    title: str
    rule: str
    demand: AnyDemand
    threads: int = 1
    track: str = ""
    step: int = 0
    declared_mb: int | None = None
    disk_mb: int = 0
    place: str = ""
    advice: str = ""

    @property
    def least_mb(self) -> int:
        """Memory with one block in flight, MB."""
        return self.demand.peak_mb(0, 1)


@dataclass(frozen=True, slots=True)
class Machine:
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
        Free space of each file system by its name.
    """

    cores: int | None
    limit_mb: int | None
    available_mb: float | None
    free_mb: Mapping[str, float]


def declared_mb(task: Task, cores: int | None, budget_mb: float) -> int:
    """Memory that a job asks for, MB."""
    if task.declared_mb is not None:
        return task.declared_mb
    return task.demand.peak_mb(budget_mb, _threads(task, cores))


def _threads(task: Task, cores: int | None) -> int:
    return task.threads if cores is None else max(1, min(task.threads, cores))


@dataclass(frozen=True, slots=True)
class ConcurrentJobs:
    """The heaviest jobs that may run at once: their MB, largest first, and what limits them."""

    mb: tuple[int, ...]
    limited_by: str


def heaviest_at_once(tasks: Sequence[Task], machine: Machine, budget_mb: float) -> ConcurrentJobs:
    """Choose the heaviest jobs that Snakemake may start together, as far as cores and limit go.

    Heaviest for each core first, of each track one step only: once the step of the job that comes
    first, once the step that is heaviest as a whole; the heavier choice counts.
    """
    limit = math.inf if machine.limit_mb is None else machine.limit_mb
    weighed = []
    steps: Counter[tuple[str, int]] = Counter()
    for task in tasks:
        mb = int(min(declared_mb(task, machine.cores, budget_mb), limit))
        weighed.append((mb, _threads(task, machine.cores), task))
        steps[task.track, task.step] += mb
    weighed.sort(key=lambda w: (-w[0] / w[1], -w[0]))
    heaviest: dict[str, int] = {}
    for (track, step), _ in steps.most_common():
        heaviest.setdefault(track, step)
    of_heaviest = [w for w in weighed if w[2].step == heaviest[w[2].track]]
    choices = [_fill(choice, machine) for choice in (weighed, of_heaviest)]
    return max(choices, key=lambda at_once: sum(at_once.mb))


def _fill(weighed: Sequence[tuple[int, int, Task]], machine: Machine) -> ConcurrentJobs:
    """Take (MB, threads, task) in their order for as long as cores and memory last."""
    limit = math.inf if machine.limit_mb is None else machine.limit_mb
    cores = math.inf if machine.cores is None else machine.cores
    steps: dict[str, int] = {}
    chosen: list[int] = []
    short_of_memory = False
    for mb, threads, task in weighed:
        if cores < 1:
            break
        if threads > cores or steps.get(task.track, task.step) != task.step:
            continue
        if mb > limit:
            short_of_memory = True
            continue
        steps[task.track] = task.step
        chosen.append(mb)
        cores -= threads
        limit -= mb
    why = "cores" if cores < 1 else ("memory" if short_of_memory else "what there is to do")
    return ConcurrentJobs(tuple(sorted(chosen, reverse=True)), why)
