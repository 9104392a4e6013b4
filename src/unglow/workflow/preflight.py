"""Preflight: whether what is left to compute fits memory and disks, and what would help.

`check` takes plain data and returns plain data: no file is touched and nothing is asked of the
machine here (see `unglow.workflow.pending_jobs` for that). MB are 1e6 bytes, GB are 1e9.
"""

from __future__ import annotations

import itertools
import math
import shlex
from collections import Counter
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING

from unglow.core.printable import wrap_text
from unglow.core.rounding import gigabytes
from unglow.jobs.snakemake_command import set_options
from unglow.workflow.pending_jobs import heaviest_at_once
from unglow.workflow.settings import LEAST_BUDGET

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from unglow.workflow.pending_jobs import Capacity, PendingJob


ROOMY = 0.8
"""Up to this share of what there is nothing is said; up to all of it there is a warning."""
FORCE = "force_run"
"""Key of the configuration that turns a refusal into a warning."""
MOST_JOBS = 30_000
"""More are refused: Snakemake plans about 150 jobs per second, and holds 50 kB for each."""
PLANNED_PER_S = 150
# The most jobs that one finding names.
_NAMED = 3


class Level(IntEnum):
    """How bad it is."""

    FINE = 0
    WARNING = 1
    REFUSED = 2


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was checked, in one sentence without a full stop."""

    level: Level
    about: str
    text: str


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A remedy: a sentence, and the options of the command that do it.

    ``options`` maps an option to its value, or to a (key, value) if it takes several.
    """

    text: str
    options: Mapping[str, str | tuple[str, str]]


@dataclass(frozen=True, slots=True)
class PreflightResult:
    """Findings of preflight, and remedies if it was too much."""

    findings: tuple[Finding, ...]
    suggestions: tuple[Suggestion, ...]

    @property
    def level(self) -> Level:
        """The worst level of all findings."""
        return _worst(self.findings)


def too_many_jobs(count: int) -> str | None:
    """Say that there are more jobs than Snakemake plans within minutes; None if there are not."""
    if count <= MOST_JOBS:
        return None
    return (
        f"{count} jobs are to do, but Snakemake plans only {PLANNED_PER_S} per second: at most "
        f"{MOST_JOBS} are accepted. Split the samples or the sweep into several runs, or set "
        f"{FORCE}: true."
    )


def check(jobs: Sequence[PendingJob], capacity: Capacity, budget_mb: float) -> PreflightResult:
    """Check memory and disk for what is left to do; one job may take ``budget_mb`` of memory."""
    memory = _check_memory(jobs, capacity, budget_mb)
    disks = _check_disks(jobs, capacity)
    suggestions: list[Suggestion] = []
    if _worst(memory) == Level.REFUSED:
        suggestions += _suggest_for_memory(jobs, capacity, budget_mb)
    if _worst(disks) == Level.REFUSED:
        suggestions.append(_suggest_for_disks(jobs, capacity))
    if suggestions:
        suggestions.append(Suggestion("run anyway", {"--config": (FORCE, "True")}))
    return PreflightResult((*memory, *disks), tuple(suggestions))


def _worst(findings: Iterable[Finding]) -> Level:
    return max((f.level for f in findings), default=Level.FINE)


def _level(needed: float, there: float) -> Level:
    if needed > there:
        return Level.REFUSED
    return Level.WARNING if needed > ROOMY * there else Level.FINE


# ----------------------------------------------------------------------------------------- memory


def _check_memory(
    jobs: Sequence[PendingJob], capacity: Capacity, budget_mb: float
) -> list[Finding]:
    """Check single jobs, and what may run at once."""
    return [
        *_check_single_jobs(jobs, capacity, budget_mb),
        *_check_concurrent(jobs, capacity, budget_mb),
    ]


