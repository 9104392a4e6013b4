"""`unglow.measure`: what a block of Python took, next to what it is known to do."""

from __future__ import annotations

import json
import mmap
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest

import unglow
from unglow.core.errors import InputError
from unglow.jobs.outside import measure as module


def hold(mb, seconds):
    data = bytearray(mb * 1_000_000)
    data[::4096] = b"x" * len(data[::4096])
    time.sleep(seconds)
    return len(data)


def hold_in_children(mb, count):
    code = f"import time; data = b'x' * {mb * 1_000_000}; time.sleep(1.5)"
    children = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(count)]
    for child in children:
        child.wait()


def spike():
    for _ in range(3):
        hold(300, 0.0)


def add_arrays():
    first = np.ones(10_000_000)
    return first, first + 1


def map_file(tmp_path):
    (tmp_path / "mapped").write_bytes(b"x" * 120_000_000)
    with (tmp_path / "mapped").open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        return sum(data[::4096])


kept = []
CASES = {
    "held": (lambda _: hold(200, 0.3), 200),
    "spike": (lambda _: spike(), 300),
    "arrays": (lambda _: len(add_arrays()), 160),
    "mapped": (map_file, 120),
    "leak": (lambda _: kept.append(np.ones(5_000_000)), 40),
    "nothing": (lambda _: time.sleep(0.2), 0),
}


@pytest.mark.parametrize("case", CASES)
def test_the_peak_of_one_process_is_right_however_short(case, tmp_path):
    block, true_mb = CASES[case]
    earlier = hold(500, 0.0)  # a higher peak before the block does not count
    with unglow.measure(case, tmp_path, stacks=False) as measured:
        block(tmp_path)
    (taken,) = measured.taken
    assert earlier
    assert not taken.is_at_least
    assert taken.peak_mb - taken.start_mb == pytest.approx(true_mb, rel=0.03, abs=3)
    kept.clear()


def test_children_count_together(tmp_path):
    with unglow.measure("children", tmp_path) as measured:
        hold_in_children(150, 3)
    (taken,) = measured.taken
    assert 450 < taken.peak_mb < 600  # what processes share counts once


def test_time_processors_and_bytes_are_those_of_the_block(tmp_path):
    sum(range(20_000_000))
    (tmp_path / "before").write_bytes(b"x" * 30_000_000)
    with unglow.measure("work", tmp_path) as measured:
        start, cpu = time.monotonic(), time.process_time()
        sum(range(20_000_000))
        (tmp_path / "out").write_bytes(b"x" * 20_000_000)
        seconds, cpu_s = time.monotonic() - start, time.process_time() - cpu
    (taken,) = measured.taken
    assert taken.seconds == pytest.approx(seconds, abs=0.2)
    assert taken.cpu_s == pytest.approx(cpu_s, abs=0.1)
    assert 20_000_000 <= taken.written < 20_200_000


def test_blocks_of_a_name_are_recorded_and_laid_over_each_other(tmp_path, capsys):
    pytest.importorskip("matplotlib").use("agg")
    measured = unglow.measure("block", tmp_path)
    with pytest.raises(InputError, match="has no measured block 'block'"):
        measured.plot()
    for mb in (50, 150):
        with measured:
            hold(mb, 0.3)
    with pytest.raises(ValueError, match="of the block"), measured:
        raise ValueError("of the block")
    (aligned, later, _) = unglow.measure("block", tmp_path).plot(align=True).lines
    assert max(later.get_ydata()) - max(aligned.get_ydata()) == pytest.approx(100, abs=5)
    assert aligned.get_xdata()[0] < 1
    assert later.get_xdata()[0] < 1
    ends = [
        json.loads(path.read_text().splitlines()[-1])["outcome"]
        for path in sorted(tmp_path.rglob("[0-9].jsonl"))
    ]
    assert ends == ["ok", "ok", "error"]
    assert len([*tmp_path.rglob("*.speedscope.json")]) == 3
    assert str(measured).count("block: ") == 3


def test_a_block_is_not_lost_with_who_measures_it(tmp_path, capsys):
    with unglow.measure("block", tmp_path) as measured:
        (child,) = (
            child for child in psutil.Process().children() if module.__name__ in child.cmdline()
        )
        child.kill()
    assert not measured.taken
    assert "block is not measured: its watching process has ended." in capsys.readouterr().err


def test_a_block_runs_where_no_record_can_be_written(tmp_path, capsys):
    (tmp_path / ".unglow").write_text("a file in the way")
    with unglow.measure("block", tmp_path) as measured:
        done = True
    assert done
    assert not measured.taken
    assert "block is not measured" in capsys.readouterr().err


def test_who_measures_ends_with_a_process_that_is_killed(tmp_path):
    code = "import os, unglow\nwith unglow.measure('block'): os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False)
    end, file = time.monotonic() + 30, tmp_path / ".unglow/telemetry/jobs/block/1.jsonl"
    while '"outcome":"killed"' not in file.read_text():
        assert time.monotonic() < end
        time.sleep(0.05)
