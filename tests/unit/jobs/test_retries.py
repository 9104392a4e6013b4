"""A job as a whole, in real processes: outcome, sentence, record, and a second attempt."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import tempfile
import time

import pytest
from running_jobs import wait_for

from unglow.core.machine import memory_available_mb, memory_total_mb
from unglow.jobs.retries import (
    attempts_directory,
    list_outcomes,
    next_mb,
    next_min,
    note_loss,
    one_at_a_time,
)
from unglow.telemetry.attempt_files import RUN_ID, attempt_file, read_inherited_run_id, take_number
from unglow.telemetry.reading.history import History
from unglow.telemetry.reading.incidents import incidents

SCRIPT = """
from types import SimpleNamespace
from unglow.jobs.context import Job
class Log(list): pass
log = Log(["logs/align.log"]); log.telemetry = "telemetry/align.jsonl"
snakemake = SimpleNamespace(
    rule="align", threads=2, wildcards={{"sample": "A", "dye": "D"}}, log=log,
    resources=SimpleNamespace(mem_mb={mem_mb}, runtime={minutes}, attempt={attempt}),
    params=SimpleNamespace(memory={{"base": 40, "each": 30}}))
with Job.from_script(snakemake) as job:
    import numpy as np
    job.limit_memory()
{body}
"""
LACKS = "    job.choose_workers(); np.ones(900_000_000, 'u1')"
FINE = "    job.choose_workers(); job.count(pixels=7)"


def attempt(record, number=1, **end):
    """Leave the file of an attempt that has ended, or has not."""
    directory = attempts_directory(record)
    run = read_inherited_run_id()
    head = {"kind": "attempt", "run": run, "attempt": number, "declared_mb": 71}
    lines = [head, {"kind": "log", "text": f"log {number}"}, {"kind": "end", "message": "m"} | end]
    path = attempt_file(directory, take_number(directory))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines[: None if end else 1]))


@pytest.fixture
def job(tmp_path):
    def run(body, attempt=1, mem_mb=150, minutes=5):
        code = SCRIPT.format(body=body, attempt=attempt, mem_mb=mem_mb, minutes=minutes)
        for name in ("logs/align.log", "telemetry/align.jsonl"):  # as Snakemake does
            (tmp_path / name).unlink(missing_ok=True)
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        lines = (tmp_path / "telemetry/align.jsonl").read_text().splitlines()
        records = [json.loads(line) for line in lines]
        return done, records, (tmp_path / "logs/align.log").read_text()

    return run


def test_attempts_of_another_run_say_nothing_about_this_one(tmp_path, monkeypatch):
    """Its first attempt was lost before it began: numbers alone do not distinguish the runs."""
    record = tmp_path / "align.jsonl"
    monkeypatch.setenv(RUN_ID, "run-1")
    attempt(record, 1, outcome="memory", needed_mb=900)
    assert next_mb(record, 71) == 900
    note_loss(record, {"rule": "align", "attempt": 2, "outcome": "oom_killed", "message": "m"})
    assert [one["attempt"] for one in list_outcomes(attempts_directory(record))[0]] == [1, 2]
    monkeypatch.setenv(RUN_ID, "run-2")
    assert list_outcomes(attempts_directory(record)) == ([], "")
    assert next_mb(record, 71) == 71
    attempt(record, 2, outcome="killed")
    assert [one["outcome"] for one in list_outcomes(attempts_directory(record))[0]] == ["killed"]


def test_too_little_memory_is_one_sentence_with_a_remedy(job):
    done, (record,), log = job(LACKS)
    assert done.returncode == 1
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("align (A, D): needs more memory than the 150 MB that were declared")
    assert "900 MB more asked for, 2 blocks in flight" in sentence
    assert sentence.endswith("--set-resources align:mem_mb=950 (now 150).")
    assert record["outcome"] == "memory"
    assert record["message"] in sentence
    assert "Traceback" in log


def test_after_a_lack_of_memory_half_as_much_is_in_flight(job):
    job(LACKS)
    done, (first, second), log = job(FINE, attempt=2)
    assert done.returncode == 0, done.stderr
    assert (first["in_flight"], second["in_flight"]) == (2, 1)
    assert (first["outcome"], second["outcome"]) == ("memory", "ok")
    assert first["declared_mb"] == second["declared_mb"]
    assert "now at most 1" in log


def test_a_lack_of_memory_with_one_block_in_flight_is_final(job):
    first, _, _ = job(LACKS, mem_mb=71)
    again, (_, record), _ = job(FINE, mem_mb=71, attempt=2)
    assert again.returncode == 1
    assert again.stderr == first.stderr
    assert record["repeated"]


@pytest.mark.parametrize("body", ["    raise ValueError('no')", "    import os; os.abort()"])
def test_a_second_attempt_at_anything_else_repeats_the_first(job, body, tmp_path):
    first, _, old_log = job(body)
    again, (_, record), log = job("    open('touched', 'w')", attempt=2)
    assert again.returncode == 1
    assert again.stderr == first.stderr
    assert record["repeated"]
    assert old_log.rstrip() in log
    third, records, _ = job("    open('touched', 'w')", attempt=3)
    assert third.stderr == first.stderr
    assert [r["attempt"] for r in records] == [1, 2, 3]
    assert not (tmp_path / "touched").exists()


def test_a_job_that_was_killed_may_try_again(job):
    job("    import os; os.kill(os.getpid(), 9)")
    assert job(FINE, attempt=2)[0].returncode == 0


def test_another_run_starts_over(job):
    job("    raise ValueError('no')")
    assert job(FINE)[0].returncode == 0
    assert len(job(FINE, attempt=2)[1]) == 1


def test_with_one_block_in_flight_the_next_attempt_gets_more_memory_if_it_declares_more(job):
    _, (record,), _ = job(LACKS, mem_mb=71)
    assert record["needed_mb"] == 950
    _, (_, record), log = job(FINE, mem_mb=950, attempt=2)
    assert (record["outcome"], record["declared_mb"]) == ("ok", 950)
    assert "attempt 1 was short of memory with 71 MB; now with 950 MB" in log


@pytest.mark.slow
def test_attempts_with_more_memory_run_one_after_the_other(tmp_path):
    body = """
    import pathlib, time
    place = pathlib.Path("running")
    place.touch(exist_ok=False)
    time.sleep(1)
    place.unlink()
