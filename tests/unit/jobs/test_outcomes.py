"""What a job that ended is said to have lacked, and why one does nothing."""

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from unglow.core.process import waiting_state
from unglow.jobs import outcomes
from unglow.jobs.base_memory import small
from unglow.workflow import memory_model


def job(rule, mem_mb, **more):
    told = {"limit_s": None, "launcher_mb": 0.0, "log_path": None, "in_flight": None}
    return SimpleNamespace(rule=rule, mem_mb=mem_mb, **({"least_mb": None} | told | more))


def needed(what, peak_mb=100.0):
    return outcomes.of_error(
        what, MemoryError("the libraries alone take 120 MB"), peak_mb
    ).needed_mb


@pytest.mark.parametrize("rule", ["scale", "figures", "summary"])
def test_a_job_of_small_files_is_told_what_preflight_says_is_enough(rule):
    enough = small(rule).peak_mb(0, 1)
    assert needed(job(rule, enough - 10)) == enough
    assert needed(job(rule, 40)) == enough
    assert needed(job(rule, enough)) >= 1.5 * enough  # it was not


def test_a_job_that_knows_its_least_is_told_that():
    assert needed(job("register", 120, least_mb=280)) == 280
    assert needed(job("register", 280, least_mb=280), peak_mb=270) == 450
    before_it_knew = needed(job("register", 70))
    assert before_it_knew >= memory_model.register(((2048, 2048),) * 2, 1024, 256).peak_mb(0, 1)


# ------------------------------------------------------------------------------------ doing nothing

SLEEPS = "import time; print(1, flush=True); time.sleep(60)"
IN_A_THREAD = f"import threading; threading.Thread(target=lambda: exec({SLEEPS!r})).start()"


@pytest.mark.parametrize("code", [SLEEPS, IN_A_THREAD])
def test_a_process_that_was_stopped_is_told_from_one_that_waits(code):
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        deadline = time.monotonic() + 20
        while waiting_state(process.pid) != "S":
            assert time.monotonic() < deadline
        os.kill(process.pid, signal.SIGSTOP)
        while waiting_state(process.pid) != "T":
            assert time.monotonic() < deadline
        process.kill()
    assert waiting_state(process.pid) == ""


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("T", "it was stopped (Ctrl-Z, SIGSTOP, a debugger); `kill -CONT 17` lets it go on"),
        ("D", "it waits for a disk or a network drive"),
        ("R", "the machine is overloaded"),
        ("S", "a fault of the program"),
        ("", "a fault of the program"),
    ],
)
def test_why_a_job_does_nothing_is_told_with_what_shows_more(state, words):
    told = outcomes.idle_because(state, 17)
    assert words in told
    assert "-p 17`, `uptime` and `free -m` show more." in told


@pytest.mark.parametrize("timed_out", [True, False])
def test_a_job_that_had_stalled_does_not_blame_disks_alone(timed_out):
    how = {"report": {}, "timed_out": timed_out, "signal": signal.SIGTERM, "idle_s": 70.0}
    more = {"abandoned": False, "by_kernel": False, "peak_mb": 50.0, "code": -15}
    cause = outcomes.of_ending(job("align", 200, limit_s=60.0), SimpleNamespace(**how, **more))
    assert cause.outcome == "stalled"
    for words in ("disk or network drive", "overloaded", "stopped the process", "a fault of the"):
        assert words in cause.message
