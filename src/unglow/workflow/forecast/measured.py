"""Measured times: what the jobs of the run that ends took, kept for the next forecast.

Time in which a job waits for a processor is left out: how busy others keep the machine says nothing
about the next run.
"""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING

from unglow.core.rounding import round_digits
from unglow.telemetry.reading.history import History
from unglow.telemetry.reading.records import ENDED_WELL
from unglow.telemetry.reading.rule_totals import split
from unglow.workflow.forecast.forecast import (
    EarlierRun,
    Times,
    add_run,
    file_of_machine,
)
from unglow.workflow.job_resources import work_mpx

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from unglow.telemetry.reading.history import Placed
    from unglow.workflow.batch import Batch


def remember_run(results: Path, run_id: str, batch: Batch, executor: str | None = None) -> None:
    """At the end of a run, in its process: keep what its jobs took (see `throughput`)."""
    for own in (h for h in History.read(results).runs if h.run.id == run_id):
        well = [a for a in own.attempts if a.outcome == ENDED_WELL]
        if well:
            add_run(file_of_machine(executor), EarlierRun(run_id, tuple(_of_jobs(well, batch))))


def _of_jobs(attempts: Sequence[Placed], batch: Batch) -> list[Times]:
    """Return the times of jobs, those with as much to do (by 10 %) as one."""
    groups: dict[tuple[str, int, str], list[tuple[float, float, float]]] = defaultdict(list)
    for a in attempts:
        job = a.attempt
        mpx = work_mpx(batch, job.rule, job.wildcards)
        parts = split(job)
        took = mpx, parts.computing + parts.moving, job.cpu_s or parts.computing
        groups[job.rule, job.threads, f"{mpx:.1e}"].append(took)
    found = []
    for (rule, threads, _), jobs in groups.items():
        mpx, seconds, cpu_s = (round_digits(median(n), 4) for n in zip(*jobs, strict=True))
        found.append(Times(rule, mpx, threads, len(jobs), seconds, cpu_s))
    return found
