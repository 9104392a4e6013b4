"""Why a job has done nothing for a while, judged by what the kernel told at two moments of it.

No file of a job is touched, not even asked for its size: its disk may be what does not answer.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from unglow.core.mounts import mount_of, mounts
from unglow.core.process import PROC, Stat, read, thread_ids

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

STOPPED = "stopped by a signal"
LOCK = "lock"
NETWORK = "network file system"
DISK = "disk"
PROCESSOR = "no processor"

# From this share of the time on, waiting for a processor explains a stall.
_STARVED = 0.3
_REMOTE = re.compile(
    r"nfs|rpc_|cifs|smb|ceph|fuse|request_wait_answer|lustre|ptlrpc|ldlm|^(ll|cl|osc)_|p9_|afs_"
)
# What each reason means, and what helps.
_SAID = {
    STOPPED: (
        "it was stopped by a signal (Ctrl-Z, SIGSTOP, a debugger)",
        "`kill -CONT {pid}` lets it go on, or `fg` where Ctrl-Z was pressed",
    ),
    LOCK: (
        "it waits for a lock{file} that process {holder} holds",
        "see what that process does, and end it if nothing comes of it",
    ),
    NETWORK: (
        "it waits for a network file system{file}",
        "see if its server answers (`df`, `dmesg`): the job goes on once it does",
    ),
    DISK: (
        "it waits for a disk{file}, or for memory",
        "see what else uses it (`iostat`), if it has faults (`dmesg`), if memory is short (`free`)",
    ),
    PROCESSOR: (
        "it wants to run and gets no processor",
        "use fewer --cores, or end other programs that take them all (`uptime`, `top`)",
    ),
    "": (
        "it sleeps: it waits for another process or thread, and the system does not say why",
        "if nothing comes of it, that is a fault of the program: please report it",
    ),
}
# Calls of the system that wait for the file whose number is their first argument.
_CALLS_ON_FILES = {
    # read write pread64 pwrite64 readv writev fcntl flock fsync fdatasync getdents64
    "x86_64": {0, 1, 17, 18, 19, 20, 72, 73, 74, 75, 217},
    "aarch64": {63, 64, 67, 68, 65, 66, 25, 32, 82, 83, 61},
}


@dataclass(frozen=True, slots=True)
class Look:
    """What some processes wait for at one moment.

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
    delay_s
        Time that threads wanted to run and did not so far, s.
    """

    t: float
    state: str = ""
    within: frozenset[str] = frozenset()
    file: str = ""
    remote: bool = False
    holder: tuple[int, str] | None = None
    delay_s: float = 0.0


class Reason(NamedTuple):
    """Why a job has done nothing: in a few words (empty if unknown), in a sentence, what helps.

    Sentences are for the middle of another one: no capital, no full stop.
    """

    reason: str = ""
    message: str = _SAID[""][0]
    helps: str = _SAID[""][1]


def reason(before: Look, now: Look, pid: int) -> Reason:
    """Return why nothing was done between two looks at a job, process ``pid``, and its children."""
    late = now.delay_s - before.delay_s > _STARVED * (now.t - before.t)
    holds = {
        STOPPED: now.state == "T",
        LOCK: now.holder is not None,
        NETWORK: now.remote or any(map(_REMOTE.search, now.within)),
        DISK: now.state == "D",
        PROCESSOR: now.state == "R" and (before.state == "R" or late),
    }
    word = next((word for word, true in holds.items() if true), "")
    holder, path = now.holder or (0, now.file)
    known = {"pid": pid, "holder": holder, "file": f" ({path})" if path else ""}
    return Reason(word, *(text.format(**known) for text in _SAID[word]))


def look(pids: Collection[int]) -> Look:
    """Look at processes now, the first of which is the parent of the others."""
    states: dict[tuple[int, str], str] = {}
    for pid in pids:
        for thread in thread_ids(pid):
            if (stat := Stat.of(read(pid, "task", thread, "stat"))) is not None:
                states[pid, thread] = stat.state.upper()
    state = next((letter for letter in "TDRS" if letter in states.values()), "")
    waiting = [key for key, own in states.items() if own == state]
    file, remote = _file_of(waiting, guess=state == "D")
    return Look(
        t=time.monotonic(),
        state=state,
        within=frozenset(read(pid, "task", thread, "wchan") for pid, thread in waiting) - {"", "0"},
        file=file,
        remote=remote,
        holder=_lock_holder(pids, read("locks")),
        delay_s=sum(_run_delay_s(read(p, "task", t, "schedstat")) for p, t in states),
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


def _run_delay_s(schedstat: str) -> float:
    """Return how long a thread has waited for a processor, from its file ``schedstat``, ns."""
    fields = schedstat.split()
    return int(fields[1]) / 1e9 if len(fields) == 3 else 0.0
