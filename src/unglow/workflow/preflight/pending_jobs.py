"""Pending jobs of a batch, and the capacity that there is for them: what preflight compares.

Only headers and the names of files are looked at. A job is still to be done if one of its outputs
is not there; a store is there if its root ``zarr.json`` is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from unglow.core.levels import LEVELS
from unglow.core.machine import disk_free_mb, existing, memory_available_mb
from unglow.io.tiff import remedy
from unglow.workflow.job_resources import demand_of, work_mpx
from unglow.workflow.planned_jobs import jobs_of, jobs_of_run
from unglow.workflow.preflight.concurrency import Capacity, PendingJob
from unglow.workflow.samples import ROLES
from unglow.workflow.stage_table import STAGES, STREAMING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from unglow.core.demand import AnyDemand
    from unglow.workflow.batch import Batch
    from unglow.workflow.planned_jobs import PlannedJob

_TITLE = (*LEVELS, "role", "method", "cycle")
# Wildcards that memory and time of a job depend on, beside sample, dye, ingestion and role.
_DEMAND = {
    "register": ("registration",),
    "difference": ("subtraction", "method"),
    "export_difference": ("subtraction", "method"),
}


@dataclass(frozen=True, slots=True)
class RuleSettings:
    """Threads (one if not named) and memory set by hand, MB, by the names of rules."""

    threads: Mapping[str, int]
    mem_mb: Mapping[str, int]

    @classmethod
    def shipped(cls) -> RuleSettings:
        """Return the rules as they are shipped."""
        return cls({rule: stage.threads for rule, stage in STAGES.items()}, {})


def pending_jobs(
    batch: Batch,
    results: Path,
    rules: RuleSettings | None = None,
    only: Collection[tuple[str, str]] | None = None,
    *,
    again: bool = False,
) -> list[PendingJob]:
    """List the jobs that are still to be done, of all pairs and slides or ``only`` some.

    With ``again``, what is there is computed again as well; it takes no more disk then.
    """
    rules = rules or RuleSettings.shipped()
    pending: list[PendingJob] = []
    known: dict[tuple[str, ...], tuple[AnyDemand, float]] = {}

    def add(jobs: Iterable[PlannedJob], directory: Path) -> None:
        disk, fresh = str(existing(directory)), not directory.is_dir()
        for job in jobs:
            missing = fresh or _is_missing(job, results)
            if missing or again:
                cost = _cost(batch, job, known)
                pending.append(_pending(batch, job, rules, cost, disk, missing=missing))

    for key in batch.keys if only is None else sorted(only):
        add(jobs_of(batch, *key), results.joinpath(*key))
    if (pending and only is None) or again:
        add(jobs_of_run(batch), results)
    return _by_device(pending)


def capacity_for(
    jobs: Iterable[PendingJob],
    cores: int | None,
    limit_mb: int | None,
    disk_streams: int | None = None,
    *,
    local: bool = True,
) -> Capacity:
    """Ask the machine for what it has now: memory if jobs run on it, disks of all results.

    ``cores``, ``limit_mb`` and ``disk_streams`` are what Snakemake may use for all jobs together;
    None for no limit.
    """
    disks = {job.disk for job in jobs}
    return Capacity(
        cores=cores,
        limit_mb=limit_mb,
        available_mb=memory_available_mb() if local else None,
        free_mb={disk: disk_free_mb(Path(disk)) for disk in disks},
        disk_streams=disk_streams,
    )


def _is_missing(job: PlannedJob, results: Path) -> bool:
    """Return whether a job is to be done."""
    files = (results / file.removeprefix("<results>/") for file in job.files)
    return not all(file.is_file() for file in files)


def _cost(
    batch: Batch, job: PlannedJob, known: dict[tuple[str, ...], tuple[AnyDemand, float]]
) -> tuple[AnyDemand, float]:
    """Return memory and px of a job (`work_mpx`), computed once for jobs with the same ones."""
    names = (*LEVELS[:3], "role", *_DEMAND.get(job.rule, ()))
    key = job.rule, *(job.wildcards.get(name, "") for name in names)
    if key not in known:
        demand = demand_of(batch, job.rule, job.wildcards)
        known[key] = demand, work_mpx(batch, job.rule, job.wildcards)
    return known[key]


def _pending(
    batch: Batch,
    job: PlannedJob,
    rules: RuleSettings,
    cost: tuple[AnyDemand, float],
    disk: str,
    *,
    missing: bool,
) -> PendingJob:
    names = job.wildcards
    return PendingJob(
        title=" ".join(names[n] for n in _TITLE if names.get(n)) or "the run",
        rule=job.rule,
        demand=cost[0],
        threads=rules.threads.get(job.rule, 1),
        variant=tuple(names.get(name, "") for name in LEVELS),
        step=STAGES[job.rule].step,
        declared_mb=rules.mem_mb.get(job.rule),
        disk_mb=job.disk_mb if missing else 0,
        disk=disk,
        advice=_advice(batch, job),
        mpx=cost[1],
        disk_streams=int(job.rule in STREAMING),
    )


def _advice(batch: Batch, job: PlannedJob) -> str:
    """Say what another way of saving the raw image would change, if it is what takes memory."""
    if job.rule != "ingest":
        return ""
    headers = [batch.header({**job.wildcards, "role": role}) for role in ROLES]
    header = max(headers, key=lambda h: h.decode_bytes + h.others_bytes)
    return remedy(header) or ""


def _by_device(jobs: list[PendingJob]) -> list[PendingJob]:
    """Give all jobs of one file system the name of the first directory on it."""
    names: dict[int, str] = {}
    devices: dict[str, str] = {}
    for job in jobs:
        if job.disk not in devices:
            device = Path(job.disk).stat().st_dev
            devices[job.disk] = names.setdefault(device, job.disk)
    return [
        job if devices[job.disk] == job.disk else replace(job, disk=devices[job.disk])
        for job in jobs
    ]
