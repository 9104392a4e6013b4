"""Times of earlier runs of this machine, in the user's cache directory.

A small file for each machine and version of unglow holds what the jobs of the last runs took. One
that is not there, or cannot be read or written, is no error: forecasts are then a first guess.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from unglow.core.errors import UnglowError
from unglow.core.files import read_json, write_text
from unglow.core.machine import cache_directory
from unglow.core.process import host
from unglow.core.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

MOST_RUNS = 16
"""So many runs are kept, the last ones."""
# Raised when what the file holds changes, so that old ones are left aside.
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Times:
    """What jobs of one rule took that had as much to do, with as many threads.

    Attributes
    ----------
    rule
        Its name, or one of `throughput.SNAKEMAKE`.
    mpx
        What one of them had to do, million px (`job_resources.work_mpx`).
    threads, jobs
        Threads of each job, and how many jobs there were.
    seconds, cpu_s
        What one of them took, s: the median.
    """

    rule: str
    mpx: float
    threads: int
    jobs: int
    seconds: float
    cpu_s: float


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """The times of a run; ``id`` is the name of its file in telemetry."""

    id: str
    times: tuple[Times, ...]


def file_of_machine(executor: str | None = None) -> Path:
    """Return the file for this machine, or for a batch system that jobs are handed to from it."""
    where = host().replace("/", "_") + (f"-{executor}" if executor else "")
    return cache_directory() / "unglow" / f"times-{where}-{__version__}.json"


def read_runs(path: Path) -> tuple[EarlierRun, ...]:
    """Return the runs that a file holds, the oldest first; none if it cannot be read."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        stored = read_json(path)
        if stored["format"] == _FORMAT:
            return tuple(
                EarlierRun(str(run["id"]), tuple(_times(row) for row in run["times"]))
                for run in stored["runs"]
            )
    return ()


def add_run(path: Path, run: EarlierRun) -> None:
    """Add a run to a file, in one step."""
    runs = [one for one in read_runs(path) if one.id != run.id][1 - MOST_RUNS :]
    content = {"format": _FORMAT, "runs": [asdict(one) for one in (*runs, run)]}
    with suppress(UnglowError):  # a home that cannot be written
        write_text(path, json.dumps(content))


def _times(row: dict[str, object]) -> Times:
    """Return a row of a file; raises `ValueError` for numbers that no job can have."""
    times = Times(**row)  # type: ignore[arg-type]
    numbers = (times.mpx, times.threads, times.jobs, times.seconds, times.cpu_s)
    if not isinstance(times.rule, str) or not all(0 <= n < 1e9 for n in numbers):
        raise ValueError(row)
    return times
