"""The file of an attempt, written by real jobs in processes of their own, however they end."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time

import pytest

from unglow.core.process import boot_id, started_ticks
from unglow.telemetry.attempt_files import attempt_files
from unglow.telemetry.reading.follower import Follower
from unglow.telemetry.recording.attempt import COLUMNS

SCRIPT = """
import os, signal, sys, time
from types import SimpleNamespace
from unglow.jobs import watchdog
from unglow.jobs.context import Job
watchdog.STALL_S = {stall}
class Log(list): pass
log = Log(["logs/align.log"]); log.telemetry = "telemetry/A/D/align.jsonl"
snakemake = SimpleNamespace(
    rule="align", threads=2, wildcards={{"sample": "A", "dye": "D"}}, log=log,
    resources=SimpleNamespace(mem_mb={mem_mb}, runtime={minutes}, attempt={attempt}))
with Job.of(snakemake) as job:
    {body}
"""
# A remedy is there to be pasted: names as people have them are quoted in it.
COMMAND = "snakemake -s '/w/my flow; (old) $x/Snakefile' --cores 2"


class Work:
    """A directory in which one job after the other runs."""

    def __init__(self, directory):
        self.directory = directory

    def start(
        self, body, *, mem_mb=150, minutes=5.0, attempt=1, stall=60.0, inside=lambda words: words
    ):
        numbers = {"mem_mb": mem_mb, "minutes": minutes, "attempt": attempt, "stall": stall}
        code = SCRIPT.format(body=body.replace("\n", "\n    "), **numbers)
        return subprocess.Popen(
            inside([sys.executable, "-c", code]),
            cwd=self.directory,
            env=os.environ | {"UNGLOW_COMMAND": COMMAND},
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, body, **how):
        """Run a job to its end; return what it said, and the lines of its attempt."""
        _, said = self.start(body, **how).communicate(timeout=600)
        return said, self.lines()

    def files(self):
        return attempt_files(self.directory / "telemetry")

    def lines(self, which=-1):
        text = self.files()[which].read_bytes()
        return [json.loads(line) for line in text.split(b"\n")[:-1]]

    def wait_for(self, seen, seconds=300.0):
        """Wait until something is true of the lines so far."""
        deadline = time.monotonic() + seconds
        while not (self.files() and seen(self.lines())):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return self.lines()


@pytest.fixture
def work(tmp_path):
    return Work(tmp_path)


def samples(lines):
    return [dict(zip(COLUMNS, line, strict=True)) for line in lines if isinstance(line, list)]


def of_kind(lines, kind):
    return [line for line in lines if isinstance(line, dict) and line["kind"] == kind]


def record(work):
    text = (work.directory / "telemetry/A/D/align.jsonl").read_text()
    return json.loads(text.splitlines()[-1])


# ------------------------------------------------------------------------------------ what it says


def test_a_job_that_ends_well_is_recorded_from_start_to_end(work):
    body = """
from unglow.core.progress import step
job.limit_memory()
with step("hold"):
    held = bytearray(b"1") * 60_000_000
    time.sleep(0.3)
"""
    said, lines = work.run(body)
    assert said == ""
    head, end = lines[0], lines[-1]
    assert head["kind"] == "attempt"
    assert head["rule"] == "align"
    assert head["wildcards"] == {"sample": "A", "dye": "D"}
    assert (head["attempt"], head["declared_mb"], head["threads"]) == (1, 150, 2)
    assert (head["limit_s"], head["log"]) == (300, "logs/align.log")
    assert head["columns"] == list(COLUMNS)
    assert head["boot"] == boot_id()
    assert head["machine_mb"] > 100
    assert work.files() == [work.directory / "telemetry/A/D/align/1.jsonl"]
    names = [e["name"] for e in of_kind(lines, "step") if e["edge"] == "begin"]
    assert names == ["libraries", "hold"]
    assert (end["kind"], end["outcome"], end["message"], end["remedy"]) == ("end", "ok", "", "")
    assert (end["signal"], end["code"]) == (0, 0)
    assert 60 < end["peak_mb"] < 120
    assert end["peak_mb"] == pytest.approx(record(work)["peak_mb"], abs=0.06)
    assert end["cpu_s"] > 0
    assert end["t"] == pytest.approx(end["wall"] - head["wall"], abs=0.1)
    assert 60 < max(sample["rss"] for sample in samples(lines)) < 120
    assert {sample["processes"] for sample in samples(lines)} == {1}


@pytest.mark.slow
def test_samples_come_ten_times_a_second(work):
    _, lines = work.run("time.sleep(2.5)")
    times = [sample["t"] for sample in samples(lines)]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert statistics.median(gaps) == pytest.approx(0.1, abs=0.02)
    with_pss = [sample for sample in samples(lines) if sample["pss"] is not None]
    assert 2 <= len(with_pss) <= 4
    assert all(0 < s["pss"] <= s["rss"] + 1 for s in with_pss)


@pytest.mark.parametrize("ends", ["", "os.kill(os.getpid(), 9)"])
def test_a_spike_of_a_tenth_of_a_second_is_in_the_peak(work, ends):
    body = f"""
