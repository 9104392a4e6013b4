"""The client of Slurm: `squeue` knows the jobs of the last minutes, `sacct` those before."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from unglow.jobs.schedulers.scheduler import (
    PATIENCE_S,
    JobRequest,
    NoAnswerError,
    Scheduler,
    State,
    run,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

COMPLETED = "COMPLETED"
FAILURES = (
    *("BOOT_FAIL", "CANCELLED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED"),
    *("REVOKED", "TIMEOUT"),
)
"""States of jobs that have ended, but for `COMPLETED` (squeue(1), job state codes)."""


class QueuedJob(NamedTuple):
    """A line of the queue: state, why the job waits, and its name."""

    state: str
    reason: str
    name: str


def queue(patience_s: float = PATIENCE_S) -> dict[str, QueuedJob]:
    """Return the jobs of this user by their ids, with those of the last minutes that have ended.

    Raises `NoAnswerError`.
    """
    # of all jobs, for a question about a single one that is not listed fails
    words = ("--noheader", "--states=all", "--me", "--format=%i|%T|%r|%j")
    status, text = run("squeue", *words, patience_s=patience_s)
    if status:
        raise NoAnswerError(text)
    rows = (line.strip().split("|", 3) for line in text.splitlines())
    return {row[0]: QueuedJob(*row[1:]) for row in rows if len(row) == 4}


def accounted(jobs: Sequence[str], patience_s: float = PATIENCE_S) -> dict[str, str]:
    """Return states by job from Slurm's accounts, one word each; of those that they know."""
    words = ("-X", "--noheader", "--parsable2", "--format=JobIDRaw,State")
    status, text = run("sacct", *words, f"--jobs={','.join(jobs)}", patience_s=patience_s)
    rows = (line.partition("|") for line in text.splitlines() if not status)
    return {job: state.split()[0] for job, _, state in rows if state.strip()}


def state_of(job: str, patience_s: float = PATIENCE_S) -> str | None:
    """Return the state of a job, one word in capitals; None if nobody knows."""
    try:
        listed = queue(patience_s)
    except NoAnswerError:
        listed = {}
    return listed[job].state if job in listed else accounted([job], patience_s).get(job)


def has_ended(state: str) -> bool:
    """Whether a job in this state has ended."""
    return state == COMPLETED or state in FAILURES


class Slurm(Scheduler):
    """Slurm, without the executor plugin that Snakemake has for it."""

    name = "slurm"
    queue_command = "squeue"
    cancel_command = "scancel"

    def submission(self, job: JobRequest) -> list[str]:
        """See `Scheduler`."""
        return [
            *("sbatch", "--parsable", "--no-requeue", f"--job-name={job.name}"),
            *(f"--cpus-per-task={job.threads}", f"--mem={job.kib}K"),
            *(f"--time={job.minutes}", "--nodes=1", "--ntasks=1"),
            *(f"--output={job.logs}/{job.name}.%j.log", job.script),
        ]

    def job_id(self, text: str) -> str:
        """Leave out the name of the cluster, which may follow the number."""
        return super().job_id(text).split(";")[0]

    def state(self, job: str) -> State:
        """See `Scheduler`."""
        state = state_of(job)
        if state == COMPLETED:
            return State.SUCCESS
        return State.FAILED if state in FAILURES else State.RUNNING

    def queued(self, jobs: Sequence[str], names: Sequence[str] = ()) -> list[str]:
        """See `Scheduler`; ``names`` are those of more jobs, whatever their ids."""
        return [
            job
            for job, listed in queue().items()
            if (job in jobs or listed.name in names) and not has_ended(listed.state)
        ]
