"""Joining runs and attempts: places on the time axis, slots, what became of the silent, sums."""

import json
import os
from dataclasses import replace

import pytest
from made_telemetry import BOOT, WALL, Made, end, job, sample, state

from unglow.core import process
from unglow.pages.report.page_model import compute_curve
from unglow.telemetry.reading.follower import Follower
from unglow.telemetry.reading.history import UNRECORDED, History, follow, sum_declared, sum_memory
from unglow.telemetry.reading.incidents import incidents
from unglow.telemetry.reading.plan import Machine
from unglow.telemetry.reading.time_left import time_left
from unglow.telemetry.reading.totals import Split, group_by_rule, split

DONE = {"kind": "end", "t": 100.0, "wall": WALL + 100, "outcome": "ok"}


@pytest.fixture
def made(tmp_path):
    return Made(tmp_path / "results")


def history(made, now=WALL + 1000, host="elsewhere", boot=BOOT):
    return History.read(made.results, Machine(host=host, boot=boot, now=now))


@pytest.fixture
def proc_with(tmp_path, monkeypatch):
    """A /proc with nothing in it but what is put there."""
    monkeypatch.setattr(process, "PROC", tmp_path / "proc")

    def put(pid, started, status="S"):
        (tmp_path / "proc" / str(pid)).mkdir(parents=True)
        (tmp_path / "proc" / "self").mkdir(exist_ok=True)
        rest = [status, *["0"] * 18, str(started)]
        text = f"{pid} (a name) of) {' '.join(rest)} 0 0\n"
        (tmp_path / "proc" / str(pid) / "stat").write_text(text)

    return put


def test_times_are_by_the_monotonic_clock_where_it_is_the_same(made):
    made.run(DONE)
    made.attempt("plan", 5.0, end(2.0), wall=WALL + 9)  # the wall clock was set meanwhile
    made.attempt("register", 7.0, end(2.0), boot="boot-2")
    (run,) = history(made).runs
    assert [(a.stage, a.start, a.end) for a in run.attempts] == [
        ("plan", 5.0, 7.0),
        ("register", 7.0, 9.0),
    ]
    assert run.seconds == 100.0


def test_clocks_of_other_machines_are_put_right_where_they_contradict_snakemake(made):
    made.run(
        job(0.0, 1, "plan"),
        state(10.0, 1, "started"),
        state(20.0, 1, "finished"),
        job(0.0, 2, "register"),
        state(10.0, 2, "started"),
        state(30.0, 2, "finished"),
        DONE,
    )
    made.attempt("plan", 7.0, end(5.0), host="node8", boot="b")
    made.attempt("register", 12.0, end(5.0), host="node9", boot="b")
    (run,) = history(made).runs
    assert run.shifts == {"node8": 3.0}
    assert [(a.start, a.end) for a in run.attempts] == [(10.0, 15.0), (12.0, 17.0)]


def test_attempts_belong_to_the_run_that_they_name_whatever_the_clocks_say(made):
    """Three runs within 5 s, the first of them killed, each with the same jobs."""
    jobs = [job(0.1, n, stage) for n, stage in enumerate(("plan", "register"))]
    runs = [made.run(*jobs, start=0.0, pid=1)]
    runs += [made.run(*jobs, DONE | {"t": 1.0}, start=n, pid=pid) for n, pid in ((1, 2), (2.5, 3))]
    for run, start in zip(runs, (3.0, 0.5, 9.0), strict=True):  # of no run, by their clocks
        made.attempt("plan", start, end(0.5), run=run)
        made.attempt("register", start + 0.5, end(0.5), run=run)
    found = history(made).runs
    assert [h.run.id for h in found] == [run.stem for run in runs]
    assert [h.outcome for h in found] == ["killed", "ok", "ok"]
    assert [[a.run for a in h.attempts] for h in found] == [[run.stem] * 2 for run in runs]


def test_attempts_of_a_run_whose_file_is_gone_belong_to_no_other(made):
    gone = made.run(DONE, start=0)
    made.run(DONE, start=1, pid=98)
    made.attempt("plan", 3, end(1.0), run=gone)
    gone.unlink()
    with_nothing, alone = history(made).runs
    assert (with_nothing.attempts, alone.run.id) == ((), UNRECORDED)


