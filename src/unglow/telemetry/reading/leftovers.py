"""What the jobs of a run have left behind of memory, and when that is a leak.

Memory of a process is given back when it ends. What stays is held by processes that outlive their
job, or by files in memory file systems: only these count here. That the machine has less memory
after a job (`left_behind_mb`) may be due to other programs, and is no leak by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from unglow.telemetry.reading.parsing import number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from unglow.telemetry.reading.history import RunHistory
    from unglow.telemetry.reading.records import Attempt, Placed

MOST_LEFT_MB = 200.0
"""What the finished jobs of a run may leave behind on a machine, MB."""


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What the finished jobs of a run have left behind on one machine.

    Attributes
    ----------
    host
        The machine.
    files_mb
        Growth of the user's files in memory from before the first job to after the last, MB.
    processes, processes_mb
        How many processes had outlived their jobs, and their memory then, MB.
    worst
        The attempt that left most.
    """

    host: str
    files_mb: float
    processes: int
    processes_mb: float
    worst: Placed

    @property
    def leaks(self) -> bool:
        """Whether this is more than jobs may leave."""
        return self.files_mb + self.processes_mb > MOST_LEFT_MB


def leftovers(h: RunHistory) -> list[Leftovers]:
    """Return what the jobs of a run have left behind, for each machine of which that is known."""
    groups: dict[str, list[Placed]] = {}
    for a in h.attempts:
        if _told(a.attempt, "files_after_mb") is not None:
            groups.setdefault(a.attempt.host, []).append(a)
    return [_of_machine(host, group) for host, group in groups.items()]


def _of_machine(host: str, group: Sequence[Placed]) -> Leftovers:
    first, last = min(group, key=lambda a: a.start), max(group, key=lambda a: a.end)
    before, after = _amount(first, "files_before_mb"), _amount(last, "files_after_mb")
    return Leftovers(
        host=host,
        files_mb=max(0.0, after - before),
        processes=int(sum(_amount(a, "processes_left") for a in group)),
        processes_mb=sum(_amount(a, "processes_left_mb") for a in group),
        worst=max(group, key=_left),
    )


def _left(a: Placed) -> float:
    files = _amount(a, "files_after_mb") - _amount(a, "files_before_mb")
    return _amount(a, "processes_left_mb") + files


def lost_mb(attempts: Iterable[Attempt]) -> list[float]:
    """Return what the machine had less of after each attempt, MB, where that is known; sorted."""
    told = (_told(attempt, "left_behind_mb") for attempt in attempts)
    return sorted(mb for mb in told if mb is not None)


def _amount(a: Placed, name: str) -> float:
    return _told(a.attempt, name) or 0.0


def _told(attempt: Attempt, name: str) -> float | None:
    return None if attempt.end is None else number(attempt.end.more.get(name))
