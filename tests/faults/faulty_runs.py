"""Real runs that are disturbed: started by the test, watched, and killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import real_runs
from result_digests import digest_of

PROJECT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
PAIR = Path("results/phantom/SYTO9")
#: As far as the registration: quick, and of every kind of job but figures.
SHORT = (str(PAIR / "transform.json"),)
SNAKEMAKE = (BIN / "snakemake", "-s", PROJECT / "Snakefile", "--cores", "2")


def command(directory: Path, *words: object) -> tuple[int, str]:
    """Run a command to its end; exit status and output."""
    run = real_runs.command(directory, *words, timeout=1500)
    return run.code, run.text


def snakemake(directory: Path, *words: object) -> tuple[int, str]:
    """Run the workflow to its end."""
    return command(directory, *SNAKEMAKE, *words)


def unglow(directory: Path, *words: object) -> tuple[int, str]:
    """Run a command of unglow to its end."""
    return command(directory, BIN / "unglow", *words)


@contextmanager
def started(directory: Path, *words: object):
    """Start the workflow in a process group of its own, which ends with the test."""
    environment = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"}
    with (directory / "output.txt").open("w") as output:
        process = subprocess.Popen(
            [str(word) for word in (*SNAKEMAKE, *words)],
            cwd=directory,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            # what a shell runs in the background ignores Ctrl-C otherwise
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def bytes_of(directory: Path, of: Path = PAIR) -> dict[str, str]:
    """Digest of every result file of the pair, or of a slide."""
    place = directory / of
    return {
        str(path.relative_to(place)): digest_of(path)
        for path in sorted(place.rglob("*"))
        if path.is_file() and path.name != ".snakemake_timestamp"
    }


def left_behind(directory: Path) -> list[Path]:
    """What is hidden in the results and should not be there."""
    found = (directory / "results").rglob(".*")
    return [path for path in found if path.name.endswith((".partial", ".old"))]
