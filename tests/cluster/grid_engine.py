"""A real Grid Engine for tests, started and stopped by them, and runs on it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from ports import taken

#: Words for a run of every kind of job but figures.
SHORT = ("--until", "detect", "--config", "scale={methods: [linear]}")
HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
BIN = Path(sys.executable).parent
PACKAGES = ("gridengine-master", "gridengine-exec", "gridengine-client")


def why_not() -> str | None:
    """Why no Grid Engine can be started here; None if it can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "a Grid Engine for tests needs root on Linux"
    if not Path("/usr/sbin/sge_qmaster").exists() and not _installed():
        return f"Grid Engine is not installed: apt-get install {' '.join(PACKAGES)}"
    return None


def _installed() -> bool:
    """Install it where nobody minds: on a machine of continuous integration."""
    if not os.environ.get("CI") or shutil.which("apt-get") is None:
        return False
    quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update"], ["install", "-y", "--no-install-recommends", *PACKAGES]):
        done = subprocess.run(["apt-get", "-q", *words], env=quiet, check=False, timeout=300)
        if done.returncode != 0:
            return False
    return True


@dataclass
class GridEngine:
    """A Grid Engine with two slots.

    Attributes
    ----------
    port
        The first of two that it listens to.
    environment
        Variables that its commands and runs need.
    """

    state: Path
    port: int
    environment: dict[str, str] = field(default_factory=dict)

    def start(self) -> None:
        """Start it; raises `subprocess.CalledProcessError` if it does not come up."""
        up = ["bash", str(HERE / "sge-up.sh"), str(self.state)]
        known = os.environ | {"SGE_PORT": str(self.port)}
        output = subprocess.run(
            up, env=known, check=True, capture_output=True, text=True, timeout=1200
        ).stdout
        lines = (line.removeprefix("export ") for line in output.splitlines())
        self.environment = os.environ | dict(line.split("=", 1) for line in lines)
        self.environment |= {"UNGLOW_SCHEDULER": "sge", "PATH": f"{BIN}:{os.environ['PATH']}"}

    def stop(self) -> None:
        """Stop it with all its jobs."""
        subprocess.run(["bash", str(HERE / "sge-down.sh"), str(self.state)], check=True)

    def ask(self, *words: str) -> str:
        """Return what one of its commands prints, errors included."""
        return subprocess.run(
            words, env=self.environment, text=True, check=False, timeout=300,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ).stdout  # fmt: skip

    def run(self, directory: Path, *words: str, wait: bool = True) -> subprocess.Popen[str]:
        """Run the workflow on it, with short pauses between questions."""
        profile = str(PROJECT / "profiles" / "cluster-generic")
        command = ["snakemake", "-s", str(PROJECT / "Snakefile"), "--workflow-profile", profile]
        command += ["--cores", "2", "--latency-wait", "10", "--seconds-between-status-checks", "1"]
        with (directory / "run.txt").open("a") as text:
            process = subprocess.Popen(
                [*command, *SHORT, *words], cwd=directory, env=self.environment, text=True,
                stdout=text, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        if wait:
            process.wait(timeout=1500)
        return process

    def jobs(self, directory: Path) -> dict[str, str]:
        """Return names of the jobs that were submitted from a directory, by id, in order."""
        noted = directory / ".unglow" / "submitted.tsv"
        if not noted.exists():
            return {}
        rows = [row.split("\t") for row in noted.read_text().splitlines()]
        return {number: name for _, number, name, _ in rows}

    def states(self) -> dict[str, str]:
        """Return the states of all jobs that are queued or running, by id."""
        rows = [row.split() for row in self.ask("qstat", "-u", "*").splitlines()[2:]]
        return {row[0]: row[4] for row in rows}


def wait_until(what, seconds=900.0):
    """Wait for something to become true, and return it."""
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.2)
    return found


def kill(process: subprocess.Popen[str]) -> None:
    """End a run as a machine that goes down does, with all that it has started here itself."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.fixture(scope="session")
def grid_engine(tmp_path_factory):
    """A running Grid Engine; skips the test where there can be none."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with taken(1) as port:
        engine = GridEngine(tmp_path_factory.mktemp("grid-engine"), port)
        engine.start()
        yield engine
        engine.stop()
