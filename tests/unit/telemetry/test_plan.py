"""The plan of a run: what each job waits for, bars that add up, and the time that is left."""

import heapq

import numpy as np
import pytest
from made_telemetry import BOOT, WALL, Made, end, job, sample, state

from unglow.telemetry.reading import plan
from unglow.telemetry.reading.history import History
from unglow.telemetry.reading.plan import Machine
from unglow.telemetry.reading.time_left import time_left

RULES = ("ingest", "register", "align")
TOTAL = {"kind": "total", "t": 0.5, "jobs": dict.fromkeys(RULES, 3)}
PLAN = [
    [3 * n + k + 1, rule, {"sample": f"s{n}", "dye": "DAPI"}, [3 * n + k] if k else []]
    for n in range(3)
    for k, rule in reversed([*enumerate(RULES)])  # in no order
]
PLANNED = {"kind": "plan", "t": 0.5, "jobs": PLAN}


@pytest.fixture
def made(tmp_path):
    return Made(tmp_path / "results")


def last(made, now):
    return History.read(made.results, Machine(host="elsewhere", boot=BOOT, now=WALL + now)).last


def began(t, number, rule, name, *more, local=True):
    started = [state(t, number, "started")] if local else []
    return [job(t, number, rule, sample=name, local=local), *started, *more]


def test_bars_add_up_and_say_what_is_waited_for(made):
    made.run(
        TOTAL,
        PLANNED,
        *began(1, 1, "ingest", "s0", state(5, 1, "finished")),
        *began(1, 4, "ingest", "s1", state(5, 4, "failed")),
        *began(5, 2, "register", "s0"),
    )
    rows = {row.rule: row for row in last(made, 20).rules}
    assert {rule: (row.of, row.words) for rule, row in rows.items()} == {
        "ingest": (3, "1 failed, 1 ready"),
        "register": (3, "1 running, 1 waiting for ingest, 1 cannot start"),
        "align": (3, "2 waiting for register, 1 cannot start"),
    }
    for row in rows.values():
        states = (row.done, row.failed, row.running, row.submitted, row.ready, row.waiting)
        assert sum((*states, row.blocked)) == row.of


QUIET = [began(1 + n, n + 1, rule, "s0") for n, rule in enumerate(RULES)]


def test_with_quiet_a_job_is_done_when_its_own_record_says_so(made):
    """Snakemake says that jobs start and fail, and not that they finish."""
    path = made.run(TOTAL, PLANNED, *QUIET[0], *QUIET[1])
    made.attempt("ingest", 1.5, end(1.0), sample="s0", run=path)
    made.attempt("register", 3.5, sample(1, 50), sample="s0", run=path)
    ingest, register, align = last(made, 5).rules
    assert (ingest.done, ingest.words) == (1, "2 ready")
    assert (register.done, register.words) == (0, "1 running, 2 waiting for ingest")
    assert (align.done, align.words) == (0, "3 waiting for register")
    assert [(row.done, row.of) for row in (ingest, register, align)] == [(1, 3), (0, 3), (0, 3)]


@pytest.mark.parametrize(("local", "state"), [(True, plan.DONE), (False, plan.RUNNING)])
def test_a_job_without_a_record_is_done_when_one_starts_that_waits_for_it(made, local, state):
    """Jobs of a group on a batch system are handed over together."""
    made.run(TOTAL, PLANNED, *QUIET[0], *began(5, 2, "register", "s0", local=local))
    assert last(made, 6).states[1] == state


def test_a_run_that_ended_well_has_done_all_of_its_jobs(made):
    """Those of other workflows, too, which leave no record."""
    made.run(TOTAL, PLANNED, *QUIET[0], {"kind": "end", "t": 9.0, "outcome": "ok"})
    assert [(row.done, row.of) for row in last(made, 50).rules] == [(3, 3)] * 3


