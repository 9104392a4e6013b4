"""Whatever is killed, one command goes on, and every byte is as if nothing had happened."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest
from faulty_runs import SHORT, bytes_of, left_behind, snakemake, started, unglow
from running_jobs import alive, attempt_at, held, wait_for

pytestmark = pytest.mark.workflow


def test_after_sigkill_of_snakemake_its_jobs_end_and_resume_goes_on(work, expected):
    with started(work, *SHORT) as process:
        attempt = wait_for(lambda: attempt_at(work, "register"))
        process.kill()
        process.wait()
        wait_for(lambda: not alive(attempt["watchdog"]) and not alive(attempt["job"]))
        assert '"outcome":"killed"' in attempt["file"].read_text()
        code, text = snakemake(work, *SHORT)
        assert (code, "cannot be locked" in text) == (1, True)
        assert "`unglow resume` removes the lock" in text
    code, text = unglow(work, "run", "-n")
    assert (code, text.splitlines()[-1]) == (0, "Run it: unglow resume")
    code, text = unglow(work, "resume")
    assert code == 0, text
    assert "`unglow resume` removes the lock" not in text
    assert bytes_of(work) == expected
    assert left_behind(work) == []


def test_everything_killed_at_once_leaves_nothing_that_a_resume_would_not_fix(work, expected):
    with started(work, *SHORT) as process:
        wait_for(lambda: attempt_at(work, "ingest"))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    code, text = unglow(work, "resume")
    assert code == 0, text
    assert bytes_of(work) == expected
    assert left_behind(work) == []


@pytest.mark.parametrize("who", ["job", "watchdog"])
def test_snakemake_tries_a_job_again_that_was_killed_or_has_lost_its_watchdog(work, expected, who):
    with started(work, *SHORT) as process:
        attempt = wait_for(lambda: attempt_at(work, "register"))
        os.kill(attempt[who], signal.SIGKILL)
        assert process.wait(1500) == 0, (work / "output.txt").read_text()
    assert not alive(attempt["job"])
    assert bytes_of(work) == expected
    assert left_behind(work) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_after_sigterm_or_ctrl_c_the_same_command_goes_on(work, expected, number):
    with started(work, *SHORT) as process:
        wait_for(lambda: attempt_at(work, "register"))
        if number == signal.SIGINT:  # a terminal sends it to all
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        assert process.wait(1500) != 0
    code, text = snakemake(work, *SHORT)
    assert code == 0, text
    assert bytes_of(work) == expected
    assert left_behind(work) == []


def test_two_runs_at_once_are_one_run_and_one_sentence(work, expected):
    with started(work, *SHORT) as process:
        with held(work, "register"):
            code, text = snakemake(work, *SHORT)
            assert (code, "cannot be locked" in text) == (1, True)
            assert "was killed" not in text
            code, text = unglow(work, "resume")
            assert (code, f"process {process.pid}) has been running here" in text) == (2, True)
            code, text = unglow(work, "verify", "--clean")
            assert (code, "has been running here" in text) in ((0, False), (2, True))
        assert process.wait(1500) == 0
    assert bytes_of(work) == expected


def test_resume_of_a_copy_leaves_the_original_alone(tmp_path, work, expected):
    with started(work, *SHORT) as process:
        wait_for(lambda: attempt_at(work, "register"))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    copy = tmp_path.parent / f"{tmp_path.name} copy"
    subprocess.run(["cp", "-a", str(work), str(copy)], check=True)
    locks = sorted((work / ".snakemake" / "locks").iterdir())
    before = bytes_of(copy)
    code, text = unglow(work.parent, "resume", copy)
    assert code == 2
    assert f"{copy} was copied or moved" in text
    assert f"worked in {work}" in text
    assert sorted((work / ".snakemake" / "locks").iterdir()) == locks
    assert bytes_of(copy) == before
    code, text = snakemake(copy, "--unlock")
    assert code == 0, text
    code, text = snakemake(copy, *SHORT, "--rerun-incomplete")
    assert code == 0, text
    assert bytes_of(copy) == expected
    code, text = unglow(work.parent, "resume", work)
    assert code == 0, text
    assert text.startswith(f"unglow resume: cd {work} && snakemake -s ")
    assert bytes_of(work) == expected


def test_resume_ends_as_snakemake_does_and_hands_words_on(work):
    with started(work, *SHORT) as process:
        wait_for(lambda: attempt_at(work, "ingest"))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    code, text = unglow(work, "resume", "--", "--config", "no_such=1")
    assert code == 1
    assert "no_such" in text
    code, text = unglow(work, "resume", "results", "--", "-n")
    assert code == 0, text
    assert "This was a dry-run" in text
