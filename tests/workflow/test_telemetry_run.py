"""Telemetry of real runs: which calls write a file, and what is in it however the run ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from itertools import groupby
from pathlib import Path

import pytest
from real_runs import (
    BIN,
    PROJECT,
    TABLES,
    attempts_of,
    but_figures,
    bytes_of,
    command,
    records_of,
    runs_of,
    snakemake,
)

from unglow.pages.report.report import read_model
from unglow.telemetry.reading.history import History

pytestmark = pytest.mark.workflow
NO_CLUSTER = "no executor for clusters here: pip install 'unglow[cluster]'"
PLAN = "results/phantom/SYTO9/details/plan.json"
ONE_JOB = (PLAN, "--force", "--allowed-rules", "ingest")
# A job that takes for ever where it would set its memory limit.
SLOW = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
import os, sys, time
if ".snakemake/scripts" in sys.orig_argv[-1]:
    import unglow.jobs.memory_limit
    unglow.jobs.memory_limit.set_limit = lambda *_: time.sleep(1200)
"""


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def of_kind(lines, kind):
    return [line for line in lines if isinstance(line, dict) and line["kind"] == kind]


def until(seen, seconds=900.0):
    deadline = time.monotonic() + seconds
    while not (found := seen()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


@pytest.fixture
def slow(small_work, tmp_path):
    """A run whose only job is at work; a way to start it, since each test ends it differently."""
    patch = tmp_path / "patch"
    patch.mkdir()
    (patch / "sitecustomize.py").write_text(SLOW)
    before = set(attempts_of(small_work / "results"))
    path = os.pathsep.join(filter(None, (str(patch), os.environ.get("PYTHONPATH"))))
    run = subprocess.Popen(
        [BIN / "snakemake", "-s", PROJECT / "Snakefile", "--cores", "2", *ONE_JOB],
        cwd=small_work,
        env=os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}", "PYTHONPATH": path},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def samples():
        new = set(attempts_of(small_work / "results")) - before
        lines = [line for path in new for line in path.read_text().splitlines()]
        return new if sum(line.startswith("[") for line in lines) >= 3 else None

    (attempt,) = until(samples)
    yield small_work, run, attempt
    if run.poll() is None:
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()


def test_a_run_records_all_of_its_jobs_and_each_is_joined_to_its_attempt(small_finished):
    (path,) = runs_of(small_finished / "results")
    lines = read(path)
    head, end = lines[0], lines[-1]
    assert (head["kind"], end["kind"], end["outcome"]) == ("run", "end", "ok")
    assert head["pairs"] == [["phantom", "SYTO9"]]
    assert head["command"][0] == "snakemake"
    assert Path(head["directory"]).samefile(small_finished)
    assert Path(head["workflow"]).samefile(PROJECT)
    assert (head["results"], head["cores"], head["executor"]) == ("results", 2, "local")
    assert head["resources"]["mem_mb"] > 0
    assert head["config"]["memory_per_job"] == 2000
    assert {"numpy", "opencv-python-headless", "zarr"} <= head["packages"].keys()
    (total,) = of_kind(lines, "total")
    jobs = of_kind(lines, "job")
    assert len(jobs) == sum(total["jobs"].values())
    assert len({job["jobid"] for job in jobs}) == len(jobs)
    for state in ("started", "finished"):
        reported = [line["jobid"] for line in of_kind(lines, "state") if line["state"] == state]
        assert sorted(reported) == sorted(job["jobid"] for job in jobs)

    results = small_finished / "results"
    records = {str(path.relative_to(small_finished)) for path in records_of(results)}
    said = {log for job in jobs for log in job["log"] if log.endswith(".jsonl")}
    assert said == records
    attempts = attempts_of(results)
    assert {f"{path.parent.relative_to(small_finished)}.jsonl" for path in attempts} == records
    assert len(attempts) == len(records) == len(jobs)
    assert {read(path)[0]["run"] for path in attempts} == {path.stem}


def test_quiet_runs_that_follow_each_other_at_once_keep_their_jobs(small_work):
    """With --quiet Snakemake does not say that jobs have finished."""
    results = small_work / "results"
    before = runs_of(results)
    for _ in range(2):
        run = snakemake(small_work, *ONE_JOB, "--quiet")
        assert run.code == 0, run.text
        assert "results/report.html: open it in a browser." in run.text
    own = [path for path in runs_of(results) if path not in before]
    assert len(own) == 2
    shown = {one["id"]: one for one in read_model(results)["runs"]}
    assert [(shown[path.stem]["done"], shown[path.stem]["of"]) for path in own] == [(1, 1)] * 2
    heads = [read(path)[0] for path in attempts_of(results)[-2:]]
    assert [(head["rule"], head["run"]) for head in heads] == [("ingest", p.stem) for p in own]
    joined = {h.run.id: len(h.attempts) for h in History.read(results).runs}
    assert [joined[path.stem] for path in own] == [1, 1]


SUBMIT = """#!/bin/sh
env -i PATH="$PATH" HOME="$HOME" sh "$1" > job.log 2>&1 &
echo $!
"""


def test_jobs_of_a_batch_system_that_exports_nothing_know_their_run(small_work):
    pytest.importorskip("snakemake_executor_plugin_cluster_generic", reason=NO_CLUSTER)
    submit = small_work / "submit.sh"
    submit.write_text(SUBMIT)
    submit.chmod(0o755)
    words = ("--workflow-profile", "none", "--jobs", "1", "--executor", "cluster-generic")
    run = snakemake(small_work, *ONE_JOB, *words, "--cluster-generic-submit-cmd", submit)
    assert run.code == 0, run.text
    head = read(attempts_of(small_work / "results")[-1])[0]
    assert (head["rule"], head["run"]) == ("ingest", runs_of(small_work / "results")[-1].stem)


def test_every_attempt_records_its_memory_and_its_steps(small_finished):
    steps = {}
    for path in attempts_of(small_finished / "results"):
        lines = read(path)
        head, end = lines[0], lines[-1]
        record = json.loads(path.parent.with_name(f"{path.parent.name}.jsonl").read_text())
        assert end["outcome"] == "ok"
        assert end["peak_mb"] == pytest.approx(record["peak_mb"], abs=0.06)
        peaks = [
            line[lines[0]["columns"].index("peak")] for line in lines if isinstance(line, list)
        ]
        assert max(peaks) <= end["peak_mb"] + 0.01 <= head["declared_mb"]
        started = [line["name"] for line in of_kind(lines, "step") if line["edge"] == "begin"]
        assert started[0] == "libraries"
        ends = {line["id"] for line in of_kind(lines, "step") if line["edge"] == "end"}
        assert len(ends) == len(started)
        steps[head["rule"]] = set(started)
    assert {"copy", "pyramid", "publish"} <= steps["ingest"]
    assert {"thumbnails", "search", "match", "judge"} <= steps["register"]
    assert "warp" in steps["align"]
    assert "subtract" in steps["difference"]
    assert {"search", "completeness", "write"} <= steps["detect"]
    assert "draw and save" in steps["figures"]


def test_jobs_record_threads_disks_and_the_images_that_they_moved(small_finished):
    ends, runnable = {}, []
    for path in attempts_of(small_finished / "results"):
        lines = read(path)
        ends[path.parent.name] = lines[-1]
        columns = lines[0]["columns"]
        samples = [dict(zip(columns, s, strict=True)) for s in lines if isinstance(s, list)]
        alive = [s for s in samples if s["rss"]]
        assert all(s["rss"] >= s["file"] + s["shmem"] - 1 for s in alive)
        runnable += [s["runnable"] for s in samples]  # none of a job of less than half a second
        assert lines[-1]["available_before_mb"] > 0
        assert "processes_left" not in lines[-1]
        assert lines[-1]["disk_read"] >= 0
    assert any(runnable)
    assert ends["register"]["opencv_threads"] == 1
    ingest = next(end for name, end in ends.items() if name.startswith("ingest"))
    by_name = {Path(one["path"]).name: one for one in ingest["transfers"]}
    raw = next(one for name, one in by_name.items() if name.endswith((".tif", ".tiff")))
    store = next(one for name, one in by_name.items() if name.endswith(".ome.zarr"))
    assert raw["decoded"] > raw["read"] > 0
    assert raw["written"] == 0
    assert store["encoded"] > store["written"] > 0
    assert 0 <= raw["first"] <= raw["last"] <= ingest["t"]
    assert raw["kind"]


def test_a_second_run_adds_files_and_touches_none(small_work):
    results = small_work / "results"
    old = [*runs_of(results), *attempts_of(results)]
    kept = {path: path.read_bytes() for path in old}
    assert snakemake(small_work, *ONE_JOB).code == 0
    assert {path: path.read_bytes() for path in old} == kept
    (run,) = set(runs_of(results)) - set(old)
    (attempt,) = set(attempts_of(results)) - set(old)
    assert of_kind(read(run), "total")[0]["jobs"] == {"ingest": 1}
    assert read(attempt)[-1]["outcome"] == "ok"


def test_a_job_that_fails_is_recorded_with_every_attempt(small_work):
    results = small_work / "results"
    old = {*runs_of(results), *attempts_of(results)}
    little = ("--set-resources", "ingest:mem_mb=30", "--config", "force_run=True")
    assert snakemake(small_work, *ONE_JOB, *little).code == 1
    lines = read(*(set(runs_of(results)) - old))
    assert lines[-1]["outcome"] == "failed"
    (jobid,) = {job["jobid"] for job in of_kind(lines, "job")}
    states = [line["state"] for line in lines if line.get("jobid") == jobid]
    states = [state for state, _ in groupby(states)]  # Snakemake 9.17 reports the last one twice
    assert states == ["queued", "started", "failed"] * 2
    assert [job["resources"]["attempt"] for job in of_kind(lines, "job")] == [1, 2]
    assert "A job failed; its error is above" in of_kind(lines, "message")[-1]["text"]
    first, second = (read(path) for path in attempts_of(results) if path not in old)
    assert (first[0]["attempt"], second[0]["attempt"]) == (1, 2)
    assert (first[-1]["outcome"], second[-1]["outcome"]) == ("memory", "memory")
    assert second[-1]["repeated"]
    # a command that can be copied: the one that was typed, with more memory
    needed = f"ingest:mem_mb={first[-1]['needed_mb']}"
    assert first[-1]["remedy"].startswith(f"snakemake -s {PROJECT / 'Snakefile'} --cores 2 {PLAN}")
    assert "ingest:mem_mb=30" not in first[-1]["remedy"]
    assert needed in first[-1]["remedy"]


def test_a_run_is_stopped_from_another_terminal(slow):
    work, run, attempt = slow
    stopped = command(work, "unglow", "stop", "--now")
    assert stopped.code == 0, stopped.text
    assert "`unglow resume` continues" in stopped.text
    assert run.wait(600) == 1
    assert read(runs_of(work / "results")[-1])[-1]["outcome"] == "interrupted"
    assert read(attempt)[-1]["outcome"] in ("interrupted", "killed")


def test_a_record_of_the_run_that_cannot_be_written_changes_no_result(small_finished, tmp_path):
    (tmp_path / "raw").symlink_to(small_finished / "raw")
    place = tmp_path / "results" / "telemetry"
    (place / "phantom" / "SYTO9").mkdir(parents=True)
    (place / "runs").write_text("a file in the way")
    run = snakemake(tmp_path, *TABLES)
    assert run.code == 0, run.text
    assert run.text.count("telemetry is lost") == 1
    assert bytes_of(tmp_path / "results") == but_figures(bytes_of(small_finished / "results"))
    (place / "phantom" / "SYTO9" / "detect").rename(place / "moved")
    (place / "phantom" / "SYTO9" / "detect").write_text("a file in the way")
    run = snakemake(tmp_path, *TABLES, "--forcerun", "detect")
    assert run.code == 1
    assert "SYTO9/detect could not be written" in run.text