"""
    runs = []
    for name in ("a", "b"):
        record = tmp_path / "telemetry" / f"{name}.jsonl"
        attempt(record, outcome="memory")
        code = SCRIPT.format(body=body, attempt=2, mem_mb=100, minutes=5)
        code = code.replace("align.", f"{name}.")
        runs.append(subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path))
    assert [run.wait(600) for run in runs] == [0, 0]  # the second to start found no other running
    logs = [(tmp_path / f"logs/{name}.log").read_text() for name in ("a", "b")]
    assert sum("waiting until 100 MB are free" in text for text in logs) == 1


@pytest.mark.parametrize("runtime", ["runtime", "none"])
def test_what_lies_in_a_directory_of_all_users_keeps_no_attempt_from_its_memory(
    tmp_path, monkeypatch, runtime
):
    for name in ("shared", "runtime"):
        (tmp_path / name).mkdir(mode=0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "shared"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / runtime))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with (tmp_path / "shared" / f"unglow-{os.getuid()}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with one_at_a_time(1, patience_s=0):
            place = tmp_path / ("runtime" if runtime == "runtime" else "cache")
            assert [path.name for path in place.iterdir()] == [f"unglow-{os.uname().nodename}.lock"]


def test_an_attempt_that_the_machine_has_no_memory_for_gives_up(tmp_path):
    with (
        pytest.raises(MemoryError, match=r"would need \d+ MB, and only \d+ MB became free"),
        one_at_a_time(
            (memory_available_mb() + memory_total_mb()) / 2, patience_s=0, lock=tmp_path / "lock"
        ),
    ):
        pass


def test_an_attempt_that_waits_for_another_one_does_not_say_that_memory_is_short(tmp_path):
    lock = tmp_path / "lock"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with (
            pytest.raises(MemoryError, match=str(lock)) as error,
            one_at_a_time(1, patience_s=0, lock=lock),
        ):
            pass
    assert "became free" not in str(error.value)


WAITING = """
from pathlib import Path
from unglow.core.machine import memory_total_mb
from unglow.jobs.launcher import ParentProcess
from unglow.jobs.retries import one_at_a_time

parent = ParentProcess.find()
Path("waits").touch()
try:
    with one_at_a_time(memory_total_mb() * 0.999, lock=Path("lock"), abandoned=parent.is_gone): pass
