"""Running the real commands, and reading what their jobs recorded."""

from __future__ import annotations

import json
import math
import os
import resource
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

PROJECT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
WORK = PROJECT / "benchmarks" / "work"
#: Names of the files of single attempts and of runs.
#: Rules whose threads can be set to any number.
THREADED = ("ingest", "register", "align", "difference", "detect")


def tools() -> dict[str, str]:
    """Return the environment of commands, the tools of this one first."""
    return os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"}


def run(
    *words: object, directory: Path, environment: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Run a command with the tools of this environment; return its exit status and output."""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=directory,
        env=tools() | dict(environment or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def command(
    *words: object, directory: Path, environment: Mapping[str, str] | None = None
) -> tuple[float, float]:
    """Run a command; return its wall time and the CPU time of its whole process tree, s.

    Raises
    ------
    SystemExit
        With the end of its output, if it fails.
    """
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    status, text = run(*words, directory=directory, environment=environment)
    wall, after = perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if status != 0:
        end = "\n".join(text.splitlines()[-30:])
        sys.exit(f"{end}\nfailed in {directory}: {' '.join(str(word) for word in words)}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def with_places(words: Sequence[str]) -> list[str]:
    """Return words for Snakemake in which the profile is an absolute path.

    Snakemake takes it relative to where it works, and says nothing if it is not there.

    Raises
    ------
    SystemExit
        There is no such profile.
    """
    found = list(words)
    for n, word in enumerate(found[:-1]):
        if word == "--workflow-profile":
            place = Path(found[n + 1]).resolve()
            if not place.is_dir():
                sys.exit(f"there is no profile {place}")
            found[n + 1] = str(place)
    return found


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


def drift_text(records: Sequence[Mapping[str, Any]]) -> str:
    """Say how the machine's available memory changed over a run: leaks of jobs would show there.

    Parameters
    ----------
    records
        Of one run, in the order of their start.
    """
    known = [r for r in records if "available_before_mb" in r and "available_after_mb" in r]
    if not known:
        return "available memory: not known on this system"
    first = known[0]["available_before_mb"]
    last = max(known, key=lambda r: r["end"])["available_after_mb"]
    behind = [r for r in known if r.get("left_behind_mb")]
    named = ", ".join(f"{r['rule']} {r['left_behind_mb']:.0f} MB" for r in behind)
    return (
        f"available memory: {first:.0f} MB before the first job, {last:.0f} MB after the last "
        f"({last - first:+.0f} MB; other programs count as well); left behind: {named or 'nothing'}"
    )


def say(text: str) -> None:
    """Print progress, apart from the tables."""
    print(text, file=sys.stderr, flush=True)
