"""What the monitor sees of runs, and what it prints of them, to the letter."""

import io
import json
import os
import time
from pathlib import Path

import pytest
from made_slides import REFUSED, made_slide
from made_telemetry import BOOT, WALL, Made, end, job, sample, state, step, step_end
from rich.console import Console

from unglow.cli.directories import all_results_of, results_of
from unglow.core.errors import InputError
from unglow.core.printable import clean
from unglow.core.rounding import duration, memory
from unglow.monitor.terminal.run_watch import EventLines
from unglow.monitor.terminal.screen import draw, fit, follow
from unglow.pages.report.page_model import charts_of
from unglow.results.runs import RunReader, Runs
from unglow.results.wording import make_console, stopwatch
from unglow.telemetry.reading.history import History
from unglow.telemetry.reading.plan import Machine
from unglow.telemetry.reading.records import Samples

TOTAL = {"kind": "total", "t": 0.5, "jobs": {"plan": 1, "register": 2, "align": 1, "summary": 1}}
RULES = ("plan", "register", "register", "align", "summary")
NASTY = "s[red]2[/red]\x1b[31m\u202e\n"


@pytest.fixture(autouse=True)
def _utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def made(tmp_path):
    return Made(tmp_path / "results")


def elsewhere(now=130.0):
    return Machine(host="elsewhere", boot=BOOT, now=WALL + now)


def going_on(made):
    """A run whose first register lacked memory; the second continues, another job has started."""
    after = ([], [1], [1], [2, 3], [4])
    plan = [[n, rule, {}, own] for n, (rule, own) in enumerate(zip(RULES, after, strict=True), 1)]
    made.run(
        TOTAL,
        {"kind": "plan", "t": 0.5, "jobs": plan},
        job(1, 1, "plan"),
        state(1, 1, "started"),
        state(4, 1, "finished"),
        job(5, 2, "register"),
        state(5, 2, "started"),
        state(45, 2, "failed"),
        job(46, 2, "register"),
        state(46, 2, "started"),
        job(120, 3, "register", sample=NASTY),
        state(120, 3, "started"),
    )
    made.attempt("plan", 1.5, end(2.0, peak_mb=60.0, cpu_s=1.0))
    lacked = {
        "message": "needs more memory than the 400 MB that were declared for it.",
        "remedy": "snakemake --set-resources register:mem_mb=650",
    }
    made.attempt("register", 6, sample(1, 100), sample(38, 399), end(38.5, "memory", **lacked))
    made.attempt(
        "register",
        50,
        *(sample(t, 100 + t, cpu=1.5 * t, peak=200 + t) for t in range(1, 76)),
        step(1, "read", 1),
        step_end(5, 1),
        step(6, "match", 2),
        step(8, "fit field", 3, 2),
        {"kind": "progress", "t": 60, "done": 12, "of": 40},
        number=2,
        threads=2,
        declared_mb=600,
    )


def printed(runs, width, most=1000):
    stream = io.StringIO()
    console = Console(file=stream, width=width, markup=False, highlight=False, emoji=False)
    console.print(draw(runs, width, most), soft_wrap=True)
    return [line.rstrip() for line in stream.getvalue().splitlines()]


WIDE = """\
results: running for 2 min 10 s, about 13 s left (up to 45 s)
━━━━━━━━──────────────────────────────── 1 of 5 jobs
pairs: 1 running
jobs take 175 MB (PSS) of 14.0 GB allowed (1000 MB declared); machine: 20.0 GB of 24.0 GB free

plan      ━━━━━━━━━━━━━━━━━━━━  1 of 1
register  ────────────────────  0 of 2  2 running
align     ────────────────────  0 of 1  1 waiting for register
summary   ────────────────────  0 of 1  1 waiting for align

running                          at              time  memory        MB now  peak  declared    CPU
register s1 DAPI (attempt 2)     fit field 30 %  1:15  ━━━─────────     175   275       600  150 %
register s[red]2[/red][31m DAPI  starting              ────────────                     400

14:14:04 register s1 DAPI: memory
  needs more memory than the 400 MB that were declared for it.
  snakemake --set-resources register:mem_mb=650
"""
NARROW = """\
results: running for 2 min 10 s, about 13 s left (up to 45 s)
━─────── 1 of 5 jobs
pairs: 1 running
jobs take 175 MB (PSS) of 14.0 GB allowed (1000 MB declared); machine: 20.0 GB of 24.0 GB free

plan      1 of 1
register  0 of 2  2 running
align     0 of 1  1 waiting for register
summary   0 of 1  1 waiting for align

running           time  MB now  declared
register s1 DAP…  1:15     175       600
register s[red]…                     400

14:14:04 register s1 DAPI: memory
  needs more memory than the 400 MB that
  were declared for it.
  snakemake --set-resources register:mem_mb=650
"""


