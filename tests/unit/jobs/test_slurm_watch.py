"""What Slurm is asked for about jobs, answered by scripts in its place."""

from __future__ import annotations

import pytest

from unglow.jobs.schedulers.choice import NoAnswerError, slurm_queue
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


def ended(job_ids):
    return slurm_watch.ended(job_ids, slurm_queue(), seen=job_ids)


def test_jobs_that_wait_or_run_have_not_ended(answers):
    answers(
        "squeue",
        "3|RUNNING|None|x\n4|PENDING|None|x\n5|COMPLETING|None|x\n6|FAILED|None|x\n7|COMPLETED|None|x",
    )
    assert ended(["3", "4", "5", "6", "7"]) == {}  # the executor knows the last two


def test_a_preempted_job_has_ended(answers):
    answers("squeue", "3|RUNNING|None|x\n4|PREEMPTED|None|x")
    assert ended(["3", "4"]) == {"4": "PREEMPTED"}


def test_a_job_that_is_no_longer_listed_is_looked_up_in_the_accounts(answers):
    answers("squeue", "")
    answers("sacct", "3|COMPLETED\n4|CANCELLED by 0\n5|RUNNING")
    states = {"3": "COMPLETED", "4": "CANCELLED", "5": "UNKNOWN", "6": "UNKNOWN"}
    assert ended(list(states)) == states


def test_without_accounts_a_job_that_is_no_longer_listed_is_unknown(answers):
    answers("squeue", "3|RUNNING|None|x")
    answers("sacct", "", 1)
    assert ended(["3", "4"]) == {"4": "UNKNOWN"}


def test_nothing_is_said_of_jobs_while_slurm_does_not_answer(answers):
    answers("squeue", "slurm_load_jobs error", 1)
    with pytest.raises(NoAnswerError, match="slurm_load_jobs error"):
        slurm_queue()


def test_jobs_that_are_not_of_slurm_are_left_alone(answers):
    answers("squeue", "")
    assert ended(["3_1", "local"]) == {}


def test_a_job_that_was_never_listed_may_be_in_another_queue(answers):
    answers("squeue", "3|RUNNING|None|x")
    answers("sacct", "5|COMPLETED")
    assert slurm_watch.ended(["3", "4", "5"], slurm_queue(), seen=["3"]) == {"5": "COMPLETED"}


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
