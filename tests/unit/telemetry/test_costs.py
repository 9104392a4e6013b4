"""What jobs cost, as far as records show: what is left behind, steps, parts of memory, threads."""

from __future__ import annotations

import pytest
from made_telemetry import BOOT, COLUMNS, WALL, Made, end, sample, step, step_end

from unglow.pages.report.page_model import costs_known
from unglow.telemetry.reading.history import History
from unglow.telemetry.reading.incidents import incidents
from unglow.telemetry.reading.plan import Machine
from unglow.telemetry.reading.totals import group_by_rule, group_by_step, list_leftovers

MORE = [*COLUMNS, "file", "shmem", "swap", "runnable"]


@pytest.fixture
def made(tmp_path):
    return Made(tmp_path / "results")


def history(made):
    return History.read(made.results, Machine(host="elsewhere", boot=BOOT, now=WALL + 1000))


def finished(made, stage, start, before, after, **more):
    ends = {"files_before_mb": before, "files_after_mb": after} | more
    made.attempt(stage, start, sample(0.5, 50), end(1.0, **ends))


def test_files_in_memory_that_jobs_leave_add_up_to_a_leak(made):
    for n in range(3):
        finished(made, f"ingest_{n}", 2.0 * n, 90.0 * n, 90.0 * (n + 1))
    h = history(made)
    (left,) = list_leftovers(h.last)
    assert (left.host, left.files_mb, left.leaks) == ("node7", 270, True)
    (found,) = incidents(h, made.results)
    assert (found.cause, found.title) == ("leak", "node7")
    assert "270 MB of files in memory" in found.message
    assert "/dev/shm" in found.helps


def test_who_left_files_is_the_job_that_wrote_as_much(made):
    finished(made, "align", 0.0, 0.0, 300.0, written=4000)
    finished(made, "scale", 0.1, 0.0, 300.0, written=300e6)
    finished(made, "detect", 0.2, 0.0, 300.0, written=4000)
    (left,) = list_leftovers(history(made).last)
    assert (left.files_mb, left.worst.rule) == (300, "scale")


def test_files_of_a_job_that_runs_are_no_leak_yet(made):
    made.run({"kind": "beat", "t": 990.0})
    finished(made, "plan", 0.0, 0.0, 0.0)
    finished(made, "ingest", 2.0, 0.0, 300.0, written=4000)
    made.attempt("align", 2.5, sample(0.5, 50))
    *_, last = history(made).last.attempts
    assert last.outcome == "running"
    (left,) = list_leftovers(history(made).last)
    assert left.files_mb == 0
    finished(made, "detect", 5.0, 300.0, 300.0)
    (left,) = list_leftovers(history(made).last)
    assert left.files_mb == 0


def test_files_that_were_there_before_or_go_again_are_no_leak(made):
    finished(made, "plan", 0.0, 5000.0, 5000.0)
    finished(made, "align", 2.0, 5000.0, 5900.0)
    finished(made, "scale", 4.0, 5900.0, 5100.0)
    (left,) = list_leftovers(history(made).last)
    assert (left.files_mb, left.leaks) == (100, False)
    assert incidents(history(made), made.results) == []


def test_processes_that_outlive_jobs_are_a_leak_and_less_memory_by_others_is_none(made):
    finished(made, "plan", 0.0, 0.0, 0.0, left_behind_mb=9000)
    assert incidents(history(made), made.results) == []
    finished(made, "align", 2.0, 0.0, 0.0, processes_left=2, processes_left_mb=300.0)
    (found,) = incidents(history(made), made.results)
    assert "2 processes with 300 MB, most by align s1 DAPI" in found.message


def test_each_rule_has_the_median_and_the_most_of_what_the_machine_lost(made):
    for n, mb in enumerate((-20, 10, 400)):
        finished(made, f"ingest_{n}", 2.0 * n, 0.0, 0.0, left_behind_mb=mb)
    made.attempt("align", 9.0, sample(0.5, 50), end(1.0))
    ingest, align = group_by_rule(history(made).last.attempts)
    assert (ingest.lost_median_mb, ingest.lost_most_mb) == (10, 400)
    assert (align.lost_median_mb, align.lost_most_mb) == (None, None)


