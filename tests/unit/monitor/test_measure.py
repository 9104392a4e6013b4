"""`unglow.measure`: what a block of Python took, next to what it is known to do."""

from __future__ import annotations

import contextlib
import json
import mmap
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import psutil
import pytest

import unglow
from unglow.core.errors import InputError
from unglow.monitor import measure as module
from unglow.monitor.measure import Taken
from unglow.telemetry.speedscope import read_profile


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
    "children": (lambda _: hold_in_children(150, 3), 450),
}


def measure_blocks(name, place):
    """Measure the case of a name, or two blocks and one that fails, and print what they took."""
    measured = unglow.measure(name, place)
    if name in CASES:
        measured.stacks = False
        assert hold(500, 0.0)  # a higher peak before the block does not count
        with measured:
            CASES[name][0](Path(place))
    else:
        for mb in (50, 150):
            with measured:
                hold(mb, 0.3)
        with contextlib.suppress(ValueError), measured:
            raise ValueError
    print(json.dumps([asdict(one) for one in measured.taken]))


def measure_apart(name, place):
    """Return what `measure_blocks` takes in a process that has no other children."""
    words = [sys.executable, __file__, name, str(place)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return [Taken(**one) for one in json.loads(done.stdout)]


@pytest.mark.parametrize("case", CASES)
def test_the_peak_of_one_process_is_right_however_short(case, tmp_path):
    (taken,) = measure_apart(case, tmp_path)
    true_mb = CASES[case][1]
    if case == "children":  # what processes share counts once, and each has its own Python
        assert 440 < taken.peak_mb < 600
        return
    assert not taken.is_at_least
    assert taken.peak_mb - taken.start_mb == pytest.approx(true_mb, rel=0.03, abs=3)


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


def test_what_measuring_itself_takes_is_not_of_the_block(tmp_path):
    blocks = measure_apart("block", tmp_path)
    profiles = sorted(tmp_path.rglob("*.speedscope.json"))
    for taken, profile in zip(blocks[:2], profiles[:2], strict=True):
        assert taken.written < 1000 < profile.stat().st_size
        assert 0 < max(read_profile(profile).seconds.values()) <= taken.seconds + 0.05


def test_blocks_of_a_name_are_recorded_and_laid_over_each_other(tmp_path):
    pytest.importorskip("matplotlib").use("agg")
    with pytest.raises(InputError, match="has no measured block 'block'"):
        unglow.measure("block", tmp_path).plot()
    assert len(measure_apart("block", tmp_path)) == 3
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


def test_a_block_inside_the_handling_of_an_error_has_not_failed(tmp_path):
    try:
        [].pop()
    except IndexError:
        with unglow.measure("../block", tmp_path) as measured:
            pass
    assert len(measured.taken) == 1
    (path,) = tmp_path.rglob("[0-9].jsonl")  # nowhere else, whatever the block is called
    assert json.loads(path.read_text().splitlines()[-1])["outcome"] == "ok"


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


if __name__ == "__main__":
    measure_blocks(*sys.argv[1:])
