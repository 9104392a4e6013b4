"""A run as plain records: `unglow.open_run` on telemetry whose numbers are known."""

from __future__ import annotations

import json

import pytest
from made_telemetry import Made, end, job, profile, sample, state, step, step_end

import unglow
from unglow.core.errors import InputError
from unglow.telemetry.speedscope import Frame


@pytest.fixture
def results(tmp_path):
    """A working directory with two runs in it: one of an attempt that failed, one that ended."""
    made = Made(tmp_path / "results")
    first = made.run({"kind": "end", "t": 9.0, "wall": 0, "outcome": "failed"}, start=0)
    made.attempt(
        *("register", 1.0, sample(0.5, 90.0)),
        end(2.0, "memory", message="It needs more.", remedy="unglow run --x", peak_mb=95.0),
        run=first,
    )
    plan = {"kind": "plan", "t": 0.1, "jobs": [
        [1, "register", {"sample": "s1", "dye": "DAPI"}, []],
        [2, "align", {"sample": "s1", "dye": "DAPI"}, [1]],
    ]}  # fmt: skip
    last = made.run(
        *(plan, job(0.5, 1, "register"), state(0.5, 1, "started"), state(4.0, 1, "finished")),
        {"kind": "end", "t": 9.0, "wall": 0, "outcome": "interrupted"},
        start=100,
        config={"memory_per_job": 2000, "results": "results"},
    )
    path = made.attempt(
        *("register", 101.0, step(0.1, "match", 1), sample(0.5, 150.0), step_end(1.0, 1)),
        *(sample(1.5, 250.0), end(2.0, peak_mb=260.0, cpu_s=1.5, read=7, written=8)),
        run=last,
    )
    profile(path, {(("f", "a.py", 1),): 0.5})
    return made.results


def test_the_last_run_with_its_jobs_attempts_samples_and_profile(results):
    run = unglow.open_run(results.parent)
    assert (run.outcome, run.cores, run.budget_mb, run.peak_mb) == ("interrupted", 2, 14000, 260.0)
    assert run.command == "snakemake -s Snakefile --cores 2"
    assert [(j.rule, j.state, j.after) for j in run.jobs] == [
        ("register", "done", ()),
        ("align", "ready", (1,)),
    ]
    (attempt,) = run.attempts
    assert (attempt.outcome, attempt.start, attempt.end, attempt.peak_mb) == ("ok", 1.0, 3.0, 260.0)
    assert attempt.samples.rss.tolist() == [150.0, 250.0]
    assert [(s.name, s.begin, s.end) for s in attempt.steps] == [("match", 0.1, 1.0)]
    assert attempt.profile == {(Frame("f", "a.py", 1),): pytest.approx(0.5)}
    assert run.incidents == ()


def test_an_earlier_run_by_its_id_and_by_its_file(results):
    first, last = unglow.list_runs(results)
    assert unglow.open_run(results).id == last
    run = unglow.open_run(results, first)
    assert [(i.cause, i.message, i.remedy) for i in run.incidents] == [
        ("memory", "It needs more.", "unglow run --x")
    ]
    file = results / "telemetry" / "runs" / f"{first}.jsonl"
    assert unglow.open_run(file).id == first == unglow.list_runs(file)[0]


def test_json_of_a_run_has_all_but_the_samples(results):
    found = json.loads(json.dumps(unglow.open_run(results).to_json(), allow_nan=False))
    assert found["schema"] == 1
    assert found["jobs"][1] == {
        "jobid": 2,
        "rule": "align",
        "wildcards": {"sample": "s1", "dye": "DAPI"},
        "state": "ready",
        "after": [1],
    }
    (attempt,) = found["attempts"]
    assert attempt["steps"] == [{"name": "match", "begin": 0.1, "end": 1.0, "depth": 0}]
    assert "samples" not in attempt
    assert found["pairs"][0]["sample"] == "s1"


def test_what_holds_no_run_is_refused(tmp_path, results):
    with pytest.raises(InputError, match="no record of a run"):
        unglow.open_run(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="has no run 7"):
        unglow.open_run(results, "7")
