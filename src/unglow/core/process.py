"""Processes, and memory of the machine, as the kernel shows them in /proc; nothing else reads it.

psutil samples jobs; here is what it lacks (largest resident sets, proportional sets, states of
threads, lists of children), and what jobs and readers ask themselves, which saves the 14 ms of its
import.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import psutil

PROC = Path("/proc")

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_MB_PER_KIB = 1024 / 1e6
# What is read of a file that is kept open, bytes: those that are looked at take up to 2000.
_LONGEST = 1 << 14
# Lines of status and io (proc(5)), in the order of `Memory` and by what they are called here.
_HELD = ("VmHWM", "RssFile", "RssShmem", "VmSwap")
_MOVED = {
    "bytes_read": "rchar",
    "bytes_written": "wchar",
    "disk_read": "read_bytes",
    "disk_written": "write_bytes",
}


def read(*path: object) -> str:
    """Return the text of a file of /proc; empty if it cannot be read, or there is no /proc."""
    try:
        return PROC.joinpath(*map(str, path)).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def is_mounted() -> bool:
    """Whether there is a /proc; without one, psutil is asked."""
    return (PROC / "self").exists()


# Which process it is, and whether it lives


class Stat(NamedTuple):
    """State of a process (``R``, ``S``, ``D``, ``T``, ``Z``), its time, and when it started.

    Time on processors, s, includes that of children that it has waited for. The start, clock ticks
    since boot, distinguishes it from others of its number.
    """

    state: str
    cpu_s: float
    started: int

    @classmethod
    def parse(cls, text: str) -> Stat | None:
        """Read a file ``stat``; None if it is empty, as that of a process that is gone."""
        # the second field, the name in brackets, may hold blanks and brackets; the third is the
        # state, 14 to 17 are times, 22 the start
        fields = text.rpartition(")")[2].split()
        with contextlib.suppress(ValueError, IndexError):
            cpu_s = sum(map(int, fields[11:15])) / _TICKS_PER_S
            return cls(fields[0], cpu_s, int(fields[19]))
        return None


@dataclass(frozen=True, slots=True)
class Process:
    """A process as it is distinguished from all others; ``started`` in clock ticks since boot."""

    host: str
    boot: str
    pid: int
    started: int | None

    def lives(self) -> bool:
        """Whether it is a process of this machine that is there; a zombie is not."""
        here = self.host == host() and self.boot == boot_id()
        return here and is_running(self.pid, self.started)


def host() -> str:
    """Return the name of this machine."""
    return os.uname().nodename


def boot_id() -> str:
    """Return an identifier of this boot of the machine; empty where nothing does."""
    return read("sys/kernel/random/boot_id").strip()


def find_socket_user(local: tuple[str, int], remote: tuple[str, int]) -> int | None:
    """Return the user who has opened a TCP connection of this machine (IPv4).

    Parameters
    ----------
    local, remote
        Address and port of the end that is asked about, and of the other one.

    Returns
    -------
    The number of the user; None if there is no such connection, nobody holds it any more, or it is
    not known.
    """
    ends = tuple(
        f"{int.from_bytes(map(int, address.split('.')), sys.byteorder):08X}:{port:04X}"
        for address, port in (local, remote)
    )
    for table in ("tcp", "tcp6"):  # an IPv6 socket may be connected to an IPv4 one
        for line in read("self", "net", table).splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9 and (fields[1][-13:], fields[2][-13:]) == ends:
                # of a socket that nobody holds any more (no inode) the table says that it is root's
                return None if fields[9] == "0" else int(fields[7])
    return None


def read_start_ticks(pid: int) -> int | None:
    """Return when a process started, clock ticks since boot; None if there is no such process."""
    found = _state_and_start(pid)
    return None if found is None else found[1]


def is_running(pid: int, started: int | None) -> bool:
    """Whether the process of this number that started then is there; a zombie is not."""
    found = _state_and_start(pid)
    return found is not None and found[0] != "Z" and found[1] == started


def _state_and_start(pid: int) -> tuple[str, int] | None:
    if (stat := Stat.parse(read(pid, "stat"))) is not None:
        return stat.state, stat.started
    if is_mounted():
        return None
    import psutil  # only where there is no /proc

    try:
        process = psutil.Process(pid)
        state = "Z" if process.status() == psutil.STATUS_ZOMBIE else "S"
        return state, round(process.create_time() * _TICKS_PER_S)
    except psutil.Error:
        return None


def ignores(pid: int, number: int) -> bool:
    """Whether a process ignores a signal; False where that is not known."""
    lines = read(pid, "status").splitlines()
    mask = next((line.split()[1] for line in lines if line.startswith("SigIgn:")), "0")
    return bool(int(mask, 16) >> (number - 1) & 1)


def thread_ids(pid: int) -> list[str]:
    """Return the threads of a process; none if it is gone."""
    with contextlib.suppress(OSError):
        return os.listdir(f"{PROC}/{pid}/task")  # noqa: PTH208 (only names, and often)
    return []


def working_in(directory: Path) -> Iterator[tuple[psutil.Process, list[str]]]:
    """Yield each process with its command that works in a directory, but for this one.

    Those of other users cannot be seen.
    """
    import psutil  # 30 ms that jobs can save

    for process in psutil.process_iter(["cwd", "cmdline"]):
        if process.info["cwd"] == str(directory) and process.pid != os.getpid():
            yield process, process.info["cmdline"] or []


def words_of(pid: int) -> tuple[str, ...]:
    """Return the command of a process; nothing if it is gone."""
    import psutil  # as above

    with contextlib.suppress(psutil.Error):
        return tuple(psutil.Process(pid).cmdline())
    return ()


def find_outputs(pid: int) -> frozenset[str]:
    """Return where a process writes its output and its errors to, as far as these are files."""
    targets = set()
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):
            targets.add(str((PROC / str(pid) / "fd" / str(descriptor)).readlink()))
    return frozenset(targets)


# What processes and the machine take


def status_mb(pid: int | str = "self") -> dict[str, float]:
    """Return the memory lines of a process' status (``VmHWM``, ``VmRSS``, ``VmData``, ...), MB.

    Empty where the system does not say; some sandboxes leave single lines out.
    """
    rows = read(pid, "status").splitlines()
    return _sizes_mb(row for row in rows if row.startswith("Vm"))


def meminfo_mb() -> dict[str, float]:
    """Return the sizes that the machine reports of its memory (``MemAvailable``, ...), MB."""
    text = read("meminfo")
    if text or is_mounted():
        return _sizes_mb(row for row in text.splitlines() if row.endswith(" kB"))
    import psutil  # only where there is no /proc

    memory = psutil.virtual_memory()
    return {"MemTotal": memory.total / 1e6, "MemAvailable": memory.available / 1e6}


def name_largest(*, in_own_group: bool = False) -> str:
    """Return the process that takes most memory now, as far as this user can see, in words.

    ``in_own_group``: of those that share this process's control groups.
    """
    import psutil  # hardly ever needed

    seen = [
        p for p in psutil.process_iter(["cmdline", "memory_info", "name"]) if p.info["memory_info"]
    ]
    if in_own_group:
        own = read("self", "cgroup")
        seen = [p for p in seen if read(p.pid, "cgroup") == own]
    largest = max(seen, key=lambda p: p.info["memory_info"])
    words = textwrap.shorten(" ".join(largest.info["cmdline"] or [largest.info["name"]]), 80)
    return f"{words} (process {largest.pid}, {largest.info['memory_info'].rss / 1e6:.0f} MB)"


def children_peak_mb() -> float:
    """Return the largest resident set of all child processes that have ended, MB; 0 for none."""
    with contextlib.suppress(ImportError):
        import resource  # Unix only

        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6
    return 0.0


def peak_mb() -> float:
    """Return the largest resident set so far, MB, of this process or a child that has ended.

    For the process itself this is VmHWM (NaN where unknown) and not ``ru_maxrss``, which starts at
    the value of the process that it was forked from.
    """
    return max(status_mb().get("VmHWM", math.nan), children_peak_mb())


def bytes_moved(of: str = "self") -> dict[str, int]:
    """Return the bytes that this process has moved; nothing where the system does not say.

    ``of`` may be one of its threads, as /proc names it.

    ``bytes_read`` and ``bytes_written`` through read and write calls, cached or not; ``disk_read``
    and ``disk_written`` of them (or mapped) from and to a disk or a server.
    """
    text = "\n" + read(of, "io")
    moved = {name: _number_after(text, f"\n{key}:") for name, key in _MOVED.items()}
    return {name: amount for name, amount in moved.items() if amount is not None}


@dataclass(frozen=True, slots=True)
class Ended:
    """What children of this process took that have ended and been waited for, theirs included.

    Time on processors, s; bytes read and written, cached or not; and the largest resident set of
    any of them, MB: 0 if it is that of this process, which each of them was at first.
    """

    cpu_s: float = 0.0
    read: int = 0
    written: int = 0
    peak_mb: float = 0.0

    @classmethod
    def so_far(cls) -> Ended:
        """Return it since the start of this process; no bytes where /proc does not say."""
        times = os.times()
        # the kernel adds those of children to the process, but to none of its threads
        threads = [bytes_moved(f"self/task/{thread}") for thread in thread_ids(os.getpid())]
        read_, written = (
            bytes_moved().get(key, 0) - sum(one.get(key, 0) for one in threads)
            for key in ("bytes_read", "bytes_written")
        )
        cpu_s = times.children_user + times.children_system
        peak = children_peak_mb()
        own = status_mb().get("VmHWM", 0.0)
        return cls(cpu_s, read_, written, peak if peak > own else 0.0)

    def since(self, before: Ended) -> Ended:
        """Return what was added since then; a peak only if it is a new one."""
        new = self.peak_mb > before.peak_mb
        return Ended(
            self.cpu_s - before.cpu_s,
            self.read - before.read,
            self.written - before.written,
            self.peak_mb if new else 0.0,
        )


def machine_oom_kills() -> int:
    """Return how many processes the kernel has killed because memory ran out since boot."""
    return _number_after(read("vmstat"), "\noom_kill ") or 0


def cpuinfo() -> dict[str, str]:
    """Return what the system reports of the first processor, by name; empty where it does not."""
    lines = {}
    with contextlib.suppress(OSError), (PROC / "cpuinfo").open(errors="replace") as file:
        for line in file:
            name, separator, value = line.partition(":")
            if not separator:  # the next one is too
                break
            lines[name.strip()] = value.strip()
    return lines


class Memory(NamedTuple):
    """Memory of a process, MB: the largest resident set so far, and parts; None if not known.

    ``file``: resident pages of mapped files, mostly libraries, which others share and the kernel
    may drop; ``shmem``: shared memory and files in memory; ``swap``: not resident. The rest of the
    resident set is private.
    """

    peak: float | None
    file: float | None
    shmem: float | None
    swap: float | None


class OpenFiles:
    """The files about a process, kept open: to read them again costs half as much.

    A file that was open when its process ended reports nothing more, whoever has its number now.
    """

    def __init__(self, path: str) -> None:
        self.pid = path.rpartition("/")[2]
        self._path = path
        self._open: dict[str, int] = {}

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close all files."""
        while self._open:
            os.close(self._open.popitem()[1])

    def text(self, name: str) -> str:
        """Return what a file says; nothing if it cannot be read, or its process has gone."""
        try:
            if name not in self._open:
                path = f"{self._path}/{name}"
                self._open[name] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            return os.pread(self._open[name], _LONGEST, 0).decode("ascii", "replace")
        except OSError:
            return ""

    def size_mb(self, name: str, key: str) -> float | None:
        """Return a size that a file states in kB, MB; None if it does not.

        The file starts with another line.
        """
        return _mb_after(self.text(name), f"\n{key}:")

    def children(self, *, all_threads: bool) -> list[int]:
        """Return the processes that the main thread, or any, has started and not waited for.

        psutil looks at every process of the machine for them, 3 ms: without /proc, and for all
        threads only.
        """
        if not is_mounted():
            import psutil  # only where there is no /proc

            with contextlib.suppress(psutil.Error):
                found = psutil.Process(int(self.pid)).children() if all_threads else []
                return [one.pid for one in found]
            return []
        children = self.text(f"task/{self.pid}/children").split()
        for thread in self._threads() - {self.pid} if all_threads else ():
            children += OpenFiles(self._path).text(f"task/{thread}/children").split()
        return [*map(int, children)]

    def memory(self) -> Memory:
        """Return the memory that the process holds; None each if it has gone."""
        text = self.text("status")
        return Memory(*(_mb_after(text, f"\n{key}:") for key in _HELD))

    def runnable(self) -> int:
        """Return how many threads run or could run now (state ``R``)."""
        threads = OpenFiles(self._path)  # closed at once: threads come and go
        stats = (threads.text(f"task/{thread}/stat") for thread in self._threads())
        return sum(text.rpartition(")")[2].startswith(" R") for text in stats)

    def _threads(self) -> set[str]:
        with contextlib.suppress(OSError), os.scandir(f"{self._path}/task") as threads:
            return {thread.name for thread in threads}
        return set()


def _sizes_mb(rows: Iterable[str]) -> dict[str, float]:
    """Return sizes by name from rows ``name: number kB``, MB."""
    pairs = (row.split(":", 1) for row in rows)
    return {name: int(value.split()[0]) * 1024 / 1e6 for name, value in pairs}


def _mb_after(text: str, key: str) -> float | None:
    """Return the size in kB after a key, MB; None if there is none."""
    kib = _number_after(text, key)
    return None if kib is None else kib * _MB_PER_KIB


def _number_after(text: str, key: str) -> int | None:
    """Return the number after a key; None if there is none."""
    _, found, rest = text.partition(key)
    return int(rest.split(None, 1)[0]) if found else None
