"""What the machine offers: memory within container limits, processors, and room on disks."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

_CGROUP = Path("/sys/fs/cgroup")
# Names in control groups of version 2 and 1: limit, use, and what of it the kernel gives back.
_V2 = ("memory.max", "memory.current", ("active_file", "inactive_file", "slab_reclaimable"))
_V1 = (
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    ("total_active_file", "total_inactive_file"),
)


def memory_total_mb(cgroup: Path = _CGROUP) -> float:
    """Return the memory that this process may ever use, MB: of the machine, or of its container.

    Parameters
    ----------
    cgroup
        Where control groups are mounted.
    """
    limits = [limit for limit, _ in _cgroups(cgroup)]
    return min([psutil.virtual_memory().total, *limits]) / 1e6


def memory_available_mb(cgroup: Path = _CGROUP) -> float:
    """Return the memory that can be taken now without swapping, MB, within container limits.

    Files that the kernel keeps cached count as available, on the machine and in a container.

    Parameters
    ----------
    cgroup
        Where control groups are mounted.
    """
    rooms = [limit - used for limit, used in _cgroups(cgroup)]
    return max(0, min([psutil.virtual_memory().available, *rooms])) / 1e6


def memory_limit_mb(share: float) -> int:
    """Return a share of `memory_total_mb`, whole MB; what profiles hand to Snakemake as a limit."""
    return int(memory_total_mb() * share)


def processors() -> int:
    """Return the number of processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def existing(path: Path) -> Path:
    """Return the path itself, or the nearest directory above it that exists."""
    path = path.absolute()
    return next(place for place in (path, *path.parents) if place.exists())


def disk_free_mb(path: Path) -> float:
    """Return the free space, MB, of the file system that a path is or would be on.

    What is kept back for the administrator does not count. Quotas are not seen.
    """
    return psutil.disk_usage(str(existing(path))).free / 1e6


def _cgroups(root: Path) -> list[tuple[int, int]]:
    """Limit and use, bytes, of the control groups that bind this process and have a limit.

    These are its own group and those above it, version 2 or 1. Use is without cached files.
    """
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    found = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            found += _walk(root, path, *_V2)
        elif "memory" in controllers.split(","):
            found += _walk(root / "memory", path, *_V1)
    return found


def _walk(
    root: Path, path: str, limit: str, use: str, cached: tuple[str, ...]
) -> list[tuple[int, int]]:
    """Read limit and use in each directory from the group up to the root of the hierarchy."""
    found = []
    relative = Path(path.lstrip("/"))
    for directory in (root / relative, *(root / above for above in relative.parents)):
        most = _number(directory / limit)
        if most is not None:
            kept = _cached(directory / "memory.stat", cached)
            found.append((most, max(0, (_number(directory / use) or 0) - kept)))
    return found


def _number(path: Path) -> int | None:
    """Return the number in a file; None for ``max``, and for a file that cannot be read."""
    try:
        text = path.read_text(encoding="utf-8").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _cached(path: Path, names: tuple[str, ...]) -> int:
    try:
        rows = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
    except OSError:
        return 0
    return sum(int(row[1]) for row in rows if len(row) == 2 and row[0] in names)