def test_attempts_that_name_no_run_belong_to_none(made):
    made.run(DONE, start=0)
    made.attempt("plan", 3, end(1.0), run=None)
    with_nothing, alone = history(made).runs
    assert with_nothing.attempts == ()
    assert (alone.run.id, [a.start for a in alone.attempts]) == (UNRECORDED, [0.0])


def test_slots_are_the_lowest_rows_that_are_free(made):
    made.run(DONE)
    made.attempt("plan", 0, end(10.0))
    made.attempt("register", 1, end(4.0), threads=2)
    made.attempt("align", 2, end(1.0))
    made.attempt("scale", 6, end(1.0), threads=2)
    made.attempt("detect", 11, end(1.0), threads=3)
    (run,) = history(made).runs
    assert [(a.stage, a.slot) for a in run.attempts] == [
        ("plan", 0),
        ("register", 1),
        ("align", 3),
        ("scale", 1),
        ("detect", 0),
    ]
    assert run.rows == ("1", "2", "3", "4")


def test_each_host_has_rows_of_its_own(made):
    made.run(DONE)
    made.attempt("plan", 0, end(10.0), threads=2)
    made.attempt("plan", 1, end(4.0), host="node8")
    made.attempt("plan", 2, end(4.0), host="node8")
    (run,) = history(made).runs
    assert [a.slot for a in run.attempts] == [0, 2, 3]
    assert run.rows == ("node7 1", "node7 2", "node8 1", "node8 2")


def test_the_start_of_a_job_by_snakemake_is_found(made):
    made.run(
        job(1.0, 1, "plan"),
        state(2.0, 1, "started"),
        state(6.0, 1, "failed"),
        state(6.5, 1, "started"),
        state(10.5, 1, "finished"),
        DONE,
    )
    made.attempt("plan", 3.5, end(2.0, "killed"))
    made.attempt("plan", 7.0, end(3.0), number=2)
    (run,) = history(made).runs
    assert [a.launched for a in run.attempts] == [2.0, 6.5]


def test_a_process_that_lives_is_running(made, proc_with):
    made.run()
    made.attempt("plan", 1, sample(0.5, 30))  # pid 101
    proc_with(101, 7)
    (run,) = history(made, host="node7").runs
    assert [a.outcome for a in run.attempts] == ["running"]
    assert run.outcome == "killed"


@pytest.mark.parametrize(
    ("started", "status", "boot", "outcome"),
    [
        (8, "S", BOOT, "killed"),  # another process has its number now
        (7, "Z", BOOT, "killed"),
        (7, "S", "boot-2", "node_lost"),  # the machine was restarted
    ],
)
def test_a_process_of_the_same_number_does_not_mean_it_lives(
    made, proc_with, started, status, boot, outcome
):
    made.attempt("plan", 1)
    proc_with(101, started, status)
    (run,) = history(made, host="node7", boot=boot).runs
    assert [a.outcome for a in run.attempts] == [outcome]


@pytest.mark.parametrize(
    ("lines", "now", "outcome"),
    [
        ([], 30, "running"),  # the run was heard of lately
        ([], 500, "node_lost"),  # neither run nor attempt were heard of for long
        ([DONE], 30, "node_lost"),
        ([job(0.0, 1, "plan"), state(3.0, 1, "failed")], 30, "node_lost"),
        ([job(0.0, 1, "plan"), state(0.5, 1, "failed")], 30, "running"),  # of the one before
    ],
)
def test_other_machines_are_judged_by_their_run_or_their_silence(made, lines, now, outcome):
    made.run(*lines)
    made.attempt("plan", 1, host="node8")
    (run,) = history(made, now=WALL + now).runs
    assert [a.outcome for a in run.attempts] == [outcome]


def test_memory_of_all_jobs_is_summed_exactly(made):
    made.run(DONE)
    made.attempt("plan", 0, sample(1, 100), sample(2, 300), end(4.0), declared_mb=350)
    made.attempt("scale", 1, sample(1, 50), sample(3, 20), end(5.0), declared_mb=60)
    (run,) = history(made).runs
    t, mb = sum_memory(run.attempts)
    assert t.tolist() == [1, 2, 2, 4, 4, 6]
    assert mb.tolist() == [100, 150, 350, 50, 20, 0]
    t, mb = sum_declared(run.attempts)
    assert list(zip(t, mb, strict=True)) == [(0, 350), (1, 410), (4, 60), (6, 0)]
    assert [len(x) for x in sum_memory(())] == [0, 0]


