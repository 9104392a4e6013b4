"""Preflight: whether the jobs of a run fit memory and disks, and what would help.

Plain data in and out; `unglow.workflow.job_graph` reads the jobs from Snakemake. MB are 1e6 bytes,
GB are 1e9.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import asdict, dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from unglow.core.printable import table, wrap_text
from unglow.core.rounding import gigabytes
from unglow.workflow.forecast import Throughput, forecast, time_in_words
from unglow.workflow.schedule import bound_at_once
from unglow.workflow.settings import LEAST_BUDGET, USUAL_BUDGET

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from unglow.workflow.forecast import Forecast
    from unglow.workflow.schedule import Capacity, Job


ROOMY = 0.8
"""Up to this share of what there is nothing is said; up to all of it there is a warning."""
FORCE = "force_run"
"""Key of the configuration that turns a refusal into a warning."""
SCHEMA = 2
"""Raised when a key of ``--json`` changes its meaning or goes away."""
MOST_JOBS = 30_000
"""More are refused: Snakemake plans about 100 jobs per second, and holds 70 kB for each."""
PLANNED_PER_S = 100


class Level(IntEnum):
    """How bad it is."""

    FINE = 0
    WARNING = 1
    REFUSED = 2


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was checked, and what would help, without full stops."""

    level: Level
    about: str
    text: str
    remedy: str = ""


def too_many_jobs(count: int) -> str | None:
    """Say that there are more jobs than Snakemake plans within minutes; None if there are not."""
    if count <= MOST_JOBS:
        return None
    return (
        f"{count} jobs are to do, but Snakemake plans only {PLANNED_PER_S} per second: at most "
        f"{MOST_JOBS} are accepted. Split the samples or the sweep into several runs, or set "
        f"{FORCE}: true."
    )


def check(jobs: Sequence[Job], capacity: Capacity, budget_mb: float) -> list[Finding]:
    """Check memory and disk for what is to do; one job may take ``budget_mb`` of memory."""
    if not jobs:
        return []
    return [
        *_check_single_jobs(jobs, capacity, budget_mb),
        *_check_concurrent(jobs, capacity),
        *_check_disks(jobs, capacity),
    ]


def worst(findings: Iterable[Finding]) -> Level:
    """Return the worst level of findings."""
    return max((f.level for f in findings), default=Level.FINE)


def describe_refusal(findings: Iterable[Finding]) -> str:
    """Return one sentence on what does not fit, and all that has to be done."""
    refused = [finding for finding in findings if finding.level == Level.REFUSED]
    remedies = dict.fromkeys(finding.remedy for finding in refused)
    return f"{refused[0].text}: {' and '.join(remedies)}, or set {FORCE}: true."


def _level(needed: float, there: float) -> Level:
    if needed > there:
        return Level.REFUSED
    return Level.WARNING if needed > ROOMY * there else Level.FINE


