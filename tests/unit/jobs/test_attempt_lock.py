"""The attempt lock: whoever began last publishes, whatever the order of events; others do not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from running_jobs import wait_for

from unglow.core import files
from unglow.core.errors import SupersededError, UnglowError
from unglow.core.files import write_text
from unglow.core.windows import Window
from unglow.images.zarr import StoreWriter, open_store, plan_layout
from unglow.jobs.attempt_lock import AttemptLock, discard, temporaries
from unglow.jobs.launcher import VARIABLE, ParentProcess


@pytest.fixture(autouse=True)
def unguarded():
    yield
    files.guard_publishing(None)


def store_writer(path):
    layout = plan_layout((40, 50), "uint8")
    return StoreWriter(path, layout, name="x", pixel_size_um=None, attributes={}, workers=1)


def fill(writer, value):
    for window in writer.windows():
        writer.write(window, np.full(window.shape, value, np.uint8))


def value_of(path):
    return int(open_store(path).read(Window(0, 1, 0, 1))[0, 0])


def test_only_the_last_to_take_a_number_may_publish(tmp_path):
    first = AttemptLock.acquire(tmp_path / "job", ())
    first.check()
    second = AttemptLock.acquire(tmp_path / "job", ())
    assert (first.number, second.number) == (1, 2)
    assert second.file == tmp_path / "job" / "2.jsonl"
    second.check()
    assert first.superseded
    with pytest.raises(SupersededError, match="another attempt at this job has started"):
        first.check()
    assert not AttemptLock(tmp_path / "none", 1).superseded  # somebody has removed it


def test_the_last_to_begin_publishes_where_directories_list_what_was_there_before(
    tmp_path, monkeypatch
):
    """A network file system may keep the list of a directory for a minute."""
    listed, listdir = {}, os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: listed.setdefault(path, listdir(path)))
    locks = [AttemptLock.acquire(tmp_path / "job", ()) for _ in range(4)]
    assert listed == {tmp_path / "job": []}
    assert [lock.number for lock in locks] == [1, 2, 3, 4]
    assert [lock.superseded for lock in locks] == [True, True, True, False]


def test_many_at_once_get_a_number_each_and_one_is_last(tmp_path):
    starts = threading.Barrier(8)

    def take(_):
        starts.wait()
        return AttemptLock.acquire(tmp_path, ())

    with ThreadPoolExecutor(8) as pool:
        locks = list(pool.map(take, range(8)))
    assert {lock.number for lock in locks} == set(range(1, 9))
    assert sum(not lock.superseded for lock in locks) == 1


def test_a_file_finished_late_is_not_published(tmp_path):
    target = tmp_path / "transform.json"
    late = AttemptLock.acquire(tmp_path / "job", [target])
    write_text(target, "of the later attempt")
    AttemptLock.acquire(tmp_path / "job", [target])
    files.guard_publishing(late.check)
    with pytest.raises(SupersededError):
        write_text(target, "of the earlier one")
    assert target.read_text() == "of the later attempt"
    assert not list(temporaries(target))


def test_a_store_finished_late_is_not_published(tmp_path):
    path = tmp_path / "post.ome.zarr"
    late = AttemptLock.acquire(tmp_path / "job", [path / "zarr.json"])
    with store_writer(path) as writer:
        fill(writer, 1)
        AttemptLock.acquire(tmp_path / "job", ())  # it does not know of what the other has written
        with store_writer(path) as newer:
            fill(newer, 2)
            newer.publish()
        files.guard_publishing(late.check)
        with pytest.raises(SupersededError):
            writer.publish()
    assert value_of(path) == 2
    assert not list(temporaries(path))


def test_an_earlier_attempt_that_has_asked_already_still_publishes_nothing(tmp_path, monkeypatch):
    path = tmp_path / "post.ome.zarr"
    late = AttemptLock.acquire(tmp_path / "job", [path / "zarr.json"])
    looked = []

    def ask():
        if not looked:  # it may publish, and then the later attempt begins, works and publishes
            looked.append(True)
            AttemptLock.acquire(tmp_path / "job", [path / "zarr.json"])
            monkeypatch.setattr(files, "_guard", None)
            with store_writer(path) as newer:
                fill(newer, 2)
                newer.publish()
            files.guard_publishing(ask)
        else:
            late.check()

    files.guard_publishing(ask)
    with store_writer(path) as writer:
        fill(writer, 1)
        with pytest.raises(UnglowError):  # what it has written is removed
            writer.publish()
    assert value_of(path) == 2
    assert not list(temporaries(path))


def test_what_an_attempt_left_behind_is_removed_by_the_next(tmp_path):
    target, path = tmp_path / "a [1].csv", tmp_path / "post.ome.zarr"
    other = tmp_path / ".other.csv.123.partial"
    for left in (f".{target.name}.x1.partial", ".post.ome.zarr.ab.old", other.name):
        (tmp_path / left).write_text("")
    (tmp_path / ".post.ome.zarr.cd.partial" / "0").mkdir(parents=True)
    AttemptLock.acquire(tmp_path / "job", [target, path / "zarr.json"])
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([other.name, "job"])


def test_a_link_is_removed_and_not_what_it_leads_to(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "x").touch()
    (tmp_path / "link").symlink_to("kept")
    discard(tmp_path / "link")
    discard(tmp_path / "absent")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["kept", "x"]


def test_where_no_number_can_be_taken_nothing_runs(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / ".a.csv.1.partial").touch()
    with pytest.raises(UnglowError, match=r"could not be written .*file away, then run again"):
        AttemptLock.acquire(tmp_path / "file" / "job", [tmp_path / "a.csv"])
    assert (tmp_path / ".a.csv.1.partial").exists()


JOB = """
import sys, time
from pathlib import Path
from types import SimpleNamespace
from unglow.jobs.context import Job
class Log(list): pass
log = Log([f"logs/{sys.argv[1]}.log"]); log.telemetry = "telemetry/align.jsonl"
snakemake = SimpleNamespace(
    rule="align", threads=1, wildcards={"sample": "A"}, log=log, output=["out.txt"],
    resources=SimpleNamespace(mem_mb=200, runtime=5, attempt=1))
