"""Pending jobs of a batch, the capacity for them, and what cannot fit by itself.

Only headers and the names of files are looked at. A job is still to be done if one of its outputs
is not there; a store is there if its root ``zarr.json`` is. What cannot fit is skipped, and the
others continue; where none would remain nothing is skipped, so that the run is refused with all
that would help (`unglow.workflow.preflight`).
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from unglow.core.levels import LEVELS
from unglow.core.machine import disk_free_mb, existing, memory_available_mb
from unglow.core.rounding import gigabytes
from unglow.io.pair_plan import ROLES
from unglow.io.tiff import remedy
from unglow.workflow.job_resources import choose_threads, demand_of, disk_mb, work_mpx
from unglow.workflow.planned_jobs import jobs_of, jobs_of_run
from unglow.workflow.samples import Problem
from unglow.workflow.stage_table import STAGES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from unglow.memory import AnyDemand
    from unglow.workflow.batch import Batch
    from unglow.workflow.planned_jobs import PlannedJob


@dataclass(frozen=True, slots=True)
class PendingJob:
    """One job that is still to be done.

    Attributes
    ----------
    title
        What it belongs to, for messages: ``Rock7 SYTO9``.
    rule, demand, threads
        Its rule, its memory demand, and the threads that the rule asks for.
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
    first, once the step that is heaviest in total; the heavier choice counts.
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


_TITLE = (*LEVELS, "role", "method", "cycle", "part")


@dataclass(frozen=True, slots=True)
class RuleSettings:
    """Threads (one if not named) and memory set by hand, MB, by the names of rules."""

    threads: Mapping[str, int]
    mem_mb: Mapping[str, int]


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
    rules = rules or RuleSettings(choose_threads(batch), {})
    pending: list[PendingJob] = []

    def add(jobs: Iterable[PlannedJob], directory: Path) -> None:
        disk, fresh = str(existing(directory)), not directory.is_dir()
        for job in jobs:
            missing = fresh or _is_missing(job, results)
            if missing or again:
                pending.append(_make_pending(batch, job, rules, disk, missing=missing))

    asked = batch.keys if only is None else sorted(only)
    queue: list[tuple[tuple[str, str], str]] = [(key, "") for key in asked]
    for key, lent in queue:
        jobs = list(jobs_of(batch, *key))
        add(_missing_until(jobs, lent, results) if lent else jobs, results.joinpath(*key))
        made = {job.rule for job in pending if job.variant[:2] == key}
        queue += [
            loan[1:]
            for loan in _list_loans(batch, key)
            if loan[0] in made and loan[1] not in asked and loan[1:] not in queue
        ]
    if (pending and only is None) or again:
        add(jobs_of_run(batch), results)
    return _name_by_device(pending)


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


def _list_loans(batch: Batch, key: tuple[str, str]) -> Iterator[tuple[str, tuple[str, str], str]]:
    """Yield the rules of a pair that read results of another one: of which, and by which rule."""
    pair = batch.pairs.get(key)
    if pair is None:
        return
    if key in batch.maps_from:
        yield "register", (pair.sample, batch.maps_from[key]), "register"
    if pair.move is not None:
        yield "register", (str(pair.slide), ""), "slide_register"
    if not pair.control:
        scale = batch.settings.scale
        rules = ("detect", "scale") if "control" in (scale.default, *scale.methods) else ("detect",)
        own = [one for one in batch.controls if one[1] == pair.dye]
        yield from ((rule, one, rule) for one in own for rule in rules)


def _missing_until(jobs: Sequence[PlannedJob], rule: str, results: Path) -> Iterator[PlannedJob]:
    """Yield the jobs of a rule that are to be done, and those that have to be done before."""
    missing = [job for job in jobs if job.rule == rule and _is_missing(job, results)]
    for before in STAGES[rule].after if missing else ():
        yield from _missing_until(jobs, before, results)
    yield from missing


def _is_missing(job: PlannedJob, results: Path) -> bool:
    """Return whether a job is to be done."""
    files = (results / file.removeprefix("<results>/") for file in job.files)
    return not all(file.is_file() for file in files)


