"""py-spy: what becomes of its lines, and what it does to a real process."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from unglow.jobs import watchdog
from unglow.telemetry.recording import profiler
from unglow.telemetry.recording.attempt import Attempt, Sample
from unglow.telemetry.speedscope import SUFFIX, Frame, Profile, read_profile


def event(edge, ms, name, thread=1):
    args = {"filename": "/a/my (own) f.py", "line": 20}
    return {"args": args, "name": name, "ph": edge, "pid": 7, "tid": thread, "ts": 1000 * ms}


def test_a_trace_of_py_spy_becomes_seconds_of_stacks_and_when():
    events = [
        *(event("B", 100, "main"), event("B", 100, "fit"), event("B", 150, "spin", thread=2)),
        *(event("E", 190, "fit"), event("E", 200, "main"), event("E", 160, "spin", thread=2)),
    ]
    profile = Profile()
    profiler.add_trace(profile, json.dumps(events).encode(), 10.0)
    names = {tuple(f.name for f in stack): stack for stack in profile.times}
    assert profile.seconds == pytest.approx(
        {names["main", "fit"]: 0.09, names["main",]: 0.01, names["spin",]: 0.01}
    )
    assert names["main",][0] == Frame("main", "/a/my (own) f.py", 20)
    assert profile.bin_s == 0.1  # 10.2 s do not fit into 200 bins of 0.05 s
    assert set(profile.times[names["main", "fit"]]) == {100, 101}


@pytest.mark.parametrize("torn", [b"", b'[{"ts": 5', b"{}", b'[{"ts": 1, "tid": 2}]', b"[[1]]"])
def test_a_trace_that_is_torn_adds_nothing(torn):
    profile = Profile()
    profiler.add_trace(profile, torn, 0.0)
    assert profile.times == {}


def test_without_py_spy_a_thread_of_the_job_does_it(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = "py-spy is not installed (the extra `profile` of unglow)"
    assert profiler.program() == ("", missing)
    attempt = Attempt(tmp_path / "1.jsonl", time.monotonic(), {}, profiled=True)
    with caplog.at_level("INFO", "unglow"):
        attempt.enter_job()
    assert missing in caplog.text
    attempt.leave_job()
    (file,) = tmp_path.rglob(f"*{SUFFIX}")
    assert json.loads(file.read_text())["exporter"] == "unglow"


@pytest.mark.parametrize(
    ("script", "why"),
    [("echo 'Permission Denied: Try sudo' >&2; exit 1", "py-spy: Permission Denied"),
     ("exit 4", "py-spy: 4")],
)  # fmt: skip
def test_py_spy_that_may_not_look_says_why(tmp_path, monkeypatch, script, why):
    spy = made(tmp_path, script)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert profiler.program() == (str(spy), why)


def made(tmp_path, script):
    spy = tmp_path / "py-spy"
    spy.write_text(f"#!/bin/sh\n{script}\n")
    spy.chmod(0o755)
    return spy


def run(tmp_path, body, *, spy=None, during=lambda _: None, warnings=None):
    """Watch a forked process that runs ``body``; return its ending and its file of stacks."""
    path = tmp_path / "a.json"
    pid, reading = watchdog.fork()
    if not pid:
        profiler.permit(os.getppid())
        code = body()
        os._exit(code)
    warn = pytest.fail if warnings is None else warnings.append
    program = spy or profiler.program()[0]
    spy_process = profiler.PySpy(
        path, str(program), profiler.Profiled(pid, time.monotonic(), 0.01), warn
    )

    def sample(_):
        spy_process.keep_running()
        during(spy_process)

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        ending = watchdog.watch(
            *(pid, reading), limit_s=30, on_stall=pytest.fail,
            on_sample=sample, on_end=spy_process.finish,
        )  # fmt: skip
    finally:
        os.close(reading)
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return ending, path


@pytest.fixture
def may_attach():
    why = profiler.program()[1]
    if why:
        pytest.skip(f"stacks cannot be taken from outside here: {why}")


def hold(seconds):
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))  # unlike CDLL, it keeps the interpreter's lock


def spin(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(100))


def took(path, name):
    seconds = read_profile(path).seconds
    return sum(s for stack, s in seconds.items() if any(frame.name == name for frame in stack))


@pytest.mark.slow
def test_compiled_code_that_holds_the_lock_is_seen(tmp_path, may_attach):
    def body():
        hold(1.0)
        spin(0.5)
        hold(1.0)
        return 3

    ending, path = run(tmp_path, body)
    assert (ending.code, ending.signal) == (3, 0)
    assert json.loads(path.read_text())["exporter"] == "py-spy"
    # a busy machine takes some tenths of a second to start py-spy; from inside it were 0.4 s
    assert 0.8 < took(path, "hold") < 2.3
    held = next(f for stack in read_profile(path).times for f in stack if f.name == "hold")
    assert held.line == hold.__code__.co_firstlineno
    assert held.file == "unit/telemetry/test_py_spy.py"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV])
def test_a_signal_ends_a_job_as_it_would_without(tmp_path, may_attach, number):
    def body():
        signal.signal(number, signal.SIG_DFL) if number != signal.SIGKILL else None
        spin(1.5)
        os.kill(os.getpid(), number)
        return 0

    ending, path = run(tmp_path, body)
    assert (ending.code, ending.signal) == (-number, number)
    assert 0 < took(path, "spin") < 1.7  # a busy machine takes a while to start py-spy


def test_a_running_job_shows_what_it_did_so_far(tmp_path, may_attach, monkeypatch):
    monkeypatch.setattr(profiler, "_SLICE_S", 1)
    while_it_ran = []

    def look(_):
        if (path := tmp_path / "a.json").is_file():
            while_it_ran.append(took(path, "spin"))

    def body():
        end = time.monotonic() + 60  # py-spy takes a while to start on a busy machine
        while not (tmp_path / "a.json").is_file() and time.monotonic() < end:
            spin(0.3)
        spin(2.0)
        return 0

    ending, path = run(tmp_path, body, during=look)
    assert (ending.code, ending.signal) == (0, 0)
    assert 0 < while_it_ran[0] < took(path, "spin") <= 62.5


def test_py_spy_that_is_killed_harms_nothing_and_is_started_again(tmp_path, may_attach):
    killed = []

    def kill(profiler):
        if len(killed) < 2:
            killed.append(profiler._process.pid)
            profiler._process.kill()
            profiler._process.wait()

    def body():
        spin(2.5)
        return 0

    ending, path = run(tmp_path, body, during=kill)
    assert len(set(killed)) == 2
    assert (ending.code, ending.signal) == (0, 0)
    assert 0 < took(path, "spin") < 2.5


def test_py_spy_that_fails_is_reported_once(tmp_path):
    warnings = []

    def body():
        spin(1.0)
        return 0

    ending, path = run(tmp_path, body, spy=made(tmp_path, "exit 1"), warnings=warnings)
    assert ending.code == 0
    assert warnings == ["the job was not profiled: py-spy could not look into it"]
    assert not path.exists()


@pytest.mark.slow
def test_py_spy_that_hangs_delays_the_end_by_two_seconds_at_most(tmp_path):
    spy = made(tmp_path, "trap '' INT; while :; do sleep 0.1; done")

    def body():
        spin(0.3)
        return 5

    started = time.monotonic()
    warnings = []
    ending, _ = run(tmp_path, body, spy=spy, warnings=warnings)
    assert (ending.code, len(warnings)) == (5, 1)
    assert 1.8 < time.monotonic() - started < 4  # it was waited for, and then killed


def test_py_spy_dies_with_the_watchdog(tmp_path, may_attach):
    spy = made(tmp_path, f"echo $$ > {tmp_path}/spy; exec sleep 600")
    pid = os.fork()
    if not pid:
        run(tmp_path, lambda: time.sleep(600) or 0, spy=spy)
        os._exit(0)
    end = time.monotonic() + 300
    while not (tmp_path / "spy").exists() or not (tmp_path / "spy").read_text():
        assert time.monotonic() < end
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    spied = Path("/proc") / (tmp_path / "spy").read_text().strip() / "stat"
    while spied.exists() and spied.read_text().rpartition(")")[2].split()[0] not in "ZX":
        assert time.monotonic() < end
        time.sleep(0.05)


def test_an_attempt_is_profiled_from_outside_where_it_may_be(tmp_path, may_attach):
    attempt = Attempt(tmp_path / "1.jsonl", time.monotonic(), {}, profiled=True)
    pid, reading = watchdog.fork()
    if not pid:
        attempt.enter_job()
        hold(1.5)
        attempt.leave_job()
        os._exit(0)
    attempt.forked(pid)
    attempt.spy_on(pid)
    attempt.sample(Sample())  # which starts py-spy
    assert os.read(reading, 1) == b""  # the job has ended
    os.close(reading)
    attempt.finish_spy()
    assert os.waitpid(pid, 0) == (pid, 0)
    attempt.end("ok")
    (file,) = tmp_path.rglob(f"*{SUFFIX}")
    assert json.loads(file.read_text())["exporter"] == "py-spy"
    assert took(file, "hold") > 0  # the machine may be busy
