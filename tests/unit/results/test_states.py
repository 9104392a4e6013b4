"""How pairs stand while a run goes on, what helps those that failed, and what to do next."""

import json
import os
from pathlib import Path

import pytest
from made_telemetry import BOOT, WALL, Made, end, job, sample, state

from unglow.cli.directories import quote_directory
from unglow.cli.status import suggest_next
from unglow.core.reasons import explain, read_table
from unglow.monitor.terminal.run_watch import EventLines
from unglow.pages.report.page_model import build
from unglow.results.runs import Runs
from unglow.telemetry.reading.plan import Machine

TOTAL = {"kind": "total", "t": 0.5, "jobs": {"register": 4}}
UNLIKE = read_table()["unlike"].sentence
TOO_LARGE = explain("too_large", name="post", largest=1e30, limit=1e15)
PAIRS = [["s1", "DAPI"], ["s1", "FITC"], ["s2", "DAPI"], ["s3", "DAPI"]]


@pytest.fixture
def made(tmp_path):
    return Made(tmp_path / "work" / "results")


def say(results, sample, dye, name, status, **more):
    path = results / sample / dye / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"status": status, **more}))


def over(t, outcome):
    return {"kind": "end", "t": t, "wall": WALL + t, "outcome": outcome}


def read(made, now=60.0):
    return Runs.read(made.results, Machine(host="x", boot=BOOT, now=WALL + now))


def model(made, now=60.0):
    return build(read(made, now))


def statuses(made, **how):
    return {f"{p['sample']} {p['dye']}": p["status"] for p in model(made, **how)["pairs"]}


def going_on(made):
    """s1 DAPI is registered, s1 FITC failed, s2 has lost a job, and s3 has not started."""
    made.run(TOTAL, job(1, 1, "register"), job(1, 2, "register", "s2"), state(9, 2, "failed"),
             pairs=PAIRS)  # fmt: skip
    made.attempt("register", 2, sample(1, 50), {"kind": "progress", "t": 9, "done": 9, "of": 20})
    made.attempt("register", 2, end(7.0, "error", message="a fault."), sample="s2")
    say(made.results, "s1", "FITC", "details/plan.json", "ok", reason=None)
    say(made.results, "s1", "FITC", "transform.json", "failed", reasons=[UNLIKE])
    say(made.results, "s3", "DAPI", "details/plan.json", "ok", reason=None)


def test_pairs_wait_run_or_have_failed_while_a_run_goes_on(made):
    going_on(made)
    status = model(made)
    assert {f"{p['sample']} {p['dye']}": (p["status"], p["reasons"]) for p in status["pairs"]} == {
        "s1 DAPI": ("running", ""),
        "s1 FITC": ("failed", UNLIKE),
        "s2 DAPI": ("incomplete", "register: a fault."),
        "s3 DAPI": ("waiting", ""),
    }
    assert status["working"] == {"s1 DAPI": "register 45 %"}


def test_a_job_that_starts_makes_its_pair_run_and_only_its_variant(made):
    made.run(TOTAL, job(1, 2, "register", "s2"), state(2, 2, "started"), pairs=PAIRS[2:])
    assert statuses(made) == {"s2 DAPI": "running", "s3 DAPI": "waiting"}
    assert model(made)["working"] == {"s2 DAPI": "register"}


def test_variants_of_a_pair_run_on_their_own(made):
    names = {"sample": "s1", "dye": "DAPI"}
    for variant in "ab":
        say(made.results, "s1", "DAPI", f"{variant}/transform.json", "ok")
    made.run(
        TOTAL,
        job(1, 1, "align") | {"wildcards": names | {"registration": "b"}},
        state(2, 1, "started"),
        pairs=PAIRS[:1],
    )
    say(made.results, "s1", "DAPI", "details/plan.json", "ok")
    assert [(p["registration"], p["status"]) for p in model(made)["pairs"]] == [
        ("a", "waiting"),
        ("b", "running"),
    ]
    made.run(TOTAL, job(1, 1, "ingest"), state(2, 1, "started"), start=5, pid=5, pairs=PAIRS[:1])
    assert {p["status"] for p in model(made)["pairs"]} == {"running"}


