"""What Slurm is asked for about jobs, answered by scripts in its place."""

from __future__ import annotations

import pytest

from unglow import cluster


@pytest.fixture
def answers(tmp_path, monkeypatch):
    """Have commands of Slurm print something, or fail."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")

    def say(command: str, text: str, status: int = 0) -> None:
        path = tmp_path / command
        path.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\nexit {status}\n")
        path.chmod(0o755)

    return say


def test_jobs_that_wait_or_run_have_not_ended(answers):
    answers("squeue", "3 RUNNING\n4 PENDING\n5 COMPLETING\n6 FAILED\n7 COMPLETED")
    assert cluster.ended(["3", "4", "5", "6", "7"]) == {}  # the executor knows the last two


def test_a_preempted_job_has_ended(answers):
    answers("squeue", "3 RUNNING\n4 PREEMPTED")
    assert cluster.ended(["3", "4"]) == {"4": "PREEMPTED"}


def test_a_job_that_is_no_longer_listed_is_looked_up_in_the_accounts(answers):
    answers("squeue", "")
    answers("sacct", "3|COMPLETED\n4|CANCELLED by 0\n5|RUNNING")
    states = {"3": "COMPLETED", "4": "CANCELLED", "5": "UNKNOWN", "6": "UNKNOWN"}
    assert cluster.ended(list(states)) == states


def test_without_accounts_a_job_that_is_no_longer_listed_is_unknown(answers):
    answers("squeue", "3 RUNNING")
    answers("sacct", "", 1)
    assert cluster.ended(["3", "4"]) == {"4": "UNKNOWN"}


def test_nothing_is_said_of_jobs_while_slurm_does_not_answer(answers):
    answers("squeue", "slurm_load_jobs error", 1)
    assert cluster.ended(["3"]) == {}


def test_jobs_that_are_not_of_slurm_are_left_alone(answers):
    answers("squeue", "")
    assert cluster.ended(["3_1", "local"]) == {}