def test_what_was_declared_is_compared_with_the_largest_process_and_sums_are_pss(made):
    made.run(DONE)
    made.attempt(
        "register",
        0,
        sample(1, 110, pss=100),
        sample(2, 240, processes=2, peak=130, pss=170),  # it has a compiler run
        sample(2.1, 388, processes=2, peak=258),
        sample(3, 388, processes=2, peak=258, pss=330),
        sample(4, 130, peak=258),
        end(5.0, peak_mb=258.004),
        declared_mb=280,
    )
    (run,) = history(made).runs
    (row,) = group_by_rule(run.attempts)
    assert (row.declared_mb, row.peak_mb, row.largest_mb) == (280, 258.004, 258.004)
    t, mb = sum_memory(run.attempts)
    assert list(zip(t, mb, strict=True)) == [
        *((1, 110), (2, 170), (2.1, 258), (3, 330)),
        (4, 130),  # the peak reported at the end is that of before, but for its rounding
        (5, 0),
    ]
    curve = compute_curve(run.attempts[0], 5)
    assert curve["hi"] == [None, 110, 258, 330, 130]


def test_the_memory_of_all_jobs_is_never_below_that_of_one(made):
    made.run(DONE)
    made.attempt("detect", 0, sample(1, 250, pss=240), sample(2, 311), end(4.0, peak_mb=346))
    made.attempt("scale", 10, sample(1, 50, pss=45), sample(2, 60, peak=90), end(4.0, peak_mb=90))
    made.attempt("plan", 20, end(1.0, peak_mb=70))
    (run,) = history(made).runs
    t, mb = sum_memory(run.attempts)
    for a in run.attempts:
        assert mb[(t >= a.start) & (t <= a.end)].max() == a.peak_mb


def test_pages_that_jobs_share_count_once_in_their_sum(made):
    made.run(DONE)
    made.attempt("plan", 0, sample(1, 100, pss=60), sample(2, 150), end(9.0))
    made.attempt("scale", 0, sample(3, 120, pss=80), sample(4, 130), end(9.0))
    (run,) = history(made).runs
    t, mb = sum_memory(run.attempts)
    assert dict(zip(t, mb, strict=True)) == {1: 100, 2: 150, 3: 190, 4: 200, 9: 0}


def test_time_is_split_into_computing_moving_and_waiting(made):
    made.attempt(
        "plan",
        0,
        sample(1, 50, cpu=0.75, read=0),  # 0.75 s at work, 0.25 s waiting
        sample(2, 50, cpu=2.75, read=0),  # two processors: at work all the time
        sample(3, 50, cpu=2.75, read=500_000, state="S"),  # 1 s reading
        sample(4, 50, cpu=2.75, read=500_100, state="D"),  # 1 s waiting for the disk
        sample(5, 50, cpu=2.75, read=500_200, state="S"),  # a line in a log: waiting
        sample(6, 50, cpu=2.75, read=900_200),  # it could have run: waiting for a processor
        end(7.0, cpu_s=3.25, read=900_200, written=0),  # 0.5 s at work, 0.5 s waiting
    )
    (run,) = history(made).runs
    assert split(run.attempts[0]) == Split(computing=2.25, moving=2.0, waiting=2.75)


def test_a_row_for_each_rule(made):
    made.run(DONE)
    made.attempt("ingest_post", 0, end(2.0, peak_mb=100, cpu_s=1.0, read=3e6, written=1e6))
    made.attempt("ingest_pre", 1, end(6.0, peak_mb=90, cpu_s=3.0, pixels=5), declared_mb=200)
    made.attempt("register", 9, end(1.0, "memory"))
    (run,) = history(made).runs
    ingest, register = group_by_rule(run.attempts)
    assert (ingest.rule, ingest.attempts, ingest.ended_well) == ("ingest", 2, 2)
    assert (ingest.declared_mb, ingest.peak_mb, ingest.largest_mb) == (200, 90, 100)
    assert (ingest.longest_s, ingest.seconds, ingest.cpu_s) == (6, 8, 4)
    assert (ingest.read + ingest.written, ingest.pixels) == (4e6, 5)
    assert ingest.split == Split(computing=4.0, moving=0.0, waiting=4.0)
    assert (register.attempts, register.ended_well, register.peak_mb) == (1, 0, None)


