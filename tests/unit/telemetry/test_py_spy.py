"""The profiler from outside: what becomes of a trace, and what py-spy does to a real process."""

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
from unglow.telemetry.jsonl import LineFile
from unglow.telemetry.reading.profiles import Calls, read_profile, seconds_by_node
from unglow.telemetry.recording import py_spy
from unglow.telemetry.recording.attempt import Attempt
from unglow.telemetry.recording.process_sampler import Sample
from unglow.telemetry.recording.py_spy_trace import converted, events
from unglow.telemetry.recording.stack_sampler import SUFFIX


def event(kind, us, thread, name, file="/a/b/src/f.py", line=1):
    args = {"filename": file, "line": line}
    return {"ph": kind, "ts": us, "tid": thread, "pid": 7, "name": name, "args": args}


def root(kind, us, thread, number):
    return event(kind, us, thread, f"thread ({number}): T", "", 0)


TRACE = [
    root("B", 50_000, 901, 8),
    event("B", 50_000, 901, "Event.wait", "/lib/python3.12/threading.py", 640),
    root("B", 50_006, 900, 7),
    event("B", 50_006, 900, "main"),
    event("B", 50_006, 900, "read", line=9),
    event("E", 70_001, 900, "read", line=9),
    event("B", 70_009, 900, "fit", line=20),
    event("E", 91_000, 900, "fit", line=20),
    event("E", 91_000, 900, "main"),
    root("E", 91_000, 900, 7),
    event("E", 91_003, 901, "Event.wait", "/lib/python3.12/threading.py", 640),
    root("E", 91_003, 901, 8),
]


def node(number, parent, name, line, file="b/src/f.py", **more):
    told = {"kind": "node", "id": number, "in": parent, "name": name, "file": file, "line": line}
    return {**told, **more}


def test_a_trace_becomes_samples_between_those_of_py_spy():
    nodes = {}
    lines = converted(TRACE, nodes, origin=2.0, seen={})
    waits = node(1, 0, "Event.wait", 640, "lib/python3.12/threading.py", waits=True)
    assert lines == [
        waits, node(2, 0, "main", 1), node(3, 2, "read", 9), [2.055, 3, 1], [2.065, 3, 1],
        node(4, 2, "fit", 20), [2.075, 4, 1], [2.085, 4, 1],
    ]  # fmt: skip
    # the next segment knows all calls
    again = converted(TRACE, nodes, origin=12.0, seen={})
    assert again == [[12.055, 3, 1], [12.065, 3, 1], [12.075, 4, 1], [12.085, 4, 1]]
    # what py-spy tells of a job that has ended is nothing
    assert converted(TRACE, nodes, origin=12.0, seen={}, until=12.07) == again[:2]


def test_a_thread_that_has_ended_is_cut_off():
    trace = [
        root("B", 0, 900, 7), event("B", 0, 900, "main"),
        root("B", 0, 901, 8), event("B", 0, 901, "work", line=5),
        event("E", 300_000, 900, "main"), event("E", 300_000, 901, "work", line=5),
    ]  # fmt: skip
    samples = [
        line
        for line in converted(trace, {}, origin=1.0, seen={7: 1.25, 8: 1.05})
        if isinstance(line, list)
    ]
    assert samples[0] == [1.005, 1, 2]
    assert len(samples) == 30
    assert [line[0] for line in samples if len(line) == 3][-1] == 1.145  # 0.1 s after 1.05
    assert samples[-1] == [1.295, 1]


def test_a_trace_that_is_cut_short_is_read_up_to_there():
    text = json.dumps(TRACE)
    assert list(events(text)) == TRACE
    assert list(events(text[:-30])) == TRACE[:-1]
    assert list(events("[]")) == list(events("")) == []


def test_without_py_spy_a_thread_of_the_job_does_it(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert py_spy.program() == ("", "py-spy is not installed")
    attempt = Attempt(tmp_path / "1.jsonl", time.monotonic(), {}, profiled=True)
    attempt.in_job()
    attempt.leave_job()
    (file,) = tmp_path.rglob(f"*{SUFFIX}")
    head = json.loads(file.read_text().splitlines()[0])
    assert (head["how"], head["why"]) == ("inside", "py-spy is not installed")


@pytest.mark.parametrize(
    ("script", "why"),
    [("echo 'Permission Denied: Try sudo' >&2; exit 1", "py-spy: Permission Denied"),
     ("exit 4", "py-spy: 4")],
)  # fmt: skip
def test_py_spy_that_may_not_look_says_why(tmp_path, monkeypatch, script, why):
    spy = made(tmp_path, script)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert py_spy.program() == (str(spy), why)


def made(tmp_path, script):
    spy = tmp_path / "py-spy"
    spy.write_text(f"#!/bin/sh\n{script}\n")
    spy.chmod(0o755)
    return spy


def run(tmp_path, body, *, spy=None, during=lambda profiler: None, said=None):
    """Watch a forked process that runs ``body``; return its ending and its file of stacks."""
    clock = time.monotonic()
    path = tmp_path / "a.stacks"
    pid, reading = watchdog.fork()
    if not pid:
        py_spy.permit(os.getppid())
        code = body()
        os._exit(code)
    warn = pytest.fail if said is None else said.append
    program = spy or py_spy.program()[0]
    profiler = py_spy.Outside(LineFile(path, pytest.fail), clock, str(program), pid, warn)

    def sample(_):
        profiler.look()
        during(profiler)

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        ending = watchdog.watch(
            *(pid, reading), limit_s=30, on_stall=pytest.fail,
            on_sample=sample, on_end=profiler.finish,
        )  # fmt: skip
    finally:
        os.close(reading)
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return ending, path


@pytest.fixture
def may_attach():
    why = py_spy.program()[1]
    if why:
        pytest.skip(f"stacks cannot be taken from outside here: {why}")


def hold(seconds):
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))  # unlike CDLL, it keeps the interpreter's lock


