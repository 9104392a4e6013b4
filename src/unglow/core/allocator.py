"""What a process settles before numeric libraries are imported: threads and the allocator."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "OPENCV_FOR_THREADS_NUM",
    "BLOSC_NTHREADS",
)
STACK_MB = 2.1
"""Address space that a thread of Python takes for its stack, MB; little of it is ever touched."""

# glibc's <malloc.h>: blocks above the threshold are mapped, so that freeing them gives them back.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8


def pin_threads() -> None:
    """Give every numeric library one thread, and return freed blocks to the system.

    The job's own pool is the parallelism; memory and speed then follow from the declaration.
    """
    for name in _THREAD_VARIABLES:
        os.environ[name] = "1"
    threading.stack_size(1 << 21)
    try:
        libc = ctypes.CDLL(None)
        # set by hand, glibc no longer adapts either; trimming at once would cost twice the time
        libc.mallopt(_M_MMAP_THRESHOLD, 1 << 23)
        libc.mallopt(_M_TRIM_THRESHOLD, 1 << 25)
        libc.mallopt(_M_ARENA_MAX, 4)
    except (OSError, AttributeError):  # not glibc: memory may stay with the process a little longer
        return


def release_freed() -> None:
    """Give the system what the allocator keeps of freed blocks, for what is done next by others.

    What the main thread has freed is its own: threads of a pool take new memory beside it.
    """
    with suppress(OSError, AttributeError):  # not glibc, as above
        ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def uncollected() -> Iterator[None]:
    """Import libraries within; they are not searched for garbage, then or later: a tenth of it."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
