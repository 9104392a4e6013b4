"""Forecasts: exact numbers of jobs and of the run, words, and what is kept of a run."""

from __future__ import annotations

import json
import math

import pytest
from raw_slides import pair

from unglow.workflow.batch import Batch
from unglow.workflow.forecast import (
    MOST_RUNS,
    EarlierRun,
    Throughput,
    Times,
    add_run,
    file_of_machine,
    forecast,
    read_runs,
)
from unglow.workflow.job_resources import runtime_min, work_mpx
from unglow.workflow.planned_jobs import jobs_of_pair
from unglow.workflow.schedule import Capacity, Job
from unglow.workflow.stage_table import NEVER_MEASURED, STAGES, Time

CHAIN = ("ingest", "register", "align", "scale", "difference", "detect", "figures")


# ------------------------------------------------------------------------------- what jobs take


def test_a_time_is_shared_among_threads_as_far_as_it_can_be():
    time_of = Time(1.0, 0.1, 0.8)
    assert [time_of.per_mpx_with(n) for n in (1, 2, 4)] == pytest.approx([0.1, 0.06, 0.04])


def of_machine(slower, rules=("align", "detect", "figures"), sizes=(1.0, 10.0, 100.0), run="a"):
    """A run on a machine that is so many times slower than that of the table."""
    times = []
    for rule in rules:
        stage = STAGES[rule].time
        for mpx in sizes:
            seconds = slower * (stage.fixed + stage.per_mpx_with(2) * mpx)
            cpu_s = slower * (stage.fixed + stage.per_mpx * mpx)
            times.append(Times(rule, mpx, 2, 4, seconds, cpu_s))
    return EarlierRun(run, tuple(times))


def guessed(rule, mpx=10.0):
    """The first guess of a job with one thread, s."""
    return STAGES[rule].time.fixed + STAGES[rule].time.per_mpx * mpx


def test_without_earlier_runs_the_table_is_the_forecast():
    guess = Throughput([])
    assert guess.seconds("align", 10.0, 1) == pytest.approx(guessed("align"))
    assert guess.cpu_s("align", 10.0) == pytest.approx(guessed("align"))
    assert (guess.runs, guess.factor) == (0, 1.93)


def test_one_measured_job_counts_as_much_as_the_mean_of_all_rules():
    align, detect = guessed("align"), guessed("detect")
    twice = EarlierRun("a", (Times("align", 10.0, 1, 1, 2 * align, 4 * align),))
    eight = EarlierRun("b", (Times("detect", 10.0, 1, 1, 8 * detect, 8 * detect),))
    learnt = Throughput([twice, eight])  # on average, everything takes four times as long
    assert learnt.seconds("register", 10.0, 1) == pytest.approx(4 * guessed("register"))
    assert learnt.seconds("align", 10.0, 1) == pytest.approx(math.sqrt(4 * 2) * align)
    assert learnt.cpu_s("detect", 10.0) == pytest.approx(math.sqrt(math.sqrt(32) * 8) * detect)


def test_the_sizes_that_are_nearest_predict_what_a_job_takes():
    took = guessed("align", 1.0), 4 * guessed("align", 100.0)
    small = [Times("align", 1.0, 1, 1, took[0], took[0])] * 6
    large = [Times("align", 100.0, 1, 1, took[1], took[1])] * 6
    learnt = Throughput([EarlierRun("a", (*small, *large))])
    ratios = [learnt.seconds("align", mpx, 1) / guessed("align", mpx) for mpx in (2.0, 80.0)]
    assert ratios == pytest.approx([2 ** (1 / 6), 2 ** (11 / 6)])


def test_a_slower_machine_is_slower_in_rules_that_it_has_not_run_yet():
    runs = [of_machine(3.0, run=str(n)) for n in range(8)]
    learnt, guess = Throughput(runs), Throughput([])
    for rule in ("align", "detect", "register"):
        ratio = learnt.seconds(rule, 50.0, 2) / guess.seconds(rule, 50.0, 2)
        assert ratio == pytest.approx(3.0), rule
    assert learnt.factor == 1.93  # 9 of 10 errors are not known before there are 9


def test_jobs_of_rules_that_are_not_here_teach_nothing():
    """Another checkout of this version may have left them."""
    run = of_machine(3.0)
    strange = EarlierRun("b", (*run.times, Times("not_a_rule", 1.0, 1, 1, 900.0, 900.0)))
    learnt, other = Throughput([strange]), Throughput([run])
    for rule in ("align", "register"):
        assert learnt.seconds(rule, 9.0, 2) == other.seconds(rule, 9.0, 2)


def test_the_interval_holds_9_of_10_errors_of_earlier_forecasts():
    equal = [of_machine(2.0, run=str(n)) for n in range(10)]
    assert Throughput(equal).factor == pytest.approx(1.0)
    other = of_machine(6.0, run="x")  # 3 times as long as the others make of it
    assert Throughput([*equal[:9], other]).factor == pytest.approx(1.93)
    assert Throughput([*equal[:8], other, other]).factor > 2.5


