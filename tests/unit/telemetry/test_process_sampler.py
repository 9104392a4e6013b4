"""What the watchdog sees of a process tree: from real processes, and from files made by hand."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from unglow.telemetry.recording.attempt import COLUMNS, Sample, Sampler

STAT = "{pid} (a (b) c) {state} 1 1 1 0 -1 0 0 0 0 0 {utime} {stime} {cutime} {cstime} 20 0 {n} 0 5"


def until(seen, seconds=300.0):
    deadline = time.monotonic() + seconds
    while not (value := seen()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return value


def process(proc, pid, *, children="", state="S", rss=1000, peak=2000, io=(0, 0), times=(0,) * 4):
    place = proc / str(pid) / "task" / str(pid)
    place.mkdir(parents=True, exist_ok=True)
    (place / "children").write_text(children)
    names = dict(zip(("utime", "stime", "cutime", "cstime"), times, strict=True))
    (proc / str(pid) / "stat").write_text(STAT.format(pid=pid, state=state, n=3, **names))
    status = f"Name:\ta (b) c\nVmHWM:\t  {peak} kB\nVmRSS:\t  {rss} kB\nThreads:\t3\n"
    (proc / str(pid) / "status").write_text(status)
    (proc / str(pid) / "io").write_text(f"rchar: {io[0]}\nwchar: {io[1]}\nsyscr: 9\n")
    rollup = f"0-1 ---p 0 00:00 0 [rollup]\nRss:  {rss} kB\nPss:  {rss // 2} kB\nPss_Dirty: 7 kB\n"
    (proc / str(pid) / "smaps_rollup").write_text(rollup)


@pytest.fixture
def proc(tmp_path):
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:  5000000 kB\n")
    return tmp_path


def test_a_sample_sums_over_the_tree_and_the_peak_is_that_of_one_process(proc):
    process(proc, 10, children="11 ", rss=1000, peak=3000, io=(5, 6), times=(100, 50, 25, 25))
    process(proc, 11, children="12", rss=500, peak=9000, io=(10, 20), times=(100, 0, 0, 0))
    process(proc, 12, state="D", rss=250, peak=250, io=(1, 2))
    taken = Sampler(10, str(proc)).take()
    kib = 1024 / 1e6
    assert taken.rss_mb == pytest.approx(1750 * kib)
    assert taken.pss_mb == pytest.approx(875 * kib)
    assert taken.peak_mb == pytest.approx(9000 * kib)
    assert taken.cpu_s == 300 / os.sysconf("SC_CLK_TCK")
    assert (taken.read, taken.written) == (16, 28)
    assert (taken.threads, taken.processes, taken.state) == (9, 3, "D")
    assert taken.available_mb == pytest.approx(5_000_000 * kib)


def test_a_row_has_the_columns_that_the_head_of_the_file_names(proc):
    process(proc, 10, rss=1_000_000, peak=2_000_000, io=(7, 8), times=(150, 0, 0, 0))
    row = Sampler(10, str(proc)).take().row(0.123456)
    assert COLUMNS[:4] == ("t", "rss", "pss", "cpu")
    assert row[:4] == [0.123, 1024.0, 512.0, 1.5]
    assert COLUMNS[4:] == (
        *("read", "written", "threads", "processes", "state", "peak", "available"),
        *("file", "shmem", "swap", "runnable"),
    )
    assert row[4:] == [7, 8, 3, 1, "S", 2048.0, 5120, None, None, None, 0]


def test_parts_of_memory_and_bytes_of_disks_are_summed_and_runnable_threads_counted(proc):
    for pid, children in ((10, "11"), (11, "")):
        process(proc, pid, children=children, rss=1000)
        with (proc / str(pid) / "status").open("a") as status:
            status.write(
                "RssAnon:\t 700 kB\nRssFile:\t 200 kB\nRssShmem:\t 100 kB\nVmSwap:\t 50 kB\n"
            )
        (proc / str(pid) / "io").write_text("rchar: 9\nwchar: 8\nread_bytes: 7\nwrite_bytes: 6\n")
        for thread, state in ((pid, "S"), (pid + 100, "R")):
            task = proc / str(pid) / "task" / str(thread)
            task.mkdir(exist_ok=True)
            (task / "stat").write_text(f"{thread} (a) b) {state} 1 1")
    taken = Sampler(10, str(proc)).take()
    kib = 1024 / 1e6
    assert [taken.file_mb, taken.shmem_mb, taken.swap_mb] == pytest.approx(
        [400 * kib, 200 * kib, 100 * kib]
    )
    assert (taken.read, taken.disk_read, taken.disk_written) == (18, 14, 12)
    assert taken.runnable == 2


def test_the_proportional_set_is_taken_once_a_second(proc, monkeypatch):
    process(proc, 10)
    now = 100.0
    monkeypatch.setattr("unglow.telemetry.recording.attempt.time.monotonic", lambda: now)
    sampler = Sampler(10, str(proc))
    taken = []
    for tick in range(21):
        now = 100.0 + tick / 10
        taken.append(sampler.take().pss_mb is not None)
    assert [tick for tick, was in enumerate(taken) if was] == [0, 10, 20]


def test_the_proportional_set_is_taken_as_soon_as_there_is_another_process(proc, monkeypatch):
    process(proc, 10)
    process(proc, 11)
    now = 100.0
    monkeypatch.setattr("unglow.telemetry.recording.attempt.time.monotonic", lambda: now)
    sampler = Sampler(10, str(proc))
    taken = []
    for tick in range(21):
        now = 100.0 + tick / 10
        process(proc, 10, children="11" if tick == 4 else "")
        taken.append(sampler.take().pss_mb is not None)
    assert [tick for tick, was in enumerate(taken) if was] == [0, 4, 14]


def test_where_the_proportional_set_is_dear_it_is_taken_less_often(proc, monkeypatch):
    process(proc, 10, rss=4_000_000)
    now, spent = 100.0, 0.0

    def cost():
        nonlocal spent
        spent += 0.01
        return spent

    monkeypatch.setattr("unglow.telemetry.recording.attempt.time.monotonic", lambda: now)
    monkeypatch.setattr("unglow.telemetry.recording.attempt.time.thread_time", cost)
    sampler = Sampler(10, str(proc))
    taken = []
    for tick in range(60):
        now = 100.0 + tick / 10
        taken.append(sampler.take().pss_mb is not None)
    # 10 ms are 0.3 % of 3.3 s
    assert [tick for tick, was in enumerate(taken) if was] == [0, 34]
    assert sampler.interval_s == pytest.approx(2.0)  # as are half a percent


def test_what_a_child_has_done_is_not_lost_between_its_end_and_its_parents_wait(proc):
    process(proc, 10, children="11", io=(5, 5), times=(100, 0, 0, 0))
    process(proc, 11, io=(100, 0), times=(50, 0, 0, 0), peak=7000)
    sampler = Sampler(10, str(proc))
    sampler.take()
    process(proc, 10, children="", io=(6, 5), times=(110, 0, 0, 0))
    for name in ("stat", "status", "io"):  # what the kernel says of a process that has gone
        (proc / "11" / name).write_text("")
    after = sampler.take()
    assert after.cpu_s == 150 / os.sysconf("SC_CLK_TCK")
    assert (after.read, after.written) == (105, 5)
    assert after.peak_mb == pytest.approx(7000 * 1024 / 1e6)
    assert (after.processes, after.threads) == (1, 3)


def test_a_system_without_this_information_gives_a_sample_without_figures(tmp_path):
    assert Sampler(10, str(tmp_path)).take() == Sample(processes=0)


def test_processor_time_and_bytes_of_children_count():
    sampler = Sampler(os.getpid())
    before = sampler.take()
    code = "import sys; x = sum(range(6_000_000)); sys.stdin.read()"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    until(lambda: sampler.take().cpu_s >= before.cpu_s + 0.1)
    during = sampler.take()
    assert during.processes == before.processes + 1
    assert during.read > before.read
    child.communicate(b"")
    after = sampler.take()
    assert after.processes == before.processes
    assert after.cpu_s >= during.cpu_s


def test_a_child_of_another_thread_is_seen_within_a_second_and_stays():
    code = """
import subprocess, sys, threading
run = lambda: subprocess.run([sys.executable, "-c", "import sys; sys.stdin.read()"])
threading.Thread(target=run).start()
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    sampler = Sampler(parent.pid)
    until(lambda: sampler.take().processes == 2)
    assert [sampler.take().processes for _ in range(3)] == [2, 2, 2]
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
        assert sampler.take().processes == 1
        held = len(list(Path("/proc/self/fd").iterdir()))
        for processes in (2, 1) * 5:
            parent.stdin.write(b"\n")
            parent.stdin.flush()
            until(lambda count=processes: sampler.take().processes == count)
        assert len(list(Path("/proc/self/fd").iterdir())) == held
        parent.stdin.close()