def _check_single_jobs(
    jobs: Sequence[Job], capacity: Capacity, budget_mb: float
) -> Iterator[Finding]:
    """Find jobs that do not fit what is available, the limit of all jobs, or their budget."""
    limit, available = capacity.limit_mb, capacity.available_mb
    most = math.inf if limit is None else limit
    together = f"all jobs together have {limit} MB (--resources mem_mb={limit})"
    needs = [(job, job.least_mb) for job in jobs]
    asked = [(job, job.asks_mb(budget_mb, job.threads)) for job in jobs]
    budgeted = [job for job, mb in asked if job.demand is not None and job.mem_mb == min(mb, most)]
    own = [(job, job.least_mb - job.launcher_mb) for job in budgeted]
    machine = "take a machine with at least {mb} MB free"
    bounds = (
        (needs, available, f"{gigabytes(available or 0)} GB are available", machine),
        (needs, limit, together, "set --resources mem_mb={mb}"),
        (own, budget_mb, f"memory_per_job is {budget_mb:g} MB", "set memory_per_job: {mb}"),
    )
    for bounded, bound, what, helps in bounds:
        large = [(job, mb) for job, mb in bounded if bound is not None and mb > bound]
        if large:
            job, mb = max(large, key=lambda one: one[1])
            remedy = helps.format(mb=mb) + (f" or {job.advice}" if job.advice else "")
            text = f"{what}, but {_name_jobs(large, 'needs at least {mb} MB')}"
            yield Finding(Level.REFUSED, "memory", text, remedy)
    few = [(job, mb) for job, mb in needs if mb <= most and mb > job.mem_mb]
    # where the memory depends on the attempt, another one gets more
    for fixed, level in ((True, Level.REFUSED), (False, Level.WARNING)):
        low = [(job, mb) for job, mb in few if job.is_fixed == fixed]
        if not low:
            continue
        rules = ", ".join(sorted({job.rule for job, _ in low}))
        helps = f"set no mem_mb for {rules}, or at least {max(mb for _, mb in low)} MB"
        named = _name_jobs(low, "needs at least {mb} MB and is given {job.mem_mb} MB")
        yield Finding(level, "memory", f"mem_mb is set for rules: {named}", helps)
    cut = [(job, mb) for job, mb in asked if job.least_mb <= job.mem_mb == most < mb]
    if cut:
        text = (
            f"{_name_jobs(cut, 'asks for {mb} MB')}, but {together}: Snakemake gives it that, and "
            "fewer blocks are worked on at a time"
        )
        yield Finding(Level.WARNING, "memory", text)


def _name_jobs(jobs: list[tuple[Job, int]], sentence: str) -> str:
    """Name the job with most MB, with a sentence, and count the others."""
    job, mb = min(jobs, key=lambda one: (-one[1], one[0].name))
    more = len(jobs) - 1
    others = f" (and {more} more job{'s' * (more != 1)})" if more else ""
    return f"{job.name} {sentence.format(job=job, mb=mb)}{others}"


def _check_concurrent(jobs: Sequence[Job], capacity: Capacity) -> Iterator[Finding]:
    """Compare what may run at once with the memory that is available, where that is known."""
    available = capacity.available_mb
    if available is None:
        return
    at_once = bound_at_once(jobs, capacity)
    allowed = f"; {gigabytes(capacity.limit_mb)} GB are allowed" if capacity.limit_mb else ""
    text = (
        f"at most {at_once.jobs} job{'s' * (at_once.jobs != 1)} at a time with "
        f"{gigabytes(at_once.mb)} of {gigabytes(available)} GB available{allowed}"
    )
    least = max(job.least_mb for job in jobs)
    remedy = f"set --resources mem_mb={max(least, math.floor(ROOMY * available))}"
    yield Finding(_level(at_once.mb, available), "memory", text, remedy)


def _check_disks(jobs: Sequence[Job], capacity: Capacity) -> Iterator[Finding]:
    """Compare the upper bound of all missing outputs with the free space of each file system."""
    needed: Counter[str] = Counter()
    for job in jobs:
        if job.disk_mb:
            needed[job.disk] += job.disk_mb
    for disk, mb in needed.items():
        free = capacity.free_mb[disk]
        most, left = gigabytes(mb), gigabytes(free)
        text = f"at most {most} GB of results to come for {disk}, {left} GB free there"
        short = gigabytes(10 * math.ceil((mb - free) / 10))
        remedy = f"free {short} GB or set results to a directory with {most} GB free"
        yield Finding(_level(mb, free), "disk", text, remedy)


def describe_reasons(jobs: Iterable[Job]) -> str:
    """Return why jobs run, with their number: ``missing output files (7)``."""
    reasons = Counter(job.reason.partition(":")[0].strip().rstrip(".") for job in jobs)
    return ", ".join(f"{why[:1].lower()}{why[1:]} ({n})" for why, n in reasons.most_common())


