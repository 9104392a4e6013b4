"""Why a job has done nothing for a while, judged by what the kernel told at two moments of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from unglow.core.waiting import Look

STOPPED = "stopped by a signal"
LOCK = "lock"
SWAP = "memory pressure (swap)"
MEMORY = "memory pressure"
NETWORK = "network file system"
DISK = "disk"
PROCESSOR = "no processor"
LIMIT = "processor limit"

# From these shares of the time on, others that waited for memory, or a limit, explain a stall.
_PRESSING, _STARVED = 0.1, 0.3
_REMOTE = re.compile(
    r"nfs|rpc_|cifs|smb|ceph|fuse|request_wait_answer|lustre|ptlrpc|ldlm|^(ll|cl|osc)_|p9_|afs_"
)
_RECLAIM = re.compile(r"reclaim|swap|mem_cgroup|congestion|memdelay|shrink")
_PRESSED = {"memory": "memory", "io": "disks", "cpu": "processors"}
_UNKNOWN = (
    "it sleeps: it waits for another process or thread, and the system does not say why",
    "if nothing comes of it, that is a fault of the program: please report it",
)
_LESS_MEMORY = (
    "run fewer jobs at a time with a smaller --resources mem_mb, or end other programs that take "
    "memory (`free -m`, `top -o %MEM`)"
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
    SWAP: ("it waits for memory that was swapped out", _LESS_MEMORY),
    MEMORY: (
        "memory is short: it waits for pages that the system has to free or to read again",
        _LESS_MEMORY,
    ),
    NETWORK: (
        "it waits for a network file system{file}",
        "see if its server answers (`df`, `dmesg`): the job goes on once it does",
    ),
    DISK: (
        "it waits for a disk{file}",
        "see what else uses it (`iostat -x 1`) and whether it has faults (`dmesg`)",
    ),
    PROCESSOR: (
        "it wants to run and gets no processor",
        "other programs take them all (`uptime`, `top`): use fewer --cores, or end those",
    ),
    LIMIT: (
        "it wants to run and a limit on processors holds it back",
        "use as few --cores as the container or batch system allows, or have it allow more",
    ),
}


class Reason(NamedTuple):
    """Why a job has done nothing: in a few words (empty if unknown), in a sentence, what helps.

    Sentences are for the middle of another one: no capital, no full stop.
    """

    reason: str = ""
    message: str = _UNKNOWN[0]
    helps: str = _UNKNOWN[1]


def reason(before: Look, now: Look, pid: int) -> Reason:
    """Return why nothing was done between two looks at a job, process ``pid``, and its children."""
    word = _word(before, now)
    holder, path = now.holder or (0, now.file)
    known = {"pid": pid, "holder": holder, "file": f" ({path})" if path else ""}
    message, helps = (text.format(**known) for text in _SAID.get(word, _UNKNOWN))
    shares = {name: _share(before, now, name) for name in _PRESSED}
    told = [f"{_PRESSED[n]} {share:.0%}" for n, share in shares.items() if share >= 0.05]
    if told:
        message += f"; so much of the time something here waited for {', '.join(told)}"
    return Reason(word, message, helps)


def _word(before: Look, now: Look) -> str:
    """Decide: the first that holds. A lack of memory looks like a slow disk, so it comes before."""
    lacks = now.state in ("D", "R") and _lacks_memory(before, now)
    passed = max(now.t - before.t, 1e-3)
    late = (now.delay_s - before.delay_s) / passed > _STARVED
    starved = now.state == "R" and (before.state == "R" or late)
    held = (now.throttled_s - before.throttled_s) / passed > _STARVED
    holds = {
        STOPPED: now.state == "T",
        LOCK: now.holder is not None,
        NETWORK: now.remote or any(map(_REMOTE.search, now.within)),
        SWAP: lacks and now.swapped > before.swapped,
        MEMORY: lacks,
        DISK: now.state == "D",
        LIMIT: starved and held,
        PROCESSOR: starved,
    }
    return next((word for word, true in holds.items() if true), "")


def _lacks_memory(before: Look, now: Look) -> bool:
    """Whether pages of the job go back and forth, or it waits for the system to free some."""
    hit = now.faults > before.faults or any(map(_RECLAIM.search, now.within))
    if "memory" in now.pressure_s:
        return _share(before, now, "memory") >= _PRESSING and (hit or now.state == "D")
    return hit and now.swapped > before.swapped


def _share(before: Look, now: Look, name: str) -> float:
    """Return the share of the time in which something waited for it; 0 where nobody counts."""
    waited = now.pressure_s.get(name, 0.0) - before.pressure_s.get(name, 0.0)
    return waited / max(now.t - before.t, 1e-3)
