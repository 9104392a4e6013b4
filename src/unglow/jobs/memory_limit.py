"""The memory limit of a job: hard, so that an overrun is an error of the job that overran.

Without it a job that takes more than was declared for it makes the machine swap, or the kernel
kills some process without a word. What is limited is the private writable memory of the process
(``RLIMIT_DATA``), so files that are mapped for reading stay free.
"""

from __future__ import annotations

import contextlib
import errno
import re
import sys
from typing import Any

from unglow.core import process
from unglow.core.own_memory import STACK_MB

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
)
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


def asked_mb(error: BaseException | None) -> float | None:
    """Return how much memory, MB, was asked for without success, if the error says so."""
    found = _memory_failure(error)
    match = _ASKED.search(str(found)) if found is not None else None
    return None if match is None else float(match[1]) * _UNITS[match[2].lower()] / 1e6


def mentions_memory(text: str) -> bool:
    """Return whether the words of a library are about memory that it did not get."""
    text = text.lower()
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
        lacking = isinstance(one, OSError) and one.errno == errno.ENOMEM
        if isinstance(one, MemoryError) or lacking or mentions_memory(str(one)):
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
        import resource  # noqa: PLC0415 (Unix only)

        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        if size is None or (hard != resource.RLIM_INFINITY and size > hard):
            size = hard
        resource.setrlimit(resource.RLIMIT_DATA, (size, hard))
        return True
    return False
