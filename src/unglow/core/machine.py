"""What the machine offers: memory within container limits, processors, disks; and giving way."""

from __future__ import annotations

import math
import os
from pathlib import Path

import psutil

from unglow.core import cgroups


def memory_total_mb(cgroup: Path = cgroups.ROOT) -> float:
    """Return the memory that this process may ever use, MB: of the machine, or of its container."""
    limits = [limit for limit, _ in cgroups.bounds(cgroup)]
    return min([psutil.virtual_memory().total, *limits]) / 1e6


def memory_available_mb(cgroup: Path = cgroups.ROOT) -> float:
    """Return the memory that can be taken now without swapping, MB, within container limits.

    Files that the kernel keeps cached count as available, on the machine and in a container.
    """
    free = [limit - used for limit, used in cgroups.bounds(cgroup)]
    return max(0, min([psutil.virtual_memory().available, *free])) / 1e6


def memory_limit_mb(share: float) -> int:
    """Return a share of `memory_total_mb`, in full MB: the limit that profiles give Snakemake."""
    return int(memory_total_mb() * share)


def allowed_processors() -> int:
    """Return on how many processors this process may run."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processors() -> int:
    """Return how many processors this process may use at a time, limits of containers included."""
    quota = cgroups.quota() or math.inf
    return max(1, math.floor(min(allowed_processors(), quota)))


def busy_processors() -> float:
    """Return how many processors were busy, or wanted, in the last minute; 0 if that is unknown."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def existing(path: Path) -> Path:
    """Return the path itself, or the nearest directory above it that exists."""
    path = path.absolute()
    return next(one for one in (path, *path.parents) if one.exists())


def disk_free_mb(path: Path) -> float:
    """Return the free space, MB, of the file system that a path is or would be on.

    What is kept back for the administrator does not count. Quotas are not seen.
    """
    return psutil.disk_usage(str(existing(path))).free / 1e6


def cache_directory() -> Path:
    """Return the directory in which programs keep what can be made again, of this user."""
    # Path.home() raises where a container has no name for the user
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))  # noqa: PTH111


def give_way(nice: int, *, disk: bool = False) -> None:
    """Have this process and those that it starts let other programs go first.

    Parameters
    ----------
    nice
        The least nice value, 0 to 19; one that is higher already stays.
    disk
        Whether to ask the disk only when others do not (`ionice -c 3`), where that is possible.
    """
    os.nice(max(0, nice - os.nice(0)))
    if disk and hasattr(psutil, "IOPRIO_CLASS_IDLE"):
        psutil.Process().ionice(psutil.IOPRIO_CLASS_IDLE)