held = bytearray(b"1") * 200_000_000
time.sleep(0.1)
del held
time.sleep(0.5)
{ends}
"""
    _, lines = work.run(body, mem_mb=400)
    assert 200 < lines[-1]["peak_mb"] < 240
    after = samples(lines)[-1]
    assert after["rss"] < 60
    assert 200 < after["peak"] <= lines[-1]["peak_mb"] + 0.01


def test_a_spike_between_two_samples_is_in_the_peak(work):
    body = (
        "time.sleep(0.14); held = bytearray(b'1') * 100_000_000; del held; os.kill(os.getpid(), 9)"
    )
    _, lines = work.run(body)
    assert 100 < lines[-1]["peak_mb"] < 140


# ----------------------------------------------------------------------------------------- endings


@pytest.mark.parametrize(
    ("body", "outcome", "number", "remedy", "text"),
    [
        ("os.kill(os.getpid(), 9)", "killed", 9, COMMAND, "from outside by SIGKILL"),
        ("os.kill(os.getpid(), 15)", "killed", 15, COMMAND, "from outside by SIGTERM"),
        ("os.abort()", "error", 6, "", "a fault in a library (SIGABRT)"),
        ("1 / 0", "error", 0, "", "ZeroDivisionError: division by zero"),
        ("raise KeyboardInterrupt", "interrupted", 0, COMMAND, "interrupted"),
        ("import unglow.core.errors as e; raise e.InputError('It is cut.')", "bad_input", 0, "",
         "It is cut."),
        ("os.write(2, b'std::bad_alloc'); os.abort()", "memory", 6,
         f"{COMMAND} --set-resources align:mem_mb=250", "needs more memory"),
    ],
)  # fmt: skip
def test_each_end_has_its_word_and_its_sentence(work, body, outcome, number, remedy, text):
    said, lines = work.run(f"time.sleep(0.15); {body}")
    end = lines[-1]
    assert (end["outcome"], end["signal"], end["remedy"]) == (outcome, number, remedy)
    (sentence,) = said.splitlines()
    assert text in end["message"]
    assert end["message"] in sentence
    assert end["code"] == (-number or 1)
    assert samples(lines)
    assert record(work)["outcome"] == outcome


def test_more_than_the_limit_allows_is_memory_with_a_command_that_gives_more(work):
    said, lines = work.run("import numpy as np; job.limit_memory(); np.ones(900_000_000, 'u1')")
    end = lines[-1]
    assert (end["outcome"], end["needed_mb"]) == ("memory", 950)
    assert end["remedy"] == f"{COMMAND} --set-resources align:mem_mb=950"
    assert end["message"] in said


def test_a_job_over_its_time_gets_a_longer_one(work):
    _, lines = work.run("while True: pass", minutes=0.008)
    end = lines[-1]
    assert (end["outcome"], end["remedy"]) == ("timeout", f"{COMMAND} --config timeout_per_job=1")
    assert not of_kind(lines, "stall")
    log = (work.directory / "logs/align.log").read_text()
    assert re.search(r'File "<string>", line \d+ in <module>', log)


def test_a_job_that_did_nothing_when_its_time_was_over_had_stalled(work):
    said, lines = work.run("time.sleep(600)", minutes=0.02, stall=0.5)
    (stall,) = of_kind(lines, "stall")
    assert stall["seconds"] >= 0.5
    end = lines[-1]
    assert (end["outcome"], end["remedy"]) == ("stalled", COMMAND)
    assert "had done nothing for 1 s when its limit of 0.02 min was over" in end["message"]
    assert end["message"] in said
    assert record(work)["stalled_seconds"] == 1


def test_a_job_that_was_stopped_says_so_and_that_it_went_on(work):
    process = work.start("while not os.path.exists('go'): time.sleep(0.001)", stall=0.5)
    pid = of_kind(work.wait_for(lambda lines: of_kind(lines, "process")), "process")[0]["pid"]
    os.kill(pid, signal.SIGSTOP)
    (stall,) = of_kind(work.wait_for(lambda lines: of_kind(lines, "stall")), "stall")
    assert (stall["reason"], stall["over"]) == ("stopped by a signal", False)
    assert f"`kill -CONT {pid}` lets it go on" in stall["helps"]
    (work.directory / "go").touch()
    os.kill(pid, signal.SIGCONT)
    _, said = process.communicate(timeout=600)
    assert "it was stopped by a signal (Ctrl-Z, SIGSTOP, a debugger)" in said
    assert work.lines()[-1]["outcome"] == "ok"


def test_a_stall_that_is_over_is_reported_again_with_all_of_its_time(work):
    body = "time.sleep(1.5)\nend = time.monotonic() + 1\nwhile time.monotonic() < end: pass"
    _, lines = work.run(body, stall=0.5)
    seen, over = of_kind(lines, "stall")
    assert (seen["over"], over["over"]) == (False, True)
    assert 0.5 <= seen["seconds"] < over["seconds"]
    assert over["seconds"] > 0.9
    follower = Follower(work.directory)
    follower.poll()
    (attempt,) = follower.attempts
    (stall,) = attempt.complete_stalls
    assert (stall.t, stall.seconds) == (over["t"], over["seconds"])


def test_a_job_that_is_killed_while_it_does_nothing_had_stalled(work):
    process = work.start("time.sleep(600)", stall=0.5)
    lines = work.wait_for(lambda lines: of_kind(lines, "stall"))
    os.kill(of_kind(lines, "process")[0]["pid"], signal.SIGKILL)
    assert process.wait(300) == 1
    end = work.lines()[-1]
    assert (end["outcome"], end["signal"]) == ("stalled", 9)
    assert end["message"].startswith("ended from outside by SIGKILL when it had done nothing for ")


def test_a_job_that_had_stalled_may_try_again(work):
    work.run("time.sleep(600)", minutes=0.02, stall=0.5)
    said, lines = work.run("pass", attempt=2)
    assert (said, lines[-1]["outcome"]) == ("", "ok")


def test_if_the_watchdog_is_killed_all_up_to_then_is_there_and_no_end(work):
    process = work.start("time.sleep(600)")
    lines = work.wait_for(lambda lines: len(samples(lines)) >= 5)
    head = lines[0]
    assert (head["pid"], head["started"]) == (process.pid, started_ticks(process.pid))
    process.kill()
    process.wait(300)
    after = work.lines()
    assert after[: len(lines)] == lines
    assert not of_kind(after, "end")
    assert started_ticks(head["pid"]) is None  # this is how a reader knows


def test_an_attempt_that_repeats_the_first_says_so_in_a_file_of_its_own(work):
    work.run("1 / 0")
    first = work.files()[0].read_bytes()
    _, lines = work.run("pass", attempt=2)
    assert len(work.files()) == 2
    assert work.files()[0].read_bytes() == first
    end = lines[-1]
    assert (lines[0]["attempt"], end["outcome"], end["repeated"]) == (2, "error", True)
    assert end["message"].startswith("ended by an error that is not the data's fault")


def test_a_kill_by_the_kernel_is_distinguished_from_one_by_a_person(work, groups):
    small = groups.group("telemetry", 150)

    def inside(words):
        return groups.inside(small, *words)

    body = "held = bytearray(b'1') * 400_000_000"
    said, lines = work.run(body, mem_mb=1000, inside=inside)
    end = lines[-1]
    assert (end["outcome"], end["signal"]) == ("oom_killed", 9)
    assert lines[0]["cgroup_mb"] == 150
    assert "killed by the system because the machine ran out of memory" in said
    assert end["remedy"] == f"{COMMAND} --resources mem_mb=1000"
    assert record(work)["outcome"] == "oom_killed"

    _, lines = work.run(body, mem_mb=100, inside=inside)
    end = lines[-1]
    assert end["outcome"] == "oom_killed"
    assert end["remedy"] == f"{COMMAND} --set-resources align:mem_mb={end['needed_mb']}"

    _, lines = work.run("os.kill(os.getpid(), signal.SIGKILL)", inside=inside)
    assert lines[-1]["outcome"] == "killed"


# ------------------------------------------------------------------------------------- no telemetry


def test_without_a_place_for_telemetry_a_job_runs_all_the_same_and_says_it_once(work):
    (work.directory / "telemetry").write_text("a file in the way")
    body = "from unglow.core.progress import step\nwith step('a'): open('result', 'w').write('x')"
    _, said = work.start(body).communicate(timeout=600)
    assert said == ""
    assert (work.directory / "result").read_text() == "x"
    log = (work.directory / "logs/align.log").read_text()
    assert log.count("telemetry is lost") == 1
    assert "could not be written (" in log


def test_a_full_disk_under_telemetry_costs_nothing_but_a_sentence(work):
    body = "time.sleep(0.35); open('result', 'w').write('x')"
    (work.directory / "telemetry/A/D").mkdir(parents=True)
    (work.directory / "sitecustomize.py").write_text(
        "import os, errno\n"
        "real = os.open\n"
        "def full(path, flags, *rest, **more):\n"
        "    return real('/dev/full' if flags & os.O_APPEND else path, flags, *rest)\n"
        "os.open = full\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        path = os.pathsep.join([str(work.directory), os.environ.get("PYTHONPATH", "")])
        patch.setenv("PYTHONPATH", path)
        _, said = work.start(body).communicate(timeout=600)
    assert said == ""
    assert (work.directory / "result").read_text() == "x"
    log = (work.directory / "logs/align.log").read_text()
    assert log.count("telemetry is lost") == 1
    assert "No space left on device" in log
