"""Slurm itself in trouble: its daemons, its limits of time, and nodes that go on without it."""

from __future__ import annotations

import os
import signal
import time

import pytest
from a_slurm import FIRST, SAMPLES, assert_registered_as_in, causes_in, words_of

pytestmark = pytest.mark.workflow


def job_of(slurm, sample: str) -> tuple[str, str] | None:
    """Return number and node of the job that a sample's pair is in; None if none runs."""
    jobs = slurm.running().items()
    return next(((job, node) for job, (node, name) in jobs if sample in name), None)


def at_work(slurm, results, known) -> tuple[str, str, str] | None:
    """Return sample, number and node of a job that ingests one of two pairs, no known one."""
    for sample in {"Rock1", "Rock2"} - set(known):
        started = (results / f"telemetry/{sample}/SYTO9/ingest").is_dir()
        if started and (found := job_of(slurm, sample)):
            return sample, *found
    return None


@pytest.mark.timeout(3000)
def test_time_over_preemption_and_a_controller_that_is_gone(slurm, work, three_raw) -> None:
    results = work / "results"
    with slurm.started(work, *slurm.snakemake(*FIRST)) as run:
        jobs = {}
        while len(jobs) < 2:  # whichever is first, is held until the other is there as well
            sample, job, node = slurm.wait_for(lambda: at_work(slurm, results, jobs))
            jobs[sample] = job, node
            for pid in slurm.processes(node, job):
                os.kill(pid, signal.SIGSTOP)
        frozen, _ = jobs["Rock1"]
        _, node = jobs["Rock2"]  # Slurm wakes what it ends
        taken = ("--partition=urgent", f"--nodelist={node}", "--mem=2500", "--account=test")
        slurm.ask("sbatch", *taken, "--output=/dev/null", "--wrap=sleep 5")
        slurm.wait_for(lambda: (job_of(slurm, "Rock2") or ("", ""))[1] != node)
        slurm.kill_daemon("slurmctld")
        time.sleep(8)
        slurm.up()
        slurm.ask("scontrol", "update", f"jobid={frozen}", "timelimit=1")
        assert run.wait(1500) == 0, (work / "output.txt").read_text()
    causes = causes_in(results)
    assert any("Rock1" in title for title, cause in causes.items() if cause == "timeout"), causes
    assert any("Rock2" in title for title, cause in causes.items() if cause == "killed"), causes
    assert_registered_as_in(three_raw / "results", results, SAMPLES)


@pytest.mark.timeout(3000)
def test_jobs_of_a_lost_node_go_on_and_publish_nothing(slurm, work, three_raw) -> None:
    results = work / "results"
    with slurm.started(work, *slurm.snakemake(*FIRST)) as run:
        slurm.wait_for((results / "telemetry/Rock3/SYTO9/ingest").is_dir, 600)
        job, node = slurm.wait_for(lambda: job_of(slurm, "Rock3"))
        left = [pid for pid in slurm.processes(node, job) if "scripts" in words_of(pid)]
        slurm.kill_node(node, "--daemon-only")
        slurm.kill_daemon("slurmdbd")
        assert run.wait(1500) == 0, (work / "output.txt").read_text()
    assert left
    slurm.wait_for(lambda: not any(words_of(pid) for pid in left), 600)
    slurm.up()
    causes = causes_in(results)
    assert any("Rock3" in title for title, cause in causes.items() if cause == "node_lost"), causes
    assert_registered_as_in(three_raw / "results", results, SAMPLES)
    code, text = slurm.command(work, "unglow", "verify")
    assert code == 0, text