def test_the_time_that_is_left(made, tmp_path, proc_with):
    rules = *["plan"] * 3, *["register"] * 2
    plan = [[n, rule, {"sample": f"s{n}"}, []] for n, rule in enumerate(rules, 1)]
    made.run(
        {"kind": "total", "t": 0.0, "jobs": {"plan": 3, "register": 2}},
        {"kind": "plan", "t": 0.0, "jobs": plan},
        *(line for n in (1, 2) for line in (job(0.0, n, "plan", sample=f"s{n}"),)),
        state(0.0, 1, "started"),
        state(10.0, 1, "finished"),
        state(10.0, 2, "started"),
        cores=1,
    )
    made.attempt("plan", 0, end(10.0), sample="s1")
    made.attempt("plan", 10, sample(4.0, 30), sample="s2")  # pid 102
    proc_with(102, 7)
    made.run(DONE, start=-1000, pid=98)
    made.attempt("register", -990, end(40.0))
    (tmp_path / "proc" / "99").mkdir()
    (tmp_path / "proc" / "99" / "stat").write_text("99 (x) S " + "0 " * 18 + "5 0\n")
    before, run = history(made, host="node7", now=WALL + 14).runs
    assert (run.outcome, run.seconds) == ("running", 14)
    # 2 plans of 10 s without the 4 s that one has had, 2 registrations of about 40 s, one at a time
    left = time_left(run, [before])
    assert left.low < 96 < left.seconds < 105 < left.high
    assert time_left(before) is None


def test_incidents_are_what_did_not_end_well_the_newest_first(made):
    made.run(
        job(0.0, 1, "register"),
        state(1.0, 1, "started"),
        state(9.0, 1, "failed"),
        job(0.0, 2, "scale"),
        state(20.0, 2, "started"),
        state(21.0, 2, "failed"),
        {"kind": "message", "t": 21.2, "level": "error", "text": "no such environment"},
        DONE,
    )
    text = "needs more memory"
    made.attempt(
        "register",
        2,
        sample(1, 350),
        end(5.0, "memory", message=text, remedy="snakemake --more", needed_mb=600, peak_mb=399),
        sample="s2",
    )
    made.attempt("register", 3, sample(1, 350), end(5.0, "memory"))  # which the next one heals
    made.attempt("register", 30, end(5.0), number=2)
    made.attempt("plan", 40, end(1.0, "error", message="a fault", repeated=True))
    made.attempt("align", 50, {"kind": "stall", "t": 61, "seconds": 60}, end(70.0))
    rows = [
        {"sample": "s1", "dye": "DAPI", "status": "ok", "reasons": ""},
        {"sample": "s2", "dye": "DAPI", "status": "failed", "reasons": "no overlap"},
    ]
    found = incidents(history(made), made.results, rows)
    assert [(i.kind, i.cause, i.title) for i in found] == [
        ("pair", "failed", "s2 DAPI"),
        ("stall", "stall", "align s1 DAPI"),
        ("attempt", "error", "plan s1 DAPI"),
        ("job", "not_started", "scale s1 DAPI"),
        ("attempt", "memory", "register s2 DAPI"),
    ]
    stall, repeated, unstarted, failed = found[1:]
    assert repeated.message.startswith("Not tried, since")
    assert repeated.message.endswith(": a fault")
    assert stall.wall == WALL + 51
    assert unstarted.message == "no such environment"
    assert (failed.message, failed.remedy) == (text, "snakemake --more")
    assert failed.numbers == {
        "peak_mb": 399.0,
        "declared_mb": 400.0,
        "needed_mb": 600.0,
        "seconds": 5.0,
        "number": 1.0,
    }


def test_the_end_of_a_log_is_shown_unless_it_is_of_another_attempt(made):
    log = made.results.parent / "logs" / "s1" / "DAPI" / "register.log"
    log.parent.mkdir(parents=True)
    log.write_text("".join(f"line {n}\n" for n in range(50)))
    made.run(DONE)
    made.attempt("register", 2, end(5.0, "error"))
    os.utime(log, (WALL + 7, WALL + 7))
    (incident,) = incidents(history(made), made.results)
    assert incident.tail.splitlines() == [f"line {n}" for n in range(10, 50)]
    os.utime(log, (WALL + 100, WALL + 100))
    (incident,) = incidents(history(made), made.results)
    assert incident.tail is None


