"""How a job ended, from what Snakemake prints and the control group counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from unglow.jobs.outside.watched import Failure, describe_failure, exit_code, overrun

FAILED = "Command 'set -euo pipefail;  {}' returned non-zero exit status {}."
FAILURE = Failure("r", 100.0, 130.0, 1, 0, interrupted=False)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (FAILED.format("a b", 3), 3),
        (FAILED.format("a b", 137), -9),
        ("Command '['python', 'a b']' died with <Signals.SIGTERM: 15>.", -15),
        (FAILED.format("other", 4), None),
    ],
)
def test_an_exit_status_is_read_of_the_error_about_the_job(text, code):
    assert exit_code([FAILED.format("a", 7), text], ["a b"]) == code
    assert exit_code([text], ["", "nothing"]) is None


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({}, "error"),
        ({"code": None}, "error"),
        ({"code": -11}, "error"),
        ({"code": -9}, "killed"),
        ({"code": -9, "kernel_kills": 1}, "oom_killed"),
        ({"code": 1, "kernel_kills": 1}, "error"),
        ({"log": "MemoryError"}, "memory"),
        ({"code": -9, "kernel_kills": 1, "interrupted": True}, "interrupted"),
    ],
)
def test_a_cause_is_reported_only_with_evidence(changes, outcome):
    ending = describe_failure(replace(FAILURE, **changes))
    assert ending["outcome"] == outcome
    if outcome in ("memory", "oom_killed"):
        assert ending["needed_mb"] == 150
        assert "r:mem_mb=150" in ending["remedy"]


def test_without_a_declaration_no_command_is_made_up():
    ending = describe_failure(replace(FAILURE, declared_mb=None, code=-9, kernel_kills=1))
    assert "remedy" not in ending


def test_more_than_was_declared_is_reported():
    assert "130 MB" in overrun(100.0, 130.0)
    assert overrun(130.0, 100.0) == overrun(None, 5.0) == overrun(5.0, None) == ""