def _check_single_jobs(
    jobs: Sequence[PendingJob], capacity: Capacity, budget_mb: float
) -> list[Finding]:
    """Find jobs that do not fit their budget, the limit of all jobs, or what is available."""
    limit, available = capacity.limit_mb, capacity.available_mb
    together = f"all jobs together have {limit} MB (--resources mem_mb={limit})"
    budgeted = [job for job in jobs if job.declared_mb is None]
    bounds = [
        (budgeted, budget_mb, f"memory_per_job is {budget_mb:g} MB"),
        (jobs, limit, together),
        (jobs, available, f"{gigabytes(available or 0)} GB are available"),
    ]
    findings = []
    for bounded, bound, what in bounds:
        large = [
            (job, job.least_mb, f"{math.ceil(job.least_mb - bound)} MB more")
            for job in bounded
            if bound is not None and job.least_mb > bound
        ]
        if large:
            named = _name_jobs(large, "needs at least {mb} MB, {more}")
            findings.append(Finding(Level.REFUSED, "memory", f"{what}, but {named}"))
    too_low = [
        (job, job.least_mb, f"{job.declared_mb} MB") for job in jobs if job.is_given_too_little
    ]
    if too_low:
        named = _name_jobs(too_low, "needs at least {mb} MB and is given {more}")
        findings.append(Finding(Level.REFUSED, "memory", f"mem_mb is set for rules: {named}"))
    asked = [(job, job.asks_mb(capacity.cores, budget_mb), "") for job in jobs]
    cut = [each for each in asked if limit is not None and each[0].least_mb <= limit < each[1]]
    if cut:
        named = _name_jobs(cut, "asks for {mb} MB")
        text = (
            f"{named}, but {together}: Snakemake gives it that, and fewer blocks are worked on at "
            "a time"
        )
        findings.append(Finding(Level.WARNING, "memory", text))
    return findings


def _name_jobs(jobs: list[tuple[PendingJob, int, str]], sentence: str) -> str:
    """Name jobs, those with most MB first: a sentence of each with its ``mb`` and ``more``."""
    jobs = sorted(jobs, key=lambda job: (-job[1], job[0].rule, job[0].title))
    named = [
        f"{job.rule} of {job.title} {sentence.format(mb=mb, more=more)}"
        for job, mb, more in jobs[:_NAMED]
    ]
    if len(jobs) > _NAMED:
        named.append(f"and {len(jobs) - _NAMED} more jobs")
    return "; ".join(named)


def _check_concurrent(
    jobs: Sequence[PendingJob], capacity: Capacity, budget_mb: float
) -> list[Finding]:
    """Compare what may run at once with the memory that is available, where that is known."""
    available = capacity.available_mb
    if not jobs or available is None:
        return []
    at_once = heaviest_at_once(jobs, capacity, budget_mb)
    total, count = sum(at_once.mb), len(at_once.mb)
    level = _level(total, available)
    allowed = f"; {gigabytes(capacity.limit_mb)} GB are allowed" if capacity.limit_mb else ""
    text = (
        f"{count} job{'s' * (count != 1)} at a time, limited by {at_once.limited_by} "
        f"({gigabytes(total)} of {gigabytes(available)} GB available{allowed})"
    )
    if level > Level.FINE:
        totals = [*itertools.accumulate(at_once.mb)]  # of the heaviest ones
        fit, roomy = (sum(mb <= available * share for mb in totals) for share in (1.0, ROOMY))
        parts = [f"{fit} would fit"] if level == Level.REFUSED and fit else []
        parts += [f"{roomy} would leave 20 % free"] if roomy else []
        text += "; " + (", ".join(parts) or "not even one of them leaves 20 % free")
    return [Finding(level, "memory", text)]


def _suggest_for_memory(
    jobs: Sequence[PendingJob], capacity: Capacity, budget_mb: float
) -> list[Suggestion]:
    """Return what brings memory below a refusal, or what there is to say if nothing does."""
    least = max(job.least_mb for job in jobs)
    available = math.inf if capacity.available_mb is None else capacity.available_mb
    found = [
        *_suggest_limits(jobs, capacity, budget_mb, least, available),
        *_suggest_cores(jobs, capacity, budget_mb),
    ]
    low = [job for job in jobs if job.is_given_too_little]
    if low:
        rules = ", ".join(sorted({job.rule for job in low}))
        enough = max(job.least_mb for job in low)
        found.append(Suggestion(f"set no mem_mb for {rules}, or {enough} MB at least", {}))
    elif not found:
        where = "a machine" if capacity.available_mb is not None else "nodes"
        text = (
            f"no setting makes it fit here: free memory, take {where} with at least {least} MB "
            "free, or leave the pair out of the sample sheet"
        )
        found.append(Suggestion(text, {}))
    heaviest = max(jobs, key=lambda job: job.least_mb)
    if heaviest.advice and least > min(budget_mb, available):
        found.append(Suggestion(heaviest.advice, {}))
    return found


def _fits(jobs: Sequence[PendingJob], capacity: Capacity, budget_mb: float) -> bool:
    return _worst(_check_memory(jobs, capacity, budget_mb)) < Level.REFUSED