def test_a_run_that_was_killed_is_an_incident_until_another_ends_well(made):
    made.run({"kind": "total", "t": 12.0, "jobs": {"plan": 1}})
    (found,) = incidents(history(made), made.results)
    assert (found.cause, found.wall) == ("run_killed", WALL + 12)
    made.run(DONE, start=50, pid=98)
    assert incidents(history(made), made.results) == []


def test_of_a_run_that_ended_without_memory_this_is_said(made):
    made.run({"kind": "total", "t": 12.0, "jobs": {"plan": 1}})
    made.attempt("plan", 1.0, sample(1, 300, available=20_000), sample(2, 900, available=31))
    said = {i.cause: i.message for i in incidents(history(made), made.results)}
    assert "memory ran out (31 MB were left)" in said["run_killed"]


def test_a_run_that_the_kernel_killed_with_its_job_ran_out_of_memory(made):
    """As in a control group, whatever the machine has left."""
    made.run({"kind": "total", "t": 12.0, "jobs": {"plan": 1}})
    made.attempt("plan", 1.0, sample(1, 300, available=20_000), end(10.5, "oom_killed"))
    said = {i.cause: i.message for i in incidents(history(made), made.results)}
    assert "memory ran out" in said["run_killed"]


def test_memory_that_was_short_before_is_not_why_a_run_was_killed(made):
    made.run({"kind": "total", "t": 12.0, "jobs": {"plan": 2}})
    made.attempt("ingest", 1.0, sample(1, 900, available=31), end(2.0))
    made.attempt("plan", 3.0, sample(1, 300, available=20_000))
    said = {i.cause: i.message for i in incidents(history(made), made.results)}
    assert "memory" not in said["run_killed"]


def test_a_pair_that_is_not_done_yet_is_no_incident_while_a_run_goes_on(made):
    made.run({"kind": "total", "t": 12.0, "jobs": {"plan": 1}})
    rows = [{"sample": "s1", "dye": "DAPI", "status": s} for s in ("incomplete", "failed")]
    going = history(made, now=WALL + 20)
    assert [i.cause for i in incidents(going, made.results, rows)] == ["failed"]
    over = incidents(history(made), made.results, rows)
    assert [i.cause for i in over] == ["incomplete", "failed", "run_killed"]


def test_what_ends_well_while_it_is_looked_at_was_not_killed(made, monkeypatch):
    """The record is read, then the job and its run end, then there is no process."""
    run = made.run()
    paths = {99: run, 101: made.attempt("plan", 5.0), 102: made.attempt("align", 6.0)}
    seen = []

    def is_running(pid, _started):
        if pid in seen:
            return False
        seen.append(pid)
        with paths[pid].open("a") as stream:
            stream.write(json.dumps(DONE) + "\n")
        return pid == 102  # lives, though it has said how it ended

    monkeypatch.setattr(process, "is_running", is_running)
    (read,) = history(made, host="node7").runs
    assert (read.outcome, [a.outcome for a in read.attempts]) == ("ok", ["ok", "ok"])
    assert not incidents(history(made, host="node7"), made.results, [])


def test_what_is_gone_without_a_word_was_killed_however_often_it_is_looked_at(made, monkeypatch):
    made.run()
    made.attempt("plan", 5.0)
    made.attempt("align", 5.0, started=[7], boot={})
    monkeypatch.setattr(process, "is_running", lambda *_: False)
    follower, machine = Follower(made.results), Machine(host="node7", boot=BOOT, now=WALL + 9)
    for _ in range(2):
        (read,) = follow(follower, machine).runs
        assert read.outcome == "killed"
        assert sorted(a.outcome for a in read.attempts) == ["killed", "node_lost"]


def test_a_run_that_makes_its_own_report_says_how_it_ends(made, proc_with):
    made.run({"kind": "total", "t": 12.0, "jobs": {"plan": 1}}, pid=os.getpid())
    proc_with(os.getpid(), 5)
    machine = Machine(host="node7", boot=BOOT, now=WALL + 30)
    assert History.read(made.results, machine).last.outcome == "running"
    (run,) = History.read(made.results, replace(machine, ending="failed")).runs
    assert (run.outcome, run.seconds) == ("failed", 30.0)
    other = replace(machine, ending="failed", host="elsewhere")
    assert History.read(made.results, other).last.outcome == "running"