def test_results_that_a_run_is_about_to_make_again_are_not_reported(made):
    say(made.results, "s1", "FITC", "details/plan.json", "ok", reason=None)
    say(made.results, "s1", "FITC", "transform.json", "failed", reasons=[UNLIKE])
    names = {"sample": "s1", "dye": "FITC"}
    plan = [[1, "register", names, []], [2, "align", names, [1]], [3, "figures", names, [2]]]
    run = (TOTAL, {"kind": "plan", "t": 0.6, "jobs": plan})
    transform = made.results / "s1" / "FITC" / "transform.json"
    os.utime(transform, (WALL - 9, WALL - 9))
    path = made.run(*run, pairs=PAIRS[1:2])
    assert statuses(made) == {"s1 FITC": "waiting"}
    with path.open("a") as stream:
        lines = (job(1, 1, "register", dye="FITC"), state(2, 1, "started"), state(9, 1, "finished"))
        stream.writelines(json.dumps(line) + "\n" for line in lines)
    os.utime(transform, (WALL + 8, WALL + 8))
    assert statuses(made) == {"s1 FITC": "failed"}  # though jobs of it are to come


def test_a_job_that_will_be_tried_again_has_not_stopped_its_pair(made):
    again = job(10, 2, "register", "s2")
    made.run(TOTAL, job(1, 2, "register", "s2"), state(9, 2, "failed"), again, pairs=PAIRS[2:3])
    made.attempt("register", 2, end(7.0, "killed", message="ended from outside."), sample="s2")
    assert statuses(made) == {"s2 DAPI": "waiting"}


@pytest.mark.parametrize(
    ("outcome", "status"), [("ok", "waiting"), ("interrupted", "waiting"), ("failed", "incomplete")]
)
def test_what_was_not_asked_for_is_no_fault(made, outcome, status):
    made.run(TOTAL, over(20, outcome), pairs=PAIRS[3:])
    say(made.results, "s3", "DAPI", "details/plan.json", "ok", reason=None)
    assert statuses(made) == {"s3 DAPI": status}


def test_a_fault_of_an_earlier_run_is_forgotten_while_the_next_one_goes_on(made):
    made.run(TOTAL, job(1, 2, "register"), state(9, 2, "failed"), over(10, "failed"), pid=1)
    made.attempt("register", 2, end(7.0, "error", message="a fault."))
    assert statuses(made)["s1 DAPI"] == "incomplete"
    made.run(TOTAL, start=30, pid=2, pairs=PAIRS[:1])
    assert statuses(made) == {"s1 DAPI": "waiting"}


def test_a_pair_that_failed_is_an_incident_at_once_with_what_helps(made):
    going_on(made)
    (found,) = [i for i in model(made)["incidents"] if i["kind"] == "pair"]
    assert (found["cause"], found["title"], found["message"]) == ("failed", "s1 FITC", UNLIKE)
    assert "Landmarks" in found["helps"]
    assert "from:" not in found["helps"]  # no dye of the sample has a map yet

    say(made.results, "s1", "DAPI", "transform.json", "ok", reasons=[])
    made.run(TOTAL, start=1, pid=7, pairs=PAIRS)
    (run,) = (run for run in read(made).shown if run.pid == 7)
    incident = run.incidents[0]
    assert (incident.kind, incident.cause, incident.title) == ("pair", "failed", "s1 FITC")
    assert "register: from: DAPI" in incident.helps
    (line,) = [line for line in EventLines().lines(read(made)) if "s1 FITC: failed" in line]
    assert UNLIKE.partition(".")[0] in line
    assert line.endswith(incident.helps)


