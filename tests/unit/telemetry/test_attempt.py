"""The file of an attempt, written by real jobs however they end, and samples of process trees."""

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
from pathlib import Path

import pytest
from running_jobs import wait_for

from unglow.core import process
from unglow.core.process import OpenFiles, boot_id, read_start_ticks
from unglow.telemetry.attempt_files import attempt_files
from unglow.telemetry.jsonl import COLUMNS
from unglow.telemetry.reading.follower import Follower
from unglow.telemetry.recording import sampler as sampling
from unglow.telemetry.recording.attempt import Sample
from unglow.telemetry.recording.sampler import Sampler

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
with Job.from_script(snakemake) as job:
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
    time.sleep(1.2)
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
def test_samples_come_twice_a_second(work):
    _, lines = work.run("time.sleep(3.4)")
    times = [sample["t"] for sample in samples(lines)]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert statistics.median(gaps) == pytest.approx(0.5, abs=0.02)
    with_pss = [sample for sample in samples(lines) if sample["pss"] is not None]
    assert 3 <= len(with_pss) <= 5
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
    said_so = r"had done nothing for [12] s when its limit of 0.02 min was over"
    assert re.search(said_so, end["message"])
    assert end["message"] in said
    assert record(work)["stalled_seconds"] in (1, 2)


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
    wait = "while not os.path.exists('go'): time.sleep(0.1)"
    process = work.start(f"{wait}\nwhile time.process_time() < 3: pass", stall=0.5)
    work.wait_for(lambda lines: of_kind(lines, "stall"))
    time.sleep(1)
    (work.directory / "go").touch()
    process.communicate(timeout=600)
    lines = work.lines()
    seen, over = of_kind(lines, "stall")
    assert (seen["over"], over["over"]) == (False, True)
    assert 0.5 <= seen["seconds"] < over["seconds"]
    assert over["seconds"] > 0.9
    follower = Follower(work.directory)
    follower.poll()
    (attempt,) = follower.attempts
    (stall,) = attempt.stalls
    assert stall.seconds == over["seconds"]
    assert stall.t - stall.seconds == pytest.approx(seen["t"] - seen["seconds"])


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
    lines = work.wait_for(lambda lines: len(samples(lines)) >= 3)
    head = lines[0]
    assert (head["pid"], head["started"]) == (process.pid, read_start_ticks(process.pid))
    process.kill()
    process.wait(300)
    after = work.lines()
    assert after[: len(lines)] == lines
    assert not of_kind(after, "end")
    assert read_start_ticks(head["pid"]) is None  # this is how a reader knows


def test_an_attempt_that_repeats_the_first_says_so_in_a_file_of_its_own(work):
    work.run("1 / 0")
    first = work.files()[0].read_bytes()
    _, lines = work.run("pass", attempt=2)
    assert len(work.files()) == 2
    assert work.files()[0].read_bytes() == first
    end = lines[-1]
    assert (lines[0]["attempt"], end["outcome"], end["repeated"]) == (2, "error", True)
    assert end["message"].startswith("ended by an error that is not caused by the data")


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


HOLD = """
import mmap, os, subprocess, sys, threading, time
held = b"1" * int(sys.argv[1]) * 1_000_000
shared = mmap.mmap(-1, 30_000_000); shared.write(b"1" * 30_000_000)
below = sys.argv[2:] and subprocess.Popen([sys.executable, *sys.orig_argv[1:3], *sys.argv[2:]])
with open(os.__file__, "rb") as file:
    while len(file.read(1000)) == 1000: pass
print("there", flush=True); sys.stdin.read()
"""


