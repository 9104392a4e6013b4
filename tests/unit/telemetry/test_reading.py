"""Reading telemetry: what each line means, torn lines, and reading on."""

import json
import math

import numpy as np
from made_telemetry import CLOCK, WALL, Made, end, job, sample, state, step, step_end

from unglow.telemetry.reading.follower import Follower


def read(results):
    follower = Follower(results)
    follower.poll()
    return follower


def test_an_attempt_holds_what_its_file_says(tmp_path):
    Made(tmp_path).attempt(
        "ingest_post",
        3.5,
        sample(0.1, 12.3, cpu=0.05, read=1000, pss=11.0),
        step(0.1, "read", 1),
        step(0.15, "decode", 2, inside=1),
        sample(0.2, 40.0, cpu=0.1, read=5000, written=70, state="D", available=17000),
        step_end(0.3, 2),
        {"kind": "progress", "t": 0.3, "done": 12, "of": 40},
        {"kind": "stall", "t": 61.0, "seconds": 60},
        {"kind": "unheard of", "t": 1},
        end(62.0, "timeout", peak_mb=55.5, cpu_s=0.25, read=6000, written=80, signal=9, pixels=7),
    )
    (attempt,) = read(tmp_path).attempts
    assert (attempt.stage, attempt.rule) == ("ingest_post", "ingest")
    assert attempt.title == "ingest_post s1 DAPI"
    assert (attempt.wall, attempt.clock) == (WALL + 3.5, CLOCK + 3.5)
    assert (attempt.declared_mb, attempt.threads) == (400, 1)
    assert attempt.samples.t.tolist() == [0.1, 0.2]
    assert attempt.samples.rss.tolist() == [12.3, 40.0]
    assert attempt.samples.pss[0] == 11.0
    assert math.isnan(attempt.samples.pss[1])
    assert attempt.samples.state.tolist() == ["R", "D"]
    assert [(s.name, s.begin, s.end, s.depth) for s in attempt.steps] == [
        ("read", 0.1, None, 0),
        ("decode", 0.15, 0.3, 1),
    ]
    assert [(s.t, s.seconds) for s in attempt.stalls] == [(61.0, 60.0)]
    assert (attempt.done, attempt.of) == (12, 40)
    assert (attempt.ending.outcome, attempt.ending.signal) == ("timeout", 9)
    assert attempt.ending.more["pixels"] == 7
    assert (attempt.seconds, attempt.peak_mb, attempt.cpu_s) == (62.0, 55.5, 0.25)
    assert (attempt.read, attempt.written) == (6000, 80)


def test_what_did_not_end_is_known_up_to_its_last_word(tmp_path):
    Made(tmp_path).attempt("plan", 0, sample(0.1, 30), sample(7.5, 90, cpu=3.0, peak=95, read=10))
    (attempt,) = read(tmp_path).attempts
    assert attempt.ending is None
    assert (attempt.seconds, attempt.peak_mb, attempt.cpu_s, attempt.read) == (7.5, 95, 3.0, 10)


def test_lines_that_are_torn_or_wrong_are_passed_over(tmp_path):
    path = Made(tmp_path).attempt("plan", 0, sample(0.1, 30))
    good = json.dumps(sample(0.4, 31))
    with path.open("a") as stream:
        stream.write(f'[0.2, 33.0, nul\n[0.3]\n{{"kind": "end", \n\n"text"\n\x00\x00\n{good}\n')
        stream.write(json.dumps(["text", *sample(0.5, 32)[1:]]) + "\n")
        stream.write('{"kind": "end", "t": 9')
    (attempt,) = read(tmp_path).attempts
    assert attempt.samples.t.tolist() == [0.1, 0.4]
    assert attempt.ending is None


def test_values_of_another_kind_are_taken_as_unknown(tmp_path):
    made = Made(tmp_path)
    made.run({"kind": "total", "t": "x", "jobs": 3}, resources=1, cores="two")
    made.attempt("plan", 0, threads=1e30, wildcards=None, sample=None, declared_mb=[])
    follower = read(tmp_path)
    (run,), (attempt,) = follower.runs, follower.attempts
    assert (run.cores, run.budget_mb, run.totals) == (0, None, {})
    assert (attempt.threads, attempt.wildcards, attempt.declared_mb) == (1024, {}, None)


def test_a_file_without_a_whole_first_line_is_nothing(tmp_path):
    path = Made(tmp_path).attempt("plan", 0)
    path.write_text(path.read_text()[:40])
    assert read(tmp_path).attempts == ()


def test_a_follower_reads_on_where_it_stopped(tmp_path):
    made = Made(tmp_path)
    path = made.attempt("plan", 0, sample(0.1, 30))
    follower = Follower(tmp_path)
    assert follower.poll()
    assert not follower.poll()
    text = json.dumps(sample(0.2, 31)) + "\n"
    with path.open("a") as stream:
        stream.write(text[:20])
        stream.flush()
        assert not follower.poll()
        stream.write(text[20:])
    assert follower.poll()
    assert follower.attempts[0].samples.rss.tolist() == [30, 31]
    made.attempt("register", 2)
    with path.open("a") as stream:
        stream.write(json.dumps(end(0.3)) + "\n")
    assert follower.poll()
    assert [a.stage for a in follower.attempts] == ["plan", "register"]
    assert follower.attempts[0].ending.outcome == "ok"
    assert not follower.poll()


