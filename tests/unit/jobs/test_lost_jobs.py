"""Jobs of a batch system that could not say how they ended."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from unglow.jobs import launcher, retries
from unglow.jobs.lost_jobs import LostJobs
from unglow.telemetry.attempt_files import attempt_file, attempt_numbers, take_number

if TYPE_CHECKING:
    from pathlib import Path

LAUNCHER_MB = 290


@pytest.fixture(autouse=True)
def no_scheduler(monkeypatch, tmp_path) -> None:
    """Nobody answers questions about jobs."""
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))


def make_job_info(record: Path, attempt: int = 1, **more) -> dict:
    """What Snakemake reports of a job that it hands over."""
    resources = {"mem_mb": 400, "runtime": 5, "attempt": attempt}
    known = {"jobid": 7, "rule_name": "align", "log": ["align.log", str(record)]}
    return {**known, "resources": resources, **more}


def begin(record: Path, *lines: dict) -> None:
    """Leave the file of an attempt."""
    directory = retries.attempts_directory(record)
    path = attempt_file(directory, take_number(directory))
    head = {"kind": "attempt", "attempt": 1, "limit_s": 240}
    path.write_text("".join(json.dumps(line) + "\n" for line in (head, *lines)))


def failure(log: Path | None = None, external: str | None = "17") -> dict:
    """What Snakemake reports of a job that has failed."""
    logs = [] if log is None else [str(log)]
    return {"jobid": 7, "log": logs, "aux": {"external_jobid": external}}


def slurm_log(tmp_path: Path, text: str) -> Path:
    """Leave what Slurm has written about a job."""
    path = tmp_path / "17.log"
    path.write_text(text)
    return path


def handed_over(tmp_path: Path, *jobids: int) -> tuple[LostJobs, dict[int, Path]]:
    """Hand over jobs; what follows them, and the telemetry file of each."""
    losses = LostJobs(LAUNCHER_MB)
    records = {jobid: tmp_path / f"job{jobid}.jsonl" for jobid in jobids}
    for jobid, record in records.items():
        losses.add_job(make_job_info(record, jobid=jobid))
    return losses, records


def all_failed(losses: LostJobs, records: dict[int, Path], log: Path) -> dict:
    """Have the jobs fail as one group; what is made of each."""
    info = [{"jobid": jobid} for jobid in records]
    losses.add_failed_group(
        {"external_jobid": "17", "aux_logs": [str(log)], "job_error_info": info}
    )
    return {
        jobid: losses.judge_failed({**failure(external=None), "jobid": jobid}) for jobid in records
    }


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("slurmstepd-n1: error: Detected 1 oom-kill event(s) in StepId=9.batch.", "oom_killed"),
        ("srun: error: n1: task 0: Out Of Memory", "oom_killed"),
        ("slurmstepd: error: *** JOB 9 ON n1 CANCELLED AT T DUE TO TIME LIMIT ***", "timeout"),
        ("slurmstepd: error: *** JOB 9 ON n1 CANCELLED AT T DUE TO NODE FAILURE ***", "node_lost"),
        ("slurmstepd: error: *** JOB 9 ON n1 CANCELLED AT T DUE TO PREEMPTION ***", "killed"),
        ("slurmstepd: error: *** JOB 9 ON n1 CANCELLED AT T ***", "killed"),
    ],
)
def test_what_slurm_writes_is_understood(tmp_path, text, outcome) -> None:
    record = tmp_path / "align.jsonl"
    losses = LostJobs(LAUNCHER_MB)
    losses.add_job(make_job_info(record))
    begin(record)
    tried, loss = losses.judge_failed(failure(slurm_log(tmp_path, text)))
    assert tried
    assert loss is not None
    assert (loss.attempt, loss.outcome) == (1, outcome)
    (noted,), _ = retries.list_outcomes(retries.attempts_directory(record))
    assert (noted["outcome"], noted["attempt"]) == (outcome, 1)
    assert noted["declared_mb"] == 400 - LAUNCHER_MB
    assert noted["limit_s"] == 240
    assert attempt_numbers(retries.attempts_directory(record)) == [
        1,
        2,
    ]  # what is lost is held back


def test_memory_that_was_too_little_grows_with_that_of_the_launcher(tmp_path) -> None:
    record = tmp_path / "align.jsonl"
    losses = LostJobs(LAUNCHER_MB)
    losses.add_job(make_job_info(record))
    losses.judge_failed(failure(slurm_log(tmp_path, "Detected 1 oom-kill event(s)")))
    assert retries.next_mb(record, 110) + LAUNCHER_MB == 600  # half as much again


def test_time_that_was_too_short_is_tripled_for_each_attempt_that_was_late(tmp_path) -> None:
    record = tmp_path / "align.jsonl"
    losses = LostJobs(LAUNCHER_MB)
    late = slurm_log(tmp_path, "CANCELLED AT T DUE TO TIME LIMIT")
    assert retries.next_min(record, 4) == 4
    for attempt, limit in ((1, 12), (2, 36)):
        losses.add_job(make_job_info(record, attempt))
        losses.judge_failed(failure(late))
        assert retries.next_min(record, 4) == limit
        assert retries.next_mb(record, 110) == 110


def test_an_attempt_that_has_recorded_its_end_is_left_alone(tmp_path) -> None:
    record = tmp_path / "align.jsonl"
    losses = LostJobs(LAUNCHER_MB)
    losses.add_job(make_job_info(record))
    begin(record, {"kind": "end", "outcome": "bad_input"})
    assert losses.judge_failed(failure()) == (True, None)
    assert attempt_numbers(retries.attempts_directory(record)) == [1]


@pytest.mark.parametrize(
    ("tried", "said", "outcome"),
    [
        (True, "DUE TO NODE FAILURE", "node_lost"),
        (False, "CANCELLED AT T DUE TO PREEMPTION", "killed"),  # between two jobs
    ],
)
def test_of_a_group_only_the_job_whose_turn_it_was_has_failed(tmp_path, tried, said, outcome):
    losses, records = handed_over(tmp_path, 1, 2, 3)
    begin(records[1], {"kind": "end", "outcome": "ok"})
    if tried:
        begin(records[2])
    ended = all_failed(losses, records, slurm_log(tmp_path, said))
    assert ended[1] == ended[3] == (False, None)
    assert ended[2][0]
    assert ended[2][1].outcome == outcome


def test_attempts_of_runs_before_do_not_count(tmp_path) -> None:
    record = tmp_path / "align.jsonl"
    begin(record, {"kind": "end", "outcome": "error"})
    losses = LostJobs(LAUNCHER_MB)
    losses.add_job(make_job_info(record))
    _, loss = losses.judge_failed(failure(slurm_log(tmp_path, "Detected 1 oom-kill event(s)")))
    assert loss is not None
    assert loss.outcome == "oom_killed"


def test_slurm_starts_snakemake_twice_in_a_job_and_others_once() -> None:
    assert launcher.launcher_mb("slurm", {}) == LAUNCHER_MB
    assert launcher.launcher_mb("cluster-generic", {}) == LAUNCHER_MB / 2
    assert launcher.launcher_mb(None, {"SLURM_STEP_ID": "0"}) == LAUNCHER_MB
    assert launcher.launcher_mb(None, {"JOB_ID": "4"}) == LAUNCHER_MB / 2


def test_a_group_that_did_not_start_is_reported_once_and_all_of_it_gets_more(tmp_path) -> None:
    losses, records = handed_over(tmp_path, 1, 2)
    log = slurm_log(tmp_path, "Detected 1 oom-kill event(s)")
    ended = list(all_failed(losses, records, log).values())
    assert [tried for tried, _ in ended] == [True, False]
    assert ended[0][1].outcome == "oom_killed"
    assert {retries.next_mb(record, 110) for record in records.values()} == {310}
