"""Jobs of others: which a child process of Snakemake belongs to, and how a job ended."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from unglow.monitor.outside import OutsideJob, Seen, jobs_of
from unglow.monitor.outside.watched import Failure, describe_failure, describe_overrun, exit_code

PREFIX = "set -euo pipefail;  "


def job(number, shell="", output=(), log=(), rule="r", **wildcards):
    return OutsideJob(number, rule, wildcards, output, (*output, *log), shell)


def found(words, jobs, **seen):
    return [j.jobid for j in jobs_of(Seen(tuple(words), **seen), jobs)]


SHELLS = [
    job(1, "python x.py 1 o/1", ("o/1",)),
    job(2, "python x.py 10 o/10", ("o/10",)),
    job(3, "mkdir -p d; python x.py 3 o/3", ("o/3",)),
    job(4, "OMP=1 python 'x y.py' > o/4 2>&1", ("o/4",)),
    job(5, "python z.py 2> l/5.log", (), ("l/5.log",)),
]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["bash", "-c", PREFIX + "python x.py 1 o/1"], 1),
        (["bash", "-c", PREFIX + "python x.py 10 o/10"], 2),
        (["python", "x.py", "1", "o/1"], 1),
        (["bash", "-c", PREFIX + "mkdir -p d; python x.py 3 o/3"], 3),
        (["python", "x y.py"], 4),
        (["python", "z.py"], 5),
        (["singularity", "exec", "bash -c 'python x.py 10 o/10'"], 2),
    ],
)
def test_a_command_is_found_also_where_bash_has_replaced_itself(words, expected):
    assert found(words, SHELLS) == [expected]


def test_a_command_whose_end_is_that_of_another_is_not_taken_for_it():
    jobs = [job(1, "x.py 1"), job(2, "python x.py 1")]
    assert found(["bash", "-c", PREFIX + "python x.py 1"], jobs) == [2]


def test_what_is_nobodys_is_given_to_nobody():
    assert found(["papermill", "--version"], SHELLS) == []
    assert found([], SHELLS) == []


def test_equal_commands_are_distinguished_by_where_they_write():
    jobs = [job(n, f"seq 3 > o/{n}", (f"o/{n}",)) for n in (1, 2)]
    assert found(["seq", "3"], jobs) == [1, 2]
    assert found(["seq", "3"], jobs, writes=frozenset({str(Path("o/2").absolute())})) == [2]


def test_a_run_block_is_found_by_its_target():
    jobs = [job(1, rule="a", n="1"), job(2, rule="a", n="10"), job(3, rule="b_a", n="1")]
    line = "cd /w && python -m snakemake --target-jobs 'a:n=1' --attempt 1"
    assert found(["sh", "-c", line], jobs) == [1]


def test_a_script_is_found_by_the_files_of_its_job():
    jobs = [job(1, output=("o/1",)), job(2, output=("o/10",))]
    words = ["python", ".snakemake/scripts/tmpabc.x.py"]
    assert found(words, jobs, script=r"loads(b'\x05o/10\x94')") == [2]
    assert found(words, jobs, script=r"loads(b'\x03o/1\x94')") == [1]
    assert found(words, [*jobs, job(3, "python x", ("o/3",))], script="o/7") == []


def test_a_process_is_seen_with_its_words_and_files(tmp_path):
    with (tmp_path / "out").open("w") as out:
        words = [sys.executable, "-c", "input()"]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=out)
        try:
            end = time.monotonic() + 30  # the kernel may show no words for a moment
            while not (seen := Seen.from_pid(process.pid)).words and time.monotonic() < end:
                time.sleep(0.01)
        finally:
            process.communicate(b"\n")
    assert str(tmp_path / "out") in seen.writes
    assert Seen.from_pid(process.pid).words == ()
    assert seen.words


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
    assert "130 MB" in describe_overrun(100.0, 130.0)
    assert (
        describe_overrun(130.0, 100.0)
        == describe_overrun(None, 5.0)
        == describe_overrun(5.0, None)
        == ""
    )
