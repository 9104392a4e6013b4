"""Clusters for tests: each process that runs tests starts one of its own, and stops it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from a_slurm import BIN, PROJECT, SAMPLES, SHORT, Slurm, missing
from ports import taken
from sharing import once


@pytest.fixture(scope="session")
def slurm():
    """A real Slurm with three nodes of 2 processors and 2500 MB."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    # not below pytest's own, which only its user may enter: munge wants all to reach its socket
    place = Path(tempfile.mkdtemp(prefix="unglow-slurm-"))
    place.chmod(0o755)
    with taken(*Slurm.PORTS) as port:
        cluster = Slurm(place / "state", port)
        try:
            cluster.up()
            yield cluster
        finally:
            cluster.down()
            shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(scope="session")
def three_raw(tmp_path_factory):
    """A working directory with raw/ of three small pairs, and results of a serial local run."""
    environment = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"}
    shape = ("--size", "700x900", "--rotation-deg", "1", "--shift-px", "12", "-9")
    serial = ("--workflow-profile", str(PROJECT / "profiles" / "serial"))
    commands = [
        *(["unglow", "phantom", "--sample", s, "--seed", s[-1], *shape] for s in SAMPLES),
        ["snakemake", "-s", str(PROJECT / "Snakefile"), *serial, *SHORT],
    ]

    def make(work):
        for words in commands:
            done = subprocess.run(
                words,
                cwd=work,
                env=environment,
                capture_output=True,
                text=True,
                timeout=1500,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr

    return once(tmp_path_factory, "three", make)[0]


@pytest.fixture
def work(tmp_path, three_raw) -> Path:
    """A new working directory with the raw images of three pairs."""
    shutil.copytree(three_raw / "raw", tmp_path / "work" / "raw")
    return tmp_path / "work"
