"""Jobs in memory control groups: the kernel agrees with what was declared."""

from __future__ import annotations

import re
import shutil

import pytest
import running
from control_groups import joined
from real_runs import BIN, PROJECT, command

pytestmark = pytest.mark.workflow
SNAKEFILE = ("-s", PROJECT / "Snakefile", "--cores", "2")
RUN = ("snakemake", *SNAKEFILE, "--config", "scale={methods: [moffat]}")


@pytest.fixture
def work(small_raw, tmp_path):
    (tmp_path / "raw").symlink_to(small_raw)
    return tmp_path


@pytest.fixture(scope="module")
def run_inside(groups, small_raw, tmp_path_factory):
    """A working directory in which every job has run in a group of 1.2 x declared, and records."""
    work = tmp_path_factory.mktemp("groups")
    (work / "raw").symlink_to(small_raw)
    status, text = running.run(*RUN, directory=work, environment=groups.environment(1.2))
    assert status == 0, text
    found = running.read_telemetry(work / "results" / "telemetry")
    return work, joined(found, groups.collect())  # raises for a job outside


def test_every_job_gets_through_with_little_more_than_was_declared(run_inside):
    _, records = run_inside
    assert len(records) == 9
    for job in records:
        assert job["limit_mb"] == pytest.approx(1.2 * job["declared_mb"], abs=1e-3)
        assert job["outcome"] == "ok", job
        assert job["kills"] == 0, job
        # the kernel has counted this job and no other: libraries in the cache are not in it
        assert 10 < job["group_mb"] <= job["limit_mb"], job


def test_a_job_that_the_kernel_kills_is_reported_in_a_sentence_and_runs_later(groups, run_inside):
    work, _ = run_inside
    store = "results/phantom/SYTO9/post.ome.zarr/zarr.json"
    before = (work / store).read_bytes()
    shutil.rmtree((work / store).parent)
    words = ("snakemake", store, "--allowed-rules", "ingest", "--retries", "0", *RUN[1:])
    status, text = running.run(*words, directory=work, environment=groups.environment(0.4))
    uses = groups.collect()
    assert status == 1, text
    assert sum(use["kills"] for use in uses.values()) >= 1
    (sentence,) = re.findall(r"^ingest \(phantom, SYTO9\): .*", text, re.MULTILINE)
    assert "killed by the system because the machine ran out of memory" in sentence
    assert re.search(r"had taken \d+ MB of \d+ declared", sentence)
    (record,) = (
        r for r in running.read_telemetry(work / "results" / "telemetry") if r["rule"] == "ingest"
    )
    assert record["outcome"] == "oom_killed"
    assert not (work / store).exists()
    assert running.run(*words, directory=work)[0] == 0
    assert (work / store).read_bytes() == before


@pytest.mark.parametrize("program", ["snakemake", "unglow"])
def test_preflight_sees_the_memory_of_the_group_and_not_of_the_machine(groups, work, program):
    group = groups.group(f"small-{program}", 900)
    words = {
        "snakemake": (BIN / "snakemake", *SNAKEFILE, "-n", "--resources", "mem_mb=4000"),
        "unglow": (BIN / "unglow", "preflight", "--cores", "2", "--resources", "mem_mb=4000"),
    }
    done = command(work, *groups.inside(group, *words[program]))
    found = re.search(r"(\d+\.\d+) GB available", " ".join(done.text.split()))
    assert found is not None, done.text
    # the program itself is in the group as well
    assert 0.6 < float(found[1]) < 0.9, done.text


def test_the_default_limit_for_all_jobs_is_a_share_of_the_group(groups, work):
    group = groups.group("large", 2000)
    done = command(work, *groups.inside(group, BIN / "snakemake", *SNAKEFILE, "-n"))
    assert done.code == 0, done.text
    assert "1.20 GB are allowed" in " ".join(done.text.split())
