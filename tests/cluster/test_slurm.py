"""Runs on a real Slurm with real memory limits, and nodes that are lost in the middle."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import time
from collections import Counter
from contextlib import suppress

import psutil
import pytest
from a_slurm import FIRST, SAMPLES, SHORT, assert_registered_as_in, bytes_of, causes_in
from real_runs import runs_of

from unglow.core.printable import PREFLIGHT

pytestmark = pytest.mark.workflow

#: The first attempt at ingesting Rock1 has less memory than Snakemake itself takes on a node; the
#: first attempt at aligning Rock2 has less than its libraries take.
STARVED = (
    *("--groups", "ingest=ingesting"),
    "--set-resources",
    "ingest:mem_mb=120 if wildcards.sample == 'Rock1' and attempt == 1 else 500",
    "align:mem_mb=320 if wildcards.sample == 'Rock2' and attempt == 1 else 700",
)


@pytest.mark.timeout(3000)
def test_lack_of_memory_and_a_lost_node_are_reported_and_fixed(slurm, work, three_raw) -> None:
    with slurm.started(work, *slurm.snakemake(*STARVED, *SHORT)) as run:
        record = work / "results/telemetry/Rock3/SYTO9/register"
        slurm.wait_for(record.is_dir, 600)
        jobs = slurm.running()
        node = next(node for node, comment in jobs.values() if "Rock3" in comment)
        slurm.kill_node(node)
        assert run.wait(1500) == 0, (work / "output.txt").read_text()
    slurm.up()
    causes = causes_in(work / "results")
    assert causes["ingest Rock1 SYTO9"] == "oom_killed"
    assert causes["align Rock2 SYTO9"] == "memory"
    lost = [title for title, cause in causes.items() if cause == "node_lost"]
    assert lost
    assert all("Rock3" in title for title in lost)
    assert bytes_of(work / "results") == bytes_of(three_raw / "results")


@pytest.mark.timeout(3000)
def test_resume_after_snakemake_was_killed_ends_its_jobs_first(slurm, work, three_raw) -> None:
    with slurm.started(work, *slurm.snakemake(*FIRST)) as run:
        record = work / "results/telemetry/Rock2/SYTO9/ingest"
        slurm.wait_for(record.is_dir, 600)
        orphans = set(slurm.running())
        os.kill(run.pid, signal.SIGKILL)
        run.wait(600)
    assert orphans
    code, text = slurm.command(work, "unglow", "resume", timeout=1500)
    assert code == 0, text
    states = slurm.ask("sacct", "-X", "-n", "-P", "-j", ",".join(orphans), "-o", "State")
    assert {words[0] for words in states} == {"CANCELLED"}
    assert_registered_as_in(three_raw / "results", work / "results", SAMPLES)


@pytest.mark.timeout(3000)
def test_jobs_get_on_nodes_what_preflight_says(slurm, work) -> None:
    for sample in SAMPLES[1:]:
        shutil.rmtree(work / "raw" / sample)
    asks = slurm.snakemake(*SHORT, "-n", "--logger=unglow")
    line = f"{PREFLIGHT}=json {shlex.join(map(str, asks))} 2> /dev/null"
    said = json.loads(slurm.command(work, "bash", "-c", line)[1])
    known = {job for job, _ in slurm.ask("sacct", "-X", "-n", "-o", "JobID,ReqMem")}
    own = []
    with slurm.started(work, *slurm.snakemake(*SHORT)) as run:
        waits = psutil.Process(run.pid)
        while run.poll() is None:
            with suppress(psutil.Error):  # it has just ended
                own.append(waits.memory_full_info().uss)  # without pages of libraries
            time.sleep(0.5)
    assert run.returncode == 0, (work / "output.txt").read_text()
    assert 60e6 < max(own) < 220e6
    lines = map(json.loads, runs_of(work / "results")[-1].read_text().splitlines())
    jobs = {one["jobid"]: one for one in lines if one["kind"] == "job"}.values()
    assert Counter((job["rule"], job["resources"]["mem_mb"]) for job in jobs) == Counter(
        (job["rule"], job["mem_mb"]) for job in said["planned"]
    )
    asked = dict(slurm.ask("sacct", "-X", "-n", "-o", "JobID,ReqMem"))
    largest = max(job["mem_mb"] for job in said["planned"])  # a small pair is one job of Slurm
    assert [mb for job, mb in asked.items() if job not in known] == [f"{largest}M"]
