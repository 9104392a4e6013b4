"""Memory of a job: its limit, so that an overrun is its own error, and what it leaves behind.

Without a limit a job that takes more than was declared for it makes the machine swap, or the kernel
kills some process without a word. What is limited is the private writable memory of the process
(``RLIMIT_DATA``), so files that are mapped for reading stay free.

Memory of processes is given back when they end. What can stay is that of processes that live on,
and files in memory file systems (`/dev/shm`). The rest that a machine has less of afterwards is the
kernel's own, or that of other programs.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from unglow.core import machine, process
from unglow.core.errors import UnglowError
from unglow.core.own_memory import STACK_MB

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path


# A thread's stack counts in full. A job has some helpers besides its workers.
_OTHER_THREADS = 3
# Small blocks freed between used ones, arenas that grow ahead of use, and a codec's tables.
_SPARE_MB = 20.0

_SIGNS = (
    "insufficient memory",
    "failed to allocate",
    "unable to allocate",
    "cannot allocate memory",
    "can't allocate memory",
    "error allocating memory",
    "memory allocation",
    "not enough memory",
    "out of memory",
    "allocation error",
    "mem_error",
    "memory_error",
    "bad_alloc",
    "can't start new thread",
    "resource temporarily unavailable",
)
_FILES = re.compile(r"(['\"])[^'\"\n]*/[^'\"\n]*\1|\S*/\S*")
_ASKED = re.compile(r"allocate ([\d.]+) ?(bytes|[KMGT]iB)", re.IGNORECASE)
_UNITS = {"bytes": 1.0, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30, "tib": 2.0**40}


def allowance_mb(threads: int) -> float:
    """Return the memory, MB, that may be reserved beyond the declared without being touched."""
    return STACK_MB * (threads + _OTHER_THREADS) + _SPARE_MB


def set_limit(declared_mb: float, threads: int) -> float | None:
    """Let this process take what was declared for it, and no more.

    The limit is ``declared + (VmData - VmRSS) + allowance``: memory that was reserved until now
    without being used does not count, nor do the stacks of threads that will start. Call it after
    the imports.

    Parameters
    ----------
    declared_mb
        Largest resident set that the process may reach, MB.
    threads
        Workers that the process will use.

    Returns
    -------
    The limit on private writable memory, MB, or None where there is no such limit.

    Raises
    ------
    MemoryError
        If the process is beyond the declared memory already.
    """
    _reserve_blas()
    now = process.status_mb()
    if "VmData" not in now or "VmRSS" not in now:
        return None
    if now["VmRSS"] >= declared_mb:
        raise MemoryError(f"the libraries alone take {now['VmRSS']:.0f} MB")
    limit = declared_mb + now["VmData"] - now["VmRSS"] + allowance_mb(threads)
    return limit if _set_soft_limit(round(limit * 1e6)) else None


def lift_limit() -> None:
    """Lift the limit again, so that a job that overran has memory to say so."""
    _set_soft_limit(None)


def is_memory_failure(error: BaseException | None) -> bool:
    """Return whether an error, or one that it was made from, is a lack of memory.

    Libraries report it in many ways: ``MemoryError``, ``cv2.error`` with "Insufficient memory", the
    text of ``std::bad_alloc``, "can't start new thread", ``ENOMEM``.
    """
    return _memory_failure(error) is not None


def read_asked_mb(error: BaseException | None) -> float | None:
    """Return how much memory, MB, was asked for without success, if the error says so."""
    found = _memory_failure(error)
    match = _ASKED.search(str(found)) if found is not None else None
    return None if match is None else float(match[1]) * _UNITS[match[2].lower()] / 1e6


def mentions_memory(text: str) -> bool:
    """Return whether the words of a library are about memory that it did not get.

    Names of files, which may have the same words, do not count: what has a slash, up to the end of
    its quotes or of the word.
    """
    text = _FILES.sub("", text.lower())
    return any(sign in text for sign in _SIGNS)


def _memory_failure(error: BaseException | None) -> BaseException | None:
    """Return the first memory error among an error and those that led to it."""
    pending = [error]
    seen: set[int] = set()
    while pending:
        one = pending.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, OSError) and one.errno is not None:
            lacking = one.errno == errno.ENOMEM
        else:  # our own sentences name files
            lacking = not isinstance(one, UnglowError) and mentions_memory(str(one))
        if isinstance(one, MemoryError) or lacking:
            return one
        pending += [one.__context__, one.__cause__]
        if isinstance(one, BaseExceptionGroup):
            pending += one.exceptions
    return None


def _reserve_blas() -> None:
    """Have OpenBLAS reserve the buffer of 33 MB that it hardly uses, while it may.

    It would ask again forever if it did not get it later.
    """
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.linalg.inv(numpy.eye(2))


def _set_soft_limit(size: int | None) -> bool:
    """Set the soft limit, bytes, below the hard one that may be there; return whether it holds."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource  # Unix only

        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        if size is None or (hard != resource.RLIM_INFINITY and size > hard):
            size = hard
        resource.setrlimit(resource.RLIMIT_DATA, (size, hard))
        return True
    return False


