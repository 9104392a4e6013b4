"""What a job leaves behind: processes that continue, and memory that is not given back.

Memory of processes is given back when they end. What can stay is that of processes that live on,
and files in memory file systems (`/dev/shm`). The rest that a machine has less of afterwards is the
kernel's own, or that of other programs.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from unglow.core import machine, process

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

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
    return any(mount is not None and mount.in_memory for mount in found)


@dataclass(frozen=True, slots=True)
class MachineMemory:
    """Memory of the machine and files of this user in memory file systems, at one moment, MB."""

    machine: Mapping[str, float]
    files_mb: float

    @classmethod
    def now(cls) -> Self:
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
        after = self.now()
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