@pytest.mark.parametrize(("width", "expected"), [(100, WIDE), (40, NARROW)])
def test_it_is_printed_to_the_letter(made, monkeypatch, width, expected):
    going_on(made)
    monkeypatch.chdir(made.results.parent)
    runs = Runs.read(Path("results"), elsewhere()).shown
    assert printed(runs, width) == expected.splitlines()


def test_a_long_message_keeps_its_lines_and_is_wrapped_between_words(made):
    path = "/data/" + "a-b" * 40
    skipped = "".join(f"skipped: n{n}: {path} is not an image; export it again.\n" for n in (1, 2))
    message = f"1 ok, 2 skipped\n{skipped}All other results are complete."
    made.run(TOTAL, state(1, 5, "started"))
    made.attempt("verdict", 2, end(3, "bad_input", message=message))
    lines = printed(Runs.read(made.results, elsewhere()).shown, 60)
    start = lines.index("  1 ok, 2 skipped")
    assert lines[start + 1 : start + 4] == [
        "  skipped: n1:",
        f"  {path}",
        "  is not an image; export it again.",
    ]
    assert lines[start + 4] == "  skipped: n2:"
    whole = (path, str(made.results.parent))  # of commands to copy
    assert all(len(line) <= 60 for line in lines[start:] if not any(one in line for one in whole))


def test_a_low_terminal_gets_what_matters_most(made, monkeypatch):
    going_on(made)
    monkeypatch.chdir(made.results.parent)
    runs = Runs.read(Path("results"), elsewhere()).shown
    console = Console(file=io.StringIO(), width=100, height=9)
    console.print(fit(console, runs))
    wide = WIDE.splitlines()
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
    assert lines == [*wide[:5], *wide[10:13]]  # without bars of rules and what went wrong


def test_bars_are_ascii_where_there_is_nothing_else(made):
    going_on(made)
    raw = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict")
    console = make_console(raw)
    console.print(draw(Runs.read(made.results, elsewhere()).shown, 100))
    raw.flush()
    assert b"======----" in raw.buffer.getvalue()


def test_names_act_neither_as_markup_nor_on_the_terminal(made):
    going_on(made)
    stream = io.StringIO()
    console = Console(file=stream, width=120, force_terminal=True, markup=False)
    console.print(draw(Runs.read(made.results, elsewhere()).shown, 120))
    text = stream.getvalue()
    assert "register s[red]2[/red][31m DAPI" in text
    assert "\u202e" not in text
    assert not any("2" in part[:6] and "DAPI" in part[:14] for part in text.split("\x1b[31m")[1:])


def test_jobs_of_a_run_elsewhere_are_recognised_by_their_machine(made):
    samples = [sample(1, 100), sample(2, 120)]
    made.run(TOTAL)
    made.attempt("register", 6, *samples)
    made.attempt("align", 7, *samples, host="node8", boot="x")
    (run,) = Runs.read(made.results, elsewhere(60)).shown
    assert [j.host for j in run.running] == ["node7", "node8"]
    assert "node8" in "\n".join(printed([run], 100))
    assert "node8" not in "\n".join(printed([run], 80))