with Job.from_script(snakemake) as job:
    from unglow.core.files import write_text
    Path(f"{sys.argv[1]}.works").touch()
    while not Path(f"{sys.argv[1]}.go").exists():
        time.sleep(0.02)
    write_text(Path("out.txt"), sys.argv[1])
"""


def start(tmp_path, name, *, shell=False, **environment):
    words = [sys.executable, "-c", JOB, name]
    if shell:  # as Snakemake does: a shell in between, that waits for the script
        words = ["bash", "-c", 'set -e; "$@"; exit $?', "bash", *words]
    return subprocess.Popen(
        words, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=os.environ | environment
    )


def ends_of(tmp_path):
    import json

    lines = [
        json.loads(line)
        for path in (tmp_path / "telemetry" / "align").glob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    return [one for one in lines if isinstance(one, dict) and one["kind"] == "end"]


def test_a_job_that_a_later_attempt_follows_ends_superseded(tmp_path):
    late = start(tmp_path, "late")
    wait_for((tmp_path / "late.works").exists)
    newer = start(tmp_path, "newer")
    wait_for((tmp_path / "newer.works").exists)
    (tmp_path / "newer.go").touch()
    assert newer.wait(300) == 0
    record = (tmp_path / "telemetry/align.jsonl").read_text()
    (tmp_path / "late.go").touch()
    _, said = late.communicate(timeout=300)
    assert late.returncode == 1
    assert said.startswith("align (A): another attempt at this job has started meanwhile")
    assert (tmp_path / "out.txt").read_text() == "newer"
    assert (tmp_path / "telemetry/align.jsonl").read_text() == record
    assert sorted(end["outcome"] for end in ends_of(tmp_path)) == ["ok", "superseded"]
    assert not list(temporaries(tmp_path / "out.txt"))


def test_a_job_ends_when_its_shell_was_killed(tmp_path):
    shell = start(tmp_path, "x", shell=True)
    wait_for((tmp_path / "x.works").exists)
    shell.kill()
    shell.wait(300)
    wait_for(lambda: ends_of(tmp_path))
    (end,) = ends_of(tmp_path)
    assert end["outcome"] == "killed"
    assert "the process that started it is gone" in end["message"]
    assert end["remedy"] == "unglow resume"
    (tmp_path / "x.go").touch()
    time.sleep(0.2)
    assert not (tmp_path / "out.txt").exists()


def test_a_job_ends_when_its_snakemake_was_killed(tmp_path, monkeypatch):
    code = "import time; from unglow.jobs.launcher import announce; announce(in_job=False);"
    code += f"import os; print(os.environ['{VARIABLE}'], flush=True); time.sleep(600)"
    snakemake = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    job = start(tmp_path, "x", **{VARIABLE: snakemake.stdout.readline().strip()})
    wait_for((tmp_path / "x.works").exists)
    snakemake.kill()
    snakemake.wait(300)
    assert job.wait(300) == 1
    assert "unglow resume" in job.stderr.read()
    assert [end["outcome"] for end in ends_of(tmp_path)] == ["killed"]


def test_a_launcher_that_cannot_be_seen_is_not_missed(monkeypatch):
    monkeypatch.setenv(VARIABLE, "1 2 another-boot main")
    assert ParentProcess.find() == ParentProcess(os.getppid())
    monkeypatch.setenv(VARIABLE, "nonsense")
    assert not ParentProcess.find().is_gone()


def test_the_snakemake_inside_a_cluster_job_is_ended_and_no_other(tmp_path, monkeypatch):
    calls = tmp_path / "calls"
    scancel = tmp_path / "scancel"
    scancel.write_text(f'#!/bin/sh\necho "$@" >> {calls}\n')
    scancel.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    process = subprocess.Popen(["sleep", "600"])
    try:
        from unglow.core.process import read_start_ticks

        ticks = read_start_ticks(process.pid)
        ParentProcess(os.getppid(), process.pid, ticks, in_job=False).end_in_job()
        assert not calls.exists()
        assert process.poll() is None
        ParentProcess(os.getppid(), process.pid, ticks, in_job=True).end_in_job()
        assert calls.read_text() == "--full --signal=KILL 17\n"
        assert process.wait(300) == -signal.SIGKILL
    finally:
        process.kill()