def test_an_attempt_that_ended_well_counts_unless_its_job_failed_after_it(made):
    """Snakemake missed a file of the first attempt; then it starts the second."""
    failed, again = state(4, 1, "failed"), state(5, 1, "started")
    path = made.run(TOTAL, PLANNED, *QUIET[0], failed)
    made.attempt("ingest", 1.5, end(1.0), sample="s0", run=path)
    assert last(made, 5).rules[0].words == "1 failed, 2 ready"
    made.run(TOTAL, PLANNED, *QUIET[0], failed, again, start=100, pid=7)
    second = {"start": 100, "pid": 7}
    path = made.run(TOTAL, PLANNED, *QUIET[0], failed, again, **second)
    made.attempt("ingest", 101.5, end(1.0), sample="s0", run=path)
    assert last(made, 106).rules[0].words == "1 running, 2 ready"
    made.attempt("ingest", 105.5, end(1.0), sample="s0", run=path, number=2)
    assert last(made, 107).rules[0].done == 1


def test_a_run_that_failed_with_quiet_counts_what_was_done(made):
    path = made.run(
        *(TOTAL, PLANNED, *QUIET[0], *QUIET[1], state(9, 2, "failed")),
        {"kind": "end", "t": 10.0, "outcome": "failed"},
    )
    made.attempt("ingest", 1.5, end(1.0), sample="s0", run=path)
    made.attempt("register", 3.5, end(1.0, "error"), sample="s0", run=path)
    rows = last(made, 50).rules
    assert [(row.done, row.of) for row in rows] == [(1, 3), (0, 3), (0, 3)]
    assert [row.words for row in rows] == [
        "2 ready",
        "1 failed, 2 waiting for ingest",
        "2 waiting for register, 1 cannot start",
    ]


def test_a_job_of_a_batch_system_is_submitted_until_its_attempt_is_heard_of(made):
    made.run(
        TOTAL,
        PLANNED,
        *began(1, 1, "ingest", "s0", local=False),
        *began(1, 4, "ingest", "s1", local=False),
    )
    made.attempt("ingest", 9, sample(1, 50), sample="s0")
    (ingest, *_) = last(made, 20).rules
    assert (ingest.running, ingest.submitted, ingest.ready) == (1, 1, 1)
    assert ingest.words == "1 running, 1 submitted, 1 ready"


def test_a_job_that_waits_for_one_outside_the_plan_is_shown_as_waiting(made):
    made.run(
        TOTAL,
        {"kind": "plan", "t": 0.5, "jobs": [[1, "align", {"sample": "s0"}, [5]]]},
        *began(1, 5, "ingest", "s0"),
    )
    assert [row.words for row in last(made, 20).rules if row.rule == "align"]


@pytest.mark.parametrize("jobs", [None, [1], [[1, "a", {}, [2]], [2, "b", {}, [1]]]])
def test_without_a_plan_that_can_be_read_the_totals_are_reported(made, jobs):
    made.run(TOTAL, {"kind": "plan", "t": 1, "jobs": jobs}, *began(1, 1, "ingest", "s0"))
    assert [row.words for row in last(made, 9).rules] == [
        "1 running, 2 waiting",
        "3 waiting",
        "3 waiting",
    ]


def forecast(seconds):
    rules = {rule: {"jobs": 3, "seconds": 30.0} for rule in RULES}
    return {"seconds": seconds, "low": seconds / 2, "high": seconds * 2, "rules": rules}


def test_before_anything_is_measured_the_forecast_is_used(made):
    made.run(TOTAL, PLANNED, expected=forecast(60.0))
    left = time_left(last(made, 0))
    assert left.seconds == pytest.approx(60.0, rel=0.1)
    assert left.low < 45
    assert left.high > 80


def test_what_is_measured_corrects_the_forecast_and_narrows_its_bounds(made):
    made.run(TOTAL, PLANNED, expected=forecast(90.0))
    before = time_left(last(made, 0))
    lines, t = [], 0.0
    for number, rule, names, _ in sorted(PLAN, key=lambda row: (RULES.index(row[1]), row[0])):
        if rule != "align":  # all take twice as long as was expected
            lines += began(t, number, rule, names["sample"], state(t + 20, number, "finished"))
            made.attempt(rule, t, end(20.0), sample=names["sample"])
            t += 20
    made.run(TOTAL, PLANNED, *lines, start=1000, pid=7, cores=1, expected=forecast(90.0))
    for path in made.results.glob("telemetry/s*/*/*/*.jsonl"):
        path.unlink()
    t = 0.0
    for _, rule, names, _ in sorted(PLAN, key=lambda row: (RULES.index(row[1]), row[0])):
        if rule != "align":
            made.attempt(rule, 1000 + t, end(20.0), sample=names["sample"])
            t += 20
    after = time_left(last(made, 1000 + t))
    assert 45 < after.seconds < 62  # three jobs of 10 s that take 20
    assert after.high / after.low < before.high / before.low


