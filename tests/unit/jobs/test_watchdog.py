"""What a watchdog sees of a job that does nothing or ends, and what is said of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from unglow.jobs import outcomes
from unglow.jobs.watchdog import Reason, Stall, stall_reason
from unglow.workflow.stage_memory import small

WATCHED = """
import json, os, sys, time
from unglow.jobs import watchdog
pid, pipe = watchdog.fork()
if pid:
    ending = watchdog.watch(pid, pipe, limit_s={limit}, on_stall=print, interval_s=0.05)
    print(json.dumps([dict(ending.report), ending.signal, ending.code, ending.timed_out]))
    print(round(ending.peak_mb), ending.cpu_s < 5, round(ending.stalled_s, 1))
    sys.exit()
watchdog.redirect_output(None)
{body}
"""


def watched(body, limit=None):
    started = time.monotonic()
    code = WATCHED.format(body=body, limit=limit)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True
    )
    return done.stdout.splitlines(), done.stderr, time.monotonic() - started


@pytest.mark.parametrize(
    ("body", "number", "code"),
    [("os.abort()", 6, -6), ("os.kill(os.getpid(), 9)", 9, -9), ("os._exit(7)", 0, 7)],
)
def test_a_job_that_cannot_speak_is_known_by_how_it_ended(body, number, code):
    (line, _), _, _ = watched(body)
    assert line == f"[{{}}, {number}, {code}, false]"


@pytest.mark.parametrize(
    "wedge",
    [
        "import re; re.match('(a+)+$', 'a' * 60 + 'b')",  # keeps the interpreter lock for years
        pytest.param(
            "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_wedged_job_is_ended_with_its_stacks(wedge, monkeypatch):
    patience = "watchdog.GRACE_S = 0.3\n"
    lines, errors, seconds = watched(f"{patience}{wedge}", limit=0.3)
    assert lines[-2].endswith("true]")
    assert 'File "<string>", line' in errors
    assert seconds < 15


def test_a_job_dies_with_its_watchdog(tmp_path):
    body = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    code = WATCHED.format(body=body, limit=None)
    process = subprocess.Popen([sys.executable, "-c", code])
    deadline = time.monotonic() + 300
    while not ((tmp_path / "pid").exists() and (tmp_path / "pid").read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.kill()
    process.wait()
    job = int((tmp_path / "pid").read_text())
    while time.monotonic() < deadline:
        try:
            os.kill(job, 0)
        except ProcessLookupError:
            return
        # a zombie that nobody has collected is dead too
        if Path(f"/proc/{job}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("the job outlived its watchdog")


def test_a_stall_is_reported_once_and_measured():
    stall = Stall(after_s=60)
    turns = [stall.sample(1.0, 2.0, 500) for _ in range(100)]
    at = {turns.index(turn): turn for turn in turns if turn is not None}
    assert at == {60: "stalled"}  # the first sample is a change
    assert len([turn for turn in turns if turn]) == 1
    assert stall.longest_s == stall.idle_s == 99
    assert stall.sample(1.0, 2.0, 501) == "over"
    assert stall.quiet_s == stall.idle_s == 0
    assert stall.sample(1.0, 2.0, 502) is None


@pytest.mark.parametrize(
    ("cpu_per_s", "bytes_per_s", "stalls"),
    [(0, 0, True), (0.001, 0, True), (0.01, 0, False), (0, 1, False)],
)
def test_little_work_is_no_stall_but_an_idle_event_loop_is(cpu_per_s, bytes_per_s, stalls):
    stall = Stall(after_s=60)
    turns = [stall.sample(1.0, t * cpu_per_s, t * bytes_per_s) for t in range(1, 90)]
    assert ("stalled" in turns) is stalls


# While a child is made that waits for somebody to write into a pipe, its parent cannot be woken.
UNWAKABLE = """
os.mkfifo({path!r})
os.posix_spawn("/bin/true", ["true"], {{}},
               file_actions=[(os.POSIX_SPAWN_OPEN, 0, {path!r}, os.O_RDONLY, 0)])
"""


@pytest.fixture
def started():
    """Start Python with some code; everything that was started is ended."""
    running = []

    def start(code):
        running.append(subprocess.Popen([sys.executable, "-c", f"import os, time\n{code}"]))
        return running[-1].pid

    yield start
    for one in running:
        one.kill()
        one.wait()


def reason_within(pid, word, seconds=30.0):
    """Look until the reason is the expected one."""
    deadline = time.monotonic() + seconds
    while (found := stall_reason([pid], pid)).reason != word:
        assert time.monotonic() < deadline, found
        time.sleep(0.01)
    return found


def test_a_process_that_was_stopped(started):
    pid = started("time.sleep(600)")
    os.kill(pid, signal.SIGSTOP)
    assert f"`kill -CONT {pid}`" in reason_within(pid, "stopped by a signal").helps


def test_a_process_that_nothing_can_wake(started, tmp_path):
    path = str(tmp_path / "pipe")
    pid = started(UNWAKABLE.format(path=path))
    reason_within(pid, "disk")
    Path(path).write_bytes(b"")


def test_a_process_that_sleeps_or_is_gone_says_no_more(started):
    pid = started("time.sleep(600)")
    assert "please report it" in reason_within(pid, "").helps
    with subprocess.Popen(["true"]) as gone:
        pass
    assert stall_reason([gone.pid], gone.pid).reason == ""


def job(rule, mem_mb, **more):
    defaults = {"limit_s": None, "launcher_mb": 0.0, "log_path": Path("the.log"), "in_flight": None}
    return SimpleNamespace(rule=rule, mem_mb=mem_mb, **({"least_mb": None} | defaults | more))


def needed(what, peak_mb=100.0):
    return outcomes.explain_error(
        what, MemoryError("the libraries alone take 120 MB"), peak_mb
    ).needed_mb


@pytest.mark.parametrize("rule", ["scale", "figures", "summary"])
def test_a_job_of_small_files_is_given_what_preflight_says_is_enough(rule):
    enough = small(rule).peak_mb(0, 1)
    assert needed(job(rule, enough - 10, least_mb=enough)) == enough
    assert needed(job(rule, 40, least_mb=enough)) == enough
    assert needed(job(rule, enough, least_mb=enough)) >= 1.5 * enough  # it was not


def test_a_job_that_knows_its_least_is_reported_that():
    assert needed(job("register", 120, least_mb=280)) == 280
    assert needed(job("register", 280, least_mb=280), peak_mb=270) == 450


# ------------------------------------------------------------------------------------ doing nothing


@pytest.mark.parametrize("timed_out", [True, False])
def test_a_job_that_had_stalled_does_not_blame_disks_alone(timed_out):
    how = {"report": {}, "timed_out": timed_out, "signal": signal.SIGTERM, "idle_s": 70.0}
    more = {"abandoned": False, "by_kernel": False, "peak_mb": 50.0, "code": -15}
    more["waited"] = Reason("", "it waits for another process", "look at it")
    cause = outcomes.explain_end(job("align", 200, limit_s=60.0), SimpleNamespace(**how, **more))
    assert cause.outcome == "stalled"
    assert "overloaded" in cause.message


def test_a_process_leaves_after_its_threads_and_functions_and_takes_nothing_apart():
    code = (
        "import atexit, threading, time\n"
        "from unglow.jobs.watchdog import leave\n"
        "class Kept: __del__ = lambda self: print('taken apart')\n"
        "kept = Kept()\n"
        "atexit.register(print, 'registered')\n"
        "threading.Thread(target=lambda: (time.sleep(0.2), print('thread'))).start()\n"
        "leave(3)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (3, ["thread", "registered"])