def test_a_directory_that_is_not_there_yet_is_empty(tmp_path):
    follower = Follower(tmp_path / "results")
    follower.poll()
    assert (follower.runs, follower.attempts) == ((), ())
    Made(tmp_path / "results").attempt("plan", 0)
    assert follower.poll()
    assert len(follower.attempts) == 1


def test_a_run_holds_its_jobs_and_what_happened_to_them(tmp_path):
    made = Made(tmp_path)
    made.run(
        {"kind": "total", "t": 0.5, "jobs": {"plan": 1, "register": 2}},
        job(0.6, 7, "register", resources={"mem_mb": 300}),
        state(0.7, 7, "started"),
        state(5.0, 7, "failed"),
        state(5.5, 7, "started"),
        state(9.0, 7, "finished"),
        {"kind": "message", "t": 9.5, "level": "error", "text": "no"},
        {"kind": "end", "t": 10.0, "wall": WALL + 10, "outcome": "failed"},
    )
    (run,) = read(tmp_path).runs
    assert run.id.startswith("20260921T")
    assert (run.cores, run.budget_mb, run.outcome) == (2, 14000, "failed")
    assert run.totals == {"plan": 1, "register": 2}
    (found,) = run.jobs
    assert (found.rule, found.state) == ("register", "finished")
    assert found.list_times("started") == [0.7, 5.5]
    assert found.resources == {"mem_mb": 300}
    assert run.seen == 10.0
    assert [(m.t, m.text) for m in run.messages] == [(9.5, "no")]


def test_a_sample_named_like_the_directory_of_runs_is_a_sample(tmp_path):
    made = Made(tmp_path)
    made.run()
    made.attempt("plan", 0, sample="runs")
    follower = read(tmp_path)
    assert [a.wildcards["sample"] for a in follower.attempts] == ["runs"]
    assert len(follower.runs) == 1


def test_a_record_next_to_the_files_of_its_attempts_does_not_count_twice(tmp_path):
    made = Made(tmp_path)
    made.attempt("plan", 0, end(1.0))
    record = tmp_path / "telemetry" / "s1" / "DAPI" / "plan.jsonl"
    record.write_text(json.dumps({"rule": "plan", "outcome": "ok", "seconds": 1.0}) + "\n")
    assert len(read(tmp_path).attempts) == 1


def test_columns_may_come_in_any_order_and_with_others(tmp_path):
    path = Made(tmp_path).attempt("plan", 0, columns=["rss", "t", "new"])
    with path.open("a") as stream:
        stream.write("[33.0, 0.5, {}]\n")
    (attempt,) = read(tmp_path).attempts
    assert attempt.samples.t.tolist() == [0.5]
    assert attempt.samples.rss.tolist() == [33.0]
    assert np.isnan(attempt.samples.cpu).all()


def test_many_samples_are_thinned_evenly_and_keep_their_peaks(tmp_path):
    rows = [sample(n / 10, 400.0 if n == 7777 else 50.0, pss=None) for n in range(1, 20_001)]
    rows[9][2], rows[9][-1] = 333.0, 5  # at 1 s, in passing
    path = Made(tmp_path).attempt("plan", 0, *rows[:9000])
    follower = read(tmp_path)
    with path.open("a") as stream:
        stream.writelines(json.dumps(row) + "\n" for row in rows[9000:])
    follower.poll()
    thinned = follower.attempts[0].samples
    assert 4000 < len(thinned) < 8200
    assert thinned.rss.max() == 400.0
    assert thinned.t[thinned.rss.argmax()] == 777.7
    assert (np.nanmax(thinned.pss), np.nanmin(thinned.available)) == (333.0, 5)
    assert thinned.t[-1] == 2000.0
    assert np.diff(thinned.t).min() > 0
    assert np.diff(thinned.t).max() < 1.5
    few = thinned.thin(100)
    assert 100 <= len(few) <= 101
    assert (few.rss.max(), np.nanmax(few.pss), few.t[-1]) == (400.0, 333.0, 2000.0)


def test_lines_that_lack_all_but_their_kind_are_read(tmp_path):
    runs, attempts = tmp_path / "telemetry/runs", tmp_path / "telemetry/s/D/align"
    for place in (runs, attempts):
        place.mkdir(parents=True)
    kinds = ("run", "job", "state", "message", "plan", "total")
    lines = "".join(f'{{"kind":"{kind}"}}\n' for kind in kinds)
    (runs / "20260101T000000.000Z-vm-1.jsonl").write_text(lines)
    kinds = ("attempt", "step", "stall", "progress", "process")
    (attempts / "1.jsonl").write_text("".join(f'{{"kind":"{kind}"}}\n' for kind in kinds))
    follower = Follower(tmp_path)
    follower.poll()
    [attempt], [run] = follower.attempts, follower.runs
    assert (attempt.rule, attempt.wildcards, attempt.number) == ("align", {}, 1)
    assert [(job.rule, job.wildcards) for job in run.jobs] == [("", {})]
