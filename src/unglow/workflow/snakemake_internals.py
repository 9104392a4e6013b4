"""All that is read or set of Snakemake's own objects, where it has no option for it.

The rules call these functions with their ``workflow``. tests/unit/workflow/test_snakemake_internals
looks whether the names are there in the versions that are installed; `make oldest` does so with the
oldest ones.

`SlurmWatch` does what the executor of Slurm does not: it gives up lost jobs.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import sys
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from unglow.jobs.schedulers import NoAnswerError, QueuedJob, has_ended, read_accounts, slurm_queue
from unglow.jobs.snakemake_command import snakemake_words
from unglow.telemetry.recording.run import surroundings
from unglow.workflow.job_graph import limit_of, runs_here

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Container, Iterable, Mapping, Sequence


UNKNOWN = "UNKNOWN"
"""State of a job that nobody knows any more."""
# How long a command of Slurm may take while Snakemake waits for it, s.
_PATIENCE_S = 10.0
# States that the executor takes for passing, and a job does not come back from.
_FOR_GOOD = ("PREEMPTED", "REVOKED")
_LONGER = (
    "It asks for more time than the partition or account allows: let it ask for less "
    "(timeout_per_job), or choose another partition (--default-resources slurm_partition=NAME)"
)
_LESS = "It asks for more memory than the account allows: set memory_per_job to less"
# Reasons for which a job waits until somebody changes something (squeue(1), job reason codes).
_REMEDIES = {
    "PartitionTimeLimit": _LONGER,
    "AssocMaxWallDurationPerJobLimit": _LONGER,
    "QOSMaxWallDurationPerJobLimit": _LONGER,
    "AssocMaxMemPerJob": _LESS,
    "QOSMaxMemoryPerJob": _LESS,
    "BadConstraints": "No node has what it asks for: see slurm_extra and memory_per_job",
    "PartitionNodeLimit": "No node of the partition has what it asks for: choose another partition",
    "InvalidAccount": "Name another account (--default-resources slurm_account=NAME)",
    "InvalidQOS": "Name another quality of service (--default-resources slurm_extra=...)",
}


@dataclass
class SlurmWatch:
    """Looks after jobs of Slurm that its executor waits for."""

    _seen: set[str] = field(default_factory=set)
    _ended_before: dict[str, str] = field(default_factory=dict)
    _warned: set[str] = field(default_factory=set)

    def poll(self, job_ids: Sequence[str]) -> tuple[dict[str, str], list[str]]:
        """Return the jobs that are waited for without success.

        These are states of those that have `find_ended`, once two looks in a row have said so, and
        warnings about those that `explain_hopeless` finds, each of them once.
        """
        try:
            listed = slurm_queue(_PATIENCE_S) if job_ids else {}
        except NoAnswerError:
            return {}, []
        states = find_ended(job_ids, listed, self._seen)
        self._seen.update(listed)
        certain = {job: s for job, s in states.items() if self._ended_before.get(job) == s}
        self._ended_before = states
        warnings = set(explain_hopeless(job_ids, listed).values()) - self._warned
        self._warned |= warnings
        return certain, sorted(warnings)


def find_ended(
    job_ids: Sequence[str], listed: Mapping[str, QueuedJob], seen: Container[str]
) -> dict[str, str]:
    """Return states of Slurm jobs that have ended though its executor still waits for them.

    The executor takes it that a preempted job is queued again, and it waits forever for a job that
    is no longer listed: ended while nobody answered, or lost by a controller that was restarted.
    A job that nobody knows is `UNKNOWN` if it was ``seen`` in the queue before: others may be in
    the queue of another cluster.
    """
    numbers = [job_id for job_id in job_ids if job_id.isdigit()]
    states = {job_id: listed[job_id].state for job_id in numbers if job_id in listed}
    states = {job_id: state for job_id, state in states.items() if state in _FOR_GOOD}
    unlisted = [job_id for job_id in numbers if job_id not in listed]
    accounts = read_accounts(unlisted, _PATIENCE_S) if unlisted else {}
    for job_id in unlisted:
        state = accounts.get(job_id, UNKNOWN)
        if has_ended(state):
            states[job_id] = state
        elif job_id in seen:
            states[job_id] = UNKNOWN
    return states


def explain_hopeless(job_ids: Sequence[str], listed: Mapping[str, QueuedJob]) -> dict[str, str]:
    """Return why jobs wait that will not start before somebody changes something, in sentences."""
    waiting = {job_id: listed[job_id] for job_id in job_ids if job_id in listed}
    return {
        job_id: f"Job {job_id} will not start: Slurm says {job.reason}. {_REMEDIES[job.reason]}."
        for job_id, job in waiting.items()
        if job.state == "PENDING" and job.reason in _REMEDIES
    }


NEXT_MAJOR = 10
"""The first version of Snakemake that none of this has been tried with; also in pyproject.toml."""


def unknown_version(version: str) -> str | None:
    """Say that a version of Snakemake is newer than what this was made for; None if it is not."""
    major = version.partition(".")[0]
    if not major.isdecimal() or int(major) < NEXT_MAJOR:
        return None
    return (
        f"Snakemake {version} is newer than what this version of unglow has been tried with (below "
        f"{NEXT_MAJOR}): if a run behaves oddly, use 'pip install \"snakemake<{NEXT_MAJOR}\"'."
    )


def workflow_at_work() -> Any:
    """Return the workflow that this thread executes; None if it executes none."""
    frame = inspect.currentframe()
    while frame is not None:
        owner = frame.f_locals.get("self")
        if type(owner).__name__ == "Workflow":
            return owner
        frame = frame.f_back
    return None


def quiet_kinds(settings: Any) -> frozenset[str]:
    """Return what Snakemake was asked to be quiet about, in small letters, by output settings."""
    return frozenset(kind.name.lower() for kind in settings.quiet or ())


def hides_finished_jobs(quiet: Iterable[str]) -> bool:
    """Whether Snakemake does not say that jobs have finished, by `quiet_kinds`."""
    return not {"all", "progress"}.isdisjoint(quiet)


def name_executor(workflow: Any) -> str | None:
    """Return the name of what hands jobs to other machines; None if they run on this one.

    A dry run does not keep it, so the words of its command and its profiles are read once more.
    """
    plugin = workflow.executor_plugin
    if plugin is None:
        return None
    if plugin.common_settings.dryrun_exec and not runs_here(workflow):
        return _read_executor(workflow.rundir)
    return plugin.name if plugin.common_settings.non_local_exec else None


@cache
def _read_executor(directory: str) -> str | None:
    from snakemake.cli import parse_args  # local dry runs need none of it

    with contextlib.chdir(directory), contextlib.redirect_stderr(io.StringIO()):
        _, words = parse_args(sys.argv[1:])
    return None if words.executor in (None, "local") else str(words.executor)


def describe_run(workflow: Any, results: str) -> dict[str, Any]:
    """Return what the record of a run says first of any workflow; ``results`` as it was named."""
    executor = workflow.executor_plugin
    return {
        **surroundings(),
        "command": snakemake_words(sys.argv),
        "directory": os.getcwd(),  # noqa: PTH109
        "started_in": str(workflow.rundir),
        "workflow": str(workflow.basedir),
        "results": results,
        "cores": limit_of(workflow, "_cores"),
        "executor": None if executor is None else executor.name,
        "resources": {"mem_mb": limit_of(workflow, "mem_mb")},
        "config_files": [str(path) for path in workflow.configfiles],
    }


def start_jobs_at_once(workflow: Any) -> None:
    """On this machine alone: lift Snakemake's limit of jobs started per second (100 by default).

    No option switches it off. To keep it, each job that ends sets off one more timer that wakes the
    scheduler every second as long as jobs wait: after some hundred jobs Snakemake itself takes a
    whole core. The last timer keeps it from ending for up to a second.
    """
    scheduler = workflow.scheduler
    if workflow.local_exec and getattr(scheduler, "job_rate_limiter", None) is not None:
        scheduler.job_rate_limiter = None


def give_up_lost_jobs(workflow: Any, warn: Callable[[str], object]) -> None:
    """With Slurm: end jobs that its executor would wait for without end (`SlurmWatch`).

    In snakemake-executor-plugin-slurm 2.8, ``check_active_jobs`` takes PREEMPTED and REVOKED for
    states that pass, and asks again for ever for a job that neither squeue nor sacct lists. Both
    are to be reported there as failed; then this is not needed. ``warn`` is called with messages.
    """
    plugin, executor = workflow.executor_plugin, getattr(workflow.scheduler, "_executor", None)
    if plugin is None or plugin.name != "slurm" or executor is None:
        return
    check, watch = executor.check_active_jobs, SlurmWatch()

    async def checked(active_jobs: Any) -> AsyncIterator[Any]:
        waiting = [job async for job in check(active_jobs)]
        states, warnings = watch.poll([str(job.external_jobid) for job in waiting])
        for message in warnings:
            warn(message)
        for job in waiting:
            state = states.get(str(job.external_jobid))
            if state is None:
                yield job
            elif state == "COMPLETED":
                executor.report_job_success(job)
            else:
                message = f"SLURM-job '{job.external_jobid}' has ended: '{state}'."
                logs = [str(job.aux["slurm_logfile"])]
                executor.report_job_error(job, msg=message, aux_logs=logs)

    executor.check_active_jobs = checked
