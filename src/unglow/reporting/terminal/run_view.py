"""What there is to see of a run at a moment: jobs by rule, running jobs, memory, what went wrong.

Plain values without any layout; units are s, MB (1e6 bytes) and cores.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.machine import memory_available_mb
from unglow.core.workflow_files import is_foreign
from unglow.telemetry.reading import plan
from unglow.telemetry.reading.follower import Follower
from unglow.telemetry.reading.history import UNRECORDED, History
from unglow.telemetry.reading.incidents import incidents
from unglow.telemetry.reading.outcomes import Machine, machine_mb
from unglow.telemetry.reading.parsing import number
from unglow.telemetry.reading.records import RUNNING
from unglow.telemetry.reading.rejections import failed_pairs
from unglow.telemetry.reading.time_left import time_left

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from unglow.reporting.pair_rows import Known
    from unglow.telemetry.reading.history import Placed, RunHistory
    from unglow.telemetry.reading.incidents import Incident
    from unglow.telemetry.reading.plan import RuleProgress
    from unglow.telemetry.reading.records import Attempt, Job
    from unglow.telemetry.reading.samples import Samples
    from unglow.telemetry.reading.time_left import Left

# CPU use is the mean over so many s.
_CPU_OVER_S = 2.0
STARTING = "starting"
# As pairs are counted, what wants attention first.
_STATUSES = ("failed", "skipped", "incomplete", "running", "suspect", "ok", "waiting")


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job that runs.

    Attributes
    ----------
    title
        Stage and what it works on.
    step
        What it is at, as far as it tells.
    number
        1 for the first attempt.
    seconds
        Since it began.
    now_mb, peak_mb, declared_mb
        Memory: resident, or of several processes as `shared_mb`; the largest resident set of one
        process; None where it is not known.
    shared_mb
        Memory with pages that several processes share counted once (PSS).
    cores
        Processors that it keeps busy; None where it is not known.
    threads
        Processors that it was given.
    share
        How much of its work is done, 0 to 1; None if it does not tell.
    host
        The machine that it runs on.
    attempt
        Id of the attempt; empty before there is word of one.
    """

    title: str
    step: str = ""
    number: int = 1
    seconds: float | None = None
    now_mb: float | None = None
    shared_mb: float | None = None
    peak_mb: float | None = None
    declared_mb: float | None = None
    cores: float | None = None
    threads: int = 1
    share: float | None = None
    host: str = ""
    attempt: str = ""


@dataclass(frozen=True, slots=True)
class RunView:
    """A run as it looks now.

    Attributes
    ----------
    results
        Its results directory.
    id, outcome
        The run (`UNRECORDED` for attempts without one); how it ended, or ``running``.
    host, pid, wall, seconds
        Where it was begun as which process (0 if that is not known) and when (Unix time), and how
        long it took or takes.
    left
        Estimate of the time left; None if there is none.
    done, of
        Jobs; ``of`` is 0 if it is not known.
    rules, jobs
        The rules in the order in which Snakemake named them; the running jobs by start.
    budget_mb, machine_mb, available_mb
        Memory for all jobs together, of the machine, and what of that is free now; None where it
        is not known, or the run is over.
    incidents
        What went wrong in this run, the newest first.
    pairs
        How many pairs stand how, in words; empty where nobody asked.
    """

    results: Path
    id: str
    outcome: str
    host: str
    pid: int
    wall: float
    seconds: float
    left: Left | None
    done: int
    of: int
    rules: tuple[RuleProgress, ...]
    jobs: tuple[JobRow, ...]
    budget_mb: float | None
    machine_mb: float | None
    available_mb: float | None
    incidents: tuple[Incident, ...]
    pairs: str = ""

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""
        return self.outcome != RUNNING

    @property
    def used_mb(self) -> float:
        """Memory (PSS) of all running jobs together, and never less than that of one of them."""
        largest = max((job.now_mb or 0.0 for job in self.jobs), default=0.0)
        return max(largest, sum(job.shared_mb or 0.0 for job in self.jobs))

    @property
    def declared_mb(self) -> float:
        """What the running jobs have declared together."""
        return sum(job.declared_mb or 0.0 for job in self.jobs)