except KeyboardInterrupt:
    Path("gone").touch()
"""
# Snakemake runs a script in a shell, which outlives a Snakemake that is killed.
LAUNCHING = """
import subprocess, sys
from unglow.jobs.launcher import announce

announce(in_job=False)
subprocess.run([sys.argv[1], "-c", '"$0" waiting.py; true', sys.executable])
"""


def test_an_attempt_whose_snakemake_is_killed_does_not_wait(tmp_path):
    (tmp_path / "waiting.py").write_text(WAITING)
    launcher = subprocess.Popen([sys.executable, "-c", LAUNCHING, "/bin/sh"], cwd=tmp_path)
    wait_for((tmp_path / "waits").exists)
    launcher.kill()
    launcher.wait()
    wait_for((tmp_path / "gone").exists)


def test_an_attempt_that_needs_more_than_the_machine_has_does_not_wait(tmp_path):
    started = time.monotonic()
    with (
        pytest.raises(MemoryError, match="would need 10000000000 MB, which is more than there is"),
        one_at_a_time(1e10, lock=tmp_path / "lock"),
    ):
        pass
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    ("end", "declares"),
    [
        ({"outcome": "memory", "needed_mb": 500}, 500),
        ({"outcome": "memory", "needed_mb": 500, "in_flight": 1}, 500),
        ({"outcome": "memory", "needed_mb": 500, "in_flight": 2}, 300),
        ({"outcome": "memory"}, 300),
        ({"outcome": "timeout", "needed_mb": 500}, 300),
        ({}, 300),
    ],
)
def test_only_what_lacked_memory_with_one_block_declares_more(tmp_path, end, declares):
    record = tmp_path / "align.jsonl"
    assert next_mb(record, 300) == 300
    attempt(record, **end)
    assert next_mb(record, 300) == declares


def test_only_attempts_of_the_last_run_count(tmp_path):
    record = tmp_path / "align.jsonl"
    directory = attempts_directory(record)
    for number in (1, 2, 1, 2, 3):  # of the second in the last run nothing is known
        attempt(record, number, **({} if number == 2 else {"outcome": "timeout"}))
    records, log = list_outcomes(directory)
    assert [(one["attempt"], one["message"]) for one in records] == [(1, "m"), (3, "m")]
    assert log == "log 3"
    assert list_outcomes(directory, before=5)[1] == "log 1"
    assert next_min(record, 2) == 18
    attempt(record, 2, outcome="error")  # the first of its run never began
    assert [one["attempt"] for one in list_outcomes(directory)[0]] == [2]


@pytest.mark.parametrize("text", ["", "no line", '{"kind": "attempt"}\n', '{"attempt": "1"}\n'])
def test_files_without_information_count_as_none(tmp_path, text):
    record = tmp_path / "align.jsonl"
    attempt(record, outcome="memory", needed_mb=500)
    directory = attempts_directory(record)
    attempt_file(directory, take_number(directory)).write_text(text)
    (directory / "x.jsonl").write_text("{")
    assert next_mb(record, 300) == 500
    (tmp_path / "file").touch()
    assert next_mb(tmp_path / "file.jsonl", 300) == 300


HOLDING = """
import pathlib, time
held = bytearray(b"1") * {mb}_000_000
pathlib.Path("held").touch()
time.sleep(600)
"""


def test_no_job_starts_while_another_process_has_the_memory_of_the_machine(tmp_path, groups):
    group = groups.group("short", 2000)  # of which 100 MB have to be free

    def start(code):
        words = groups.inside(group, sys.executable, "-c", code)
        return subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True)

    body = "    import pathlib; pathlib.Path('runs').touch()"
    hog = start(HOLDING.format(mb=1930))
    try:
        wait_for((tmp_path / "held").exists)
        job = start(SCRIPT.format(body=body, attempt=1, mem_mb=60, minutes=5))
        time.sleep(3)
        assert not (tmp_path / "runs").exists()
    finally:
        hog.kill()
        hog.wait()
    assert job.wait(60) == 0
    assert f"(process {hog.pid}, 19" in job.stderr.read()
    history = History.read(tmp_path)
    [a] = history.runs[0].attempts
    [stall] = a.stalls
    assert stall.over
    assert 1 <= stall.seconds <= a.seconds
    [incident] = incidents(history, tmp_path)
    assert f"(process {hog.pid}, 19" in incident.message