def test_what_became_of_runs(made, monkeypatch):
    monkeypatch.chdir(made.results.parent)
    register = (job(1, 1, "register"), state(1, 1, "started"), state(9, 1, "finished"))
    share = "━" * 8 + "─" * 32 + " 1 of 5 jobs"
    waiting, incomplete = (f"results: pairs: 1 {s}; the run" for s in ("waiting", "incomplete"))
    for n, (outcome, words) in enumerate(
        [
            ("ok", [f"{waiting} finished after 10 s, at 14:13:30", "━" * 40 + " 5 of 5 jobs"]),
            ("failed", [f"{incomplete} failed after 10 s, at 14:15:10", share]),
            ("interrupted", [f"{waiting} was interrupted after 10 s, at 14:16:50", share]),
            (None, [f"{incomplete} was killed after 9 s, at 14:18:29", share]),
        ]
    ):
        last = {"kind": "end", "t": 10.0, "wall": WALL + 10, "outcome": outcome}
        made.run(TOTAL, *register, *([last] if outcome else []), start=100.0 * n, pid=90 + n)
        (run,) = Runs.read(Path("results"), elsewhere(1000)).shown
        assert (run.is_over, run.running, run.available_mb, run.left) == (True, (), None, None)
        assert printed([run], 80)[:2] == words
    (incident,) = run.incidents
    assert (incident.cause, incident.title) == ("run_killed", "Snakemake")


def quiet(made):
    """A run with ``--quiet``: Snakemake does not say that jobs have finished."""
    stages = ("plan", "register")
    path = made.run(
        {"kind": "total", "t": 0.5, "jobs": dict.fromkeys(stages, 1)},
        *(line for n, s in enumerate(stages) for line in (job(n, n, s), state(n, n, "started"))),
    )
    for n, stage in enumerate(stages):
        made.attempt(stage, n + 0.2, end(0.5), run=path)
    return path


def test_jobs_that_have_ended_are_not_starting_where_snakemake_says_nothing(made):
    quiet(made)
    (run,) = Runs.read(made.results, elsewhere(60)).shown
    assert (run.outcome, run.running, run.done, run.of) == ("running", (), 2, 2)


@pytest.mark.parametrize("outcome", ["ok", "failed", None])
def test_all_views_of_a_run_count_its_jobs_equally(made, outcome):
    path = quiet(made)
    if outcome is not None:
        with path.open("a") as stream:
            stream.write(json.dumps({"kind": "end", "t": 2.0, "outcome": outcome}) + "\n")
    events = EventLines()
    events.lines(Runs(made.results, History(()), elsewhere()))
    runs = Runs.read(made.results, elsewhere(1000))
    (run,), (drawn,) = runs.shown, charts_of(runs)["runs"]
    assert (run.done, run.of) == (drawn["done"], drawn["of"]) == (2, 2)
    assert events.lines(runs)[-1].endswith("2 of 2 jobs done")


def test_several_runs_at_once_are_all_shown(made):
    made.run(TOTAL, start=0, pid=1)
    made.run(TOTAL, {"kind": "end", "t": 1, "outcome": "ok"}, start=10, pid=2)
    made.run(TOTAL, start=20, pid=3)
    assert [run.pid for run in Runs.read(made.results, elsewhere(60)).shown] == [1, 3]


def test_jobs_of_an_older_version_have_no_run(made):
    made.attempt("plan", 1.5, end(2.0, peak_mb=60.0))
    (run,) = Runs.read(made.results, elsewhere()).shown
    assert printed([run], 80)[0].endswith("results contains jobs without the record of a run")


def test_events_are_reported_once_and_in_order(made):
    events, reader = EventLines("b\x1b[1mold"), RunReader(made.results)
    made.run({"kind": "end", "t": 1.0, "outcome": "ok"}, start=-50, pid=1)
    assert events.lines(reader.read(elsewhere())) == []  # was over before
    going_on(made)
    failed = (
        "needs more memory than the 400 MB that were declared for it. "
        "(log: logs/s1/DAPI/register.log) Try: snakemake --set-resources register:mem_mb=650"
    )
    assert events.lines(reader.read(elsewhere())) == [
        "14:13:20 b[1mold: run of 5 jobs on node7",
        f"14:14:04 b[1mold: register s1 DAPI: memory: {failed}",
    ]
    row = {"sample": "s1", "dye": "DAPI", "status": "suspect", "candidates": 3, "reasons": "A. B."}
    other = row | {"sample": "s2"}  # done in an earlier run
    runs = reader.read(elsewhere())
    runs.rows = [row, other]
    (line,) = events.lines(runs)
    assert line.endswith(" b[1mold: s1 DAPI: suspect, 3 candidates. A.")
    assert events.lines(reader.read(elsewhere())) == []
    (path,) = (made.results / "telemetry" / "runs").glob("*-99.jsonl")
    with path.open("a") as stream:
        stream.write('{"kind": "end", "t": 140.0, "outcome": "failed"}\n')
    assert events.lines(reader.read(elsewhere()))[-1] == (
        "14:15:40 b[1mold: pairs: 1 incomplete; the run failed after 2 min 20 s, 1 of 5 jobs done"
    )


