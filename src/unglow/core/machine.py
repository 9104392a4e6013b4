"""What the machine offers: memory within the limits of control groups, processors, disks.

Control groups (cgroups, version 2 or 1) bind a process with those above it. File systems are known
by their paths: one that does not answer is not asked. What needs psutil imports it when it is
called: that takes 34 ms, which jobs save.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from unglow.core.process import meminfo_mb, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


CGROUP_ROOT = Path("/sys/fs/cgroup")


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


ASSUMED = "UNGLOW_ASSUMED_MB"
"""Variable with the memory of a machine that `unglow preflight` is asked about, MB."""


def memory_total_mb(cgroup: Path = CGROUP_ROOT) -> float:
    """Return the memory that this process may ever use, MB: of the machine, or of its container."""
    if assumed := os.environ.get(ASSUMED):
        return float(assumed)
    limits = [limit / 1e6 for limit, _ in read_memory_bounds(cgroup)]
    return min([meminfo_mb().get("MemTotal", math.inf), *limits])


def memory_available_mb(cgroup: Path = CGROUP_ROOT) -> float:
    """Return the memory that can be taken now without swapping, MB, within container limits.

    Files that the kernel keeps cached count as available, on the machine and in a container.
    """
    if assumed := os.environ.get(ASSUMED):
        return float(assumed)
    free = [(limit - used) / 1e6 for limit, used in read_memory_bounds(cgroup)]
    return max(0.0, min([meminfo_mb().get("MemAvailable", math.inf), *free]))


# Memory that has to be free for another job to start, as a share of all and MB at most; while
# processes wait for memory, for more than this share of the last 10 s (%), four times as much.
_RESERVE, _MOST_RESERVE_MB, _PRESSURE = 0.05, 2000.0, 20.0
_WAITED = re.compile(r"some avg10=([\d.]+)")


def is_memory_short(cgroup: Path = CGROUP_ROOT) -> bool:
    """Whether so little memory is available that another job would endanger those that run.

    Besides what is available, the kernel's record of processes that wait for memory counts
    (``/proc/pressure/memory``, Linux 4.20).
    """
    reserve_mb = min(_RESERVE * memory_total_mb(cgroup), _MOST_RESERVE_MB)
    waited = _WAITED.match(read("pressure", "memory"))
    if waited is not None and float(waited[1]) > _PRESSURE:
        reserve_mb *= 4
    return memory_available_mb(cgroup) < reserve_mb


def memory_limit_mb(share: float) -> int:
    """Return a share of `memory_total_mb`, in full MB: the limit that profiles give Snakemake."""
    return int(memory_total_mb() * share)


def count_allowed_processors() -> int:
    """Return on how many processors this process may run."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processors() -> int:
    """Return how many processors this process may use at a time, limits of containers included."""
    quota = read_processor_quota() or math.inf
    return max(1, math.floor(min(count_allowed_processors(), quota)))


def busy_processors() -> float:
    """Return how many processors were busy, or wanted, in the last minute; 0 if that is unknown."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def existing(path: Path) -> Path:
    """Return the path itself, or the nearest directory above it that exists."""
    path = path.absolute()
    return next(one for one in (path, *path.parents) if os.path.exists(one))


def disk_free_mb(path: Path) -> float:
    """Return the free space, MB, of the file system that a path is or would be on.

    What is kept back for the administrator does not count. Quotas are not seen.
    """
    import psutil

    return psutil.disk_usage(str(existing(path))).free / 1e6


def cache_directory() -> Path:
    """Return the directory in which programs keep what can be made again, of this user."""
    # Path.home() raises where a container has no name for the user
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))


def runtime_directory() -> str | None:
    """Return the user's own directory for files of running programs; None if there is none."""
    place = os.environ.get("XDG_RUNTIME_DIR", "")
    try:
        is_own = os.stat(place).st_uid == os.geteuid()  # noqa: PTH116 (may be empty)
    except OSError:
        return None
    return place if is_own and os.access(place, os.W_OK | os.X_OK) else None


def give_way(nice: int, *, disk: bool = False) -> None:
    """Have this process and those that it starts let other programs go first.

    Parameters
    ----------
    nice
        The least nice value, 0 to 19; one that is higher already stays.
    disk
        Whether to ask the disk only when others do not (`ionice -c 3`), where that is possible.
    """
    import psutil

    os.nice(max(0, nice - os.nice(0)))
    if disk and hasattr(psutil, "IOPRIO_CLASS_IDLE"):
        psutil.Process().ionice(psutil.IOPRIO_CLASS_IDLE)


