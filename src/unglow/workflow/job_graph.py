"""Snakemake's own graph: the jobs that a run will do, what they get, and when they are known.

Everything here rests on the scheduler and executor interfaces of Snakemake, and on four names that
none of them promises: ``workflow.dag``, ``workflow.global_resources``, ``dag.reason`` and
``job.wildcards_dict``. They are used in this module alone;
tests/unit/workflow/test_job_graph.py looks for them in the version that is installed.
"""

from __future__ import annotations

import logging
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unglow.core.errors import UnglowError
from unglow.core.machine import disk_free_mb, memory_available_mb
from unglow.workflow.schedule import Capacity, Job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from unglow.workflow.forecast import Forecast

_NOTHING_TO_DO = "Nothing to be done"


class GraphHandler(logging.Handler):
    """Calls a function once, in the main thread, when the graph of jobs is complete.

    Snakemake has no hook there that a dry run calls too. What the function raises ends the run.

    Parameters
    ----------
    judge
        Returns how long the run is expected to take.
    """

    def __init__(self, judge: Callable[[], Forecast | None]) -> None:
        super().__init__(logging.INFO)
        self._judge, self._called = judge, False
        self.expected: Forecast | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Call the function when Snakemake reports its jobs, or that there are none."""
        event = str(getattr(record, "event", None) or "")
        if event == "run_info" or record.getMessage().startswith(_NOTHING_TO_DO):
            self.judge()

    def judge(self) -> None:
        """Call the function, unless it was called before."""
        if not self._called:
            self._called = True  # a dry run reports its jobs twice
            self.expected = self._judge()


def limit_of(workflow: Any, name: str) -> int | None:
    """Return a limit for all jobs together, such as that of ``mem_mb``; None if there is none."""
    limit = workflow.global_resources.get(name)
    return None if limit is None else limit.value


def runs_here(workflow: Any) -> bool:
    """Return whether jobs run on this machine, or would if this were no dry run."""
    elsewhere = workflow.execution_settings.use_threads and workflow.resource_settings.nodes
    return workflow.local_exec and not elsewhere


def read_jobs(workflow: Any, describe: Callable[..., Mapping[str, Any] | None]) -> list[Job]:
    """Return the jobs that a run will do, those of other workflows included.

    ``describe`` is called with rule, wildcards and whether an output is missing; it returns what
    else is known of a job of unglow, and None for others.

    Raises
    ------
    UnglowError
        This version of Snakemake has another graph.
    """
    disks, here = dict[int, str](), Path.cwd()

    @cache
    def disk_of(place: Path) -> str:
        if not place.exists():
            return disk_of(place.parent)
        return disks.setdefault(place.stat().st_dev, str(place))

    try:
        listed = _list_jobs(workflow)
    except (AttributeError, KeyError, TypeError) as error:
        raise UnglowError(
            f"the job graph of this version of Snakemake cannot be read ({error}): install a "
            "version that unglow was tried with."
        ) from error
    jobs = []
    for rule, names, outputs, more in listed:
        known = describe(rule, names, missing=not all(map(os.path.lexists, outputs)))
        disk = disk_of(Path(here, outputs[0]).parent) if known and outputs else ""
        other = {"rule": rule, "title": " ".join(names.values()) or "the run"}
        jobs.append(Job(**(known or other), **more, disk=disk))
    return jobs


def _list_jobs(workflow: Any) -> list[tuple[str, dict[str, str], list[str], dict[str, Any]]]:
    """Return rule, wildcards and outputs of each job, and what Snakemake says of it."""
    dag = workflow.dag
    found = [job for job in dag.needrun_jobs() if job.output or job.log]
    places = {job: n for n, job in enumerate(found)}
    listed = []
    for job in found:
        mem_mb = job.resources.get("mem_mb", 0)
        more = {
            "after": tuple(sorted(places[j] for j in dag.job_dependencies(job) if j in places)),
            "reason": str(dag.reason(job)),
            "threads": job.threads,
            "mem_mb": mem_mb if isinstance(mem_mb, int) else 0,  # not known before its input is
            "is_fixed": _is_number(job.rule.resources.get("mem_mb")),
        }
        outputs = [str(file) for file in job.output]
        listed.append((job.rule.name, dict(job.wildcards_dict or {}), outputs, more))
    return listed


def _is_number(resource: Any) -> bool:
    """Return whether a resource of a rule is no function; Snakemake 9.17 keeps the value itself."""
    is_function = (
        resource.is_evaluable() if hasattr(resource, "is_evaluable") else callable(resource)
    )
    return resource is not None and not is_function


def read_capacity(workflow: Any, jobs: Iterable[Job]) -> Capacity:
    """Return what Snakemake may use, and what the machine has now if jobs run on it."""
    cores, limit, streams = (limit_of(workflow, n) for n in ("_cores", "mem_mb", "disk_streams"))
    return Capacity(
        cores=cores,
        limit_mb=limit,
        available_mb=memory_available_mb() if runs_here(workflow) else None,
        free_mb={disk: disk_free_mb(Path(disk)) for disk in {job.disk for job in jobs if job.disk}},
        disk_streams=streams,
    )


def list_planned(
    workflow: Any, is_recorded: Callable[[Iterable[Any], Iterable[Any]], bool]
) -> list[list[Any]]:
    """Return the jobs that a run still has to do: number, rule, wildcards, what they wait for.

    The last is the numbers of those other jobs among them that make what it reads. Only jobs whose
    outputs and logs are to be recorded are returned; none if files are only touched.
    """
    if workflow.touch:
        return []
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


def files_to_write(workflow: Any) -> list[Path]:
    """Return the files that the jobs of a run write; of a directory, one in it."""
    files = []
    for job in workflow.dag.needrun_jobs():
        files += [Path(str(one), "x" if one.is_directory else "") for one in job.output]
        files += [Path(str(one)) for one in (*job.log, job.benchmark) if one]
    return files


def has_done(workflow: Any, rule: str) -> bool:
    """Return whether a job of a rule has ended well in this run."""
    return any(job.rule.name == rule for job in workflow.dag.finished_jobs)
