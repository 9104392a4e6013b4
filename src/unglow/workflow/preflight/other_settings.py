"""Memory and time of a run with other numbers of cores and other memory of each job."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from unglow.workflow.forecast import forecast
from unglow.workflow.preflight.check import LEAST_BUDGET, Level, check
from unglow.workflow.preflight.pending_jobs import heaviest_at_once

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unglow.workflow.forecast import Throughput
    from unglow.workflow.preflight.pending_jobs import Capacity, PendingJob

USUAL_BUDGET = 2000
"""`memory_per_job` as it is shipped, MB."""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What a run would take with some settings.

    Attributes
    ----------
    cores, memory_per_job
        The settings; MB.
    jobs_at_once, memory_mb, limited_by
        How many jobs at most run at a time, their memory, MB, and what keeps more from running.
    fits
        Whether preflight would let the run start.
    seconds, low, high
        Expected time and its 90 % interval, s; None if nothing is to be done.
    """

    cores: int
    memory_per_job: float
    jobs_at_once: int
    memory_mb: int
    limited_by: str
    fits: bool
    seconds: float | None
    low: float | None
    high: float | None


def compare_settings(
    jobs: Sequence[PendingJob],
    capacity: Capacity,
    budget_mb: float,
    throughput: Throughput,
    pairs: int,
) -> list[RunSettings]:
    """Return what a run takes with 1, 2 and all cores, and with least, usual and current memory.

    Parameters
    ----------
    jobs, pairs
        What is to be done, of N pairs.
    capacity, budget_mb
        Cores and memory as they are set, ``memory_per_job`` in MB.
    throughput
        How fast this machine is.
    """
    most = capacity.cores or 1
    budgets = sorted({LEAST_BUDGET, USUAL_BUDGET, budget_mb})
    made = []
    for cores, budget in itertools.product(sorted({1, min(2, most), most}), budgets):
        other = replace(capacity, cores=cores)
        at_once = heaviest_at_once(jobs, other, budget)
        expected = forecast(jobs, other, budget, throughput, pairs)
        seconds = None if expected is None else expected.seconds
        factor = 1.0 if expected is None else expected.factor
        made.append(
            RunSettings(
                cores,
                budget,
                len(at_once.mb),
                sum(at_once.mb),
                at_once.limited_by,
                check(jobs, other, budget).level < Level.REFUSED,
                seconds,
                None if seconds is None else seconds / factor,
                None if seconds is None else seconds * factor,
            )
        )
    return made