def _suggest_limits(
    jobs: Sequence[PendingJob], capacity: Capacity, budget_mb: float, least: int, available: float
) -> list[Suggestion]:
    """Try another limit for all jobs, another budget of each, and both together."""
    limit = least
    if least <= available < math.inf:
        limit = max(least, math.floor(ROOMY * available))
    budget = max(LEAST_BUDGET, least)
    limited = replace(capacity, limit_mb=limit)
    limiting: dict[str, str | tuple[str, str]] = {"--resources": ("mem_mb", str(limit))}
    budgeting: dict[str, str | tuple[str, str]] = {"--config": ("memory_per_job", str(budget))}
    each = f"each job within {budget} MB"

    def together(budget: float) -> str:
        count = len(heaviest_at_once(jobs, limited, budget).mb)
        return f"all jobs together within {limit} MB ({count} at a time; the least is {least} MB)"

    found = []
    if _fits(jobs, limited, budget_mb):
        found.append(Suggestion(together(budget_mb), limiting))
    if _fits(jobs, capacity, budget):
        found.append(Suggestion(each, budgeting))
    if not found and _fits(jobs, limited, budget):
        found.append(Suggestion(f"{each}, {together(budget)}", limiting | budgeting))
    return found


def _suggest_cores(
    jobs: Sequence[PendingJob], capacity: Capacity, budget_mb: float
) -> list[Suggestion]:
    """Find the most cores, fewer than there are, with which memory suffices."""
    low, high = 0, (capacity.cores or 1) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if _fits(jobs, replace(capacity, cores=middle), budget_mb):
            low = middle
        else:
            high = middle - 1
    cores = f"{low} core{'s' * (low != 1)}"
    return [Suggestion(f"jobs on {cores} only", {"--cores": str(low)})] if low else []


# ------------------------------------------------------------------------------------------- disk


def _sum_by_disk(jobs: Sequence[PendingJob]) -> Counter[str]:
    """Sum what is to come on each file system, MB."""
    needed: Counter[str] = Counter()
    for job in jobs:
        if job.disk_mb:
            needed[job.disk] += job.disk_mb
    return needed


def _check_disks(jobs: Sequence[PendingJob], capacity: Capacity) -> list[Finding]:
    """Compare the upper bound of all missing outputs with the free space of each file system."""
    findings = []
    for disk, mb in _sum_by_disk(jobs).items():
        free = capacity.free_mb[disk]
        most, left = gigabytes(mb), gigabytes(free)
        text = f"at most {most} GB of results to come for {disk}, {left} GB free there"
        findings.append(Finding(_level(mb, free), "disk", text))
    return findings


def _suggest_for_disks(jobs: Sequence[PendingJob], capacity: Capacity) -> Suggestion:
    needed = _sum_by_disk(jobs)
    short = [
        f"free {gigabytes(10 * math.ceil((mb - capacity.free_mb[disk]) / 10))} GB where {disk} is"
        for disk, mb in needed.items()
        if mb > capacity.free_mb[disk]
    ]
    whole = f"{gigabytes(sum(needed.values()) / ROOMY)} GB free"
    return Suggestion(
        f"{' and '.join(short)}, or write to another one with {whole} (put its path for DIRECTORY)",
        {"--config": ("results", "DIRECTORY")},
    )


_MARKS = {Level.FINE: "ok", Level.WARNING: "warning", Level.REFUSED: "TOO MUCH"}
_WIDTH = 100  # characters of a line


def messages(
    result: PreflightResult,
    command: Sequence[str],
    least: Level = Level.WARNING,
    *,
    takes: str = "",
    in_module: bool = False,
) -> list[str]:
    """Return lines with the findings from a level on, and what would help if it is too much.

    Suggestions change the words of the ``command``. The configuration of a module (``in_module``)
    is one that no ``--config`` reaches. What the run ``takes`` is printed next to a finding.
    """
    lines = []
    for finding in result.findings:
        if finding.level >= least:
            start = f"  {finding.about:<7} {_MARKS[finding.level]:<9} "
            lines += wrap_text(finding.text, _WIDTH, start, " " * len(start))
    if takes and lines:
        start = f"  {'time':<17} "
        lines += wrap_text(takes, _WIDTH, start, " " * len(start))
    if result.suggestions:
        lines.append("What would help:")
    for suggestion in result.suggestions:
        lines += _write_suggestion(suggestion, command, in_module=in_module)
    return lines


def _write_suggestion(
    suggestion: Suggestion, command: Sequence[str], *, in_module: bool
) -> list[str]:
    options = dict(suggestion.options)
    lines = wrap_text(suggestion.text + (":" if options else ""), _WIDTH, "  - ", "    ")
    setting = options.get("--config")
    if in_module and isinstance(setting, tuple) and setting[0] != FORCE:
        lines.append(f"      in the configuration of the module: {': '.join(setting)}")
        del options["--config"]
    if options:
        lines.append(f"      {shlex.join(set_options(command, options))}")
    return lines
