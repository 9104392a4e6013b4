"""A job of another workflow that stalls, leaves something behind, or is looked into."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import psutil
import pytest

from unglow.jobs import watchdog
from unglow.jobs.outside.watched import WatchedAttempt
from unglow.telemetry.recording import profiler

BUSY = "def turn():\n    while True: sum(range(10000))\nturn()"
HOLD = "import time; data = b'x' * 60_000_000; time.sleep(600)"


@pytest.fixture
def watched(tmp_path):
    """Start a shell as a job does, watch it until something is so, and return its lines."""
    started = []

    def watch(command, is_enough):
        job = subprocess.Popen(["bash", "-c", command], cwd=tmp_path)
        started.append(psutil.Process(job.pid))
        attempt = WatchedAttempt(tmp_path, "rule", {})
        attempt.add_process(job.pid)
        file = next(tmp_path.rglob("1.jsonl"))
        deadline = time.monotonic() + 60
        while not is_enough(job, file):
            assert time.monotonic() < deadline, file.read_text()
            time.sleep(0.1)
            attempt.look()
        started.extend(map(psutil.Process, filter(psutil.pid_exists, attempt.pids)))
        attempt.end({"outcome": "ok", "message": ""})
        return list(map(json.loads, file.read_text().splitlines()))

    yield watch
    for process in started:
        if process.is_running():
            process.kill()


def test_a_job_that_does_nothing_is_a_stall_until_it_continues(watched, monkeypatch):
    monkeypatch.setattr(watchdog, "STALL_S", 1.0)
    go_on = (
        f"sleep 3; {sys.executable} -c 'import time; t = time.time() + 2\nwhile time.time() < t: 1'"
    )
    lines = watched(go_on, lambda job, _: job.poll() is not None)
    first, second = (line for line in lines if isinstance(line, dict) and line["kind"] == "stall")
    assert (first["over"], second["over"]) == (False, True)
    assert 2 < lines[-1]["stalled_seconds"] < 10


def test_a_job_that_works_is_no_stall(watched, monkeypatch):
    monkeypatch.setattr(watchdog, "STALL_S", 1.0)
    work = f"timeout 3 {sys.executable} -c '{BUSY}'; true"
    lines = watched(work, lambda job, _: job.poll() is not None)
    assert not [line for line in lines if isinstance(line, dict) and line["kind"] == "stall"]
    assert "stalled_seconds" not in lines[-1]


def test_a_process_that_outlives_its_job_is_counted(watched):
    leave = f'{sys.executable} -c "{HOLD}" & sleep 2'
    lines = watched(leave, lambda job, _: job.poll() is not None)
    assert lines[-1]["processes_left"] == 1
    assert 60 < lines[-1]["processes_left_mb"] < 120


def test_its_python_is_profiled_below_its_shell(watched, monkeypatch, tmp_path):
    if profiler.program()[1]:
        pytest.skip(profiler.program()[1])
    monkeypatch.setenv(profiler.VARIABLE, "rule")
    work = f"timeout 3 {sys.executable} -c '{BUSY}'; true"
    watched(work, lambda job, _: job.poll() is not None)
    stacks = next(tmp_path.rglob("*speedscope*")).read_text()
    assert '"turn"' in stacks
