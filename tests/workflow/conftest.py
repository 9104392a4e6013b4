"""Real runs of the real snakemake command, on phantoms made for the session."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import asdict
from typing import TYPE_CHECKING

import pytest
from real_runs import Run, command, small_phantom, snakemake
from sharing import once

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def small_raw(tmp_path_factory) -> Path:
    """raw/ with one pair of 700 x 900, for tests of the machinery; do not change it."""
    return once(tmp_path_factory, "small", small_phantom)[0] / "raw"


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> tuple[Path, Run]:
    """A working directory in which the 2048 phantom has been run to the end, and that run.

    3 deg, scale 1.02, shift about 100 px, gain 1.3. Do not change it.
    """

    def make(work):
        made = command(work, "unglow", "phantom", "--size", "2048x2048")
        assert made.code == 0, made.text
        return asdict(snakemake(work))

    work, run = once(tmp_path_factory, "finished", make)
    return work, Run(**run)


@pytest.fixture(scope="session")
def small_finished(tmp_path_factory, small_raw) -> Path:
    """A working directory in which the small phantom has been run to the end; do not change it."""

    def make(work):
        shutil.copytree(small_raw, work / "raw")
        run = snakemake(work)
        assert run.code == 0, run.text

    return once(tmp_path_factory, "small-finished", make)[0]


@pytest.fixture
def small_work(tmp_path, small_finished) -> Path:
    """A copy of the finished small run, times included, to be changed at will."""
    work = tmp_path / "work"
    subprocess.run(["cp", "-a", str(small_finished), str(work)], check=True)
    return work
