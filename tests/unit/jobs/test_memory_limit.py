"""The memory limit: what it lets through, what it stops, words for it; what a job leaves."""

from __future__ import annotations

import errno
import gc
import math
import os
import resource
import subprocess
import sys
from types import SimpleNamespace

import pytest

from unglow.core import machine, process
from unglow.core.errors import InputError, StoreError
from unglow.core.own_memory import STACK_MB, pause_collection
from unglow.jobs import memory_limit
from unglow.jobs.memory_limit import allowance_mb, is_memory_failure, mentions_memory, read_asked_mb


def limited(body, declared=150, imports="numpy as np"):
    code = f"""
import {imports}
from unglow.core import own_memory, process
from unglow.jobs import memory_limit
own_memory.pin_threads()
limit = memory_limit.set_limit({declared}, 2)
assert limit is not None
{body}
"""
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False
    )


def test_declared_memory_may_be_used_to_the_last_block():
    done = limited(
        "room = 150e6 - 1e6 * process.status_mb()['VmRSS']\n"
        "kept = [np.ones(1_000_000, 'u1') for _ in range(int(room / 1e6))]\n"
        "print(process.status_mb()['VmRSS'])"
    )
    assert done.returncode == 0, done.stderr
    assert 140 < float(done.stdout) < 160


def test_more_than_declared_and_allowed_is_an_error_at_once():
    done = limited("np.ones(220_000_000, 'u1')")
    assert "MemoryError: Unable to allocate 210. MiB" in done.stderr


def test_threads_find_room_for_their_stacks():
    done = limited(
        "from concurrent.futures import ThreadPoolExecutor as P\nimport threading\n"
        "b = threading.Barrier(5)\n"
        "with P(5) as p: print(len(list(p.map(lambda _: b.wait(), range(5)))))",
        declared=40,
    )
    assert done.stdout == "5\n", done.stderr
    assert 5 * 2.1 <= allowance_mb(2) < 40


def test_a_file_that_is_mapped_for_reading_does_not_count(tmp_path):
    path = tmp_path / "big"
    with path.open("wb") as stream:
        stream.truncate(400_000_000)
    done = limited(f"print(np.memmap({str(path)!r}, 'u1', 'r')[::4096].sum())")
    assert done.stdout == "0\n", done.stderr


def test_imports_that_take_it_all_are_an_error():
    done = limited("", declared=10)
    assert "MemoryError: the libraries alone take" in done.stderr


def test_the_limit_can_be_lifted():
    assert limited("memory_limit.lift_limit(); np.ones(300_000_000, 'u1')").returncode == 0


def chained(error, cause):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("can't start new thread"),
        RuntimeError("std::bad_alloc"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        OSError(errno.ENOMEM, "kein Speicher"),
        RuntimeError("(-4:Insufficient memory) Failed to allocate 4194304000 bytes in function"),
        RuntimeError("Error allocating memory!"),
        ValueError("zlib_decode returned Z_MEM_ERROR"),
        chained(InputError("a file is damaged"), MemoryError()),
        chained(StoreError("a shard is damaged"), chained(RuntimeError("x"), MemoryError())),
        ExceptionGroup("several", [ValueError("no"), MemoryError()]),
        ExceptionGroup("several", [MemoryError(), ValueError("no")]),
    ],
)
def test_every_way_to_lack_memory_is_known(error):
    assert is_memory_failure(error)


@pytest.mark.parametrize(
    "error", [None, ValueError("wrong"), OSError(errno.ENOSPC, "No space left"), InputError("cut")]
)
def test_other_errors_are_not_about_memory(error):
    assert not is_memory_failure(error)


def test_opencv_says_what_it_asked_for():
    done = limited(
        "try: cv2.resize(np.zeros((10, 10), 'u1'), (40000, 20000))\n"
        "except Exception as e:\n"
        "    print(memory_limit.is_memory_failure(e), memory_limit.read_asked_mb(e))",
        imports="cv2, numpy as np",
    )
    assert done.stdout == "True 800.0\n", done.stdout + done.stderr


