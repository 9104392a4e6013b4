"""Real runs of the real snakemake command, on phantoms made for the session."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from real_runs import Run, command, snakemake

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def phantom_raw(tmp_path_factory) -> Path:
    """raw/ with one pair of 2048 x 2048: 3 deg, scale 1.02, shift about 100 px, gain 1.3."""
    base = tmp_path_factory.mktemp("phantom")
    run = command(base, "unglow", "phantom", "--size", "2048x2048")
    assert run.code == 0, run.text
    return base / "raw"


@pytest.fixture(scope="session")
def small_raw(tmp_path_factory) -> Path:
    """raw/ with one pair of 700 x 900, for tests of the machinery."""
    base = tmp_path_factory.mktemp("small")
    run = command(
        base,
        *("unglow", "phantom", "--size", "700x900", "--rotation-deg", "1"),
        *("--shift-px", "12", "-9", "--scale", "1.005"),
    )
    assert run.code == 0, run.text
    return base / "raw"


@pytest.fixture(scope="session")
def finished(tmp_path_factory, phantom_raw) -> tuple[Path, Run]:
    """A working directory in which the 2048 phantom has been run to the end, and that run."""
    work = tmp_path_factory.mktemp("finished")
    shutil.copytree(phantom_raw, work / "raw")
    return work, snakemake(work)


@pytest.fixture(scope="session")
def small_finished(tmp_path_factory, small_raw) -> Path:
    """A working directory in which the small phantom has been run to the end; do not change it."""
    work = tmp_path_factory.mktemp("small-finished")
    shutil.copytree(small_raw, work / "raw")
    run = snakemake(work)
    assert run.code == 0, run.text
    return work


@pytest.fixture
def small_work(tmp_path, small_finished) -> Path:
    """A copy of the finished small run, times included, to be changed at will."""
    work = tmp_path / "work"
    subprocess.run(["cp", "-a", str(small_finished), str(work)], check=True)
    return work