_MARKS = {Level.FINE: "ok", Level.WARNING: "warning", Level.REFUSED: "TOO MUCH"}
_WIDTH = 100  # characters of a line


def messages(
    findings: Iterable[Finding], least: Level = Level.FINE, *, takes: str = "", reasons: str = ""
) -> list[str]:
    """Return lines with the findings from a level on, what the run ``takes``, and the reasons."""
    rows = [(f.about, _MARKS[f.level], f.text) for f in findings if f.level >= least]
    rows += [(about, "", text) for about, text in (("time", takes), ("why", reasons)) if text]
    lines = []
    for about, mark, text in rows:
        start = f"  {about:<7} {mark:<9} "
        lines += wrap_text(text, _WIDTH, start, " " * len(start))
    return lines


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Time and memory of a run with some settings.

    Attributes
    ----------
    cores, memory_per_job
        The settings; MB.
    jobs_at_once, memory_mb
        How many jobs at most run at a time, and at most how much memory they take, MB.
    fits
        Whether preflight would let the run start.
    seconds, low, high
        Expected time and its 90 % interval, s; None on a batch system.
    """

    cores: int
    memory_per_job: float
    jobs_at_once: int
    memory_mb: int
    fits: bool
    seconds: float | None
    low: float | None
    high: float | None


def compare_settings(
    jobs: Sequence[Job], capacity: Capacity, budget_mb: float, throughput: Throughput, pairs: int
) -> list[RunSettings]:
    """Return what a run takes with 1, 2 and all cores, and with least, usual and current memory.

    ``jobs`` are to be done of N ``pairs``, with ``memory_per_job`` in MB as the budget.
    """
    most = capacity.cores or 1
    budgets = sorted({LEAST_BUDGET, USUAL_BUDGET, budget_mb})
    made = []
    for cores, budget in itertools.product(sorted({1, min(2, most), most}), budgets):
        other = replace(capacity, cores=cores)
        changed = [job.resize(other, budget) for job in jobs]
        expected = forecast(changed, other, throughput, pairs)
        seconds, factor = (expected.seconds, expected.factor) if expected else (None, 1.0)
        made.append(
            RunSettings(
                *(cores, budget, *bound_at_once(changed, other)),
                worst(check(changed, other, budget)) < Level.REFUSED,
                seconds,
                None if seconds is None else seconds / factor,
                None if seconds is None else seconds * factor,
            )
        )
    return made


def format_settings(settings: Sequence[RunSettings]) -> str:
    """Return a table of settings, with memory and time of a run with each."""
    rows = [("cores", "memory_per_job", "jobs at a time", "their memory", "time")]
    for one in settings:
        took = time_in_words(one.seconds, (one.high or 0) / one.seconds) if one.seconds else ""
        counts = str(one.cores), f"{one.memory_per_job:g} MB", str(one.jobs_at_once)
        rows.append((*counts, f"{gigabytes(one.memory_mb)} GB", took if one.fits else "refused"))
    return table(rows, "rrrrl")


def to_record(
    jobs: Sequence[Job],
    capacity: Capacity,
    findings: Iterable[Finding],
    expected: Forecast | None,
    settings: Iterable[RunSettings],
) -> dict[str, Any]:
    """Return what was found as plain values; docs/commands.md has the keys."""
    return {
        "schema": SCHEMA,
        "jobs": len(jobs),
        "planned": [
            {name: getattr(job, name) for name in ("rule", "title", "threads", "mem_mb", "disk_mb")}
            | {"least_mb": job.least_mb, "reason": job.reason}
            for job in jobs
        ],
        "at_once": bound_at_once(jobs, capacity)._asdict() if jobs else {"jobs": 0, "mb": 0},
        "cores": capacity.cores,
        "limit_mb": capacity.limit_mb,
        "available_mb": capacity.available_mb,
        "findings": [asdict(f) | {"level": f.level.name.lower()} for f in findings],
        "expected": None if expected is None else expected.record(),
        "settings": [asdict(one) for one in settings],
    }
