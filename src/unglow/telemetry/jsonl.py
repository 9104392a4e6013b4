"""Append-only files of JSON lines that several processes may write to, and that nothing tears up.

Each line is one call of ``write`` on a descriptor opened for appending: lines of two processes
never mix, and whatever is killed, all lines up to then are there.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING, Any

from unglow.core.process import boot_id, host, started_ticks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

SCHEMA = 1
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
SUFFIX = ".jsonl"
# Whatever the umask: `unglow resume` trusts a file only if its owner alone can write it.
MODE = 0o644
# Variables in which schedulers put the id of a job.
_JOB_IDS = {"slurm": "SLURM_JOB_ID", "sge": "JOB_ID", "pbs": "PBS_JOBID", "lsf": "LSB_JOBID"}


def identity() -> dict[str, Any]:
    """Return the identity of this process: host, process, start, and boot.

    Inside a job of a cluster's scheduler, its id as well: ``{"scheduler_job": "slurm 17"}``.
    """
    pid = os.getpid()
    own = {"host": host(), "pid": pid, "started": started_ticks(pid), "boot": boot_id()}
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
        The file; it and its directory are made. None for no file at all.
    warn
        Called once with a sentence, if something cannot be written.
    """

    def __init__(self, path: Path | None, warn: Callable[[str], None]) -> None:
        self.path = path
        self._warn: Callable[[str], None] | None = warn
        self._torn = False
        self._descriptor: int | None = None
        if path is None:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, _FLAGS, MODE)
        except OSError as error:
            self._fail(error)

    def write(self, content: dict[str, Any] | list[Any]) -> None:
        """Append a line."""
        self.write_all([content])

    def write_all(self, contents: Sequence[dict[str, Any] | list[Any]]) -> None:
        """Append lines, together."""
        if self._descriptor is None or not contents:
            return
        line = b"".join(map(_line, contents))
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


def _line(content: dict[str, Any] | list[Any]) -> bytes:
    # ASCII, for what else ends a line in Unicode, and for file names that are not text at all
    return json.dumps(content, separators=(",", ":"), default=str).encode("ascii") + b"\n"
