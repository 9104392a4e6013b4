"""Memory of this process: settings before libraries are imported, and release after."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from unglow.core.process import read

if TYPE_CHECKING:
    from collections.abc import Iterator

STACK_MB = 2.1
"""Address space that a thread of Python takes for its stack, MB; little of it is ever touched."""

_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "OPENCV_FOR_THREADS_NUM",
    "BLOSC_NTHREADS",
)
# glibc's <malloc.h>: blocks above the threshold are mapped, so that freeing them gives them back.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_MADV_DONTNEED = 4  # <sys/mman.h>
# A line of smaps that starts a mapping: addresses, rights, offset, device, inode, file (proc(5)).
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ \d+\s*(.*)")
_LIBRARY = re.compile(r"\.so(\.|$)")
_CHANGED = ("Anonymous", "Private_Dirty", "Swap")
# Lines that are read of a mapping.
_SIZES = ("Rss:", *(f"{name}:" for name in _CHANGED))


def pin_threads() -> None:
    """Give every numeric library one thread, and return freed blocks to the system.

    The job's own pool is the parallelism; memory and speed then follow from the declaration. Call
    it before numeric libraries are imported.
    """
    for name in _THREAD_VARIABLES:
        os.environ[name] = "1"
    threading.stack_size(1 << 21)
    try:
        libc = ctypes.CDLL(None)
        # set by hand, glibc no longer adapts either; trimming at once would cost twice the time
        libc.mallopt(_M_MMAP_THRESHOLD, 1 << 23)
        libc.mallopt(_M_TRIM_THRESHOLD, 1 << 23)
        libc.mallopt(_M_ARENA_MAX, 4)
    except (OSError, AttributeError):  # not glibc: memory may stay with the process a little longer
        return


def release_freed() -> None:
    """Give the system what the allocator keeps of freed blocks, for what is done next by others.

    What the main thread has freed is its own: threads of a pool take new memory next to it.
    """
    with suppress(OSError, AttributeError):  # not glibc, as above
        ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def pause_collection() -> Iterator[None]:
    """Import libraries within; they are not searched for garbage, then or later: a tenth of it."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@dataclass(slots=True)
class Mapping:
    """One mapped range: first and end address, access rights, file, and sizes, kB."""

    start: int
    end: int
    rights: str
    path: str
    kilobytes: dict[str, int]

    @property
    def clean(self) -> bool:
        """Whether its pages are those of the file and cannot be written."""
        # pages that were relocated or swapped out are not those of the file
        changed = any(self.kilobytes.get(name, 1) for name in _CHANGED)
        return not changed and self.rights in ("r-xp", "r--p")


def mappings(library: str) -> list[Mapping]:
    """Return the mapped ranges of shared libraries whose file name starts with ``library``.

    Empty where the system does not say.
    """
    return [
        mapping
        for mapping in _all_mappings()
        if (name := Path(mapping.path).name).startswith(library) and _LIBRARY.search(name)
    ]


def release_pages(library: str = "") -> float:
    """Give back the clean pages of libraries; returns the MB that were resident.

    Code and constants of a library are pages of its file: what was touched once counts as this
    process' memory until the system needs it, or until the process says that it does not. They are
    read again if they are needed after all.

    Parameters
    ----------
    library
        How a file name starts, for example ``cv2``; all libraries by default.
    """
    released = 0.0
    for mapping in mappings(library):
        if not mapping.clean:
            continue
        libc = ctypes.CDLL(None)
        size = mapping.end - mapping.start
        libc.madvise(ctypes.c_void_p(mapping.start), ctypes.c_size_t(size), _MADV_DONTNEED)
        released += mapping.kilobytes.get("Rss", 0) * 1024 / 1e6
    return released


def _all_mappings() -> Iterator[Mapping]:
    current: Mapping | None = None
    for line in read("self/smaps").splitlines():
        # sizes begin with a capital letter: most lines need no search
        head = None if line[:1].isupper() else _MAPPING.match(line)
        if head:
            if current is not None:
                yield current
            start, end = int(head[1], 16), int(head[2], 16)
            current = Mapping(start, end, head[3], head[4], {})
        elif current is not None and line.startswith(_SIZES):
            name, _, value = line.partition(":")
            current.kilobytes[name] = int(value.split()[0])
    if current is not None:
        yield current
