"""What the machine offers: memory within container limits, and processors."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

_CGROUP = Path("/sys/fs/cgroup")


def memory_total_mb(cgroup: Path = _CGROUP) -> float:
    """Return the memory that this process may ever use, MB: of the machine, or of its container.

    Parameters
    ----------
    cgroup
        Where control groups are mounted.
    """
    limits = [psutil.virtual_memory().total, *_cgroup_limits(cgroup)]
    return min(limits) / 1e6


def memory_limit_mb(share: float) -> int:
    """Return a share of `memory_total_mb`, whole MB; what profiles hand to Snakemake as a limit."""
    return int(memory_total_mb() * share)


def processors() -> int:
    """Return the number of processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cgroup_limits(root: Path) -> list[int]:
    """Limits of the process's own control group and of those above it, version 2 or 1, in bytes."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    limits = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            limits += _walk(root, path, "memory.max")
        elif "memory" in controllers.split(","):
            limits += _walk(root / "memory", path, "memory.limit_in_bytes")
    return limits


def _walk(root: Path, path: str, name: str) -> list[int]:
    """Read a limit in each directory from the group up to the root of the hierarchy."""
    found = []
    relative = Path(path.lstrip("/"))
    for directory in (relative, *relative.parents):
        try:
            text = (root / directory / name).read_text(encoding="utf-8").strip()
        except OSError:
            continue
        if text.isdigit():
            found.append(int(text))
    return found
