"""Status lines below other output: what is written to a terminal, and that it is given back."""

import io
import logging
import os
import pty
import re
import struct
import termios
import time
from fcntl import ioctl

import pytest
from made_telemetry import BOOT, WALL, Made, job, sample, state
from rich.console import Console

from unglow.reporting.terminal import status_handler
from unglow.reporting.terminal.run_view import Watched
from unglow.reporting.terminal.scroll_region import Region
from unglow.reporting.terminal.status_handler import StatusHandler, is_wanted
from unglow.reporting.terminal.status_lines import lines_of, status
from unglow.telemetry.reading.outcomes import Machine


class Terminal:
    """Both ends of a terminal of a size."""

    def __init__(self, rows, columns):
        self.outer, self.inner = pty.openpty()
        self.resize(rows, columns)

    def resize(self, rows, columns):
        ioctl(self.inner, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self):
        os.write(self.inner, b"\x04")
        text = b""
        while b"\x04" not in text:
            text += os.read(self.outer, 65536)
        return text.replace(b"\x04", b"").decode()


@pytest.fixture
def terminal():
    made = Terminal(24, 80)
    yield made
    os.close(made.outer)
    os.close(made.inner)


def test_the_last_lines_are_kept_from_scrolling_and_given_back(terminal):
    region = Region(terminal.inner, 2)
    region.draw(["one", "two", "too many"])
    room, limit = "\x1bD\x1bD\x1b[2A", "\x1b7\x1b[1;22r\x1b8"
    assert terminal.read() == f"{room}{limit}\x1b7\x1b[23;1H\x1b[2Kone\x1b[24;1H\x1b[2Ktwo\x1b8"
    region.draw(["three"])
    assert terminal.read() == "\x1b7\x1b[23;1H\x1b[2Kthree\x1b[24;1H\x1b[2K\x1b8"
    region.close()
    assert terminal.read() == "\x1b7\x1b[r\x1b8\x1b[J"
    region.close()
    assert terminal.read() == ""


def test_a_terminal_that_changes_its_size_is_taken_anew(terminal):
    region = Region(terminal.inner, 2)
    region.draw(["one"])
    terminal.read()
    terminal.resize(30, 60)
    assert region.columns == 59
    region.draw(["one"])
    told = terminal.read()
    assert told.startswith(
        "\x1b7\x1b[r\x1b8\x1b[J\x1bD\x1bD\x1b[2A\x1b7\x1b[1;28r\x1b8\x1b7\x1b[29;1H"
    )
    terminal.resize(9, 60)  # too low for both
    region.draw(["one"])
    assert terminal.read() == "\x1b7\x1b[r\x1b8\x1b[J"
    region.draw(["one"])
    assert terminal.read() == ""


def test_the_lines_tell_of_the_run_and_its_jobs(tmp_path):
    made = Made(tmp_path / "results")
    made.run(
        {"kind": "total", "t": 0.5, "jobs": {"register": 3}},
        job(1, 1, "register"),
        state(1, 1, "failed"),
        job(5, 2, "register"),
        state(5, 2, "started"),
    )
    name = "a[b]name[/b]\x1b[2J" + 30 * "x"
    made.attempt("register", 6, sample(1, 100), sample(30, 200), sample=name)
    (run,) = Watched(made.results).look(Machine(host="x", boot=BOOT, now=WALL + 40))
    console = Console(file=io.StringIO(), width=80, markup=False)
    assert [line.rstrip() for line in lines_of(status(run, 4), console, 70)] == [
        "──────────────────── 0 of 3 jobs, 1 failed, 40 s; jobs take 200 MB (P…",
        "register a[b]name[/b][2Jxxxxxxxxxxxxxx…            0:30  200 of 400 MB",
        "register s1 DAPI                         starting          - of 400 MB",
    ]
    assert len(lines_of(status(run, 1), console, 70)) == 2


class Stream(io.StringIO):
    def __init__(self, *, terminal):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


@pytest.mark.parametrize(
    ("terminal", "environment", "quiet", "wanted"),
    [
        (True, {"TERM": "xterm"}, [], True),
        (True, {"TERM": "xterm"}, ["rules", "reason"], True),
        (False, {"TERM": "xterm"}, [], False),
        (True, {"TERM": "xterm", "UNGLOW_MONITOR": "0"}, [], False),
        (True, {"TERM": "xterm", "UNGLOW_MONITOR": "1"}, [], True),
        (True, {"TERM": "xterm"}, ["progress"], False),
        (True, {"TERM": "xterm"}, ["all"], False),
        (True, {"TERM": "dumb"}, [], False),
        (True, {}, [], False),
    ],
)
def test_when_lines_are_wanted(terminal, environment, quiet, wanted):
    assert is_wanted(Stream(terminal=terminal), environment, quiet) is wanted


def record(event):
    made = logging.LogRecord("snakemake", logging.INFO, "", 0, "", (), None)
    made.event = event
    return made


def test_a_program_that_cannot_be_started_is_told_and_no_more(monkeypatch, capfd, tmp_path):
    monkeypatch.setattr(status_handler.sys, "executable", str(tmp_path / "no-python"))
    handler = StatusHandler(tmp_path)
    handler.emit(record("job_info"))
    assert capfd.readouterr().err == ""
    for _ in range(2):
        handler.emit(record("run_info"))
    handler.close()
    told = capfd.readouterr().err
    assert re.fullmatch(r"unglow: no status lines \(FileNotFoundError.*\)\n", told)


def test_a_program_that_fails_says_so_in_one_line(capfd, tmp_path):
    handler = StatusHandler(tmp_path)  # where it writes to is no terminal
    handler.emit(record("run_info"))
    until = time.monotonic() + 300
    while handler._program.poll() is None and time.monotonic() < until:
        time.sleep(0.1)
    handler.close()
    told = capfd.readouterr().err
    assert re.fullmatch(r"unglow: no status lines any more \(OSError.*\)\n", told)