@pytest.fixture
def family():
    """A process that holds 50 MB, its child with 90 and its grandchild with 20; 30 shared each."""
    words = [sys.executable, "-c", HOLD, "50", "90", "20"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        for _ in range(3):
            assert parent.stdout.readline() == b"there\n"
        yield parent
        parent.stdin.close()


def test_a_sample_sums_over_the_tree_and_so_does_the_peak(family):
    wait_for(lambda: Sampler(family.pid).sample().runnable == 0)
    taken = Sampler(family.pid).sample()
    assert (taken.processes, taken.threads) == (3, 3)
    assert 250 < taken.rss_mb < 330
    assert 250 < taken.pss_mb < taken.rss_mb
    assert taken.peak_mb == taken.pss_mb
    assert taken.shmem_mb == pytest.approx(90, abs=1)
    assert 5 < taken.file_mb < 50
    assert taken.cpu_s > 0
    assert taken.read > 3 * 10_000
    assert taken.state == "S"
    assert 100 < taken.available_mb < 1e7


def test_without_proc_there_are_still_curves(family, monkeypatch, tmp_path):
    monkeypatch.setattr(process, "is_mounted", lambda: False)
    monkeypatch.setattr(sampling, "OpenFiles", lambda path: OpenFiles(f"{tmp_path}{path}"))
    taken = Sampler(family.pid).sample()
    assert (taken.processes, taken.threads, taken.runnable) == (3, 3, None)
    assert 250 < taken.rss_mb < 330
    assert 120 < taken.peak_mb < 160
    assert taken.cpu_s > 0
    assert (taken.pss_mb, taken.file_mb, taken.shmem_mb) == (None, None, None)


def test_a_row_has_the_columns_that_the_head_of_the_file_names():
    taken = Sample(
        rss_mb=1024.001, pss_mb=512.0, cpu_s=1.5, read=7, written=8, threads=3, processes=1,
        state="S", peak_mb=2048.0, available_mb=5120.3, runnable=0,
    )  # fmt: skip
    row = taken.row(0.123456)
    assert COLUMNS[:4] == ("t", "rss", "pss", "cpu")
    assert row[:4] == [0.123, 1024.0, 512.0, 1.5]
    assert COLUMNS[4:] == (
        *("read", "written", "threads", "processes", "state", "peak", "available"),
        *("file", "shmem", "swap", "runnable"),
    )
    assert row[4:] == [7, 8, 3, 1, "S", 2048.0, 5120, None, None, None, 0]


def test_threads_that_run_are_counted():
    code = """
import threading, zlib
data = bytes(99_000_000)
for _ in range(3):
    threading.Thread(target=lambda: [zlib.crc32(data) for _ in range(9999)]).start()
"""
    busy = subprocess.Popen([sys.executable, "-c", code])
    wait_for(lambda: Sampler(busy.pid).sample().runnable == 3)
    busy.kill()
    busy.wait()


@pytest.mark.parametrize(("cost_s", "expected"), [(0.0, [0, 2, 4, 6, 8]), (0.01, [0, 8])])
def test_the_proportional_set_is_taken_once_a_second_or_less_often_where_it_is_dear(
    family, monkeypatch, cost_s, expected
):
    now, spent = 100.0, 0.0

    def cost():
        nonlocal spent
        spent += cost_s
        return spent

    monkeypatch.setattr(sampling.time, "monotonic", lambda: now)
    monkeypatch.setattr(sampling.time, "thread_time", cost)
    sampler = Sampler(family.pid)
    taken = []
    for tick in range(10):
        now = 100.0 + tick / 2
        taken.append(sampler.sample().pss_mb is not None)
    # 10 ms are 0.3 % of 3.3 s
    assert [tick for tick, was in enumerate(taken) if was] == expected
    assert sampler.interval_s == pytest.approx(max(0.5, cost_s / 0.015))


def test_what_a_child_has_done_is_not_lost_between_its_end_and_its_parents_wait():
    code = """
import subprocess, sys, time
burn = "import time\\nwhile time.process_time() < 0.4: pass\\nimport sys; sys.stdin.read()"
child = subprocess.Popen([sys.executable, "-c", burn], stdin=subprocess.PIPE)
sys.stdin.readline(); child.stdin.close()
sys.stdin.readline(); child.wait()
sys.stdin.readline()
"""
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as parent:
        sampler = Sampler(parent.pid)
        wait_for(lambda: sampler.sample().cpu_s >= 0.4)
        seen = []
        for processes in (2, 1):  # until its parent waits, it is a zombie
            parent.stdin.write(b"\n")
            parent.stdin.flush()
            seen += [sampler.sample() for _ in range(20)]
            wait_for(lambda count=processes: sampler.sample().processes == count)
            seen.append(sampler.sample())
        assert min(one.cpu_s for one in seen) >= 0.4
        assert all(a.cpu_s <= b.cpu_s and a.read <= b.read for a, b in itertools.pairwise(seen))


def test_of_a_process_that_is_gone_there_are_no_figures():
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    taken = Sampler(done.pid).sample()
    assert taken == Sample(available_mb=taken.available_mb)


def test_a_child_of_another_thread_is_seen_within_a_second_and_stays():
    code = """
import subprocess, sys, threading
run = lambda: subprocess.run([sys.executable, "-c", "import sys; sys.stdin.read()"])
threading.Thread(target=run).start()
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    sampler = Sampler(parent.pid)
    wait_for(lambda: sampler.sample().processes == 2)
    assert [sampler.sample().processes for _ in range(3)] == [2, 2, 2]
    parent.communicate(b"")


def test_no_file_of_a_process_that_has_gone_stays_open():
    code = """
import subprocess, sys
while sys.stdin.readline():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    sys.stdin.readline()
    child.communicate(b"\\n")
"""
    # a process of its own: this one may have children of other tests
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as parent:
        sampler = Sampler(parent.pid)
        assert sampler.sample().processes == 1
        held = len(list(Path("/proc/self/fd").iterdir()))
        for processes in (2, 1) * 5:
            parent.stdin.write(b"\n")
            parent.stdin.flush()
            wait_for(lambda count=processes: sampler.sample().processes == count)
        assert len(list(Path("/proc/self/fd").iterdir())) == held
        parent.stdin.close()
