"""The fence: what it lets through, what it stops, and the ways in which libraries say it."""

from __future__ import annotations

import errno
import subprocess
import sys

import pytest

from unglow.errors import InputError, StoreError
from unglow.fence import allowance_mb, asked_mb, is_memory_failure, process_mb


def fenced(body, declared=150, imports="numpy as np"):
    code = f"""
import {imports}
from unglow import allocator, fence
allocator.pin_threads()
limit = fence.close_fence({declared}, 2)
assert limit is not None
{body}
"""
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )


def test_declared_memory_may_be_used_to_the_last_block():
    done = fenced(
        "room = 150e6 - 1e6 * fence.process_mb()['VmRSS']\n"
        "kept = [np.ones(1_000_000, 'u1') for _ in range(int(room / 1e6))]\n"
        "print(fence.process_mb()['VmRSS'])"
    )
    assert done.returncode == 0, done.stderr
    assert 140 < float(done.stdout) < 160


def test_more_than_declared_and_allowed_is_an_error_at_once():
    done = fenced("np.ones(220_000_000, 'u1')")
    assert "MemoryError: Unable to allocate 210. MiB" in done.stderr


def test_threads_find_room_for_their_stacks():
    done = fenced(
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
    done = fenced(f"print(np.memmap({str(path)!r}, 'u1', 'r')[::4096].sum())")
    assert done.stdout == "0\n", done.stderr


def test_imports_that_take_it_all_are_an_error():
    done = fenced("", declared=10)
    assert "MemoryError: the libraries alone take" in done.stderr


def test_the_fence_can_be_lifted():
    assert fenced("fence.open_fence(); np.ones(300_000_000, 'u1')").returncode == 0


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
        RuntimeError("(-4:Insufficient memory) Failed to allocate 4194304000 bytes in function"),
        RuntimeError("Error allocating memory!"),
        ValueError("zlib_decode returned Z_MEM_ERROR"),
        chained(InputError("a file is damaged"), MemoryError()),
        chained(StoreError("a shard is damaged"), chained(RuntimeError("x"), MemoryError())),
        ExceptionGroup("several", [ValueError("no"), MemoryError()]),
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
    done = fenced(
        "try: cv2.resize(np.zeros((10, 10), 'u1'), (40000, 20000))\n"
        "except Exception as e: print(fence.is_memory_failure(e), fence.asked_mb(e))",
        imports="cv2, numpy as np",
    )
    assert done.stdout == "True 800.0\n", done.stdout + done.stderr


@pytest.mark.parametrize(
    ("text", "mb"),
    [
        ("Unable to allocate 210. MiB for an array with shape (220000000,)", 220.2),
        ("Failed to allocate 4194304000 bytes", 4194.304),
        ("Unable to allocate 1.50 GiB for an array", 1610.6),
    ],
)
def test_what_was_asked_for_is_read_from_the_message(text, mb):
    assert asked_mb(MemoryError(text)) == pytest.approx(mb, rel=1e-3)
    assert asked_mb(MemoryError()) is None


def test_the_status_of_a_process_is_in_mb():
    now = process_mb()
    assert 5 < now["VmRSS"] <= now["VmHWM"] < 5000
