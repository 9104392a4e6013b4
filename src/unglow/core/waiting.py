"""What processes wait for, as the kernel tells it: states, locks, open files, pressure.

No file of a job is touched, not even asked for its size: its disk may be what does not answer.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from unglow.core import cgroups
from unglow.core.mounts import mount_of, mounts
from unglow.core.process import PROC, Stat, read, thread_ids

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

# Calls of the system that wait for the file whose number is their first argument.
_CALLS_ON_FILES = {
    # read write pread64 pwrite64 readv writev fcntl flock fsync fdatasync getdents64
    "x86_64": {0, 1, 17, 18, 19, 20, 72, 73, 74, 75, 217},
    "aarch64": {63, 64, 67, 68, 65, 66, 25, 32, 82, 83, 61},
}


@dataclass(frozen=True, slots=True)
class Look:
    """What some processes wait for at one moment, and what they have waited for so far.

    Attributes
    ----------
    t
        Monotonic time, s.
    state
        Of all their threads, the letter that tells most: T (stopped), D (waits for a disk, or what
        looks like one to the kernel), R (runs or wants to) or S; empty if they are gone.
    within
        Functions of the kernel that threads in that state wait in.
    file, remote
        A file that a thread waits for (empty if not known), and whether another machine has it.
    holder
        Process and file of a lock that one of them waits for; the file is empty if not known.
    faults, swapped
        Pages that had to be read from a disk, for these processes; and from swap, for all.
    delay_s, throttled_s
        Time that threads wanted to run and did not, s; that a limit held back their control group.
    pressure_s
        Time that anything waited for ``memory``, ``io`` or ``cpu``, s, in their control group, or
        else on the machine; empty where the kernel does not count it.
    """

    t: float
    state: str = ""
    within: frozenset[str] = frozenset()
    file: str = ""
    remote: bool = False
    holder: tuple[int, str] | None = None
    faults: int = 0
    swapped: int = 0
    delay_s: float = 0.0
    throttled_s: float = 0.0
    pressure_s: Mapping[str, float] = field(default_factory=dict)


def look(pids: Collection[int]) -> Look:
    """Look at processes now, the first of which is the parent of the others."""
    states: dict[tuple[int, str], Stat] = {}
    for pid in pids:
        for thread in thread_ids(pid):
            if (stat := Stat.of(read(pid, "task", thread, "stat"))) is not None:
                states[pid, thread] = stat
    told = {stat.state.upper() for stat in states.values()}
    state = next((letter for letter in "TDRS" if letter in told), "")
    waiting = [key for key, stat in states.items() if stat.state.upper() == state]
    file, remote = _file_of(waiting, guess=state == "D")
    group = next(iter(pids), 0)
    return Look(
        t=time.monotonic(),
        state=state,
        within=frozenset(read(pid, "task", thread, "wchan") for pid, thread in waiting) - {"", "0"},
        file=file,
        remote=remote,
        holder=_lock_holder(pids, read("locks")),
        faults=sum(stat.faults for pid in pids if (stat := Stat.of(read(pid, "stat")))),
        swapped=_swapped_in(read("vmstat")),
        delay_s=sum(_run_delay_s(read(p, "task", t, "schedstat")) for p, t in states),
        throttled_s=cgroups.throttled_s(group),
        pressure_s=_pressure_s(group),
    )


def _file_of(waiting: Collection[tuple[int, str]], *, guess: bool) -> tuple[str, bool]:
    """Return a file that threads wait for, and whether it is remote.

    Where it cannot be seen which file that is, a guess is one that is open and remote.
    """
    mounted = mounts()
    numbered = _CALLS_ON_FILES.get(os.uname().machine, set())
    for pid, thread in waiting:
        call = read(pid, "task", thread, "syscall").split()
        if len(call) > 1 and call[0].isdigit() and int(call[0]) in numbered:
            path = _opened(pid, int(call[1], 16))
            if path.startswith("/") and (mount := mount_of(path, mounted)) is not None:
                return path, mount.remote
    for pid in {pid for pid, _ in waiting if guess}:
        for path in (_opened(pid, number) for number in _numbers(pid)):
            mount = mount_of(path, mounted) if path.startswith("/") else None
            if mount is not None and mount.remote:
                return path, True
    return "", False


def _numbers(pid: int) -> Iterator[int]:
    """Yield the numbers of the files that a process has open."""
    with contextlib.suppress(OSError):
        yield from map(int, os.listdir(PROC / str(pid) / "fd"))  # noqa: PTH208 (only names)


def _opened(pid: int, number: int) -> str:
    """Return the file behind a number, ``pipe:[4711]`` for example; empty if that is not told."""
    with contextlib.suppress(OSError):
        return os.readlink(PROC / str(pid) / "fd" / str(number))  # noqa: PTH115 (may be no path)
    return ""


def _lock_holder(pids: Collection[int], text: str) -> tuple[int, str] | None:
    """Return who holds a lock that some processes wait for, and of which file (proc(5), locks)."""
    holder = 0
    for row in (line.split() for line in text.splitlines()):
        if "->" not in row[1:2]:
            holder = int(row[4]) if len(row) > 4 else 0
        elif len(row) > 6 and int(row[5]) in pids:
            return holder, _with_inode(int(row[5]), row[6].rpartition(":")[2])
    return None


def _with_inode(pid: int, inode: str) -> str:
    for number in _numbers(pid):
        rows = (line.split() for line in read(pid, "fdinfo", number).splitlines())
        if ["ino:", inode] in rows:
            return _opened(pid, number)
    return ""


def _swapped_in(vmstat: str) -> int:
    rows = (line.split() for line in vmstat.splitlines())
    return next((int(row[1]) for row in rows if row[0] == "pswpin"), 0)


def _run_delay_s(schedstat: str) -> float:
    """Return how long a thread has waited for a processor, from its file ``schedstat``, ns."""
    fields = schedstat.split()
    return int(fields[1]) / 1e9 if len(fields) == 3 else 0.0


def _pressure_s(pid: int) -> dict[str, float]:
    """Return by what is waited for how long something has waited, s."""
    own = cgroups.pressure(pid)
    texts = own or {name: read("pressure", name) for name in cgroups.PRESSURES}
    return {name: _some_s(text) for name, text in texts.items() if text.startswith("some ")}


def _some_s(text: str) -> float:
    """Return the sum of the line ``some avg10=0.00 avg60=0.00 avg300=0.00 total=4711``, s."""
    return int(text.splitlines()[0].rpartition("total=")[2]) / 1e6
