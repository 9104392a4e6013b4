"""The names that are used of Snakemake's own objects are there, in the versions installed here."""

from __future__ import annotations

import inspect
import re
import tomllib
from types import SimpleNamespace

import pytest
import snakemake.api  # before its workflow, which imports it
import snakemake.workflow
from snakemake import __version__ as snakemake_version
from snakemake.scheduling import job_scheduler

from unglow.workflow.snakemake_internals import (
    NEXT_MAJOR,
    give_up_lost_jobs,
    start_jobs_at_once,
    unknown_version,
)

NO_SLURM = "no executor for Slurm here: pip install 'unglow[cluster]'"


def test_the_scheduler_has_the_limiter_and_the_executor():
    source = inspect.getsource(job_scheduler)
    assert "self.job_rate_limiter is not None" in source
    assert "self._executor" in source
    for name in ("local_exec", "executor_plugin", "scheduler"):
        assert name in inspect.getsource(snakemake.workflow.Workflow)


def test_the_executor_of_slurm_has_what_is_replaced():
    slurm = pytest.importorskip("snakemake_executor_plugin_slurm", reason=NO_SLURM)
    for name in ("check_active_jobs", "report_job_error", "report_job_success"):
        assert callable(getattr(slurm.Executor, name))
    assert "slurm_logfile" in inspect.getsource(slurm)


@pytest.mark.parametrize("local", [True, False])
def test_jobs_are_started_at_once_on_this_machine_alone(local):
    scheduler = SimpleNamespace(job_rate_limiter="100 per second")
    start_jobs_at_once(SimpleNamespace(local_exec=local, scheduler=scheduler))
    assert (scheduler.job_rate_limiter is None) is local


@pytest.mark.parametrize("plugin", [None, SimpleNamespace(name="local")])
def test_other_executors_are_left_alone(plugin):
    executor = SimpleNamespace()
    workflow = SimpleNamespace(
        executor_plugin=plugin, scheduler=SimpleNamespace(_executor=executor)
    )
    give_up_lost_jobs(workflow, print)
    assert not vars(executor)


def test_a_version_that_is_not_known_is_reported_and_not_installed(project):
    assert unknown_version("9.99.1") is None
    assert unknown_version("unknown") is None
    assert unknown_version(snakemake_version) is None
    message = unknown_version(f"{NEXT_MAJOR}.0.1")
    assert message.startswith(
        f"Snakemake {NEXT_MAJOR}.0.1 is newer than what this version of unglow"
    )
    stated = tomllib.loads((project / "pyproject.toml").read_text())["project"]["dependencies"]
    (bound,) = (re.search(r"<(\d+)$", d)[1] for d in stated if d.startswith("snakemake>"))
    assert int(bound) == NEXT_MAJOR
