"""The monitor beside real runs: below Snakemake's own lines, from another terminal, in a log."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import shutil
import signal
import struct
import subprocess
import termios
import time
from fcntl import ioctl

import pytest
from real_runs import BIN, PROJECT, command
from running_jobs import attempt_at, held

pytestmark = pytest.mark.workflow

STATUS = re.compile(r"\x1b7(?:\x1b\[\d+;1H\x1b\[2K[^\x1b]*(?:\x1b\[[\d;]*m[^\x1b]*)*)+\x1b8")
TAKEN = re.compile(r"(?:\x1bD)+\x1b\[\d+A\x1b7\x1b\[1;\d+r\x1b8")
GIVEN_BACK = "\x1b7\x1b[r\x1b8\x1b[J"


class Typed:
    """A command in a terminal of 24 x 100, as if somebody had typed it there."""

    def __init__(self, work, *words, **environment):
        self._terminal, inner = pty.openpty()
        ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        known = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}", "TERM": "xterm-256color"}

        def in_front():
            ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            [str(word) for word in words],
            cwd=work,
            env=known | environment,
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
            preexec_fn=in_front,  # noqa: PLW1509
        )
        os.close(inner)
        self.text = ""

    def until(self, reached, seconds=400):
        """Read until something is true of the text, or the command has ended."""
        end = time.monotonic() + seconds
        while not reached(self.text) and time.monotonic() < end:
            if select.select([self._terminal], [], [], 0.2)[0]:
                try:
                    more = os.read(self._terminal, 1 << 16)
                except OSError:  # nobody has the terminal any more
                    break
                self.text += more.decode(errors="replace")
        return self.text

    def end(self):
        """Read until the command has ended; return its status."""
        self.until(lambda _: False)
        os.close(self._terminal)
        return self.process.wait(120)


def snakemake(*words):
    return ("snakemake", "-s", PROJECT / "Snakefile", "--cores", "2", *words)


@pytest.fixture
def work(tmp_path, small_raw):
    shutil.copytree(small_raw, tmp_path / "raw")
    return tmp_path


def test_a_run_is_followed_in_every_way(work):
    with (work / "news.log").open("w") as log:
        news = subprocess.Popen(
            [BIN / "unglow", "monitor", "--interval", "0.2", work], stdout=log, stderr=log
        )
    run = Typed(work, *snakemake("--until", "register"))
    run.until(lambda _: attempt_at(work, "register"))
    with held(work, "register"):
        seen = run.until(lambda text: re.search(r"register \S+ \S+ +(\w+ +)?\d:\d\d +\d+ of", text))
        during = command(work, "unglow", "monitor", "--once")
    assert run.end() == 0, run.text
    after = command(work, "unglow", "monitor", "results")

    # from another terminal
    assert during.code == 0, during.text
    assert re.search(r"^results has been running for \d+ s", during.text, re.MULTILINE)
    assert re.search(r"^register +[━─]+ +0 of 1 +1 running$", during.text, re.MULTILINE)
    assert after.code == 0, after.text
    assert re.match(r"results ended well after .*\n━+ 2 of 2 jobs\n", after.text)

    # below the lines of Snakemake, which come out whole
    assert re.search(r"━+─+\S* 1 of 2 jobs", re.sub(r"\x1b\[[\d;]*m", "", seen))
    assert len(STATUS.findall(run.text)) > 3
    assert TAKEN.search(run.text)
    assert run.text.count(GIVEN_BACK) == 1
    plain = TAKEN.sub("", STATUS.sub("", run.text)).replace(GIVEN_BACK, "")
    lines = re.sub(r"\x1b\[[\d;]*m", "", plain).replace("\r", "").splitlines()
    (told,) = (work / ".snakemake" / "log").glob("*.log")
    said = [line for line in told.read_text().splitlines() if line.strip()]
    assert [line for line in said if line not in lines] == []

    # in a log file
    assert news.wait(120) == 0
    events = [line[9:] for line in (work / "news.log").read_text().splitlines()]
    assert events[0].startswith("run of 2 jobs on ")
    assert events[1] == "ingest phantom SYTO9 begins"
    assert events[-1].startswith("the run ended well after ")
    assert events[-1].endswith(" 2 of 2 jobs done")
    ended = [re.match(r"(\S+) phantom SYTO9 ended well after", line) for line in events]
    assert [m[1] for m in ended if m][-1] == "register"


def test_a_run_that_was_killed_gives_the_terminal_back_and_is_told(work):
    # a shell stays, as it does for whoever typed the command
    typed = shlex.join(str(word) for word in snakemake("--until", "ingest"))
    run = Typed(work, "sh", "-c", f"{typed} & echo number $!; wait $!; sleep 5; echo later")
    seen = run.until(STATUS.search)
    os.kill(int(re.search(r"number (\d+)", seen)[1]), signal.SIGKILL)
    run.end()
    assert run.text.count(GIVEN_BACK) == 1
    assert STATUS.search(run.text[run.text.index(GIVEN_BACK) :]) is None
    assert "later" in run.text
    told = command(work, "unglow", "monitor", "--once")
    assert told.code == 1
    assert told.text.startswith("results was killed after ")
    assert "unglow resume" in told.text


def test_without_the_switch_or_a_terminal_nothing_is_drawn(small_work):
    words = snakemake("--forcerun", "verdict", "--until", "verdict")
    assert "\x1b" not in command(small_work, *words).text
    run = Typed(small_work, *words, UNGLOW_MONITOR="0")
    assert run.end() == 0, run.text
    assert "Finished jobid" in run.text
    assert "\x1b7" not in run.text
