"""JSON lines: append-only files that several processes may write to, and parsing of their lines.

Each line is one call of ``write`` on a descriptor opened for appending: lines of two processes
never mix, and whatever is killed, all lines up to then are there. No line, whatever it holds, can
stop a reader.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, TypeVar

from unglow.core.process import boot_id, host, read_start_ticks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


T = TypeVar("T")
SCHEMA = 1
COLUMNS = (
    *("t", "rss", "pss", "cpu", "read", "written"),
    *("threads", "processes", "state", "peak", "available"),
    *("file", "shmem", "swap", "runnable"),
)
"""Values of a sample in an attempt's file."""
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
SUFFIX = ".jsonl"
MEMORY = "memory"
"""Reason of a stall: the job waits to start until the machine has memory."""
# Whatever the umask: `unglow resume` trusts a file only if its owner alone can write it.
MODE = 0o644
# Variables in which schedulers put the id of a job.
_JOB_IDS = {"slurm": "SLURM_JOB_ID", "sge": "JOB_ID", "pbs": "PBS_JOBID", "lsf": "LSB_JOBID"}


def identity() -> dict[str, Any]:
    """Return the identity of this process: host, process, start, and boot.

    Inside a job of a cluster's scheduler, its id as well: ``{"scheduler_job": "slurm 17"}``.
    """
    pid = os.getpid()
    own = {"host": host(), "pid": pid, "started": read_start_ticks(pid), "boot": boot_id()}
    jobs = (f"{name} {os.environ[key]}" for name, key in _JOB_IDS.items() if os.environ.get(key))
    job = next(jobs, None)
    return own if job is None else {**own, "scheduler_job": job}


class LineFile:
    """A file of JSON lines, open for appending.

    A failure to write is reported once, and never raised: telemetry is not a reason to lose a
    result.

    Parameters
    ----------
    path
        The file; it and its directory are made.
    warn
        Called once with a sentence, if something cannot be written.
    """

    def __init__(self, path: Path, warn: Callable[[str], None]) -> None:
        self.path = path
        self._warn: Callable[[str], None] | None = warn
        self._torn = False
        self._descriptor: int | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, _FLAGS, MODE)
        except OSError as error:
            self._fail(error)

    def write(self, content: dict[str, Any] | list[Any]) -> None:
        """Append a line."""
        if self._descriptor is None:
            return
        # ASCII, for what else ends a line in Unicode, and for file names that are not text at all
        line = json.dumps(content, separators=(",", ":"), default=str).encode("ascii") + b"\n"
        if self._torn:  # on a new line, so that only the line that was cut is lost
            line = b"\n" + line
        try:
            done = os.write(self._descriptor, line)
            self._torn = done < len(line)
        except OSError as error:  # the disk is full, perhaps not forever
            self._fail(error)

    def silence(self) -> None:
        """Say nothing more about what cannot be written: another process will."""
        self._warn = None

    def close(self) -> None:
        """Write no more."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = None

    def _fail(self, error: OSError) -> None:
        warn, self._warn = self._warn, None
        if warn is not None:
            warn(f"telemetry is lost: {self.path} could not be written ({error.strerror})")


# Lines of ours are nested in fewer levels, and numbers of ours are smaller: of bytes, of seconds
# since some start, and of Unix time (the end of the year 9999).
_DEEPEST = 50
MOST, LONGEST_S, _LATEST_S = 1e18, 1e10, 253402300799.0
# Rows are drawn for the threads of a job: no machine that jobs run on has more.
_MOST_THREADS = 1024


def parse_line(line: bytes) -> Any:
    """Return what a line says; None if it is torn, or nested too deeply."""
    line = line.replace(b"\\u0000", b" ")  # no path can hold it
    try:
        value = json.loads(line, parse_constant=_no_number, parse_float=_finite)
    except (ValueError, RecursionError):
        return None
    brackets = line.count(b"[") + line.count(b"{")
    return None if brackets > _DEEPEST and _depth(value) > _DEEPEST else value


def parse_rows(lines: list[bytes]) -> list[list[Any]]:
    """Return lists, one for each line that holds one; all at once where all do, which is faster."""
    try:
        rows = json.loads(b"[" + b",".join(lines) + b"]", parse_constant=_no_number)
        if len(rows) == len(lines) and all(isinstance(row, list) for row in rows):
            return list(rows)
    except (ValueError, RecursionError):
        pass
    return [row for row in map(parse_line, lines) if isinstance(row, list)]


def text(value: object) -> str:
    """Return a text; empty for null."""
    return "" if value is None else str(value)


def mapping(value: object) -> Mapping[str, Any]:
    """Return an object, or an empty one for everything else."""
    return value if isinstance(value, dict) else {}


def number(value: object) -> float | None:
    """Return a number that a size or a count may have, or None for everything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= MOST:
        return None
    return float(value)


def moment(value: object) -> float:
    """Return a time since some start, s; 0 if it is not one."""
    t = number(value)
    return t if t is not None and 0 <= t <= LONGEST_S else 0.0


def unix_time(value: object) -> float:
    """Return a Unix time, s; 0 if it is not one."""
    t = number(value)
    return t if t is not None and 0 <= t <= _LATEST_S else 0.0


def whole_number(value: object) -> int:
    """Return an integer; 0 if it is not a number."""
    return int(number(value) or 0)


def threads(value: object) -> int:
    """Return a possible number of threads; 1 if it is not one."""
    if isinstance(value, int | float) and value > _MOST_THREADS:
        return _MOST_THREADS
    return max(whole_number(value), 1)


def texts(values: object) -> dict[str, str]:
    """Return a mapping of texts, empty if there is none."""
    return {str(k): str(v) for k, v in values.items()} if isinstance(values, dict) else {}


def strings(values: object) -> tuple[str, ...]:
    """Return a tuple of texts, empty if there is none."""
    return tuple(map(str, values)) if isinstance(values, list | tuple) else ()


def _depth(value: Any) -> int:
    """Return how many levels deep something is nested, up to a little more than is allowed."""
    depth, level = 0, [value]
    while level and depth <= _DEEPEST:
        depth += 1
        inner = [v for v in level if isinstance(v, dict | list)]
        level = [w for v in inner for w in (v.values() if isinstance(v, dict) else v)]
    return depth


def _no_number(_: str) -> None:
    """Stand in for NaN and infinity, which JSON does not have."""


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


_AS = {
    "str": text,
    "int": whole_number,
    "float": moment,
    "float | None": number,
    "tuple[str, ...]": strings,
    "Mapping[str, str]": texts,
    "Mapping[str, Any]": mapping,
}


def read_as(kind: type[T], line: Mapping[str, Any], **more: Any) -> T:
    """Return a record of the values of a line that have the names and types of its fields.

    ``more`` are other values. What a value cannot be, or a line lacks, is taken as unknown.
    """
    known = {
        one.name: _AS[str(one.type)](line.get(one.name))
        for one in fields(kind)  # type: ignore[arg-type]
        if one.name in line or (one.default is MISSING and one.default_factory is MISSING)
        if one.name not in more and str(one.type) in _AS
    }
    return kind(**known, **more)
