"""What a job that ended is said to have lacked, and why one does nothing."""

import signal
from types import SimpleNamespace

import pytest

from unglow.jobs import outcomes
from unglow.jobs.watchdog import Reason
from unglow.memory.stages import small


def job(rule, mem_mb, **more):
    defaults = {"limit_s": None, "launcher_mb": 0.0, "log_path": None, "in_flight": None}
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


def test_why_a_job_does_nothing_is_reported_with_what_helps_and_shows_more():
    message = outcomes.explain_idleness(Reason("disk", "it waits for a disk", "look at it"), 17)
    assert message.startswith("it waits for a disk: look at it. `ps ")
    assert message.endswith("-p 17`, `uptime` and `free -m` show more.")


@pytest.mark.parametrize("timed_out", [True, False])
def test_a_job_that_had_stalled_does_not_blame_disks_alone(timed_out):
    how = {"report": {}, "timed_out": timed_out, "signal": signal.SIGTERM, "idle_s": 70.0}
    more = {"abandoned": False, "by_kernel": False, "peak_mb": 50.0, "code": -15}
    more["waited"] = Reason("", "it waits for another process", "look at it")
    cause = outcomes.explain_end(job("align", 200, limit_s=60.0), SimpleNamespace(**how, **more))
    assert cause.outcome == "stalled"
    for words in ("disk or network drive", "overloaded", "stopped the process", "a fault of the"):
        assert words in cause.message
    more["waited"] = Reason("disk", "it waits for a disk", "look at it")
    cause = outcomes.explain_end(job("align", 200, limit_s=60.0), SimpleNamespace(**how, **more))
    assert cause.message.endswith(". It waits for a disk: see to that, then run again.")
