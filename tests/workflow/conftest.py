"""Real runs of the real snakemake command, on phantoms made for the session."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Run:
    """How a command ended, and what it printed."""

    code: int
    text: str

    def jobs(self) -> dict[str, int]:
        """Jobs per rule, from Snakemake's own table; empty where there was nothing to do."""
        tables = re.findall(r"^job +count\n-+ +-+\n((?:\S+ +\d+\n)+)", self.text, re.MULTILINE)
        rows = [row.split() for row in tables[0].splitlines()] if tables else []
        return {name: int(count) for name, count in rows if name not in ("total", "all")}


def command(
    directory: Path, *words: str | Path, timeout: int = 300, path: Path | None = None
) -> Run:
    """Run a command in a directory, with the tools of this environment first on the path.

    Python modules in ``path`` go before all others.
    """
    environment = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}", "COLUMNS": "200"}
    if path is not None:
        known = os.environ.get("PYTHONPATH")
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(path), known)))
    done = subprocess.run(
        [str(w) for w in words],
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )
    return Run(done.returncode, done.stdout)


def snakemake(
    directory: Path, *words: str | Path, timeout: int = 300, path: Path | None = None
) -> Run:
    """Run the project's Snakefile in a working directory with two cores."""
    start = ("snakemake", "-s", PROJECT / "Snakefile", "--cores", "2")
    return command(directory, *start, *words, timeout=timeout, path=path)


def bytes_of(results: Path) -> dict[str, str]:
    """Digest of every result file of every pair, by its path below the results directory."""
    skipped = ("telemetry", "benchmarks")
    return {
        str(path.relative_to(results)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(results.rglob("*"))
        if path.is_file()
        and path.relative_to(results).parts[0] not in skipped
        and len(path.relative_to(results).parts) > 1
        and path.name != ".snakemake_timestamp"
    }


def records_of(results: Path) -> list[Path]:
    """The records of all jobs; not the files of their attempts, named by when these began."""
    found = sorted((results / "telemetry").rglob("*.jsonl"))
    return [path for path in found if not re.match(r"\d{8}T\d{6}\.", path.name)]


def attempts_of(results: Path) -> list[Path]:
    """The files of all attempts at jobs, in the order in which they began."""
    found = (results / "telemetry").rglob("*.jsonl")
    named = [path for path in found if re.match(r"\d{8}T\d{6}\.", path.name)]
    return sorted((p for p in named if p.parent.name != "runs"), key=lambda path: path.name)


def runs_of(results: Path) -> list[Path]:
    """The files of all runs, in the order in which they began."""
    return sorted((results / "telemetry" / "runs").glob("*.jsonl"))


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