def read_memory_bounds(root: Path = CGROUP_ROOT) -> list[tuple[int, int]]:
    """Limit and use, bytes, of the groups that bind this process and have a limit.

    These are its own group and those above it, version 2 or 1. Use is without cached files. Control
    groups are mounted at ``root``.
    """
    pairs = []
    for mount, own, is_v2 in _find_groups("self", "memory", root):
        names = _V2 if is_v2 else _V1
        for directory in _list_upwards(mount, own):
            limit = _read_number(directory / names.limit)
            if limit is not None:
                cached = sum(_read_keys(directory / "memory.stat", names.cached))
                pairs.append((limit, max(0, (_read_number(directory / names.use) or 0) - cached)))
    return pairs


def find_kills_file(pid: int, root: Path = CGROUP_ROOT) -> Path | None:
    """Return where a process' own group counts kills because memory ran out; None if nowhere.

    It has to be asked for while the process lives.
    """
    for mount, own, is_v2 in _find_groups(pid, "memory", root):
        path = mount / own / (_V2 if is_v2 else _V1).events
        if count_kills(path) is not None:
            return path
    return None


def count_kills(counter: Path) -> int | None:
    """Return how many processes of a group the kernel has killed, given its `find_kills_file`."""
    counted = _read_keys(counter, ("oom_kill",))
    return counted[0] if counted else None


def read_processor_quota(root: Path = CGROUP_ROOT) -> float | None:
    """Return how many processors the groups of this process may use at a time; None for all."""
    shares: list[float] = []
    for mount, own, _ in _find_groups("self", "cpu", root):
        for group in _list_upwards(mount, own):
            shares += _read_processor_share(group)
    return min(shares, default=None)


def _read_processor_share(group: Path) -> list[float]:
    """Return how many processors a group may use at a time; nothing where it has no limit."""
    # version 2: "200000 100000"
    allowed, period, *_ = *_read_words(group / "cpu.max"), "", ""
    if not allowed:
        allowed = "".join(_read_words(group / "cpu.cfs_quota_us"))
        period = "".join(_read_words(group / "cpu.cfs_period_us"))
    # neither "max" nor -1
    return [int(allowed) / int(period)] if allowed.isdigit() and period.isdigit() else []


def _read_words(path: Path) -> list[str]:
    return _read_text(path).split()


def _read_text(path: Path) -> str:
    """Return the text of a file; empty if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def _find_groups(process: int | str, kind: str, root: Path) -> Iterator[tuple[Path, Path, bool]]:
    """Yield where each hierarchy that limits memory or processors is mounted.

    With it, the process' own group in it, and whether it is of version 2, which is mounted next to
    version 1, or alone.
    """
    unified = root / "unified" if os.path.isdir(root / "unified") else root
    for line in read(process, "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "" or kind in controllers.split(","):
            yield root / kind if controllers else unified, Path(path.lstrip("/")), not controllers


def _list_upwards(mount: Path, own: Path) -> list[Path]:
    """Return the directories of a group and of those above it."""
    return [mount / one for one in (own, *own.parents)]


def _read_number(path: Path) -> int | None:
    """Return the number in a file; None for ``max``, and for a file that cannot be read."""
    text = "".join(_read_words(path))
    return int(text) if text.isdigit() else None


def _read_keys(path: Path, keys: tuple[str, ...]) -> list[int]:
    """Return the numbers behind some keys of a file; none for a file that cannot be read."""
    rows = [line.split() for line in _read_text(path).splitlines()]
    return [int(row[1]) for row in rows if len(row) == 2 and row[0] in keys]


_IN_MEMORY = ("tmpfs", "ramfs")
_REMOTE = re.compile(
    r"(nfs\d?|cifs|smb\d?|smbfs|lustre|gpfs|beegfs\w*|ceph|glusterfs|9p|afs|panfs|pvfs2|orangefs|"
    r"wekafs|ocfs2|gfs2|fuse(\..*)?)"
)


class Mount(NamedTuple):
    """A mounted file system: its directory, kind (``ext4``, ``nfs4``) and source."""

    place: str
    kind: str
    source: str

    @property
    def remote(self) -> bool:
        """Whether another machine, or a program of the user (FUSE), answers for its files."""
        return bool(_REMOTE.fullmatch(self.kind))

    @property
    def is_in_memory(self) -> bool:
        """Whether its files take memory."""
        return self.kind in _IN_MEMORY


def mounts() -> list[Mount]:
    """Return what is mounted for this process, in the order in which it was."""
    import psutil

    found = psutil.disk_partitions(all=True)
    return [Mount(one.mountpoint, one.fstype, one.device) for one in found]


def mount_of(path: str, among: Iterable[Mount]) -> Mount | None:
    """Return the file system that an absolute path without links is on; None if none is known."""
    above = {str(one) for one in (PurePosixPath(path), *PurePosixPath(path).parents)}
    fitting = [one for one in among if one.place in above]
    # of two at one place the later hides the earlier
    return max(reversed(fitting), key=lambda one: len(one.place), default=None)
