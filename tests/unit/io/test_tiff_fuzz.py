"""Damage anywhere: the file is refused with a sentence, or read; and the benchmark that says so."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tifffile
from fuzz import tiff_mutations, trial

from unglow.core.errors import InputError

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
FILES = (
    "uint8 < strips",
    "uint16 > tiles",
    "uint16 zlib contig tiles",
    "uint8 lzw separate strips",
    "uint8 packbits contig single strip",
    "uint8 jpeg contig strips",
    "zstd streamed",
    "ome CYX",
    "imagej ZYX",
)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured as Linux reports it")
def test_nothing_bad_comes_of_damaged_files():
    command = [sys.executable, str(BENCHMARKS / "fuzz"), "--count", "112", "--seed", "7"]
    command += ["--kinds", "tiff", "--made", "--workers", "2", "--files", *FILES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    *_, last, end = done.stdout.splitlines()
    verdicts = dict(zip(("refused", "same", "other"), last.split()[6:9], strict=True))
    assert min(int(count) for count in verdicts.values()) > 9
    assert re.match(rf"{len(FILES)} whole files, seed 7: 0 bad, \d+ s", end)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("big", [False, True])
def test_the_map_of_a_file_is_right(tmp_path, order, big):
    path = tmp_path / "a.tif"
    image = np.arange(6000, dtype=np.uint16).reshape(60, 100)
    tifffile.imwrite(path, image, byteorder=order, bigtiff=big, rowsperstrip=7)
    data = path.read_bytes()
    plan = tiff_mutations.Map(data)
    with tifffile.TiffFile(path) as tif:
        page = tif.pages.first
        assert [entry.code for entry in plan.entries] == [tag.code for tag in page.tags]
        assert plan.table(data, (273,)) == [list(page.dataoffsets)]
        assert plan.table(data, (279,)) == [list(page.databytecounts)]
    assert len(plan.directories) == 1


def test_each_kind_of_damage_does_some_and_the_same_every_time(tmp_path):
    path = tmp_path / "a.ome.tif"
    noise = np.random.default_rng(0).integers(1, 255, (3, 40, 50), np.uint8)
    tifffile.imwrite(path, noise, tile=(16, 16), metadata={"axes": "CYX"})
    whole = path.read_bytes()

    def made(kind):
        return [
            tiff_mutations.mutate(whole, kind, np.random.default_rng(seed)) for seed in range(9)
        ]

    for kind in tiff_mutations.DAMAGES:
        assert made(kind) == made(kind)
        assert sum(one != whole for one in made(kind)) > 4, kind
    assert set(made(tiff_mutations.UNTOUCHED)) == {whole}


def end_with(what):
    def read():
        if isinstance(what, BaseException):
            raise what
        return what()

    return read


@pytest.mark.parametrize(
    ("what", "verdict", "text"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "crash", "signal 11"),
        (lambda: os._exit(3), "crash", "without a word"),
        (lambda: [None for _ in iter(int, 1)], "hang", "more than 1 s"),
        pytest.param(lambda: time.sleep(60), "hang", "more than 1 s", marks=pytest.mark.slow),
        (KeyError("x"), "no sentence", "KeyError: 'x'"),
        (MemoryError("no more"), "too much memory", "beyond the limit: no more"),
        (InputError("'a.tif' is damaged."), "refused", "'a.tif' is damaged."),
        (InputError("Something is damaged."), "no sentence", "Something is damaged."),
        (InputError("'a.tif' is damaged,\nquite."), "no sentence", "'a.tif' is damaged,\nquite."),
    ],
)
def test_the_verdict_on_one_file(monkeypatch, what, verdict, text):
    monkeypatch.setattr(trial, "HANG_S", 1)
    outcome = trial.attempt(end_with(what), "a.tif")
    assert outcome.verdict == verdict
    assert text in outcome.text