def _make_pending(
    batch: Batch, job: PlannedJob, rules: RuleSettings, disk: str, *, missing: bool
) -> PendingJob:
    names = job.wildcards
    return PendingJob(
        title=" ".join(names[n] for n in _TITLE if names.get(n)) or "the run",
        rule=job.rule,
        demand=demand_of(batch, job.rule, names),
        threads=rules.threads.get(job.rule, 1),
        variant=tuple(names.get(name, "") for name in LEVELS),
        step=STAGES[job.rule].step,
        declared_mb=rules.mem_mb.get(job.rule),
        disk_mb=disk_mb(batch, job.rule, names) if missing else 0,
        disk=disk,
        advice=_advice(batch, job),
        mpx=work_mpx(batch, job.rule, names),
        disk_streams=int(STAGES[job.rule].streams),
    )


def _advice(batch: Batch, job: PlannedJob) -> str:
    """Say what another way of saving the raw image would change, if it is what takes memory."""
    if job.rule != "ingest":
        return ""
    headers = [batch.header({**job.wildcards, "role": role}) for role in ROLES]
    header = max(headers, key=lambda h: h.decode_bytes + h.others_bytes)
    return remedy(header) or ""


def _name_by_device(jobs: list[PendingJob]) -> list[PendingJob]:
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


def skip_oversized(
    batch: Batch, results: Path, limit_mb: float | None, available_mb: float | None
) -> Batch:
    """Return the batch without what cannot fit by itself, each with a problem that says so.

    Parameters
    ----------
    results
        Where results go: of what is there already nothing is needed.
    limit_mb, available_mb
        Memory of all jobs together, and what this machine has now; None where jobs do not run here
        or there is no limit.
    """
    bounds = [
        (available_mb, "MB are available", "run it on a machine with more memory"),
        (limit_mb, "MB are allowed for all jobs together", "raise --resources mem_mb"),
        (batch.settings.memory_per_job, "MB are allowed by memory_per_job", "raise that"),
    ]
    free_mb = disk_free_mb(results)
    sentences: dict[tuple[str, str], str] = {}
    for key in batch.keys:
        pending = pending_jobs(batch, results, only=[key])
        jobs = [job for job in pending if job.variant[:2] == key]
        name = " ".join(filter(None, key))
        sentence = _about_disk(name, jobs, free_mb, results)
        heaviest = max(jobs, key=lambda job: job.least_mb, default=None)
        for mb, what, helps in bounds:
            if heaviest is not None and mb is not None and heaviest.least_mb > mb:
                sentence = (
                    f"{name}: its job {heaviest.rule} needs at least {heaviest.least_mb} MB of "
                    f"memory, but {mb:.0f} {what}: {helps}, or set force_run: true."
                )
                sentence += f" Or {heaviest.advice}." if heaviest.advice else ""
                break
        if sentence is not None:
            sentences[key] = sentence
    sentences |= dict(_followers(batch, sentences))
    if not sentences or len(sentences) == len(batch.keys):
        return batch
    problems = [
        Problem(
            sentence,
            "oversized",
            key[0],
            key[1] or None,
            batch.pairs[key].files[:2] if key[1] else batch.slides[key[0]].slide.images,
        )
        for key, sentence in sentences.items()
    ]
    return replace(
        batch,
        pairs={key: pair for key, pair in batch.pairs.items() if key not in sentences},
        slides={name: one for name, one in batch.slides.items() if (name, "") not in sentences},
        problems=(*batch.problems, *problems),
    )


def _about_disk(name: str, jobs: Sequence[PendingJob], free_mb: float, results: Path) -> str | None:
    needed = sum(job.disk_mb for job in jobs)
    if needed <= free_mb:
        return None
    return (
        f"{name}: its results take up to {gigabytes(needed)} GB, but {gigabytes(free_mb)} GB are "
        f"free for {results}: free space, set another results directory, or set force_run: true."
    )


def _followers(
    batch: Batch, skipped: dict[tuple[str, str], str]
) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield the pairs that take the map of one that is skipped, or of a slide."""
    for key, pair in batch.pairs.items():
        of_dye = pair.sample, batch.maps_from.get(key, "")
        of_slide = pair.slide or "", ""
        source = next((one for one in (of_dye, of_slide) if one in skipped), None)
        if source is not None and key not in skipped:
            name = " ".join(filter(None, source))
            yield key, f"{' '.join(key)} takes the map of {name}, which is skipped."
