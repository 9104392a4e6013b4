"""What a run prints: from Snakemake's records, at a terminal, in a pipe, as a dry run."""

from __future__ import annotations

import fcntl
import importlib.util
import io
import logging
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from itertools import pairwise
from types import SimpleNamespace

import pytest
from rich.text import Text

import snakemake_logger_plugin_unglow as plugin
from snakemake_logger_plugin_unglow.handlers import mode_for
from unglow.jobs.snakemake_command import ONLY, replace_only, restore_only
from unglow.monitor.terminal.run_output import LiveFrame, Mode, RunOutput

PAIRS = [("s1", "DAPI"), ("s2", "DAPI"), ("s3", "DAPI"), ("s4", "DAPI")]


def record(text="", level=logging.INFO, **more):
    made = logging.LogRecord("snakemake.logging", level, "", 0, text, (), None)
    vars(made).update(more)
    return made


def job(rule, sample, jobid=1):
    names = {"sample": sample, "dye": "DAPI"}
    return record(event="job_info", rule_name=rule, wildcards=names, jobid=jobid)


def printed(mode, *records, problems=(), pairs=PAIRS, command=("unglow", "run", "-n"), results):
    stream = io.StringIO()
    output = RunOutput(stream, mode, command)
    output.attach(results=results, pairs=pairs, problems=problems)
    for one in records:
        output.show_record(one)
    output.close()
    return stream.getvalue().splitlines()


# ------------------------------------------------------------------------------------- the package


