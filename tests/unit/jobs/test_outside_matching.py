"""Which job a child process of Snakemake belongs to: the right one, several of a rule, or none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from unglow.jobs.outside.matching import OutsideJob, Seen, jobs_of

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
        (["python", "x.py", "10", "o/10"], 2),
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
            seen = Seen.from_pid(process.pid)
        finally:
            process.communicate(b"\n")
    assert str(tmp_path / "out") in seen.writes
    assert Seen.from_pid(process.pid).words == ()
    assert seen.words
