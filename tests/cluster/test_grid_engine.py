"""The profile cluster-generic on a real Grid Engine: the same bytes, also after kills."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from a_slurm import causes_in
from faulty_runs import bytes_of
from grid_engine import BIN, PROJECT, SHORT, grid_engine, kill, wait_until

SAMPLE = Path("results/phantom")
__all__ = ["grid_engine"]  # a fixture
pytest.importorskip(
    "snakemake_executor_plugin_cluster_generic", reason="unglow[cluster] is not here"
)
pytestmark = [pytest.mark.workflow, pytest.mark.timeout(3000)]


def call(directory, *words):
    path = {"PATH": f"{BIN}:{os.environ['PATH']}"}
    return subprocess.run(
        [str(word) for word in words], cwd=directory, env=os.environ | path, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def local(tmp_path_factory) -> Path:
    """A run of a small pair on this machine, to its end."""
    work = tmp_path_factory.mktemp("local")
    assert call(work, "unglow", "phantom", "--size", "700x900").returncode == 0
    done = call(work, "snakemake", "-s", PROJECT / "Snakefile", "--cores", "2", *SHORT)
    assert done.returncode == 0, done.stdout
    return work


@pytest.fixture
def work(tmp_path, local) -> Path:
    """A directory with the same pair, not yet run."""
    shutil.copytree(local / "raw", tmp_path / "raw")
    return tmp_path


def said(directory: Path) -> str:
    return (directory / "run.txt").read_text()


def test_a_job_that_lacks_memory_gets_more_and_the_bytes_are_the_same_as_here(
    grid_engine, work, local
):
    less = ("--set-resources", "align:mem_mb=175 if attempt == 1 else 560")
    assert grid_engine.run(work, *less).returncode == 0, said(work)
    assert bytes_of(work, SAMPLE) == bytes_of(local, SAMPLE)
    assert causes_in(work / "results") == {"align phantom SYTO9": "memory"}
    jobs = grid_engine.jobs(work)
    assert len(jobs) == 2
    assert all(name.startswith("unglow-") for name in jobs.values())
    logs = {path.name for path in (work / ".unglow" / "cluster").iterdir()}
    assert logs == {f"{name}.{number}.log" for number, name in jobs.items()}


def test_a_job_that_is_deleted_in_the_queue_is_tried_again(grid_engine, work, local):
    process = grid_engine.run(work, wait=False)
    first = wait_until(lambda: next(iter(grid_engine.jobs(work)), None))
    wait_until((work / "results" / "phantom" / "SYTO9" / "details/plan.json").exists)
    grid_engine.ask("qdel", first)
    assert process.wait(timeout=1500) == 0, said(work)
    names = list(grid_engine.jobs(work).values())
    assert names.count(names[0]) == 2
    assert bytes_of(work, SAMPLE) == bytes_of(local, SAMPLE)


def test_a_killed_run_is_resumed_without_two_writers(grid_engine, work, local):
    process = grid_engine.run(work, wait=False)
    first = wait_until(lambda: next(iter(grid_engine.jobs(work)), None))
    wait_until((work / "results" / "phantom" / "SYTO9" / "details/plan.json").exists)
    kill(process)
    assert grid_engine.states()[first] == "r"  # what it has submitted goes on
    done = subprocess.run(
        ["unglow", "resume", "--", "-s", str(PROJECT / "Snakefile"), "--cores", "2"],
        cwd=work, env=grid_engine.environment, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert f"cancelling sge jobs of the killed run: {first}" in done.stdout
    assert not grid_engine.states()
    assert bytes_of(work, SAMPLE) == bytes_of(local, SAMPLE)
