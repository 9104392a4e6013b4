"""The file of a run, from records as Snakemake's logger sends them."""

from __future__ import annotations

import json
import logging

import pytest

from unglow.telemetry.attempt_files import KEPT_RUNS
from unglow.telemetry.recording.run import RunRecorder


class Wildcards(dict):
    pass


@pytest.fixture
def logger():
    made = logging.getLogger("tests.snakemake")
    made.setLevel(logging.DEBUG)
    made.propagate = False
    yield made
    for handler in list(made.handlers):
        made.removeHandler(handler)
        handler.close()


@pytest.fixture
def recorder(logger, tmp_path):
    head = {"command": ["snakemake"], "cores": 2}
    plan = [[7, "scale", {"sample": "S"}, []]]
    made = RunRecorder(tmp_path / "runs", "a-run", lambda: head, lambda: plan)
    made.left = plan
    logger.addHandler(made)
    return made


@pytest.fixture
def say(logger, recorder):
    def event(name, text="", level=logging.INFO, **fields):
        logger.log(level, text, extra={"event": name, **fields})

    return event


def job(say, jobid, rule="scale", *, local=True):
    say(
        "job_info",
        jobid=jobid,
        rule_name=rule,
        rule_msg=None,
        wildcards=Wildcards(sample="S", dye="D"),
        reason="Missing output files: x",
        threads=2,
        resources={"_cores": 2, "tmpdir": "/tmp", "mem_mb": 300, "mem": "300 MB", "attempt": 1},
        local=local,
        input=["a"],
        output=["b", "c"],
        log=["logs/S/D/scale.log"],
    )


def lines(tmp_path):
    (path,) = (tmp_path / "runs").iterdir()
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_run_is_its_head_its_jobs_their_states_and_its_end(tmp_path, say, recorder):
    say("run_info", stats={"scale": 1, "all": 1, "total": 2})
    job(say, 7)
    say("job_finished", job_id=7)
    recorder.conclude("ok")
    recorder.close()
    head, total, plan, message, started, finished, end = lines(tmp_path)
    assert (head["kind"], head["schema"], head["cores"]) == ("run", 1, 2)
    assert {"host", "pid", "started", "boot", "wall", "clock", "command"} <= head.keys()
    assert total.items() >= {"kind": "total", "jobs": {"scale": 1}}.items()
    assert plan.items() >= {"kind": "plan", "jobs": [[7, "scale", {"sample": "S"}, []]]}.items()
    assert message.pop("t") >= 0
    assert message == {
        "kind": "job",
        "jobid": 7,
        "rule": "scale",
        "wildcards": {"sample": "S", "dye": "D"},
        "reason": "Missing output files: x",
        "threads": 2,
        "resources": {"mem_mb": 300, "attempt": 1},
        "local": True,
        "input": ["a"],
        "output": ["b", "c"],
        "log": ["logs/S/D/scale.log"],
        "state": "queued",
    }
    assert (started["jobid"], started["state"]) == (7, "started")
    assert (finished["jobid"], finished["state"]) == (7, "finished")
    assert (end["kind"], end["outcome"]) == ("end", "ok")
    assert end["wall"] >= head["wall"]


def test_two_instances_of_the_workflow_record_their_own_jobs(tmp_path, logger):
    """As modules of another workflow, each with a results directory."""
    plans = {name: [[1, name, {}, []]] for name in "ab"}
    places = {name: tmp_path / name / "telemetry" / "runs" for name in "ab"}
    recorders = {n: RunRecorder(places[n], "a-run", dict, plans[n].copy) for n in "ab"}
    for recorder in recorders.values():
        logger.addHandler(recorder)
    made = {name: [tmp_path / name / "telemetry" / "s" / "x.jsonl"] for name in "ab"}
    assert recorders["a"].is_recorded(["x"], made["a"])
    assert not recorders["a"].is_recorded(["x"], made["b"])
    assert recorders["a"].is_recorded(["count.txt"], [])  # a rule of the user's
    assert not recorders["a"].is_recorded([], [])  # all
    stats = {"a": 1, "b": 1, "total": 2}
    logger.info("", extra={"event": "run_info", "stats": stats})
    fields = {"rule_name": "x", "wildcards": {}, "reason": "", "threads": 1, "resources": {}}
    for jobid, name in enumerate("ab"):
        more = fields | {"input": [], "output": ["x"], "log": made[name], "local": True}
        logger.info("", extra={"event": "job_info", "jobid": jobid, **more})
    for event in ({"event": "job_finished", "job_id": 0}, {"event": "job_error", "jobid": 1}):
        logger.info("", extra=event)
    plans["a"].clear()
    for jobid, name in enumerate("ab"):
        recorders[name].close()
        found = lines(tmp_path / name / "telemetry")
        assert found[-1]["outcome"] == ("ok", "failed")[jobid]
        assert [line["jobs"] for line in found if line["kind"] == "total"] == [{name: 1}]
        jobs = [(line["jobid"], line["state"]) for line in found if "jobid" in line]
        last = ("finished", "failed")[jobid]
        assert jobs == [(jobid, "queued"), (jobid, "started"), (jobid, last)]


