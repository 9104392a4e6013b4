"""`unglow run --debug`: a job in pdb, whose commands come from standard input."""

from __future__ import annotations

import pytest
from real_runs import bytes_of, command, debugged

import unglow

pytestmark = pytest.mark.workflow


def test_a_stage_stops_at_its_first_line_and_makes_the_same_bytes(small_work):
    before = bytes_of(small_work / "results")
    run = debugged(small_work, "n\np job.rule\nc\n", "register", "phantom/SYTO9")
    assert run.returncode == 0, run.stdout
    assert "(Pdb)" in run.stdout
    assert "'register'" in run.stdout
    assert bytes_of(small_work / "results") == before
    last = unglow.open_run(small_work).attempts[0]
    assert (last.rule, last.outcome, len(last.samples)) == ("register", "ok", 0)


def test_the_debugger_opens_where_an_error_is_raised(small_work):
    fault = ("import unglow.stages.register as stage", "stage.register_stores = None")
    commands = "\n".join(["n", *fault, "c", "p 6 * 7", "q", ""])
    before = bytes_of(small_work / "results")
    run = debugged(small_work, commands, "register", "phantom/SYTO9")
    assert run.returncode == 1
    assert "TypeError: 'NoneType' object is not callable" in run.stdout
    assert "(Pdb) 42" in run.stdout
    assert unglow.open_run(small_work).attempts[0].outcome == "interrupted"
    assert bytes_of(small_work / "results") == before
    assert "Nothing to do" in command(small_work, "unglow", "run", "-n").text