def spin(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(100))


def took(path, name):
    calls = Calls()
    seconds = seconds_by_node(calls, read_profile(path, calls))
    return sum(s for s, c in zip(seconds, calls.calls, strict=True) if c and c.name == name)


@pytest.mark.slow
def test_compiled_code_that_holds_the_lock_is_seen(tmp_path, may_attach, monkeypatch):
    monkeypatch.setattr(py_spy, "SEGMENT_S", 1)

    def body():
        hold(1.0)
        spin(0.5)
        hold(1.0)
        return 3

    ending, path = run(tmp_path, body)
    assert (ending.code, ending.signal) == (3, 0)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0] == {"kind": "stacks", "schema": 1, "hz": 100, "how": "outside"}
    # a busy machine takes some tenths of a second to start py-spy; from inside it were 0.4 s
    assert 0.8 < took(path, "hold") < 2.3
    held = next(line for line in lines if isinstance(line, dict) and line.get("name") == "hold")
    assert held["line"] == hold.__code__.co_firstlineno
    assert held["file"].endswith("telemetry/test_py_spy.py")
    times = [line[0] for line in lines if isinstance(line, list)]
    assert times == sorted(times)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV])
def test_a_signal_ends_a_job_as_it_would_without(tmp_path, may_attach, number):
    def body():
        signal.signal(number, signal.SIG_DFL) if number != signal.SIGKILL else None
        spin(1.5)
        os.kill(os.getpid(), number)
        return 0

    ending, path = run(tmp_path, body)
    assert (ending.code, ending.signal) == (-number, number)
    assert 0.3 < took(path, "spin") < 1.7


def test_py_spy_that_is_killed_harms_nothing(tmp_path, may_attach):
    killed = []

    def kill(profiler):
        if profiler._process is not None and len(killed) < 2 and profiler._seen:
            killed.append(profiler._process.pid)
            profiler._process.kill()

    def body():
        spin(1.5)
        return 0

    ending, path = run(tmp_path, body, during=kill)
    assert len(killed) == 2
    assert (ending.code, ending.signal) == (0, 0)
    assert took(path, "spin") < 1.5


def test_py_spy_that_fails_is_told_once(tmp_path):
    said = []

    def body():
        spin(1.0)
        return 0

    ending, path = run(tmp_path, body, spy=made(tmp_path, "exit 1"), said=said)
    assert ending.code == 0
    assert said == ["the job is not profiled any more: py-spy cannot look into it"]
    assert len(path.read_text().splitlines()) == 1


@pytest.mark.slow
def test_py_spy_that_hangs_delays_the_end_by_two_seconds_at_most(tmp_path):
    spy = made(tmp_path, "trap '' INT; while :; do sleep 0.1; done")

    def body():
        spin(0.3)
        return 5

    begun = time.monotonic()
    ending, _ = run(tmp_path, body, spy=spy)
    assert ending.code == 5
    assert 1.8 < time.monotonic() - begun < 4  # it was waited for, and then killed


def test_py_spy_dies_with_the_watchdog(tmp_path, may_attach):
    spy = made(tmp_path, f"echo $$ > {tmp_path}/spy; exec sleep 20")
    pid = os.fork()
    if not pid:
        run(tmp_path, lambda: time.sleep(20) or 0, spy=spy)
        os._exit(0)
    end = time.monotonic() + 10
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
        attempt.in_job()
        hold(1.5)
        attempt.leave_job()
        os._exit(0)
    attempt.forked(pid)
    attempt.sample(Sample())  # which begins the first segment
    assert os.read(reading, 1) == b""  # the job has ended
    os.close(reading)
    attempt.ended()
    assert os.waitpid(pid, 0) == (pid, 0)
    attempt.end("ok")
    (file,) = tmp_path.rglob(f"*{SUFFIX}")
    assert json.loads(file.read_text().splitlines()[0])["how"] == "outside"
    assert took(file, "hold") > 0  # the machine may be busy