@pytest.mark.parametrize(
    ("text", "mb"),
    [
        ("Unable to allocate 210. MiB for an array with shape (220000000,)", 220.20096),
        ("Failed to allocate 4194304000 bytes", 4194.304),
        ("Unable to allocate 1.50 GiB for an array", 1610.612736),
        ("Unable to ALLOCATE 4 bytes", 4e-6),
        ("Unable to ALLOCATE 4 KiB", 4.096e-3),
        ("Unable to ALLOCATE 4 TiB", 4398046.511104),
    ],
)
def test_what_was_asked_for_is_read_from_the_message(text, mb):
    assert read_asked_mb(MemoryError(text)) == pytest.approx(mb, rel=1e-12)
    assert read_asked_mb(MemoryError()) is None


# ------------------------------------------------------------------------ with a system by hand


def test_only_the_memory_lines_of_a_status_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "PROC", tmp_path)
    (tmp_path / "self").mkdir()
    text = "Name:\tVm: x\nVmRSS:\t    1000 kB\nThreads:\t3\nVmHWM:\t  250000 kB\n"
    (tmp_path / "self" / "status").write_text(text)
    assert process.status_mb() == {"VmRSS": 1.024, "VmHWM": 256.0}
    assert process.status_mb(7) == {}


class Limited:
    """A process whose soft and hard limit and use of memory are given."""

    def __init__(self, monkeypatch, hard=resource.RLIM_INFINITY, **status):
        self.limits = (resource.RLIM_INFINITY, hard)
        self.asked = []
        monkeypatch.setattr(process, "status_mb", lambda: status)
        monkeypatch.setattr(resource, "getrlimit", lambda what: self.limits if self.of(what) else 0)
        monkeypatch.setattr(resource, "setrlimit", self.set)

    def of(self, what):
        self.asked.append(what)
        return what == resource.RLIMIT_DATA

    def set(self, what, limits):
        assert self.of(what)
        self.limits = limits


