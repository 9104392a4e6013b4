"""Why a job has done nothing for a while, as far as the states of its threads say.

No file of a job is touched, not even asked for its size: its disk may not answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from unglow.core.process import Stat, read, thread_ids

if TYPE_CHECKING:
    from collections.abc import Iterable


class Reason(NamedTuple):
    """Why a job has done nothing: in a few words (empty if unknown), in a sentence, what helps.

    Sentences are for the middle of another one: no capital, no full stop.
    """

    reason: str
    message: str
    helps: str


# By the state of a thread as the kernel names it, the most significant first.
_REASONS = {
    "T": Reason(
        "stopped by a signal",
        "it was stopped by a signal (Ctrl-Z, SIGSTOP, a debugger)",
        "`kill -CONT {pid}` lets it go on, or `fg` where Ctrl-Z was pressed",
    ),
    "D": Reason(
        "disk",
        "it waits for a disk, a network file system or memory",
        "see if the server or disk answers (`df`, `dmesg`, `iostat`) and if memory is short "
        "(`free`): the job continues once it does",
    ),
    "": Reason(
        "",
        "it waits for another process or thread, for a file system or for a processor",
        "see if the machine is overloaded (`uptime`) and if a server does not answer (`df`); if "
        "nothing comes of it, that is a fault of the program: please report it",
    ),
}


def stall_reason(pids: Iterable[int], pid: int) -> Reason:
    """Return why processes do nothing now; ``pid`` is the first of them."""
    stats = (Stat.of(read(p, "task", thread, "stat")) for p in pids for thread in thread_ids(p))
    states = {stat.state.upper() for stat in stats if stat is not None}
    found = next(reason for state, reason in _REASONS.items() if state in states or not state)
    return found._replace(helps=found.helps.format(pid=pid))
