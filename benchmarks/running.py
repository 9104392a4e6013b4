"""Running the real commands, and reading what their jobs recorded."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PROJECT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
WORK = PROJECT / "benchmarks" / "work"
#: Rules whose threads can be set to any number.
THREADED = ("ingest", "register", "align", "difference", "detect")


# The kernel counts what a process had before it became the command, so a small one starts it.
_MEASURE = """
import json, resource, subprocess, sys
status = subprocess.run(sys.argv[2:]).returncode
taken = resource.getrusage(resource.RUSAGE_CHILDREN)
with open(sys.argv[1], "w") as figures:
    json.dump([status, taken.ru_utime + taken.ru_stime, taken.ru_maxrss], figures)
"""


def tools() -> dict[str, str]:
    """Return the environment of commands, the tools of this one first."""
    return os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"}


@dataclass(frozen=True, slots=True)
class Taken:
    """What a command and all processes that it has waited for took.

    ``peak_mb`` is of the largest of its processes, ``text`` what it wrote to both streams.
    """

    status: int
    text: str
    wall_s: float
    cpu_s: float
    peak_mb: float


def measure(*words: object, directory: Path, environment: Mapping[str, str] | None = None) -> Taken:
    """Run a command to its end with the tools of this environment."""
    with tempfile.NamedTemporaryFile("r") as figures:
        started = perf_counter()
        done = subprocess.run(
            [sys.executable, "-Ic", _MEASURE, figures.name, *map(str, words)],
            cwd=directory,
            env=tools() | dict(environment or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        wall = perf_counter() - started
        status, cpu, peak = json.load(figures)
    return Taken(status, done.stdout, wall, cpu, peak * 1024 / 1e6)


def run(
    *words: object, directory: Path, environment: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Run a command; return its exit status and output."""
    taken = measure(*words, directory=directory, environment=environment)
    return taken.status, taken.text


def command(
    *words: object, directory: Path, environment: Mapping[str, str] | None = None
) -> tuple[float, float]:
    """Run a command; return its wall time and the CPU time of its whole process tree, s.

    Raises
    ------
    SystemExit
        As `complete`.
    """
    taken = complete(*words, directory=directory, environment=environment)
    return taken.wall_s, taken.cpu_s


def complete(
    *words: object, directory: Path, environment: Mapping[str, str] | None = None
) -> Taken:
    """Run a command that has to succeed.

    Raises
    ------
    SystemExit
        With the end of its output, if it fails.
    """
    taken = measure(*words, directory=directory, environment=environment)
    if taken.status != 0:
        end = "\n".join(taken.text.splitlines()[-30:])
        sys.exit(f"{end}\nfailed in {directory}: {' '.join(str(word) for word in words)}")
    return taken


def snakemake_words(
    cores: int,
    config: Mapping[str, object],
    *,
    threads: int | None = None,
    until: str | None = None,
) -> list[str]:
    """Return the words of the snakemake command.

    Parameters
    ----------
    cores
        For all jobs together.
    config
        Settings that differ from what is shipped.
    threads
        Of each job of the rules in `THREADED`; None for what the rules ask for.
    until
        The last rule; None for all.
    """
    words = ["snakemake", "-s", str(PROJECT / "Snakefile"), "--cores", str(cores)]
    if threads is not None:
        words += ["--set-threads", *(f"{rule}={threads}" for rule in THREADED)]
    if until is not None:
        words += ["--until", until]
    return [*words, "--config", *(f"{key}={value}" for key, value in config.items())]


def read_telemetry(directory: Path) -> list[dict[str, Any]]:
    """Return all records below ``directory``, each with ``start`` and ``end`` (s since 1970).

    A job writes its record when it ends, so that the time of the file is the end of its last line.
    The files of attempts and of runs, whose names begin with a digit, are left out.
    """
    found = []
    for path in sorted(directory.rglob("*.jsonl")):
        if path.name[0].isdecimal():
            continue
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        end = path.stat().st_mtime_ns / 1e9
        for record in reversed(records):
            found.append({**record, "start": end - record["seconds"], "end": end})
            end -= record["seconds"]
    return sorted(found, key=lambda record: record["start"])


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """Return the length of the union of (start, end) spans."""
    length, until = 0.0, -math.inf
    for start, end in sorted(spans):
        length += max(0.0, end - max(start, until))
        until = max(until, end)
    return length


def say(text: str) -> None:
    """Print progress, apart from the tables."""
    print(text, file=sys.stderr, flush=True)
