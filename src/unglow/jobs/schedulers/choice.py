"""Which scheduler there is."""

from __future__ import annotations

import math
import os
import shutil
from typing import TYPE_CHECKING

from unglow.jobs.schedulers.scheduler import JobRequest, NoAnswerError, Scheduler, State, run
from unglow.jobs.schedulers.slurm import Slurm

if TYPE_CHECKING:
    from collections.abc import Sequence


# Address space that a process takes beyond its memory, MB: measured up to 1000.
_ADDRESS_SPACE_MB = 1500.0


class GridEngine(Scheduler):
    """Grid Engine: ``qstat`` knows what is going on and ``qacct`` how it ended.

    Memory is asked for as ``UNGLOW_SGE_MEMORY`` says, a name of the site's complex (``h_vmem``,
    ``mem_free``, ``m_mem_free``, ``h_rss``); several may be given, separated by commas. ``h_vmem``
    limits address space, of which Python programs take more than memory, so some is added. All of
    them count per slot, and a job has as many slots as threads.
    """

    name = "sge"
    queue_command = "qstat"
    cancel_command = "qdel"

    def submission(self, job: JobRequest) -> list[str]:
        """See `Scheduler`."""
        words = ["qsub", "-terse", "-cwd", "-V", "-r", "n", "-S", "/bin/sh", "-N", job.name]
        words += ["-j", "y", "-o", f"{job.logs}/{job.name}.$JOB_ID.log"]
        if job.threads > 1:
            words += ["-pe", os.environ.get("UNGLOW_SGE_PE", "smp"), str(job.threads)]
        resources = [f"h_rt={job.clock}"]
        for name in os.environ.get("UNGLOW_SGE_MEMORY", "h_vmem").split(","):
            spare = _ADDRESS_SPACE_MB * 1e6 / 1024 if name == "h_vmem" else 0.0
            resources.append(f"{name}={math.ceil((job.kib + spare) / job.threads)}K")
        return [*words, "-l", ",".join(resources), job.script]

    def state(self, job: str) -> State:
        """See `Scheduler`; a job in error, or on a machine that is not heard of, has failed."""
        try:
            row = _queue().get(job)
        except NoAnswerError:
            return State.RUNNING
        if row is None:
            return _outcome(job)
        return State.FAILED if "E" in row[4] or _is_unheard(row) else State.RUNNING

    def queued(self, jobs: Sequence[str]) -> list[str]:
        """See `Scheduler`."""
        rows = _queue()
        return [job for job in jobs if job in rows]


def _queue() -> dict[str, list[str]]:
    """Return the words of each job's line in the queue by its id; the fifth is its state."""
    status, text = run("qstat", "-u", "*")
    if status:
        raise NoAnswerError(text)
    rows = (line.split() for line in text.splitlines())
    return {row[0]: row for row in rows if len(row) > 4}


def _is_unheard(row: Sequence[str]) -> bool:
    """Whether the queue instance that a job runs in has not been heard of (state ``u``)."""
    instance = next((word for word in row[5:] if "@" in word), None)
    if instance is None:
        return False
    status, text = run("qstat", "-f", "-q", instance)
    # the last field of its row is its state, if it has any
    rows = [line.split() for line in text.splitlines() if line.startswith(instance)]
    return not status and any(len(one) > 5 and "u" in one[5] for one in rows)


def _outcome(job: str) -> State:
    """Return the state of a job that is no longer queued."""
    status, text = run("qacct", "-j", job)
    if status:  # not written yet
        return State.RUNNING
    fields = dict(row.split(None, 1) for row in text.splitlines() if len(row.split(None, 1)) > 1)
    failed, code = (fields.get(name, "").split() for name in ("failed", "exit_status"))
    if not failed or not code:
        return State.RUNNING
    return State.SUCCESS if failed[0] == code[0] == "0" else State.FAILED


VARIABLE = "UNGLOW_SCHEDULER"
SCHEDULERS: dict[str, type[Scheduler]] = {
    "slurm": Slurm,
    "sge": GridEngine,
}


def chosen() -> Scheduler:
    """Return the scheduler that the environment names, or else the one whose commands are here.

    If there is none, the program ends with a sentence.
    """
    name = os.environ.get(VARIABLE, "").strip().lower() or _detected()
    if name not in SCHEDULERS:
        known = ", ".join(SCHEDULERS)
        reason = f"{VARIABLE} is {name!r}" if name else "neither Slurm nor Grid Engine is here"
        raise SystemExit(f"{reason}: set {VARIABLE} to one of {known}.")
    return SCHEDULERS[name]()


def _detected() -> str:
    if os.environ.get("SGE_ROOT") and shutil.which("qsub"):  # what Grid Engine needs to be asked
        return "sge"
    return "slurm" if shutil.which("sbatch") else ""
