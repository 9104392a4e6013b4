"""Memory control groups (cgroups, version 2 or 1) that bind a process: limits, use, kills."""

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
    for mount, own, names in _memberships("self", root):
        for directory in (mount / own, *(mount / above for above in own.parents)):
            limit = _number(directory / names.limit)
            if limit is not None:
                cached = sum(_keyed(directory / "memory.stat", names.cached))
                pairs.append((limit, max(0, (_number(directory / names.use) or 0) - cached)))
    return pairs


def kills_file(pid: int, root: Path = ROOT) -> Path | None:
    """Return where a process' own group counts kills for want of memory; None if nowhere.

    It has to be asked for while the process lives.
    """
    for mount, own, names in _memberships(pid, root):
        path = mount / own / names.events
        if kills(path) is not None:
            return path
    return None


def kills(counter: Path) -> int | None:
    """Return how many processes of a group the kernel has killed, given its `kills_file`."""
    counted = _keyed(counter, ("oom_kill",))
    return counted[0] if counted else None


def _memberships(process: int | str, root: Path) -> Iterator[tuple[Path, Path, _Names]]:
    """Yield where each hierarchy is mounted, the process' own group in it, and its names."""
    for line in read(process, "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            yield root, Path(path.lstrip("/")), _V2
        elif "memory" in controllers.split(","):
            yield root / "memory", Path(path.lstrip("/")), _V1


def _number(path: Path) -> int | None:
    """Return the number in a file; None for ``max``, and for a file that cannot be read."""
    try:
        text = path.read_text(encoding="utf-8").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _keyed(path: Path, keys: tuple[str, ...]) -> list[int]:
    """Return the numbers behind some keys of a file; none for a file that cannot be read."""
    try:
        rows = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
    except OSError:
        return []
    return [int(row[1]) for row in rows if len(row) == 2 and row[0] in keys]
