"""Real runs of the real snakemake command, on phantoms made for the session."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import pytest
from real_runs import Run, command, snakemake
from sharing import once

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def fresh(tmp_path, small_raw) -> Path:
    """A working directory with nothing but raw/ of the small phantom."""
    (tmp_path / "raw").symlink_to(small_raw)
    return tmp_path


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
