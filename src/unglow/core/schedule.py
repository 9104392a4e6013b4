"""How long jobs take together, that wait for one another and share what there is."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict, deque
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Task(NamedTuple):
    """A job: its time, s, what it takes of each resource, and the places of those it waits for."""

    seconds: float
    needs: tuple[float, ...]
    after: Iterable[int] = ()


def simulate(tasks: Sequence[Task], limits: Sequence[float | None]) -> float:
    """Return how long jobs take together, s: each starts as soon as there is room for it.

    One that asks for more of a resource than its limit gets all of it; None is no limit.
    """
    free = [math.inf if limit is None else limit for limit in limits]
    most = tuple(free)
    order = TopologicalSorter({n: task.after for n, task in enumerate(tasks)})
    order.prepare()
    ready: dict[tuple[float, ...], deque[int]] = defaultdict(deque)  # jobs with equal needs
    now, running = 0.0, list[tuple[float, int, tuple[float, ...]]]()
    while True:
        for n in order.get_ready():
            ready[tuple(map(min, tasks[n].needs, most))].append(n)
        for needs, queue in ready.items():
            while queue and all(need <= left for need, left in zip(needs, free, strict=True)):
                free = [left - need for need, left in zip(needs, free, strict=True)]
                n = queue.popleft()
                heapq.heappush(running, (now + tasks[n].seconds, n, needs))
        if not running:
            return now
        now, n, needs = heapq.heappop(running)
        free = [left + need for need, left in zip(needs, free, strict=True)]
        order.done(n)
