"""Control groups (cgroups, version 2 or 1) that bind a process.

Memory: limits, use, kills. Processors: quota.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from unglow.core.process import read

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class _Names:
    """What the files of a group are called: those with the limit and the use, bytes.

    ``cached`` are keys of ``memory.stat``: what of the use the kernel gives back. ``events`` is the
    file whose key ``oom_kill`` counts the processes that the kernel has killed.
    """

    limit: str
    use: str
    cached: tuple[str, ...]
    events: str


_V2 = _Names(
    "memory.max",
    "memory.current",
    ("active_file", "inactive_file", "slab_reclaimable"),
    "memory.events",
)
_V1 = _Names(
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    ("total_active_file", "total_inactive_file"),
    "memory.oom_control",
)


def bounds(root: Path = ROOT) -> list[tuple[int, int]]:
    """Limit and use, bytes, of the groups that bind this process and have a limit.

    These are its own group and those above it, version 2 or 1. Use is without cached files. Control
    groups are mounted at ``root``.
    """
    pairs = []
    for mount, own, names in _find_memberships("self", root):
        for directory in (mount / own, *(mount / above for above in own.parents)):
            limit = _read_number(directory / names.limit)
            if limit is not None:
                cached = sum(_read_keys(directory / "memory.stat", names.cached))
                pairs.append((limit, max(0, (_read_number(directory / names.use) or 0) - cached)))
    return pairs


def kills_file(pid: int, root: Path = ROOT) -> Path | None:
    """Return where a process' own group counts kills because memory ran out; None if nowhere.

    It has to be asked for while the process lives.
    """
    for mount, own, names in _find_memberships(pid, root):
        path = mount / own / names.events
        if kills(path) is not None:
            return path
    return None


def kills(counter: Path) -> int | None:
    """Return how many processes of a group the kernel has killed, given its `kills_file`."""
    counted = _read_keys(counter, ("oom_kill",))
    return counted[0] if counted else None


def quota(root: Path = ROOT) -> float | None:
    """Return how many processors the groups of this process may use at a time; None for all."""
    shares = []
    for group in _find_processor_groups("self", root):
        allowed, period = ([*_read_words(group / "cpu.max"), "", ""])[
            :2
        ]  # version 2: "200000 100000"
        if not allowed:
            allowed = "".join(_read_words(group / "cpu.cfs_quota_us"))
            period = "".join(_read_words(group / "cpu.cfs_period_us"))
        if allowed.isdigit() and period.isdigit():  # neither "max" nor -1
            shares.append(int(allowed) / int(period))
    return min(shares, default=None)


def _find_processor_groups(process: int | str, root: Path) -> Iterator[Path]:
    """Yield the groups that bind the processors of a process, its own and those above."""
    for line in read(process, "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        own = Path(path.lstrip("/"))
        if controllers == "" or "cpu" in controllers.split(","):
            mount = root / "cpu" if controllers else _find_unified_mount(root)
            yield from (mount / own, *(mount / above for above in own.parents))


def _find_unified_mount(root: Path) -> Path:
    """Return where version 2 is mounted: next to version 1, or alone."""
    return root / "unified" if (root / "unified").is_dir() else root


def _read_words(path: Path) -> list[str]:
    return _read_text(path).split()


def _read_text(path: Path) -> str:
    """Return the text of a file; empty if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def _find_memberships(process: int | str, root: Path) -> Iterator[tuple[Path, Path, _Names]]:
    """Yield where each hierarchy is mounted, the process' own group in it, and its names."""
    for line in read(process, "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            yield root, Path(path.lstrip("/")), _V2
        elif "memory" in controllers.split(","):
            yield root / "memory", Path(path.lstrip("/")), _V1


def _read_number(path: Path) -> int | None:
    """Return the number in a file; None for ``max``, and for a file that cannot be read."""
    text = "".join(_read_words(path))
    return int(text) if text.isdigit() else None


def _read_keys(path: Path, keys: tuple[str, ...]) -> list[int]:
    """Return the numbers behind some keys of a file; none for a file that cannot be read."""
    rows = [line.split() for line in _read_text(path).splitlines()]
    return [int(row[1]) for row in rows if len(row) == 2 and row[0] in keys]