def test_a_step_has_its_share_of_processor_time_and_bytes(made):
    made.attempt(
        "align",
        0.0,
        step(0.0, "read", 1),
        sample(1.0, 50, cpu=0.5, read=10_000_000),
        step_end(2.0, 1),
        sample(2.0, 50, cpu=1.0, read=30_000_000),
        step(2.0, "warp", 2),
        step(3.0, "fit", 3, inside=2),
        step_end(4.0, 3),
        end(6.0, cpu_s=9.0, read=30_000_000, written=8_000_000, pixels=4_000_000),
    )
    read, warp, fit = group_by_step(history(made).last.attempts)
    assert (read.name, read.count, read.seconds) == ("read", 1, 2.0)
    assert (read.cpu_s, read.read, read.written) == (1.0, 30_000_000, 0.0)
    assert (warp.cpu_s, warp.read, warp.written) == (8.0, 0.0, 8_000_000)
    assert (fit.depth, fit.cpu_s) == (1, 2.0)
    assert [one.pixels for one in (read, warp, fit)] == [4_000_000] * 3


def test_an_attempt_without_samples_has_steps_without_costs(made):
    made.attempt("align", 0.0, step(0.0, "read", 1), step_end(2.0, 1), end(3.0))
    (read,) = group_by_step(history(made).last.attempts)
    assert (read.seconds, read.cpu_s, read.read) == (2.0, 0.0, 0.0)


def rows(*parts):
    """Return samples with file, shmem, swap, runnable."""
    return [[*sample(0.5 * n + 0.5, rss), *more] for n, (rss, *more) in enumerate(parts)]


def test_parts_of_memory_are_those_of_the_sample_with_most(made):
    lines = rows((100, 40, 10, 0, 1), (300, 60, 20, 5, None), (200, 50, 10, 5, 2))
    made.attempt("align", 0.0, *lines, end(2.0, disk_read=7, opencv_threads=1), columns=MORE)
    (a,) = history(made).last.attempts
    costs = costs_known(a)
    assert costs["parts"] == [220, 60, 20, 5]
    assert (costs["threads_seen"], costs["runnable"]) == (2, 2)
    assert (costs["disk_read"], costs["opencv_threads"]) == (7, 1)
    assert "crowded" not in costs


def test_more_threads_ready_to_run_than_asked_for_are_flagged_unless_by_chance(made):
    made.attempt("align", 0.0, *rows(*[(9, 0, 0, 0, 3)] * 3, *[(9, 0, 0, 0, 1)] * 9), columns=MORE)
    made.attempt("scale", 0.0, *rows(*[(9, 0, 0, 0, 3)] * 2, *[(9, 0, 0, 0, 1)] * 9), columns=MORE)
    crowded = {a.rule: costs_known(a).get("crowded") for a in history(made).last.attempts}
    assert crowded == {"align": True, "scale": None}


def test_an_attempt_of_an_earlier_version_reports_what_it_knows(made):
    made.attempt("align", 0.0, sample(0.5, 50), end(1.0))
    (a,) = history(made).last.attempts
    assert costs_known(a) == {"threads_seen": 2}


def test_transfers_that_are_no_such_list_are_passed_over(made):
    listed = [{"path": "a.tif", "read": 5, "decoded": "x", "kind": "nfs4", "remote": True}, 3, {}]
    made.attempt("align", 0.0, end(1.0, transfers=listed))
    made.attempt("scale", 2.0, end(1.0, transfers="all"))
    align, scale = (costs_known(a) for a in history(made).last.attempts)
    (one,) = align["transfers"]
    assert (one["path"], one["read"], one["decoded"], one["remote"]) == ("a.tif", 5, 0, True)
    assert "transfers" not in scale
