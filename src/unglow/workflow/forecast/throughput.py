"""Throughput: what jobs take on this machine, by the times of earlier runs.

A small file in the user's cache directory, one for each machine and version of unglow, holds what
the jobs of the last runs took. One that is not there, or cannot be read or written, is no error.

The table of stages has a first guess of every job. The jobs of a rule take as many times longer as
those of most similar size have taken before; a rule that has never run, as all others.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from unglow.core.errors import UnglowError
from unglow.core.files import read_json, write_text
from unglow.core.machine import cache_directory
from unglow.core.process import host
from unglow.core.version import __version__
from unglow.workflow.stage_table import STAGES, Time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

MOST_RUNS = 16
"""This many runs are kept, the last ones."""
# Raised when what the file holds changes, so that old ones are ignored.
_FORMAT = 1
LAUNCH, START, END = "launch", "start", "end"
SNAKEMAKE = {
    LAUNCH: Time(0.25),  # of a job: a new Python that imports Snakemake
    START: Time(2.3, 0.07),  # until the first job: libraries, then pairs instead of million px
    END: Time(1.0, 0.02),  # after the last one: summary and report, pairs as well
}
"""What Snakemake itself takes."""
# Jobs of a rule follow this many sizes that have run, the nearest ones.
_NEAREST = 5
# The first guess counts as this many runs that were wrong by this factor, as a logarithm.
_GUESS_RUNS, _GUESS_ERROR = 2, 0.4


@dataclass(frozen=True, slots=True)
class Times:
    """What jobs of one rule took that had as much to do, with as many threads.

    Attributes
    ----------
    rule
        Its name, or one of `SNAKEMAKE`.
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


@dataclass(frozen=True, slots=True)
class Throughput:
    """What jobs take on this machine; learnt from so many ``runs``, with 0 it is a first guess."""

    runs: int
    error: float
    """Standard deviation of the logarithm of the time of a run."""
    _slower: _Slower
    _cpu_slower: _Slower

    @classmethod
    def of(cls, runs: Sequence[EarlierRun]) -> Throughput:
        """Learn from earlier runs: from the jobs of rules that this version has."""
        times = [[t for t in run.times if t.rule in SNAKEMAKE or t.rule in STAGES] for run in runs]
        squares = _GUESS_RUNS * _GUESS_ERROR**2
        for own in times:  # each is forecast from the others
            others = _Slower.of((t for run in times if run is not own for t in run), cpu=False)
            took = sum(t.jobs * t.seconds for t in own)
            expected = sum(t.jobs * others.seconds(t.rule, t.mpx, t.threads) for t in own)
            squares += math.log(took / expected) ** 2 if took and expected else 0.0
        error = math.sqrt(squares / (_GUESS_RUNS + len(runs)))
        known = [t for run in times for t in run]
        return cls(len(runs), error, _Slower.of(known, cpu=False), _Slower.of(known, cpu=True))

    def seconds(self, rule: str, mpx: float, threads: int) -> float:
        """Return the time of a job, s."""
        return self._slower.seconds(rule, mpx, threads)

    def cpu_s(self, rule: str, mpx: float) -> float:
        """Return what a job takes of processors, s."""
        return self._cpu_slower.seconds(rule, mpx, 1)


@dataclass(frozen=True, slots=True)
class _Slower:
    """How many times longer than the table jobs have taken: of all, and by rule with its size.

    Numbers are logarithms.
    """

    common: float
    rules: Mapping[str, Sequence[tuple[float, float]]]

    @classmethod
    def of(cls, times: Iterable[Times], *, cpu: bool) -> _Slower:
        rules: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for t in times:
            took = t.cpu_s if cpu else t.seconds
            table = _by_table(t.rule, t.mpx, 1 if cpu else t.threads)
            if took and table:
                rules[t.rule].append((math.log(t.mpx + 1), math.log(took / table)))
        known = [ratio for of_rule in rules.values() for _, ratio in of_rule]
        return cls(sum(known) / max(1, len(known)), rules)

    def seconds(self, rule: str, mpx: float, threads: int) -> float:
        """Return the time of a job, s: as much longer than the table as those nearest in size.

        Their geometric mean, with what is common to all rules counted as one more.
        """
        size = math.log(mpx + 1)
        by_distance = sorted((abs(one - size), ratio) for one, ratio in self.rules.get(rule, ()))
        nearest = [self.common, *(ratio for _, ratio in by_distance[:_NEAREST])]
        return _by_table(rule, mpx, threads) * math.exp(sum(nearest) / len(nearest))


def _by_table(rule: str, mpx: float, threads: int) -> float:
    """Return the first guess of a job, s."""
    time = SNAKEMAKE.get(rule) or STAGES[rule].time
    return time.fixed + time.per_mpx_with(threads) * mpx
