"""What a job and all its children take, ten times a second, read from ``/proc`` alone.

The watchdog does this beside the job, so a sample has to be cheap: a few short files for each
process. The peak does not depend on when samples are taken: the kernel keeps the largest resident
set of each process (``VmHWM``), and tells it again when the process has ended.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from unglow.core.process import OpenFiles

INTERVAL_S = 0.1
"""Time between two samples, s, unless they cost too much."""
COLUMNS = (
    *("t", "rss", "pss", "cpu", "read", "written"),
    *("threads", "processes", "state", "peak", "available"),
)
"""What a sample is in an attempt's file."""

# What changes slowly or is dear is looked at once a second.
_SLOW_S = 1.0
# Samples, and those of the proportional set, take at most these shares of a processor. Until it is
# known better, the latter are taken to cost so much, s for each MB.
_SHARE, _PSS_SHARE, _PSS_S_PER_MB = 0.005, 0.003, 1e-5


@dataclass(frozen=True, slots=True)
class Sample:
    """What a job and its children take at one moment.

    Attributes
    ----------
    rss_mb, pss_mb
        Resident set, MB, summed over the processes (pages that several share count several times),
        and the proportional set, in which they count once; None where it was not taken.
    cpu_s
        Time on processors so far, s, that of children that have ended included.
    read, written
        Bytes through read and write calls so far, cached or not, children that have ended included.
    threads, processes
        How many there are.
    state
        ``R`` if the main thread of any process runs, else ``D`` if one waits for a disk, else that
        of the job's own.
    peak_mb
        Largest resident set so far of any single process, MB.
    available_mb
        Memory that the machine could still give without swapping, MB; None where unknown.
    """

    rss_mb: float = 0.0
    pss_mb: float | None = None
    cpu_s: float = 0.0
    read: int = 0
    written: int = 0
    threads: int = 0
    processes: int = 0
    state: str = ""
    peak_mb: float = 0.0
    available_mb: float | None = None

    def row(self, t: float) -> list[float | int | str | None]:
        """Return the sample as in `COLUMNS`, taken ``t`` s after the attempt began."""
        pss = None if self.pss_mb is None else round(self.pss_mb, 2)
        available = None if self.available_mb is None else round(self.available_mb)
        counts = (self.read, self.written, self.threads, self.processes)
        used = (round(t, 3), round(self.rss_mb, 2), pss, round(self.cpu_s, 2))
        return [*used, *counts, self.state, round(self.peak_mb, 2), available]


class Sampler:
    """Takes samples of a process and everything below it.

    Children of the main thread of each process are seen at once, those of other threads within a
    second; what they have taken counts in any case once they have been waited for.

    Attributes
    ----------
    interval_s
        How long to wait until the next, s: `INTERVAL_S`, or longer where there are so many
        processes that samples would cost more than half a percent of a processor.
    """

    def __init__(self, pid: int, proc: str = "/proc", interval_s: float = INTERVAL_S) -> None:
        self._proc = proc
        self._least_s = self.interval_s = interval_s
        self._tree = {str(pid): OpenFiles(f"{proc}/{pid}")}
        self._own = self._tree[str(pid)]
        self._machine = OpenFiles(proc)
        self._last = Sample()
        self._slow_due, self._pss_taken = 0.0, 0.0
        self._pss_s_per_mb = _PSS_S_PER_MB
        self._pss_due_soon = False

    @property
    def pids(self) -> list[int]:
        """The processes that were seen last, the job's own first."""
        return list(map(int, self._tree))

    def take(self) -> Sample:
        """Look at all processes now; what they have done never gets less from sample to sample."""
        begun, now = time.thread_time(), time.monotonic()
        slow = now >= self._slow_due
        if slow:
            self._slow_due = now + _SLOW_S
        self._find(all_threads=slow)
        rss, peak, cpu, read, written, threads = 0.0, self._last.peak_mb, 0.0, 0, 0, 0
        states = []
        for pid, one in list(self._tree.items()):
            own_rss, own_peak = one.memory_mb()
            rss, peak = rss + own_rss, max(peak, own_peak)
            stat = one.stat()
            states.append("" if stat is None else stat.state)
            if stat is not None:
                cpu, threads = cpu + stat.cpu_s, threads + stat.threads
            elif one is not self._own:
                self._tree.pop(pid).close()
            moved = one.moved()
            read, written = read + moved[0], written + moved[1]
        processes = len(states) - states.count("")
        available = self._available_mb() if slow else self._last.available_mb
        self.interval_s = max(self._least_s, (time.thread_time() - begun) / _SHARE)
        self._last = Sample(
            rss_mb=rss,
            pss_mb=self._pss_mb(now, rss, soon=processes != self._last.processes),
            # between its end and its parent's wait, what a child has done is on nobody's account
            cpu_s=max(cpu, self._last.cpu_s),
            read=max(read, self._last.read),
            written=max(written, self._last.written),
            threads=threads,
            processes=processes,
            state=next((s for s in "RD" if s in states), states[0]),
            peak_mb=peak,
            available_mb=available,
        )
        return self._last

    def _find(self, *, all_threads: bool) -> None:
        """Add processes that are new; those known stay until they are gone, even as orphans."""
        pending = list(self._tree.values())
        for one in pending:  # grows on the way
            for child in one.children(all_threads=all_threads):
                if child not in self._tree:
                    self._tree[child] = OpenFiles(f"{self._proc}/{child}")
                    pending.append(self._tree[child])

    def _pss_mb(self, now: float, rss_mb: float, *, soon: bool) -> float | None:
        """Return the proportional set once a second; less often if that takes long.

        ``soon`` asks for it as soon as possible: there are more processes than before, or fewer.
        """
        cost = self._pss_s_per_mb * rss_mb
        self._pss_due_soon |= soon
        least = 0.0 if self._pss_due_soon else _SLOW_S
        if now < self._pss_taken + max(least, cost / _PSS_SHARE):
            return None
        begun = time.thread_time()
        sizes = [one.size_mb("smaps_rollup", "Pss") for one in self._tree.values()]
        self._pss_taken, self._pss_due_soon = now, False
        self._pss_s_per_mb = (time.thread_time() - begun) / max(rss_mb, 1.0)
        return None if sizes[0] is None else sum(mb or 0.0 for mb in sizes)

    def _available_mb(self) -> float | None:
        return self._machine.size_mb("meminfo", "MemAvailable")
