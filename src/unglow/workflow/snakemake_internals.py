"""What Snakemake has no option for: all that is read or set of its own objects, in one place.

The rules call these functions with their ``workflow``. tests/unit/workflow/test_snakemake_internals
looks whether the names are there in the versions that are installed; `make oldest` does so with the
oldest ones.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any

from unglow.jobs.schedulers.slurm_watch import LOOK_S, SlurmWatch

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import AsyncIterator, Callable, Iterable

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


def command_line() -> Namespace | None:
    """Return the options of the snakemake command with those of profiles; None without a command.

    When the workflow is parsed, Snakemake has not yet told it what it is going to do.
    """
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_name == "args_to_api":
            return frame.f_locals.get("args")
        frame = frame.f_back
    return None


def limit_of(workflow: Any, name: str) -> int | None:
    """Return a limit for all jobs together, such as that of ``mem_mb``; None if there is none."""
    limit = workflow.global_resources.get(name)
    return None if limit is None else limit.value


def planned_jobs(
    workflow: Any, is_recorded: Callable[[Iterable[Any], Iterable[Any]], bool]
) -> list[list[Any]]:
    """Return the jobs that a run still has to do: number, rule, wildcards, what they wait for.

    The last is the numbers of those other jobs among them that make what it reads. Only jobs whose
    outputs and logs are to be recorded are returned.
    """
    dag = workflow.dag
    jobs = [job for job in dag.needrun_jobs() if is_recorded(job.output, job.log)]
    to_do = set(jobs)
    return [
        [
            job.jobid,
            job.rule.name,
            dict(job.wildcards_dict or {}),
            sorted(other.jobid for other in dag.job_dependencies(job) if other in to_do),
        ]
        for job in jobs
    ]


def has_done(workflow: Any, rule: str) -> bool:
    """Whether a job of a rule has ended well in this run."""
    return any(job.rule.name == rule for job in workflow.dag.finished_jobs)


def start_jobs_at_once(workflow: Any) -> None:
    """On this machine alone: lift Snakemake's limit of jobs started per second (100 by default).

    No option switches it off. To keep it, each job that ends sets off one more timer that wakes the
    scheduler every second as long as jobs wait: after some hundred jobs Snakemake itself takes a
    whole core. The last timer keeps it from ending for up to a second.
    """
    scheduler = workflow.scheduler
    if workflow.local_exec and getattr(scheduler, "job_rate_limiter", None) is not None:
        scheduler.job_rate_limiter = None


def look_often(workflow: Any) -> None:
    """On a batch system: look how jobs are at least every `LOOK_S`.

    The executor of Slurm waits 10 s longer after each look that found no job done, up to three
    minutes, and has no option for that: a short job would wait for its turn longer than it runs.
    """
    executor = _executor(workflow)
    if hasattr(executor, "next_seconds_between_status_checks"):

        async def rest() -> None:
            seconds = executor.next_seconds_between_status_checks
            await asyncio.sleep(min(seconds, LOOK_S))

        executor.sleep = rest


def bear_with_slurm(workflow: Any, warn: Callable[[str], object]) -> None:
    """With Slurm: wait for a controller that is away, and never wait in vain (`SlurmWatch`).

    Its executor counts a job that could not be handed over as one that failed, and waits without
    end for jobs that were preempted or that nobody knows any more. ``warn`` is told what happens.
    """
    plugin, executor = workflow.executor_plugin, _executor(workflow)
    if plugin is None or plugin.name != "slurm" or executor is None:
        return
    submit, check, watch = executor.run_job, executor.check_active_jobs, SlurmWatch()

    def say(messages: Iterable[str]) -> None:
        for message in messages:
            warn(message)

    def patiently(job: Any) -> None:
        say(watch.wait_until_slurm_answers())
        submit(job)

    async def checked(active_jobs: Any) -> AsyncIterator[Any]:
        waiting = [job async for job in check(active_jobs)]
        states, warnings = watch.look([str(job.external_jobid) for job in waiting])
        say(warnings)
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

    executor.run_job, executor.check_active_jobs = patiently, checked


def _executor(workflow: Any) -> Any:
    return getattr(workflow.scheduler, "_executor", None)
