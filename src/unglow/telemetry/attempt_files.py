"""Files of runs and attempts: what they are called, and how one is taken, found and read.

An attempt at a job has `<job>/<number>.jsonl`, its lock as well; a run has `runs/<id>.jsonl`, and
its jobs inherit the id as an environment variable and write it into their files.

Numbers rise from 1, over all runs. A number is taken by creating its file, which must not exist
yet: that is atomic on network drives too, and needs neither clocks nor locks.
"""

from __future__ import annotations

import os
import re
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unglow.core.process import host
from unglow.telemetry.jsonl import MODE, SUFFIX, parse_line
from unglow.telemetry.speedscope import SUFFIX as PROFILE

if TYPE_CHECKING:
    from collections.abc import Iterator


RUNS = "runs"
"""Directory of the files of runs, below that of all telemetry."""
LOST = "lost"
"""Kind of the only line of a file that stands for an attempt which could not report its end."""
_NAME = re.compile(r"([1-9][0-9]*)\.jsonl")
KEPT_RUNS = 30
"""Runs of a results directory whose records are kept."""
LONGEST_LINE = 10_000_000
"""Bytes; no line of telemetry has as many."""
# Of a file, bytes: first lines are at most a few kB, and so is the last one.
_HEAD, _TAIL = 1 << 16, 1 << 14
# Neither what a link names nor what would have to be waited for is a file of ours.
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def number_of(name: str) -> int | None:
    """Return the number of an attempt, given the name of its file; None for any other name."""
    match = _NAME.fullmatch(name)
    return None if match is None else int(match[1])


def attempt_numbers(directory: Path) -> list[int]:
    """Return the numbers that attempts at a job have taken, sorted; none without a directory."""
    try:
        names = os.listdir(directory)  # noqa: PTH208 (names are all that is needed)
    except FileNotFoundError:
        return []
    return sorted(number for number in map(number_of, names) if number is not None)


def last_number(directory: Path) -> int:
    """Return the highest number that an attempt at a job has taken; 0 for none."""
    return max(attempt_numbers(directory), default=0)


def attempt_file(directory: Path, number: int) -> Path:
    """Return the file of an attempt."""
    return directory / f"{number}{SUFFIX}"


def take_number(directory: Path) -> int:
    """Create the file of the next attempt, empty, and return its number.

    Raises
    ------
    OSError
        No file can be made in the directory, which itself is made.
    """
    directory.mkdir(parents=True, exist_ok=True)
    number = 0
    while True:
        # counted on from the last one that was taken: what a network drive lists may be old
        number = max(number, last_number(directory)) + 1
        path = attempt_file(directory, number)
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, MODE))
        except FileExistsError:
            continue  # another attempt was faster
        return number


def attempt_files(root: Path) -> list[Path]:
    """Return the files of all attempts below a telemetry directory, sorted by job and number.

    Files of runs are named after times, and records after rules: none of them is a number.
    """
    found = []
    for place, _, files in os.walk(root):
        numbers = ((number_of(name), name) for name in files)
        found += [(place, number, name) for number, name in numbers if number is not None]
    return [Path(place, name) for place, _, name in sorted(found)]


def run_files(root: Path) -> list[Path]:
    """Return the files of all runs below a telemetry directory, sorted."""
    return sorted((root / RUNS).glob(f"*{SUFFIX}"))


def remove_old_runs(root: Path) -> None:
    """Remove runs but the last `KEPT_RUNS` with their attempts, but not the last one at each job.

    Its number has to be exceeded by the next one, and it says how the result was made. What cannot
    be removed stays.
    """
    runs = {path.stem: path for path in run_files(root)}
    old = set(list(runs)[:-KEPT_RUNS])
    if not old:
        return
    needed = set()
    for path, next_path in pairwise([*attempt_files(root), root]):
        with suppress(OSError):
            run = read_ends(path, tail=0).head.get("run")
            if run in old and path.parent == next_path.parent:
                path.unlink()
                path.with_suffix(PROFILE).unlink(missing_ok=True)
            else:
                needed.add(run)
    for run in old - needed:
        with suppress(OSError):
            runs[run].unlink()


@dataclass(frozen=True, slots=True)
class Ends:
    """Both ends of a file of an attempt or a run, however long it has become.

    Attributes
    ----------
    first, last
        Its first and its last complete lines that are JSON objects.
    about
        Whose it is, and who may write it.
    """

    first: tuple[dict[str, Any], ...]
    last: tuple[dict[str, Any], ...]
    about: os.stat_result

    @property
    def head(self) -> dict[str, Any]:
        """What its first line says; empty before there is one."""
        return self.first[0] if self.first else {}

    @property
    def end(self) -> dict[str, Any] | None:
        """What its last line says of how it ended; None if nothing does."""
        return next((line for line in reversed(self.last) if line.get("kind") == "end"), None)


def read_ends(path: Path, tail: int = _TAIL) -> Ends:
    """Read the first lines of a file, and those in its last ``tail`` bytes.

    Raises
    ------
    OSError
        It cannot be read.
    """
    with open(os.open(path, _FLAGS), "rb") as stream:  # noqa: PTH123 (of a descriptor)
        about = os.fstat(stream.fileno())
        if not stat.S_ISREG(about.st_mode):
            return Ends((), (), about)
        first = stream.read(_HEAD)
        if b"\n" not in first:  # a long configuration: the first line is read completely
            stream.seek(0)
            first = stream.readline(LONGEST_LINE)
        stream.seek(max(0, about.st_size - tail))
        last = stream.read()
    return Ends(tuple(_objects(first)), tuple(_objects(last)), about)


def _objects(text: bytes) -> Iterator[dict[str, Any]]:
    for line in text.split(b"\n"):
        record = parse_line(line) if line.startswith(b"{") else None
        if isinstance(record, dict):
            yield record


RUN_ID = "UNGLOW_RUN_ID"
"""Variable that holds the id for the jobs of a run."""


def make_run_id(wall: float, pid: int) -> str:
    """Return an id that no other run has: time (UTC), host and process.

    Parameters
    ----------
    wall
        When the run started, s since 1970.
    pid
        Its process.
    """
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(wall))
    return f"{stamp}.{int(wall % 1 * 1000):03d}Z{_owner(pid)}"


def start_run() -> str:
    """Return the id of this process's run, and set the variable for its jobs.

    Several instances of the workflow in one process (modules of another workflow) are one run.
    """
    pid = os.getpid()
    if not os.environ.get(RUN_ID, "").endswith(_owner(pid)):
        os.environ[RUN_ID] = make_run_id(time.time(), pid)
    return os.environ[RUN_ID]


def finish_run(run_id: str) -> None:
    """Unset the variable if it holds this id: the next workflow of this process is another run."""
    if os.environ.get(RUN_ID) == run_id:
        del os.environ[RUN_ID]


def read_inherited_run_id() -> str | None:
    """Return the id of the run that started this job; None if it was not handed down."""
    return os.environ.get(RUN_ID) or None


def find_newer_run(root: Path) -> str | None:
    """Return the id of the last run of a telemetry directory if it began after that of this job."""
    own = read_inherited_run_id()
    last = max((path.stem for path in run_files(root)), default="")
    return last if own is not None and last > own else None


def _owner(pid: int) -> str:
    return f"-{host().replace('/', '_')}-{pid}"