def test_importing_the_package_loads_nothing_else():
    code = (
        "import sys, snakemake_interface_logger_plugins.base; before = set(sys.modules); "
        "import snakemake_logger_plugin_unglow; print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"__future__", "snakemake_logger_plugin_unglow"}


def test_choosing_what_a_run_shows_loads_nothing_that_draws():
    code = "import sys, snakemake_logger_plugin_unglow.handlers; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    own = ("unglow.monitor.terminal.screen", "unglow.results.runs", "unglow.results.summary")
    assert not {"rich", "numpy", *own} & set(done.stdout.split())


def test_a_run_in_a_pipe_starts_without_what_draws_or_reads_records():
    code = """
import logging, sys
from pathlib import Path
from unglow.monitor.terminal.run_output import Mode, RunOutput
output = RunOutput(sys.stdout, Mode.LINES, ["snakemake"])
output.attach(results=Path("results"), pairs=[], problems=[])
output.show_record(logging.makeLogRecord({"event": "run_info", "stats": {"make": 1, "total": 1}}))
print({"rich", "numpy", "unglow.telemetry.reading.records"} & {*sys.modules})
"""
    words = [sys.executable, "-c", code]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[0] == "1 job to do"
    assert lines[-1] == "set()"


def test_snakemake_knows_the_package():
    from snakemake_interface_logger_plugins.registry import LoggerPluginRegistry

    assert "unglow" in LoggerPluginRegistry().get_registered_plugins()
    assert importlib.util.find_spec("snakemake_logger_plugin_unglow.handlers") is not None


class BrokenOutput:
    def understands(self, _):
        return True

    def show_record(self, _):
        raise RuntimeError("broken")

    close = attach = show_record


def test_nothing_that_fails_gets_out_and_snakemakes_own_text_follows(capsys):
    settings = SimpleNamespace(verbose=True, debug_dag=False, log_handler_settings={}, dryrun=True)
    handler = plugin.LogHandler(settings, None)
    assert not handler.writes_to_stream  # the user wants Snakemake's own text
    handler._output = BrokenOutput()
    assert handler.writes_to_stream
    handler.emit(record("one", logging.ERROR))
    handler.emit(record("two"))
    handler.close()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("unglow: the display failed (RuntimeError('broken'))")
    assert lines[1:] == ["one", "two"]


class Stream(io.StringIO):
    def __init__(self, *, terminal):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


@pytest.mark.parametrize(
    ("terminal", "environment", "quiet", "mode"),
    [
        (True, {"TERM": "xterm"}, [], Mode.SCREEN),
        (True, {"TERM": "xterm"}, ["rules", "reason"], Mode.SCREEN),
        (False, {"TERM": "xterm"}, [], Mode.LINES),
        (True, {"TERM": "xterm", "UNGLOW_MONITOR": "0"}, [], Mode.LINES),
        (True, {"TERM": "xterm"}, ["progress", "rules"], Mode.QUIET),
        (True, {"TERM": "xterm"}, ["all"], Mode.SILENT),
        (True, {"TERM": "dumb"}, [], Mode.LINES),
        (True, {}, [], Mode.LINES),
    ],
)
def test_how_a_run_is_shown(terminal, environment, quiet, mode):
    stream = Stream(terminal=terminal)
    assert mode_for(stream, environment, quiet, is_dry=False) is mode
    assert mode_for(stream, environment, quiet, is_dry=True) is Mode.PLAN


# -------------------------------------------------------------------------------------- a dry run


def test_a_dry_run_is_a_few_lines_whatever_the_batch(tmp_path):
    many = [(f"s{n}", "DAPI") for n in range(500)]
    stats = dict.fromkeys(("ingest", "register", "all"), 400) | {"total": 1200}
    lines = printed(
        Mode.PLAN,
        record("skipped: a", logging.WARNING),
        record("\n".join(["preflight: 800 jobs to do:", *[f"  line {n}" for n in range(40)]])),
        record(event="run_info", stats=stats),
        *(job("register", f"s{n}") for n in range(400)),
        record(event="run_info", stats=stats),
        pairs=many,
        problems=["x" * 500] * 60,
        results=tmp_path,
    )
    assert lines[0] == "To do: 400 pairs (s0 DAPI, s1 DAPI, s2 DAPI and 397 more); 100 finished"
    assert lines[-2] == "800 jobs: 400 ingest, 400 register"
    assert lines[-1] == "Run it: unglow run"
    assert len(lines) < 25


def test_a_dry_run_after_a_kill_names_resume(tmp_path):
    killed = record("its lock is still there", logging.WARNING)
    killed.locked = True
    started = record(event="run_info", stats={"ingest": 1, "total": 1})
    lines = printed(Mode.PLAN, killed, started, job("ingest", "s1"), results=tmp_path)
    assert lines[0] == "its lock is still there"
    assert lines[-1] == "Run it: unglow resume"


def test_a_dry_run_with_nothing_to_do_and_one_that_would_be_refused(tmp_path):
    done = record("Nothing to be done (all requested files are present and up to date).")
    assert printed(Mode.PLAN, done, results=tmp_path)[0] == "Nothing to do: 4 pairs finished."
    refused = printed(
        Mode.PLAN,
        record("preflight: 1 jobs to do:\n  memory  TOO MUCH"),
        record("preflight: refused: too much, take less.", logging.ERROR),
        record(event="run_info", stats={"ingest": 1, "total": 1}),
        job("ingest", "s1"),
        results=tmp_path,
    )
    assert "  memory  TOO MUCH" in refused
    assert refused[-1] == "Refused: too much, take less."


# ------------------------------------------------------------------------------------ a real run


def test_quiet_prints_the_result_and_what_is_wrong(tmp_path):
    records = [
        record("Building DAG of jobs..."),
        record(event="run_info", stats={"ingest": 4, "total": 4}),
        record("something is odd", logging.WARNING),
        record("CalledProcessError in file x", logging.ERROR, event="error"),
        record("results/summary.tsv: 4 ok", ending=True),
        record("results/report.html: open it in a browser.", ending=True),
        record("something else is odd", logging.WARNING),
    ]
    result = ["results/summary.tsv: 4 ok", "results/report.html: open it in a browser."]
    assert printed(Mode.QUIET, *records, results=tmp_path) == [
        *("something is odd", "something else is odd"),
        *result,
    ]
    assert printed(Mode.SILENT, *records, results=tmp_path) == []


def test_lines_begin_with_what_runs_and_skipped_inputs_do_not_flood_them(tmp_path):
    lines = printed(
        Mode.LINES,
        *(record(f"skipped: input {n}", logging.WARNING) for n in range(9)),
        record(event="run_info", stats={"ingest": 4, "all": 1, "total": 5}),
        record("Terminating processes on user request, this might take some time."),
        command=("unglow", "run"),
        results=tmp_path,
    )
    assert lines[:3] == [f"skipped: input {n}" for n in range(3)]
    assert lines[3].startswith("More inputs are skipped")
    assert lines[4] == "4 pairs (s1 DAPI, s2 DAPI, s3 DAPI and 1 more); 4 jobs to do"
    assert lines[-1].endswith("`unglow run` continues.")


def test_slides_are_counted_apart_from_pairs(tmp_path):
    slide, both = [("slide1", "")], [*PAIRS[:2], ("slide1", "")]
    dry = [record(event="run_info", stats={"slide_scale": 1, "total": 1})]
    dry += [record(event="job_info", rule_name="x", wildcards={"sample": "slide1"}, jobid=1)]
    for mode, records, at in ((Mode.PLAN, dry, "To do: "), (Mode.LINES, dry[:1], "")):
        lines = printed(mode, *records, pairs=slide, results=tmp_path)
        assert lines[0].startswith(f"{at}1 slide (slide1)")
    lines = printed(Mode.LINES, dry[0], pairs=both, results=tmp_path)
    assert lines[0].startswith("2 pairs and 1 slide (s1 DAPI, s2 DAPI, slide1); 1 job")


# --------------------------------------------------------------------------------------- drawing


class Terminal:
    """A terminal of 10 x 40 characters, and the frame that is drawn in it."""

    def __init__(self):
        self.outer, inner = pty.openpty()
        self.stream = open(inner, "w")  # noqa: SIM115, PTH123
        self.resize(40)
        self.frame = LiveFrame(self.stream, inner)
        self.lines, self.row, self.col, self.highest = [""], 0, 0, 0

    def resize(self, columns):
        fcntl.ioctl(self.outer, termios.TIOCSWINSZ, struct.pack("HHHH", 10, columns, 0, 0))

    def seen(self):
        """Return the lines that are to be seen now."""
        self.stream.write("\0")  # the last that is read
        self.stream.flush()
        written = ""
        while not written.endswith("\0"):
            written += os.read(self.outer, 1000).decode()
        found = re.findall(
            r"\x1b\[\??(\d*)(?:;\d+)*([A-Za-z])|([\r\n])|([^\x1b\r\n]+)", written[:-1]
        )
        for number, letter, end, text in found:
            if letter == "A":
                self.row = max(0, self.row - int(number or 1))
            elif letter == "K":
                self.lines[self.row] = ""
            elif letter == "J":
                self.lines = [""]
            elif end:
                self.row, self.col = self.row + (end == "\n"), 0
            elif text:
                while len(self.lines) <= self.row:
                    self.lines.append("")
                line = self.lines[self.row].ljust(self.col)
                self.col += len(text)
                self.lines[self.row] = line[: self.col - len(text)] + text + line[self.col :]
        return [line for line in self.lines if line.strip()]


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(LiveFrame, "_is_in_front", lambda _: True)
    made = Terminal()
    yield made
    made.stream.close()
    os.close(made.outer)


def test_a_frame_takes_the_place_of_the_last_one_below_lines_that_stay(terminal):
    frame = terminal.frame
    frame.draw(lambda: Text("one\ntwo"))
    assert terminal.seen() == ["one", "two"]
    frame.draw(lambda: Text("three"))
    frame.say(Text("stays"))
    assert terminal.seen() == ["stays", "three"]
    frame.draw(None)
    assert terminal.seen() == ["stays"]


def test_a_frame_is_never_higher_than_the_terminal(terminal):
    terminal.frame.draw(lambda: Text("\n".join("abcdefghijklmnopq")))
    assert terminal.seen() == list("abcdefghi")
    terminal.frame.draw(None)
    assert terminal.seen() == []


def test_what_others_write_to_the_terminal_is_kept_for_later():
    code = (
        "import os, subprocess\n"
        "from unglow.monitor.terminal.run_output import Diversion\n"
        "d = Diversion()\n"
        "subprocess.run(['sh', '-c', 'echo of a job; printf rest'])\n"
        "lines = d.new_lines()\n"
        "left = d.end()\n"
        "print('back', lines, left)\n"
    )
    outer, inner = pty.openpty()
    subprocess.run([sys.executable, "-c", code], stdout=inner, stderr=inner, check=True)
    assert os.read(outer, 1000) == b"back ['of a job'] ['rest']\r\n"
    os.close(inner)
    os.close(outer)


@pytest.mark.parametrize(
    "words",
    [
        ["unglow", "run", "--only", "a/D", "--only", "b", "-n"],
        ["unglow", "run", "--config", "detect={fwhm_px: 4}", "--only", "a", "--", "target"],
        ["unglow", "run", "--cores", "2"],
    ],
)
def test_a_command_is_shown_as_it_was_given(words):
    shown = restore_only(replace_only(words))
    assert sorted(shown) == sorted(words)
    assert [w for w, after in pairwise(shown) if after == "a"] == [ONLY] * ("a" in words)
