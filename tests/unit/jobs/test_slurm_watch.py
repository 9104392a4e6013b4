"""What Slurm is asked for about jobs, answered by scripts in its place."""

from __future__ import annotations

import pytest

from unglow.jobs.schedulers import NoAnswerError, slurm_queue
from unglow.workflow import snakemake_internals as slurm_watch


@pytest.fixture
def answers(tmp_path, monkeypatch):
    """Have commands of Slurm print something, or fail."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")

    def say(command: str, text: str, status: int = 0) -> None:
        path = tmp_path / command
        path.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\nexit {status}\n")
        path.chmod(0o755)

    return say


LOOKED_UP = {"3": "COMPLETED", "4": "CANCELLED", "5": "UNKNOWN", "6": "UNKNOWN"}


@pytest.mark.parametrize(
    ("queue", "accounts", "ended", "seen"),
    [
        # of those that wait or run; the executor knows of failed and completed ones
        ("3 RUNNING,4 PENDING,5 COMPLETING,6 FAILED,7 COMPLETED", None, {}, "34567"),
        ("3 RUNNING,4 PREEMPTED", None, {"4": "PREEMPTED"}, "34"),
        ("", "3|COMPLETED\n4|CANCELLED by 0\n5|RUNNING", LOOKED_UP, "3456"),
        ("3 RUNNING", None, {"4": "UNKNOWN"}, "34"),  # without accounts
        ("", None, {}, ["3_1", "local"]),  # they are not of Slurm
        ("3 RUNNING", "5|COMPLETED", {"5": "COMPLETED"}, "3"),  # 4 may be in another queue
    ],
)
def test_jobs_have_ended_by_the_queue_or_else_by_the_accounts(
    answers, queue, accounts, ended, seen
):
    rows = [row.split() for row in queue.split(",") if row]
    answers("squeue", "\n".join(f"{job}|{state}|None|x" for job, state in rows))
    answers("sacct", accounts or "", 0 if accounts else 1)
    asked = ["3", "4", "5"] if seen == "3" else list(seen)
    assert slurm_watch.ended(asked, slurm_queue(), seen=list(seen)) == ended


def test_nothing_is_said_of_jobs_while_slurm_does_not_answer(answers):
    answers("squeue", "slurm_load_jobs error", 1)
    with pytest.raises(NoAnswerError, match="slurm_load_jobs error"):
        slurm_queue()


def test_a_job_that_will_not_start_is_reported_with_a_remedy(answers):
    answers("squeue", "3|PENDING|Resources|x\n4|PENDING|PartitionTimeLimit|x\n5|RUNNING|None|x")
    (sentence,) = slurm_watch.hopeless(["3", "4", "5"], slurm_queue()).values()
    assert sentence.startswith("Job 4 will not start: Slurm says PartitionTimeLimit. It asks for")
    assert "timeout_per_job" in sentence


def test_a_state_counts_once_it_is_reported_twice_and_advice_is_given_once(answers):
    watch = slurm_watch.SlurmWatch()
    answers("squeue", "3|RUNNING|None|x\n4|PENDING|PartitionTimeLimit|x")
    assert [len(found) for found in watch.look(["3", "4"])] == [0, 1]
    answers("squeue", "3|PREEMPTED|None|x\n4|PENDING|PartitionTimeLimit|x")
    assert watch.look(["3", "4"]) == ({}, [])
    answers("squeue", "", 1)
    assert watch.look(["3", "4"]) == ({}, [])
    answers("squeue", "4|PENDING|None|x")
    answers("sacct", "", 1)
    assert watch.look(["3", "4"]) == ({}, [])  # reported, but something else
    assert watch.look(["3", "4"]) == ({"3": "UNKNOWN"}, [])


def test_a_controller_that_is_away_is_waited_for(answers, monkeypatch):
    watch = slurm_watch.SlurmWatch()
    answers("squeue", "", 1)

    def come_back(seconds):
        answers("squeue", "")

    monkeypatch.setattr(slurm_watch.time, "sleep", come_back)
    first, last = watch.wait_until_slurm_answers()
    assert first == "Slurm does not answer: waiting up to 15 min to submit jobs."
    assert last == "Slurm answers again, after 0 s."
    answers("squeue", "", 1)
    assert list(watch.wait_until_slurm_answers()) == []  # it has answered just now


def test_a_controller_that_stays_away_is_not_waited_for_without_end(answers, monkeypatch):
    answers("squeue", "", 1)
    assert len(list(slurm_watch.SlurmWatch().wait_until_slurm_answers(patience_s=0.01))) == 1