def test_the_limit_is_what_was_declared_and_what_is_reserved_without_being_used(monkeypatch):
    process = Limited(monkeypatch, VmData=400.0, VmRSS=150.0)
    # stacks of 2.1 MB for two workers and three more threads, and 20 MB to spare
    assert allowance_mb(2) == pytest.approx(5 * STACK_MB + 20)
    assert memory_limit.set_limit(500.0, 2) == pytest.approx(500 + 250 + allowance_mb(2))
    assert process.limits == (round((750 + allowance_mb(2)) * 1e6), resource.RLIM_INFINITY)
    memory_limit.lift_limit()
    assert process.limits == (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


def test_a_hard_limit_below_what_is_wanted_is_the_limit(monkeypatch):
    process = Limited(monkeypatch, hard=600_000_000, VmData=400.0, VmRSS=150.0)
    memory_limit.set_limit(500.0, 2)
    assert process.limits == (600_000_000, 600_000_000)
    memory_limit.set_limit(200.0, 2)
    assert process.limits == (round((450 + allowance_mb(2)) * 1e6), 600_000_000)
    memory_limit.lift_limit()
    assert process.limits == (600_000_000, 600_000_000)


@pytest.mark.parametrize("status", [{}, {"VmData": 400.0}, {"VmRSS": 150.0}])
def test_where_the_system_does_not_report_one_there_is_no_limit(monkeypatch, status):
    process = Limited(monkeypatch, **status)
    assert memory_limit.set_limit(500.0, 2) is None
    assert process.asked == []


@pytest.mark.parametrize("error", [OSError(errno.EPERM, "no"), ValueError("no")])
def test_where_limits_cannot_be_set_there_is_none(monkeypatch, error):
    process = Limited(monkeypatch, VmData=400.0, VmRSS=150.0)

    def refuse(what, limits):
        raise error

    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert memory_limit.set_limit(500.0, 2) is None
    memory_limit.lift_limit()
    monkeypatch.setattr(resource, "setrlimit", process.set)
    monkeypatch.setitem(sys.modules, "resource", None)  # not a Unix
    assert memory_limit.set_limit(500.0, 2) is None
    assert process.limits == (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


def test_the_peak_is_that_of_the_process_or_of_a_child(monkeypatch):
    def usage(who):
        assert who == resource.RUSAGE_CHILDREN
        return SimpleNamespace(ru_maxrss=250_000)

    monkeypatch.setattr(resource, "getrusage", usage)
    monkeypatch.setattr(process, "status_mb", lambda: {"VmHWM": 300.0, "VmRSS": 400.0})
    assert process.children_peak_mb() == 256.0
    assert process.peak_mb() == 300.0
    monkeypatch.setattr(process, "status_mb", lambda: {"VmHWM": 200.0})
    assert process.peak_mb() == 256.0
    monkeypatch.setattr(process, "status_mb", dict)
    assert math.isnan(process.peak_mb())
    monkeypatch.setitem(sys.modules, "resource", None)
    assert process.children_peak_mb() == 0.0


@pytest.mark.parametrize(
    "text",
    ["read '/data/out of memory/a.tif'", 'no "raw/bad_alloc runs/x"', "open /d/memory_error/a.tif"],
)
def test_names_of_files_are_no_lack_of_memory(text):
    assert not mentions_memory(text)
    assert mentions_memory(f"{text}: out of memory")
    assert not is_memory_failure(InputError("'out of memory.tif' is empty."))
    assert not is_memory_failure(FileNotFoundError(2, "no such file", "out of memory.tif"))
    assert is_memory_failure(OSError("cannot allocate memory"))


def test_the_first_error_without_memory_reports_how_much_was_asked_for():
    last = MemoryError("Unable to allocate 3.00 MiB for an array")
    middle = chained(RuntimeError("Failed to allocate 5000000 bytes"), last)
    assert read_asked_mb(chained(ValueError("allocate 9 bytes"), middle)) == 5.0
    handled = ValueError("while another one was handled")
    handled.__context__ = last
    assert read_asked_mb(handled) == pytest.approx(3 * 1.048576)
    assert read_asked_mb(ExceptionGroup("two", [ValueError("no"), last])) == read_asked_mb(last)
    assert read_asked_mb(ValueError("allocate 9 bytes")) is None
    assert read_asked_mb(None) is None


def test_errors_that_led_to_each_other_are_looked_at_once():
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    assert not is_memory_failure(one)
    one.__context__ = MemoryError()
    assert is_memory_failure(other)


def test_what_is_imported_without_collection_is_left_out_of_later_ones():
    with pause_collection():
        assert not gc.isenabled()
        kept = [[] for _ in range(1000)]
    assert gc.isenabled()
    assert gc.get_freeze_count() > len(kept)
    gc.unfreeze()


def test_memory_that_other_processes_hold_is_not_lost(monkeypatch):
    before = {"MemAvailable": 8000.0, "AnonPages": 1000.0}
    after = {"MemAvailable": 7000.0, "AnonPages": 1900.0}
    for first, last, lost in ((before, after, 100), (after, before, -100), ({}, after, None)):
        monkeypatch.setattr(memory_limit.process, "meminfo_mb", lambda last=last: last)
        found = memory_limit.MachineMemory(first, 0.0).compare([], 0.0, [])
        assert found.get("left_behind_mb") == lost


def test_files_count_where_they_take_memory_and_belong_to_this_user(tmp_path, monkeypatch):
    (tmp_path / "left").write_bytes(bytes(300_000))
    (tmp_path / "to").symlink_to(tmp_path / "left")
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "deeper").write_bytes(bytes(300_000))
    monkeypatch.setattr(memory_limit, "_SHARED", str(tmp_path))
    monkeypatch.setattr(memory_limit, "is_in_memory", lambda paths: False)
    assert memory_limit.files_in_memory_mb() == pytest.approx(0.3, rel=0.1)
    monkeypatch.setattr(os, "getuid", lambda: -1)
    assert memory_limit.files_in_memory_mb() == 0


def test_what_was_written_into_memory_is_a_result_and_not_lost(monkeypatch):
    meminfo = {"MemAvailable": 7000.0, "AnonPages": 900.0}
    monkeypatch.setattr(memory_limit.process, "meminfo_mb", lambda: meminfo)
    before = memory_limit.MachineMemory({"MemAvailable": 8000.0, "AnonPages": 1000.0}, 5.0)
    on_disk = before.compare([], 300e6, [12.0, 8.0])
    assert (on_disk["available_before_mb"], on_disk["available_after_mb"]) == (8000, 7000)
    assert on_disk["left_behind_mb"] == 1100
    assert (on_disk["files_before_mb"], on_disk["processes_left"]) == (5.0, 2)
    assert on_disk["processes_left_mb"] == 20
    tmpfs = machine.Mount("/", "tmpfs", "none")
    monkeypatch.setattr(memory_limit.machine, "mounts", lambda: [tmpfs])
    assert before.compare(["/results/a"], 300e6, [])["left_behind_mb"] == 800