def test_markers_of_a_slide_that_failed_are_reported_as_in_the_summary(made):
    place = made_slide(made.results, figures=False)
    os.utime(place / "scale.json", (WALL + 5, WALL + 5))
    markers = dict.fromkeys(("CD3", "CD8", "Ki/67"), "AF")
    made.run(TOTAL, pairs=[], slides={"s1": markers, "s2": markers})
    made.attempt("scale", 3, end(2.0), sample="s1", dye="Ki/67")
    (run,) = Runs.read(made.results, elsewhere()).shown
    sentence = f"{REFUSED} In the corrected slide it is left as it was imaged."
    (incident,) = (one for one in run.incidents if one.kind == "pair")
    assert (incident.cause, incident.title, incident.message) == ("failed", "s1 Ki/67", sentence)
    assert incident.wall == WALL + 5
    (place / "details/subtraction.json").unlink()  # it is made again
    (run,) = Runs.read(made.results, elsewhere()).shown
    assert [one.message for one in run.incidents if one.kind == "pair"] == [REFUSED]


def test_the_status_reports_a_run_that_did_not_end_well(made):
    stream = io.StringIO()
    place = [made.results]
    assert follow(place, stream, once=True) == 0
    assert stream.getvalue() == f"{made.results} has no telemetry: no run has started.\n"
    made.run({"kind": "end", "t": 1.0, "outcome": "ok"}, start=0)
    assert follow(place, stream, once=False) == 0
    made.run({"kind": "end", "t": 1.0, "outcome": "failed"}, start=10)
    assert follow(place, stream, once=False) == 1


def test_cpu_use_is_that_of_the_last_two_seconds():
    rows = [sample(t / 10, 50, cpu=0.0 if t <= 50 else (t - 50) / 10) for t in range(1, 71)]
    columns = ("t", "rss", "pss", "cpu")
    samples = Samples.from_rows(columns, [row[:4] for row in rows])
    assert samples.cores_busy == pytest.approx(1.0)
    first = Samples.from_rows(columns, [row[:4] for row in rows[:60]])
    assert first.cores_busy == pytest.approx(0.5)
    assert Samples.from_rows(columns, [rows[0][:4]]).cores_busy is None


def test_a_directory_stands_for_its_results(made, tmp_path):
    made.run()
    assert results_of(tmp_path) == made.results == results_of(made.results)
    assert all_results_of([tmp_path, made.results]) == [made.results]
    other = tmp_path / "other"
    made.results.rename(other)
    assert results_of(tmp_path) == other  # whatever it is called
    (tmp_path / "third" / "telemetry").mkdir(parents=True)
    with pytest.raises(InputError, match=r"holds several results directories: name one, .*other"):
        results_of(tmp_path)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.yaml").write_text("results: third\n")
    assert results_of(tmp_path) == tmp_path / "third"
    with pytest.raises(InputError, match="is not a directory"):
        results_of(tmp_path / "missing")
    (tmp_path / "empty").mkdir()
    assert results_of(tmp_path / "empty") == tmp_path / "empty" / "results"


@pytest.mark.parametrize(
    ("seconds", "words", "short"),
    [
        (0.4, "0 s", "0:00"),
        (59.6, "1 min 00 s", "1:00"),
        (185, "3 min 05 s", "3:05"),
        (3599.6, "1 h 00 min", "1:00:00"),
        (7825, "2 h 10 min", "2:10:25"),
    ],
)
def test_times_in_words(seconds, words, short):
    assert (duration(seconds), stopwatch(seconds)) == (words, short)


def test_memory_in_words_and_names_without_controls():
    assert [memory(mb) for mb in (None, 0, 9999.4, 9999.6)] == ["?", "0 MB", "9999 MB", "10.0 GB"]
    assert clean("a\x1b[31mb\x00\u202e\ud800\tc\n é日") == "a[31mb c é日"