class Watched:
    """A results directory that is looked at again and again.

    Parameters
    ----------
    results
        The directory; it need not exist yet.

    Attributes
    ----------
    seen
        What the last look found.
    """

    def __init__(self, results: Path) -> None:
        self.results = results
        self.seen = History(())
        self._follower = Follower(results)
        self._rows: Known = {}
        self._made: list[dict[str, Any]] | None = None

    def history(self, machine: Machine | None = None) -> History:
        """Read what is new, and join all of it as it looks from a machine (this one if None)."""
        self._follower.poll()
        self._made = None
        self.seen = History.of(self._follower, machine or Machine())
        return self.seen

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each pair of the last look, as in summary.tsv."""
        if is_foreign(self.results):
            return []
        from unglow.reporting.pair_rows import rows_of  # noqa: PLC0415 (loads what maps need)

        if self._made is None:
            self._made = rows_of(self.results, self.seen, self._rows)
        return self._made

    def pairs(self) -> str:
        """Return how many pairs of the last look stand how, in words; empty if there are none."""
        statuses = [row["status"] for row in self.rows()]
        counts = ((statuses.count(status), status) for status in _STATUSES)
        return ", ".join(f"{n} {status}" for n, status in counts if n)

    def look(self, machine: Machine | None = None) -> list[RunView]:
        """Return the runs that go on; if there is none, the last one; nothing before the first."""
        machine = machine or Machine()
        history = self.history(machine)
        shown = [h for h in history.runs if h.outcome == RUNNING] or list(history.runs[-1:])
        return [view_of(self.results, history, h, machine) for h in shown]


def view_of(
    results: Path,
    history: History,
    h: RunHistory,
    machine: Machine,
    wrong: Sequence[Incident] | None = None,
) -> RunView:
    """Return what there is to see of a run of a results directory.

    Parameters
    ----------
    results, history, h, machine
        The directory, its history, the run, and from where it is seen.
    wrong
        What went wrong, if that is known or not to be shown.
    """
    running = [a for a in h.attempts if a.outcome == RUNNING]
    known = plan.states(h)
    rules = tuple(plan.by_rule(h, known))
    done, of = plan.jobs_done(rules)
    host = h.run.host or (h.attempts[-1].attempt.host if h.attempts else "")
    return RunView(
        results=results,
        id=h.run.id,
        outcome=h.outcome,
        host=host,
        pid=int(number(h.run.fields.get("pid")) or 0),
        wall=h.run.wall,
        seconds=h.seconds,
        left=time_left(h, [e for e in history.runs if e is not h], known),
        done=done,
        of=of,
        rules=rules,
        jobs=_jobs(h, running, known),
        budget_mb=h.run.budget_mb,
        machine_mb=_machine_mb(h),
        available_mb=_available_mb(host, running, machine) if h.outcome == RUNNING else None,
        incidents=tuple(incidents_of(h, results) if wrong is None else wrong),
    )


def incidents_of(h: RunHistory, results: Path) -> list[Incident]:
    """Return what went wrong in a run, with pairs and markers of it that have failed by now."""
    failed = failed_pairs(results, h.run.fields.get("pairs"))
    if slides := h.run.fields.get("slides"):
        from unglow.reporting.marker_rows import failed_markers  # noqa: PLC0415 (loads numpy)

        failed += failed_markers(results, slides)
    return incidents(History((h,)), results, failed)


def _jobs(h: RunHistory, running: list[Placed], known: Mapping[int, str]) -> tuple[JobRow, ...]:
    """Return the running attempts, then the jobs that have been started and are not heard of."""
    seen = {a.attempt.job for a in running}
    begun = (j for j in h.run.jobs if known[j.jobid] == RUNNING and j.key not in seen)
    return (*(_row(a.attempt) for a in running), *map(_starting, begun))


def _starting(job: Job) -> JobRow:
    declared = number(job.resources.get("mem_mb"))
    return JobRow(job.title, STARTING, declared_mb=declared, threads=job.threads)


def _row(attempt: Attempt) -> JobRow:
    samples = attempt.samples
    open_steps = [s.name for s in attempt.steps if s.end is None]
    counts_work = bool(attempt.of) and attempt.done is not None
    return JobRow(
        attempt.title,
        step=open_steps[-1] if open_steps else "",
        number=attempt.number,
        seconds=attempt.seconds,
        now_mb=_last(samples.resident),
        shared_mb=_last(samples.shared_once),
        peak_mb=attempt.peak_mb,
        declared_mb=attempt.declared_mb,
        cores=cores_busy(samples),
        threads=attempt.threads,
        share=min(1.0, (attempt.done or 0.0) / (attempt.of or 1.0)) if counts_work else None,
        host=attempt.host,
        attempt=attempt.id,
    )


def cores_busy(samples: Samples) -> float | None:
    """Return how many processors were busy of late; None before there are two samples."""
    finite = ~np.isnan(samples.cpu)
    t, cpu = samples.t[finite], samples.cpu[finite]
    if len(t) < 2:
        return None
    first = min(int(np.searchsorted(t, t[-1] - _CPU_OVER_S)), len(t) - 2)
    took = float(t[-1] - t[first])
    return max(0.0, float(cpu[-1] - cpu[first])) / took if took > 0 else None


def _last(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float | None:
    finite = values[~np.isnan(values)]
    return float(finite[-1]) if len(finite) else None


def _machine_mb(h: RunHistory) -> float | None:
    records = [h.run.fields] if h.run.id != UNRECORDED else [a.attempt.fields for a in h.attempts]
    return max((mb for fields in records if (mb := machine_mb(fields))), default=None)


def _available_mb(host: str, running: list[Placed], machine: Machine) -> float | None:
    """Return the free memory of the run's machine: asked here, or as its jobs tell."""
    if host == machine.host:
        return memory_available_mb()
    samples = [
        (a.end, mb)
        for a in running
        if a.attempt.host == host and (mb := _last(a.attempt.samples.available)) is not None
    ]
    return max(samples, default=(-math.inf, None))[1]