def test_the_longest_chain_is_no_shorter_on_many_cores(made):
    rules = {rule: {"jobs": 3, "seconds": 30.0} for rule in RULES}
    made.run(TOTAL, PLANNED, expected={"seconds": 1.0, "rules": rules}, cores=64)
    assert time_left(last(made, 0)).seconds == pytest.approx(30.0)


@pytest.mark.parametrize(("mb", "seconds"), [(4000, 30.0), (500, 50.0)])
def test_the_memory_of_the_run_limits_how_many_jobs_run_at_a_time(made, mb, seconds):
    queued = [job(0.0, 3 * n + 1, "ingest", sample=f"s{n}") for n in range(3)]
    rules = {rule: {"jobs": 3, "seconds": 30.0} for rule in RULES}  # jobs of 10 s and 400 MB
    about = {"cores": 64, "resources": {"mem_mb": mb}}
    made.run(TOTAL, PLANNED, *queued, expected={"seconds": 1.0, "rules": rules}, **about)
    assert time_left(last(made, 0)).seconds == pytest.approx(seconds)


@pytest.mark.parametrize(
    "expected",
    [
        {},
        [],
        {"seconds": 1e308, "rules": {"a": {"jobs": 1e308}}},
        {"seconds": 1e300, "rules": {"align": {"jobs": 1, "seconds": 1e300}}},
    ],
)
def test_a_forecast_that_means_nothing_is_left_alone(made, expected):
    made.run(TOTAL, PLANNED, expected=expected)
    assert time_left(last(made, 0)) is None


SAMPLES = 8


def draw_run(rng):
    """Return start and end of each job of 8 samples on two cores, s, by number, and of all."""
    of_rule = 10 * np.exp(rng.normal(0, 0.4) + rng.normal(0, 0.3, len(RULES)))
    times, cores, ready = {}, [0.0, 0.0], [(0.0, 3 * n + 1) for n in range(SAMPLES)]
    while ready:
        first, number = heapq.heappop(ready)
        start = max(first, heapq.heappop(cores))
        rule = (number - 1) % 3
        times[number] = start, start + of_rule[rule] * np.exp(rng.normal(0, 0.3))
        heapq.heappush(cores, times[number][1])
        if rule < 2:
            heapq.heappush(ready, (times[number][1], number + 1))
    return times, max(cores)


def test_the_bounds_of_the_time_left_hold_in_most_cases(tmp_path):
    """Rules take another time than expected by 50 %, jobs of a rule by 30 %."""
    numbers = range(1, 3 * SAMPLES + 1)
    rows = [[n, RULES[(n - 1) % 3], {"sample": f"s{(n - 1) // 3}", "dye": "DAPI"},
             [n - 1] if (n - 1) % 3 else []] for n in numbers]  # fmt: skip
    rules = {rule: {"jobs": SAMPLES, "seconds": 10.0 * SAMPLES} for rule in RULES}
    expected = {"seconds": 120.0, "low": 60.0, "high": 240.0, "rules": rules}
    inside, widths = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        times, total = draw_run(rng)
        now = rng.uniform(0, 0.95) * total
        made, lines = Made(tmp_path / str(seed)), []
        started = {n: ends for n, ends in times.items() if ends[0] < now}
        for n, (start, stop) in started.items():
            lines += began(start, n, rows[n - 1][1], rows[n - 1][2]["sample"])
            lines += [state(stop, n, "finished")] if stop < now else []
        path = made.run({**TOTAL, "jobs": dict.fromkeys(RULES, SAMPLES)},
                        {"kind": "plan", "t": 0.0, "jobs": rows},
                        *sorted(lines, key=lambda line: line["t"]), expected=expected)  # fmt: skip
        for n, (start, stop) in started.items():
            seen = end(stop - start) if stop < now else sample(now - start, 50)
            made.attempt(rows[n - 1][1], start, seen, sample=rows[n - 1][2]["sample"], run=path)
        left = time_left(last(made, now))
        inside.append(left.low <= total - now <= left.high)
        widths.append(left.high / left.low)
    assert np.mean(inside) >= 0.9
    assert np.median(widths) < 6