_SHARED = "/dev/shm"  # noqa: S108 (where POSIX has shared memory)


def files_in_memory_mb() -> float:
    """Return the size, MB, of this user's files directly in memory file systems for such files.

    These are `/dev/shm`, and the directory of temporary files if it is one.
    """
    temporary = os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 (nothing is written there)
    blocks, user = 0, os.getuid()
    for place in {_SHARED, *([temporary] if is_in_memory([temporary]) else [])}:
        with contextlib.suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):  # gone meanwhile
                    about = entry.stat(follow_symlinks=False)
                    if about.st_uid == user and stat.S_ISREG(about.st_mode):
                        blocks += about.st_blocks
    return blocks * 512 / 1e6


def is_in_memory(paths: Iterable[str]) -> bool:
    """Whether any of these absolute paths without links is in a memory file system."""
    mounted = machine.mounts()
    found = (machine.mount_of(path, mounted) for path in paths)
    return any(mount is not None and mount.is_in_memory for mount in found)


@dataclass(frozen=True, slots=True)
class MachineMemory:
    """Memory of the machine and files of this user in memory file systems, at one moment, MB."""

    machine: Mapping[str, float]
    files_mb: float

    @classmethod
    def measure(cls) -> Self:
        """Return what there is now."""
        return cls(process.meminfo_mb(), files_in_memory_mb())

    def compare(
        self, outputs: Iterable[Path], written: float, others: Sequence[float]
    ) -> dict[str, float]:
        """Return what the end of an attempt says of memory that there was before it, and is now.

        Parameters
        ----------
        outputs, written
            Files of the job, which take memory where they are in such a file system; bytes written.
        others
            Memory of each process that has outlived the job, MB.
        """
        after = self.measure()
        found: dict[str, float] = {}
        for name, mb in (("before", self.machine), ("after", after.machine)):
            if "MemAvailable" in mb:
                found[f"available_{name}_mb"] = round(mb["MemAvailable"])
        if {"MemAvailable", "AnonPages"} <= self.machine.keys() & after.machine.keys():
            # what other processes hold (anonymous pages) is not lost, and results are not
            lost = self.machine["MemAvailable"] - after.machine["MemAvailable"]
            lost -= after.machine["AnonPages"] - self.machine["AnonPages"]
            lost -= written / 1e6 if is_in_memory(map(os.path.realpath, outputs)) else 0.0
            found["left_behind_mb"] = round(lost)
        found["files_before_mb"] = round(self.files_mb, 1)
        found["files_after_mb"] = round(after.files_mb, 1)
        if others:
            found |= {"processes_left": len(others), "processes_left_mb": round(sum(others), 1)}
        return found
