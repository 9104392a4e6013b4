"""Real runs as they are shown: at a terminal, in a pipe, from another terminal, in a log."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time
import urllib.error
import urllib.request
from fcntl import ioctl

import pytest
from real_runs import BIN, PROJECT, command
from running_jobs import attempt_at, held

pytestmark = pytest.mark.workflow


class Typed:
    """A command in a terminal of 24 x 100, as if somebody had typed it there."""

    def __init__(self, work, *words, **environment):
        self._terminal, inner = pty.openpty()
        ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        known = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}", "TERM": "xterm-256color"}

        def in_front():
            ioctl(0, termios.TIOCSCTTY, 0)
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # whatever these tests run in

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


def unglow(*words):
    return ("unglow", "run", "--cores", "2", *words)


@pytest.fixture
def work(tmp_path, small_raw):
    shutil.copytree(small_raw, tmp_path / "raw")
    return tmp_path


def test_a_run_is_followed_in_every_way(work):
    with (work / "news.log").open("w") as log:
        news = subprocess.Popen([BIN / "unglow", "monitor", work], stdout=log, stderr=log)
    run = Typed(work, *unglow("--until", "register", "--web"))
    run.until(lambda _: attempt_at(work, "register"))
    with held(work, "register"):
        seen = run.until(lambda text: re.search(r"register \S+ \S+ +(\w+ +)?\d:\d\d", text))
        during = command(work, "unglow", "monitor", "--once")
        address = re.search(r"Live page: (http://\S+) \(until the run ends\)", seen)[1]
        with urllib.request.urlopen(address, timeout=60) as page:
            assert b"unglow monitor: results" in page.read()
    assert run.end() == 0, run.text
    after = command(work, "unglow", "monitor", "results")

    # from another terminal
    assert during.code == 0, during.text
    assert re.search(r"^results: running for \d+ s", during.text, re.MULTILINE)
    assert re.search(r"^register +[━─]+ +0 of 1 +1 running$", during.text, re.MULTILINE)
    assert after.code == 0, after.text
    assert re.match(
        r"results: pairs: 1 waiting; the run finished after .*\n━+ 2 of 2 jobs\n", after.text
    )

    # at the terminal itself, where Snakemake prints nothing but into its log
    plain = re.sub(r"\x1b\[[\d;]*m", "", seen)
    assert "1 pair (phantom SYTO9); 2 jobs to do" in plain
    with pytest.raises(urllib.error.URLError):  # it has ended with the run
        urllib.request.urlopen(address, timeout=60)
    assert re.search(r"━+─+ 1 of 2 jobs", plain)
    assert "rule register" not in run.text
    (log_file,) = (work / ".snakemake" / "log").glob("*.log")
    assert "rule register" in log_file.read_text()
    assert "results/report.html: open it in a browser." in run.text

    # in a log file
    assert news.wait(120) == 0
    events = [line[9:] for line in (work / "news.log").read_text().splitlines()]
    assert events[0].startswith("run of 2 jobs on ")
    assert events[-1].startswith("pairs: 1 waiting; the run finished after ")
    assert events[-1].endswith(" 2 of 2 jobs done")


def test_ctrl_c_says_what_happens_and_the_same_command_continues(work):
    run = Typed(work, *unglow("--until", "register"))
    run.until(lambda _: attempt_at(work, "register"))
    os.write(run._terminal, b"\x03")
    assert run.end() == 1, run.text
    plain = " ".join(re.sub(r"\x1b\[[\d;]*m", "", run.text).split())
    assert re.search("Finished files are kept; `unglow run` continues", plain)
    assert plain.index("Stopping:") < plain.index("Interrupted.")
    assert "Traceback" not in run.text
    again = command(work, *unglow("--until", "register"))
    assert again.code == 0, again.text
    assert "; 1 job to do" in again.text


def test_a_run_that_was_killed_is_reported(work):
    run = Typed(work, *unglow("--until", "ingest"))
    run.until(lambda _: attempt_at(work, "ingest"))
    os.kill(run.process.pid, signal.SIGKILL)
    run.end()
    shown = command(work, "unglow", "monitor", "--once")
    assert shown.code == 1
    assert re.match("results: pairs: 1 incomplete; the run was killed after ", shown.text)
    assert "unglow resume" in shown.text


def test_in_a_pipe_there_is_a_line_for_each_pair_and_none_for_jobs(small_work):
    shutil.rmtree(small_work / "results" / "phantom" / "SYTO9" / "figures")
    (small_work / "results" / "phantom" / "SYTO9" / "details/detection.json").unlink()
    run = command(small_work, *unglow())
    assert run.code == 0, run.text
    assert "\x1b" not in run.text
    assert len(run.text.splitlines()) < 10, run.text
    assert "Live page: unglow monitor --web" in run.text
    assert "Using workflow specific profile" not in run.text
    assert re.search(r"^\d\d:\d\d:\d\d phantom SYTO9: (ok|suspect), ", run.text, re.MULTILINE)
    assert "results/report.html: open it in a browser." in run.text


def test_of_the_users_own_snakemake_and_of_other_words_the_text_is_snakemakes(small_work):
    words = ("--forcerun", "detect", "--until", "detect")
    own = command(small_work, "snakemake", "-s", PROJECT / "Snakefile", "--cores", "2", *words)
    assert "Finished jobid" in own.text
    run = Typed(small_work, *unglow("--verbose", *words))
    assert run.end() == 0, run.text
    assert "Finished jobid" in run.text
    assert "list" not in command(small_work, *unglow("--list-rules")).text.splitlines()
    assert "register" in command(small_work, *unglow("--list-rules")).text


def test_a_dry_run_is_short_and_verbose_is_snakemakes_own(small_work):
    done = command(small_work, *unglow("-n"))
    assert "Nothing to do: 1 pair finished." in done.text
    run = command(small_work, *unglow("-n", "--forceall"))
    assert run.code == 0, run.text
    assert len(run.text.splitlines()) < 25
    assert re.search(r"^\d+ jobs: 1 ingest, ", run.text, re.MULTILINE)
    assert "Run it: unglow run --cores 2 --forceall" in run.text
    verbose = command(small_work, *unglow("-n", "--forceall", "--verbose"))
    assert "rule register" in verbose.text
