"""Giving back the pages of a library that has done its work.

Code and constants of a library are pages of its file: what was touched once counts as this process'
memory until the system needs it, or until the process says that it does not. They are read again if
they are needed after all.
"""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_SMAPS = Path("/proc/self/smaps")
_MADV_DONTNEED = 4
_HEAD = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ \d+\s*(.*)")
_LIBRARY = re.compile(r"\.so(\.|$)")
_CHANGED = ("Anonymous", "Private_Dirty", "Swap")


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
    """Return the mapped ranges of shared libraries whose file name begins with ``library``.

    Empty where the system does not tell.
    """
    return [
        mapping
        for mapping in _all_mappings()
        if (name := Path(mapping.path).name).startswith(library) and _LIBRARY.search(name)
    ]


def give_back(library: str = "") -> float:
    """Give back the clean pages of libraries; returns the MB that were resident.

    Parameters
    ----------
    library
        How a file name begins, for example ``cv2``; all libraries by default.
    """
    freed = 0.0
    for mapping in mappings(library):
        if not mapping.clean:
            continue
        libc = ctypes.CDLL(None)
        size = mapping.end - mapping.start
        libc.madvise(ctypes.c_void_p(mapping.start), ctypes.c_size_t(size), _MADV_DONTNEED)
        freed += mapping.kilobytes.get("Rss", 0) * 1024 / 1e6
    return freed


def _all_mappings() -> Iterator[Mapping]:
    try:
        lines = _SMAPS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    current: Mapping | None = None
    for line in lines:
        head = _HEAD.match(line)
        if head:
            if current is not None:
                yield current
            start, end = int(head[1], 16), int(head[2], 16)
            current = Mapping(start, end, head[3], head[4], {})
        elif current is not None and line.endswith(" kB"):
            name, _, value = line.partition(":")
            current.kilobytes[name] = int(value.split()[0])
    if current is not None:
        yield current