def job(rule, pair="A", *, threads=1, after=()):
    return Job(rule, pair, threads, 100, after)


def chain(pair="A", first=0):
    """The jobs of a pair, each behind the one before; the first has this place."""
    return [job(rule, pair, after=(first + n - 1,) if n else ()) for n, rule in enumerate(CHAIN)]


def capacity(cores=2, limit_mb=None, available_mb=10_000.0):
    return Capacity(cores, limit_mb, available_mb, {})


def test_a_job_of_another_workflow_takes_some_time():
    found = forecast([job("align_reads")], capacity(), Throughput([]), 1)
    assert found.rules == {"align_reads": (1, NEVER_MEASURED[0])}


# ------------------------------------------------------------------------- numbers, words, records


def test_the_forecast_of_a_pair_adds_up():
    found = forecast(chain(), capacity(cores=1), Throughput([]), 1)
    fixed = sum(STAGES[rule].time.fixed for rule in CHAIN)
    assert found.seconds == pytest.approx(2.37 + 7 * 0.25 + fixed + 1.02)
    assert found.rules["align"] == (1, STAGES["align"].time.fixed)
    record = found.record()
    assert record["low"] * record["high"] == pytest.approx(record["seconds"] ** 2, rel=1e-3)
    assert record["rules"]["register"] == {"jobs": 1, "seconds": STAGES["register"].time.fixed}
    assert json.loads(json.dumps(record)) == record
    assert forecast([], capacity(), Throughput([]), 1) is None


def test_a_batch_system_is_reported_in_hours_of_cores():
    found = forecast(chain(), capacity(4, available_mb=None), Throughput([]), 1)
    assert found.seconds is None
    assert found.record() is None
    assert found.core_s == pytest.approx(21.21, abs=0.01)
    assert found.words().startswith(
        "about 21 core s (11 to 41 core s) in 7 jobs, the longest about "
    )


# ----------------------------------------------------------------------------- what is kept of runs


def test_the_last_runs_are_kept_and_a_damaged_file_is_as_good_as_none(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = file_of_machine()
    assert path.parent == tmp_path / "unglow"
    assert path != file_of_machine("slurm")
    assert read_runs(path) == ()
    runs = [of_machine(1.0, run=str(n)) for n in range(MOST_RUNS + 3)]
    for run in runs:
        add_run(path, run)
    add_run(path, runs[-1])
    assert read_runs(path) == tuple(runs[-MOST_RUNS:])
    whole = path.read_text()
    negative = whole.replace('"seconds": ', '"seconds": -')
    for text in ("", whole[:-20], negative, "[]", '{"format": 9}'):
        path.write_text(text)
        assert read_runs(path) == ()


# --------------------------------------------------------------------------- what jobs have to do


@pytest.fixture
def batch(tmp_path):
    for sample, codec in (("A", None), ("B", "jpeg2000")):
        pair(tmp_path, sample, "SYTO9", (1000, 500), tile=(64, 64), compression=codec)
    exports = {"tiff": ["post", "difference"], "fits": ["snr"]}
    return Batch.load({"exports": exports, "scale": {"methods": ["linear", "moffat"]}}, tmp_path)


def test_what_the_time_of_jobs_grows_with(batch):
    a, b = ({"sample": sample, "dye": "SYTO9"} for sample in "AB")
    assert work_mpx(batch, "align", a) == 0.5
    assert work_mpx(batch, "figures", a) == 0.0
    assert work_mpx(batch, "ingest", a) == pytest.approx(1.0 * 1.1)
    assert work_mpx(batch, "ingest", b) == pytest.approx(1.0 * 4.5)
    methods = [
        work_mpx(batch, "export_difference", {**a, "method": m}) for m in ("linear", "moffat")
    ]
    assert methods == [0.5, 1.0]
    assert all(work_mpx(batch, j.rule, j.wildcards) >= 0 for j in jobs_of_pair(batch, "A", "SYTO9"))


def test_time_limits_are_generous(batch, monkeypatch):
    names = {"sample": "A", "dye": "SYTO9", "role": "post", "method": "linear"}
    rules = (
        *("ingest", "export_raw", "register", "align", "export_aligned_pre", "difference"),
        *("export_difference", "detect", "snr", "export_snr"),
    )
    for pixels in (500_000, 67_000_000, 750_000_000):
        monkeypatch.setattr(Batch, "pixels", lambda *_, n=pixels: n)
        for rule in rules:
            seconds = 100 * STAGES[rule].time.per_mpx * pixels / 1e6
            assert 60 * runtime_min(batch, rule, names) > 2 * 60 + seconds, rule
    assert runtime_min(batch, "scale", names) >= 5
    small = [rule for rule in STAGES if not STAGES[rule].time.per_mpx]
    assert {runtime_min(batch, rule, names) for rule in small} == {5}
