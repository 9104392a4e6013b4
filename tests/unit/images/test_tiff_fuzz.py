"""Damage anywhere: the file is refused with a sentence, or read; and the benchmark that says so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

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
