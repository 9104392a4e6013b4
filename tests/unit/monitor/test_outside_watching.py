"""A job of another workflow that stalls, leaves something behind, or is looked into."""

from __future__ import annotations

import json
import logging
import shlex
import subprocess
import sys
import time

import psutil
import pytest

from unglow.core.process import status_mb
from unglow.jobs import watchdog
from unglow.monitor.outside.recorder import INTERVAL_S, OutsideRecorder
from unglow.monitor.outside.watched import WatchedAttempt
from unglow.telemetry.recording import profiler

BUSY = "def turn():\n    while True: sum(range(10000))\nturn()"
HOLD = "import time; data = b'x' * 60_000_000; open('holds', 'w'); time.sleep(600)"
IDLE = "print(1, flush=True); import time; time.sleep({})"


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
            attempt.sample()
        started.extend(map(psutil.Process, filter(psutil.pid_exists, attempt.pids)))
        attempt.end({"outcome": "ok", "message": ""})
        return list(map(json.loads, file.read_text().splitlines()))

    yield watch
    for process in started:
        if process.is_running():
            process.kill()


def test_a_job_that_does_nothing_is_a_stall_until_it_continues(watched, monkeypatch):
    monkeypatch.setattr(watchdog, "STALL_S", 1.0)
    work = "import time\nwhile time.process_time() < 2: 1"
    lines = watched(f"sleep 3; {sys.executable} -c '{work}'", lambda job, _: job.poll() is not None)
    stalls = [line for line in lines if isinstance(line, dict) and line["kind"] == "stall"]
    assert [stall["over"] for stall in stalls[:2]] == [False, True]
    assert 2 < lines[-1]["stalled_seconds"] < 30


def test_a_job_that_works_is_no_stall(watched, monkeypatch):
    monkeypatch.setattr(watchdog, "STALL_S", 3.0)
    work = f"timeout 6 {sys.executable} -c '{BUSY}'; true"
    lines = watched(work, lambda job, _: job.poll() is not None)
    assert not [line for line in lines if isinstance(line, dict) and line["kind"] == "stall"]
    assert "stalled_seconds" not in lines[-1]


def test_a_process_that_outlives_its_job_is_counted(watched):
    leave = f'{sys.executable} -c "{HOLD}" & until [ -e holds ]; do sleep 0.1; done; sleep 1'
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


class Run:
    """A run whose jobs are all recorded."""

    run_id, outcome = "one", None

    def __init__(self, telemetry):
        self.telemetry = telemetry

    def is_recorded(self, output, log):
        return True

    def find_outcome(self):
        return "ok"

    def write(self, kind, **content):
        pass


class Jobs:
    """Jobs that are recorded while this process starts and waits for them, as Snakemake does."""

    def __init__(self, place):
        self.place, self.recorder = place, OutsideRecorder(Run(place))
        self.names, self.started = [], []

    def start(self, name, *words):
        child = subprocess.Popen(words, stdout=subprocess.PIPE)
        self.started += [psutil.Process(child.pid)]
        command = words[-1] if words[0] == "bash" else shlex.join(words)
        named = {"rule_name": name, "wildcards": {}, "shellcmd": command}
        files = {"input": [], "output": [str(self.place / name)], "log": []}
        job = {"jobid": len(self.names), "local": True, "threads": 1, "resources": {}}
        self.names.append(name)
        self.recorder.emit(logging.makeLogRecord({"event": "job_info", **job, **named, **files}))
        child.stdout.readline()
        deadline = time.monotonic() + 60
        while '"process"' not in self.file(name).read_text():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        return child

    def file(self, name):
        return self.place / "jobs" / name / "1.jsonl"

    def finish(self, name):
        done = {"event": "job_finished", "job_id": self.names.index(name)}
        self.recorder.emit(logging.makeLogRecord(done))

    def end_of(self, name):
        end = json.loads(self.file(name).read_text().splitlines()[-1])
        assert end["kind"] == "end"
        return end


@pytest.fixture
def jobs(tmp_path):
    made = Jobs(tmp_path)
    yield made
    made.recorder.close()
    for process in made.started:
        if process.is_running():
            process.kill()


def test_what_another_job_took_that_ends_at_the_same_moment_is_not_of_this_one(jobs):
    # more than this process ever took, which each child was at first
    largest = round(status_mb()["VmHWM"]) + 300
    children = []
    for name, mb in (("small", 20), ("large", largest)):
        code = f"import time; data = b'x' * {mb}_000_000; print(1, flush=True); time.sleep(600)"
        children.append(jobs.start(name, sys.executable, "-c", code))
    time.sleep(INTERVAL_S / 2)  # between two looks
    for child in children:
        child.kill()
        child.communicate()
    jobs.finish("small")
    jobs.finish("large")
    assert 20 < jobs.end_of("small")["peak_mb"] < 80


def test_what_a_job_wrote_that_a_process_outlives_is_not_of_the_next_one(jobs):
    last = jobs.start("last", sys.executable, "-c", IDLE.format(600))
    leaves = "head -c 50000000 /dev/zero > wrote; sleep 600 > /dev/null & echo"
    wait = "until [ -e go ]; do sleep 0.1; done"
    leaver = jobs.start("leaver", "bash", "-c", f"cd {jobs.place}; {leaves}; {wait}")
    jobs.started += psutil.Process(leaver.pid).children()
    time.sleep(4 * INTERVAL_S)
    (jobs.place / "go").touch()
    leaver.wait()
    jobs.finish("leaver")
    last.kill()
    last.wait()
    jobs.finish("last")
    assert jobs.end_of("leaver")["processes_left"] == 1
    assert jobs.end_of("leaver")["written"] == pytest.approx(50e6, rel=0.01)
    assert jobs.end_of("last")["written"] < 1e6


def test_what_a_profiler_took_is_of_no_job(jobs, monkeypatch):
    if profiler.program()[1]:
        pytest.skip(profiler.program()[1])
    last = jobs.start("last", sys.executable, "-c", IDLE.format(600))
    monkeypatch.setenv(profiler.VARIABLE, "profiled")
    jobs.start("profiled", sys.executable, "-c", IDLE.format(3)).wait()
    jobs.finish("profiled")
    last.kill()
    last.wait()
    jobs.finish("last")
    last_end, profiled_end = jobs.end_of("last"), jobs.end_of("profiled")
    for moved in ("read", "written"):
        assert last_end[moved] == pytest.approx(profiled_end[moved], abs=20_000)  # py-spy: 80_000