@pytest.mark.parametrize(
    ("plan", "reason", "helps"),
    [
        ("failed", UNLIKE, ""),
        ("ok", explain("mirrored").to_plain(), explain("mirrored").help),
        ("ok", "The post-stain image of 800 x 64 px is too small to be registered.", ""),
        ("ok", TOO_LARGE.to_plain(), TOO_LARGE.help),
        ("ok", explain("source_failed", dye="Cy3", why="").to_plain(), ""),
    ],
)
def test_no_help_is_offered_that_would_not_help(made, plan, reason, helps):
    made.run(TOTAL, pairs=PAIRS[:1])
    say(made.results, "s1", "DAPI", "details/plan.json", plan, reason="The file is damaged.")
    say(made.results, "s1", "DAPI", "transform.json", "failed", reasons=[reason])
    (found,) = model(made)["incidents"]
    assert (found["cause"], found["helps"]) == ("failed", helps)


def test_each_variant_of_a_sweep_fails_on_its_own(made):
    made.run(TOTAL, pairs=PAIRS[:1])
    say(made.results, "s1", "DAPI", "details/plan.json", "ok")
    for variant, status in (("a", "ok"), ("b", "failed")):
        say(made.results, "s1", "DAPI", f"{variant}/transform.json", status, reasons=[UNLIKE])
    say(made.results, "s1", "DAPI", "b/x/scale.json", "failed", reasons=[UNLIKE])
    say(made.results, "s1", "DAPI", "a/y/scale.json", "failed", reasons=["No stain-free pixels."])
    (run,) = read(made).shown
    assert [(i.title, i.message) for i in run.incidents] == [
        ("s1 DAPI a y", "No stain-free pixels."),
        ("s1 DAPI b x", UNLIKE),
    ]


# ------------------------------------------------------------------------------------- what next


def next_of(made):
    return suggest_next(read(made, 999).last)


def test_after_a_run_that_ended_well_or_goes_on_there_is_nothing_to_do(made):
    assert next_of(made) == []
    made.run(TOTAL, over(9, "ok"))
    assert next_of(made) == []


def test_what_may_end_well_is_resumed(made):
    made.run(TOTAL, over(9, "failed"))
    made.attempt("register", 2, end(4.0, "killed", message="ended from outside."))
    assert next_of(made) == ["The last run failed: `unglow resume` continues."]


def test_a_command_for_another_directory_names_it(made):
    made.run(TOTAL, over(9, "failed"))
    made.attempt("register", 2, end(4.0, "killed", message="ended from outside."))
    assert suggest_next(read(made, 999).last, quote_directory(Path("my images"), ".")) == [
        "The last run failed: `unglow resume 'my images'` continues."
    ]
    assert (
        quote_directory(Path("results")),
        quote_directory(Path(), "."),
        quote_directory(Path("a")),
    ) == ("", "", " a")


def test_what_would_fail_again_is_not_resumed(made):
    made.run(TOTAL, over(50, "failed"))
    made.attempt("plan", 1, end(1.0, "error", message="a fault."))
    made.attempt("plan", 3, end(1.0), number=2)
    lacks = end(4.0, "memory", message="needs more.", remedy="snakemake --set-resources x:mem_mb=9")
    for n in range(5):
        made.attempt("register", 5 + n, lacks, sample=f"s{n}")
    lines = next_of(made)
    assert lines[0].startswith("The last run failed, and the same command (or `unglow resume`)")
    assert lines[1:3] == [
        "  register s0 DAPI: needs more.",
        "    snakemake --set-resources x:mem_mb=9",
    ]
    assert lines[-1] == "  and 2 more; `unglow report` shows all of them."
    assert not any("plan" in line for line in lines)


def test_pairs_that_failed_are_no_reason_to_resume(made):
    made.run(TOTAL, over(9, "failed"))
    made.attempt("verdict", 5, end(1.0, "bad_input", message="1 failed"), sample="", dye="")
    (line,) = next_of(made)
    assert "resume" not in line
    assert "because of failed or skipped pairs" in line
