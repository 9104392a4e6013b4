"""Preflight: whether what is left to compute fits this machine's memory and disks.

`judge` takes plain data and returns plain data: no file is touched and nothing is asked of the
machine here (see `unglow.workflow.preflight.pending_jobs` for that). MB are 1e6 bytes, GB are 1e9.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING

from unglow.core.rounding import gigabytes
from unglow.workflow.preflight.concurrency import Machine, Task, declared_mb, heaviest_at_once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

#: Up to this share of what there is nothing is said; up to all of it there is a warning.
ROOMY = 0.8
#: Key of the configuration that turns a refusal into a warning.
FORCE = "force_run"
#: `memory_per_job` cannot be set lower, MB.
LEAST_BUDGET = 300
# So many jobs of one kind of finding are named.
_NAMED = 3


class Level(IntEnum):
    """How bad it is."""

    FINE = 0
    WARNING = 1
    REFUSED = 2


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was judged, in one sentence without a full stop."""

    level: Level
    about: str
    text: str


@dataclass(frozen=True, slots=True)
class Remedy:
    """What would help: a sentence, and the options of the command that do it.

    ``options`` maps an option to its value, or to a (key, value) if it takes several.
    """

    text: str
    options: Mapping[str, str | tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What preflight found, worst level first to be asked for."""

    findings: tuple[Finding, ...]
    remedies: tuple[Remedy, ...]

    @property
    def level(self) -> Level:
        """The worst level of all findings."""
        return max((f.level for f in self.findings), default=Level.FINE)


def judge(tasks: Sequence[Task], machine: Machine, budget_mb: float) -> Judgement:
    """Judge memory and disk of what is left to do.

    Parameters
    ----------
    tasks
        Every job that is still to be done.
    machine
        What there is.
    budget_mb
        Memory that one job may take (``memory_per_job``), MB.
    """
    singles = _singles(tasks, machine, budget_mb)
    at_once = _at_once(tasks, machine, budget_mb)
    disks = _disks(tasks, machine)
    memory = [*singles, *([at_once] if at_once else [])]
    remedies: list[Remedy] = []
    if _worst(memory) == Level.REFUSED:
        remedies += _memory_remedies(tasks, machine, budget_mb)
    remedies += [_disk_remedy(tasks, machine)] if _worst(disks) == Level.REFUSED else []
    if _worst([*memory, *disks]) == Level.REFUSED:
        remedies.append(Remedy("run anyway", {"--config": (FORCE, "True")}))
    return Judgement((*memory, *disks), tuple(remedies))


def _worst(findings: Iterable[Finding]) -> Level:
    return max((f.level for f in findings), default=Level.FINE)


# ------------------------------------------------------------------------------------- single jobs


def _singles(tasks: Sequence[Task], machine: Machine, budget_mb: float) -> list[Finding]:
    """Find jobs that do not fit their budget, the limit of all jobs, or what is available."""
    limit, available = machine.limit_mb, machine.available_mb
    found: dict[str, list[tuple[int, Task]]] = {}
    for task in tasks:
        least = task.least_mb
        given = declared_mb(task, machine.cores, budget_mb)
        if task.declared_mb is None and least > budget_mb:
            found.setdefault("budget", []).append((least, task))
        elif least > given:
            found.setdefault("declared", []).append((least, task))
        if limit is not None and least > limit:
            found.setdefault("limit", []).append((least, task))
        elif limit is not None and given > limit:
            found.setdefault("cut", []).append((given, task))
        if available is not None and least > available:
            found.setdefault("available", []).append((least, task))
    bounds = {
        "budget": (budget_mb, f"memory_per_job is {budget_mb:g} MB"),
        "limit": (limit or 0, f"all jobs together have {limit} MB (--resources mem_mb={limit})"),
        "available": (available or 0, f"{gigabytes(available or 0)} GB are available"),
    }
    findings = [
        Finding(Level.REFUSED, "memory", _too_much(found[kind], *bounds[kind]))
        for kind in bounds
        if kind in found
    ]
    if "declared" in found:
        findings.append(Finding(Level.REFUSED, "memory", _set_too_low(found["declared"])))
    if "cut" in found:
        findings.append(Finding(Level.WARNING, "memory", _cut(found["cut"], limit or 0)))
    return findings


def _too_much(cases: list[tuple[int, Task]], bound: float, what: str) -> str:
    named = [f"{_name(t)} needs at least {mb} MB, {math.ceil(mb - bound)} MB more"
             for mb, t in _worst_first(cases)]  # fmt: skip
    return f"{what}, but {_listed(named, len(cases))}"


def _set_too_low(cases: list[tuple[int, Task]]) -> str:
    named = [f"{_name(t)} needs at least {mb} MB and is given {t.declared_mb} MB"
             for mb, t in _worst_first(cases)]  # fmt: skip
    return f"mem_mb is set for rules: {_listed(named, len(cases))}"


def _cut(cases: list[tuple[int, Task]], limit: int) -> str:
    named = [f"{_name(t)} asks for {mb} MB" for mb, t in _worst_first(cases)]
    return (
        f"{_listed(named, len(cases))}, but all jobs together have {limit} MB (--resources "
        f"mem_mb={limit}): Snakemake gives it that, and fewer blocks are worked on at a time"
    )


def _name(task: Task) -> str:
    return f"{task.rule} of {task.title}"


def _worst_first(cases: list[tuple[int, Task]]) -> list[tuple[int, Task]]:
    return sorted(cases, key=lambda c: (-c[0], c[1].rule, c[1].title))


def _listed(named: list[str], count: int) -> str:
    more = count - _NAMED
    return "; ".join(named[:_NAMED]) + (f"; and {more} more jobs" if more > 0 else "")


# ---------------------------------------------------------------------------------- jobs at a time


def _at_once(tasks: Sequence[Task], machine: Machine, budget_mb: float) -> Finding | None:
    """Compare what may run at once with the memory that is available."""
    if not tasks or machine.available_mb is None:
        return None
    at_once = heaviest_at_once(tasks, machine, budget_mb)
    total, available = sum(at_once.mb), machine.available_mb
    level = _level(total, available)
    jobs = len(at_once.mb)
    allowed = f"; {gigabytes(machine.limit_mb)} GB are allowed" if machine.limit_mb else ""
    text = (
        f"{jobs} job{'s' * (jobs != 1)} at a time, limited by {at_once.limited_by} "
        f"({gigabytes(total)} of {gigabytes(available)} GB available{allowed})"
    )
    if level > Level.FINE:
        fit, leave = (_first(at_once.mb, available * share) for share in (1.0, ROOMY))
        parts = [f"{fit} would fit"] if level == Level.REFUSED and fit else []
        parts += [f"{leave} would leave 20 % free"] if leave else []
        text += "; " + (", ".join(parts) or "not even one of them leaves 20 % free")
    return Finding(level, "memory", text)


def _first(mb: Sequence[int], room: float) -> int:
    """Count how many of the heaviest fit together."""
    count = 0
    for each in mb:
        room -= each
        if room < 0:
            break
        count += 1
    return count


def _level(needed: float, there: float) -> Level:
    if needed > there:
        return Level.REFUSED
    return Level.WARNING if needed > ROOMY * there else Level.FINE


def _memory_remedies(tasks: Sequence[Task], machine: Machine, budget_mb: float) -> list[Remedy]:
    """Try other limits, budgets and core counts; return what brings memory below a refusal."""

    def fits(changed: Machine, budget: float) -> bool:
        at_once = _at_once(tasks, changed, budget)
        findings = [*_singles(tasks, changed, budget), *([at_once] if at_once else [])]
        return _worst(findings) < Level.REFUSED

    least = max(task.least_mb for task in tasks)
    available = math.inf if machine.available_mb is None else machine.available_mb
    limit = least
    if least <= available < math.inf:
        limit = max(least, math.floor(ROOMY * available))
    budget = max(LEAST_BUDGET, least)
    limited = replace(machine, limit_mb=limit)
    limiting: dict[str, str | tuple[str, str]] = {"--resources": ("mem_mb", str(limit))}
    budgeting: dict[str, str | tuple[str, str]] = {"--config": ("memory_per_job", str(budget))}
    found = []
    if fits(limited, budget_mb):
        found.append(Remedy(_limit_text(tasks, limited, budget_mb), limiting))
    if fits(machine, budget):
        found.append(Remedy(f"each job within {budget} MB", budgeting))
    if not found and fits(limited, budget):
        text = f"each job within {budget} MB, {_limit_text(tasks, limited, budget)}"
        found.append(Remedy(text, limiting | budgeting))
    fewer = _fewer_cores(machine, budget_mb, fits)
    if fewer is not None:
        cores = f"{fewer} core{'s' * (fewer != 1)}"
        found.append(Remedy(f"jobs on {cores} only", {"--cores": str(fewer)}))
    low = [t for t in tasks if t.declared_mb is not None and t.least_mb > t.declared_mb]
    if low:
        least = max(t.least_mb for t in low)
        rules = ", ".join(sorted({t.rule for t in low}))
        found.append(Remedy(f"set no mem_mb for {rules}, or {least} MB at least", {}))
    elif not found:
        found.append(Remedy(_no_setting(least, machine), {}))
    heaviest = max(tasks, key=lambda task: task.least_mb)
    if heaviest.advice and least > min(budget_mb, available):
        found.append(Remedy(heaviest.advice, {}))
    return found


def _limit_text(tasks: Sequence[Task], machine: Machine, budget_mb: float) -> str:
    jobs = len(heaviest_at_once(tasks, machine, budget_mb).mb)
    least = max(task.least_mb for task in tasks)
    rate = f"{jobs} at a time; the least is {least} MB"
    return f"all jobs together within {machine.limit_mb} MB ({rate})"


def _fewer_cores(
    machine: Machine, budget_mb: float, fits: Callable[[Machine, float], bool]
) -> int | None:
    """Return the most cores, fewer than there are, with which memory suffices; None for none."""
    low, high = 0, (machine.cores or 1) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if fits(replace(machine, cores=middle), budget_mb):
            low = middle
        else:
            high = middle - 1
    return low if low and fits(replace(machine, cores=low), budget_mb) else None


def _no_setting(least: int, machine: Machine) -> str:
    where = "a machine" if machine.available_mb is not None else "nodes"
    return (
        f"no setting makes it fit here: free memory, take {where} with at least {least} MB free, "
        "or leave the pair out of the sample sheet"
    )


# -------------------------------------------------------------------------------------------- disk


def _needed(tasks: Sequence[Task]) -> Counter[str]:
    needed: Counter[str] = Counter()
    for task in tasks:
        if task.disk_mb:
            needed[task.place] += task.disk_mb
    return needed


def _disks(tasks: Sequence[Task], machine: Machine) -> list[Finding]:
    """Compare the upper bound of all missing outputs with the free space of each file system."""
    findings = []
    for place, mb in _needed(tasks).items():
        free = machine.free_mb[place]
        most, left = gigabytes(mb), gigabytes(free)
        text = f"at most {most} GB of results to come for {place}, {left} GB free there"
        findings.append(Finding(_level(mb, free), "disk", text))
    return findings


def _disk_remedy(tasks: Sequence[Task], machine: Machine) -> Remedy:
    needed = _needed(tasks)
    short = [
        f"free {gigabytes(10 * math.ceil((mb - machine.free_mb[place]) / 10))} GB where {place} is"
        for place, mb in needed.items()
        if mb > machine.free_mb[place]
    ]
    whole = f"{gigabytes(sum(needed.values()) / ROOMY)} GB free"
    return Remedy(
        f"{' and '.join(short)}, or write to another one with {whole} (put its path for DIRECTORY)",
        {"--config": ("results", "DIRECTORY")},
    )