def test_without_anything_to_do_there_is_no_file(tmp_path, say, recorder):
    say("workflow_started", "Workflow has started!")
    say(None, "Nothing to be done", logging.WARNING)
    recorder.close()
    assert not (tmp_path / "runs").exists()


def test_a_job_elsewhere_starts_when_its_attempt_says_so(tmp_path, say, recorder):
    say("run_info", stats={"scale": 1, "total": 1})
    job(say, 1, local=False)
    recorder.close()
    assert [e["kind"] for e in lines(tmp_path)] == ["run", "total", "plan", "job", "end"]


def test_a_job_that_is_tried_again_is_recorded_again(tmp_path, say, recorder):
    say("run_info", stats={"scale": 1, "total": 1})
    for _ in range(2):
        job(say, 4)
        say("job_error", "Error in rule scale", logging.ERROR, jobid=4, rule_name="scale")
    recorder.conclude("failed")
    recorder.close()
    records = lines(tmp_path)
    assert [e["state"] for e in records if e.get("jobid") == 4] == [
        "queued",
        "started",
        "failed",
    ] * 2
    assert records[-1]["outcome"] == "failed"
    assert not [e for e in records if e["kind"] == "message"]


def test_warnings_and_errors_are_kept_those_before_the_first_job_too(tmp_path, say, recorder):
    say(None, "preflight: little room", logging.WARNING)
    say(None, "Building DAG of jobs...")
    say("run_info", stats={"scale": 1, "total": 1})
    say("error", "WorkflowError:\nno", logging.ERROR, exception="WorkflowError")
    recorder.close()
    messages = [(e["level"], e["text"]) for e in lines(tmp_path) if e["kind"] == "message"]
    assert messages == [("warning", "preflight: little room"), ("error", "WorkflowError:\nno")]


@pytest.mark.parametrize(
    ("said", "left", "outcome"),
    [
        ("Terminating processes on user request, this might take some time.", 1, "interrupted"),
        ("Will exit after finishing currently running jobs (scheduler).", 0, "interrupted"),
        ("Select jobs to execute...", 1, "failed"),
        ("Select jobs to execute...", 0, "ok"),
    ],
)
def test_the_end_is_recorded_without_handlers_of_the_workflow(
    tmp_path, say, recorder, said, left, outcome
):
    say("run_info", stats={"scale": 2, "total": 2})
    del recorder.left[left:]
    say(None, said)
    if outcome == "interrupted":
        recorder.conclude("failed")  # Snakemake calls onerror then
    recorder.close()
    recorder.close()
    assert [e["outcome"] for e in lines(tmp_path) if e["kind"] == "end"] == [outcome]


def test_what_goes_wrong_is_reported_once_and_does_not_reach_the_run(logger, say, recorder, caplog):
    say("run_info", stats={"scale": 1, "total": 1})
    with caplog.at_level(logging.WARNING, "unglow"):
        say("job_info")  # of a Snakemake that reports nothing about the job
        say("job_error")
    said = [r.getMessage() for r in caplog.records if r.name == "unglow"]
    assert said == ["telemetry of this run is not complete (KeyError('output'))"]


def test_a_place_that_cannot_be_written_costs_nothing(tmp_path, logger, caplog):
    (tmp_path / "runs").write_text("a file in the way")
    plan = [[1, "a", {}, []]]
    recorder = RunRecorder(tmp_path / "runs", "a-run", dict, lambda: plan)
    logger.addHandler(recorder)
    with caplog.at_level(logging.WARNING, "unglow"):
        for _ in range(2):
            logger.info("", extra={"event": "run_info", "stats": {"a": 1, "total": 1}})
        recorder.close()
    (record,) = (r for r in caplog.records if r.name == "unglow")
    assert "could not be written" in record.getMessage()


def test_the_end_of_a_run_removes_the_records_of_old_ones(recorder, say, tmp_path):
    (tmp_path / "runs").mkdir()
    for n in range(KEPT_RUNS + 3):
        (tmp_path / "runs" / f"{n:03d}.jsonl").write_text("{}\n")
    say("run_info", stats={"scale": 1, "total": 1})
    recorder.close()
    left = sorted(path.stem for path in (tmp_path / "runs").iterdir())
    assert left == [*(f"{n:03d}" for n in range(4, KEPT_RUNS + 3)), "a-run"]
