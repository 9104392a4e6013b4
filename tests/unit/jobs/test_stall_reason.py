"""Why a job does nothing: real processes that are stopped, sleep, or wait for the kernel."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from unglow.jobs.watchdog import stall_reason

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
