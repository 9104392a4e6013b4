"""Samples of a job and all its children, taken by psutil from the process that watches it.

What psutil lacks (parts of memory, states of threads, lists of children) comes from ``/proc`` where
there is one. There the peak does not depend on when samples are taken: the kernel keeps the
largest resident set of each process (``VmHWM``), and reports it again when the process has ended.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from unglow.core.process import OpenFiles
from unglow.telemetry.recording.attempt import INTERVAL_S, Sample

if TYPE_CHECKING:
    from collections.abc import Iterable


# What changes slowly or is dear is looked at once a second.
_SLOW_S = 1.0
# Samples, and those of the proportional set, take at most these shares of a processor; the latter
# up to the second, and so many s more, where several processes have grown since the last one.
_SHARE, _PSS_SHARES, _PSS_S = 0.015, (0.003, 0.01), 0.03
_GROWN, _STEADY = 1.1, 1.01
_STATES = {"running": "R", "disk-sleep": "D", "stopped": "T", "tracing-stop": "t", "zombie": "Z"}


@dataclass(frozen=True, slots=True)
class _Usage:
    """What psutil says of a process: MB, s, bytes as in `Sample`."""

    rss_mb: float
    cpu_s: float
    threads: int
    state: str
    moved: tuple[int, ...]


class _Watched:
    """A process of a job."""

    def __init__(self, pid: int) -> None:
        self.files = OpenFiles(f"/proc/{pid}")
        self.process: psutil.Process | None = None
        with contextlib.suppress(psutil.Error):
            self.process = psutil.Process(pid)

    def usage(self) -> _Usage | None:
        """Return what it takes now; None if it has gone."""
        if self.process is None:
            return None
        with contextlib.suppress(psutil.Error), self.process.oneshot():
            if self.process.is_running():
                return _Usage(
                    self.process.memory_info().rss / 1e6,
                    sum(self.process.cpu_times()[:4]),  # with children that were waited for
                    self.process.num_threads(),
                    _STATES.get(self.process.status(), "S"),
                    _count_moved(self.process),
                )
        return None


def _count_moved(process: psutil.Process) -> tuple[int, ...]:
    # macOS has no counters; those of a process that has just ended cannot be read
    with contextlib.suppress(psutil.Error, AttributeError, RuntimeError):
        io = process.io_counters()
        calls = (
            getattr(io, f"{kind}_chars", getattr(io, f"{kind}_bytes")) for kind in ("read", "write")
        )
        return (*calls, io.read_bytes, io.write_bytes)
    return (0, 0, 0, 0)


class Sampler:
    """Takes samples of a process and everything below it.

    Children of the main thread of each process are seen at once, those of other threads within a
    second; what they have taken counts in any case once they have been waited for.

    Attributes
    ----------
    interval_s
        How long to wait until the next, s: `INTERVAL_S`, or longer where there are so many
        processes that samples would cost more than 1.5 % of a processor.
    """

    def __init__(
        self, pid: int, interval_s: float = INTERVAL_S, *, without: int | None = None
    ) -> None:
        self._least_s = self.interval_s = interval_s
        self._without = without  # a child that is left out: the process that takes the samples
        self._own = _Watched(pid)
        self._tree = {pid: self._own}
        self._last = Sample()
        self._moved: tuple[int, ...] = (0, 0, 0, 0)
        self._slow_due, self._started = 0.0, time.monotonic()
        self._pss_at_mb, self._pss_s = 0.0, 0.0

    @property
    def pids(self) -> list[int]:
        """The processes that were seen last, the job's own first."""
        return [*self._tree]

    def sample(self) -> Sample:
        """Look at all processes now; what they have done never gets less from sample to sample."""
        started, now = time.thread_time(), time.monotonic()
        slow = now >= self._slow_due
        if slow:
            self._slow_due = now + _SLOW_S
        self._find(all_threads=slow)
        seen = {pid: one.usage() for pid, one in self._tree.items()}
        for pid, usage in seen.items():
            if usage is None and self._tree[pid] is not self._own:
                self._tree.pop(pid).files.close()
        used = [usage for usage in seen.values() if usage is not None]
        held = [one.files.memory() for one in self._tree.values()]
        states = [usage.state for usage in used]
        rss = sum(usage.rss_mb for usage in used)
        # what a process has moved is on nobody's account either, until its parent has waited for it
        moved = (usage.moved for usage in used)
        sums = map(max, map(sum, zip((0, 0, 0, 0), *moved, strict=True)), self._moved)
        self._moved = read, written, disk_read, disk_written = tuple(sums)
        runnable = sum(one.files.runnable() for one in self._tree.values()) if slow else 0
        available = self._last.available_mb
        if slow:
            available = psutil.virtual_memory().available / 1e6
        self.interval_s = max(self._least_s, (time.thread_time() - started) / _SHARE)
        pss = self._pss_mb(now, rss, len(used), slow=slow)
        peaks = [*(one.peak or 0.0 for one in held), *(usage.rss_mb for usage in used)]
        if len(used) > 1:
            peaks.append(pss or 0.0)
        self._last = Sample(
            rss_mb=rss,
            pss_mb=pss,
            # between its end and its parent's wait, what a child has done is on nobody's account
            cpu_s=max(sum(usage.cpu_s for usage in used), self._last.cpu_s),
            read=read,
            written=written,
            threads=sum(usage.threads for usage in used),
            processes=len(used),
            state=next((s for s in "RD" if s in states), next(iter(states), "")),
            peak_mb=max(self._last.peak_mb, *peaks),
            available_mb=available,
            file_mb=_sum(one.file for one in held),
            shmem_mb=_sum(one.shmem for one in held),
            swap_mb=_sum(one.swap for one in held),
            runnable=runnable if slow and held[0].peak is not None else None,
            disk_read=disk_read,
            disk_written=disk_written,
        )
        return self._last

    def others(self) -> list[float]:
        """Return the resident memory, MB, of each process that lives next to the job's own."""
        rest = (one.usage() for one in self._tree.values() if one is not self._own)
        return [usage.rss_mb for usage in rest if usage is not None and usage.state != "Z"]

    def _find(self, *, all_threads: bool) -> None:
        """Add processes that are new; those known stay until they are gone, even as orphans."""
        pending = list(self._tree.values())
        for one in pending:  # grows on the way
            for child in one.files.children(all_threads=all_threads):
                if child not in self._tree and child != self._without:
                    self._tree[child] = _Watched(child)
                    pending.append(self._tree[child])

    def _pss_mb(self, now: float, rss_mb: float, processes: int, *, slow: bool) -> float | None:
        """Return the proportional set, once a second and where several processes have grown.

        None if it is not time for it, or if that would cost too much.
        """
        last = self._last.rss_mb
        grown = rss_mb > _GROWN * self._pss_at_mb or (
            last / _STEADY < rss_mb < last * _STEADY and rss_mb > _STEADY * self._pss_at_mb
        )
        urgent = processes > 1 and grown
        share = _PSS_SHARES[urgent]
        if not (slow or urgent) or self._pss_s > _PSS_S * urgent + share * (now - self._started):
            return None
        started = time.thread_time()
        sizes = [one.files.size_mb("smaps_rollup", "Pss") for one in self._tree.values()]
        self._pss_s += time.thread_time() - started
        self._pss_at_mb = rss_mb
        return None if sizes[0] is None else sum(mb or 0.0 for mb in sizes)


def _sum(parts: Iterable[float | None]) -> float | None:
    """Return the sum of what is known; None if nothing is."""
    known = [part for part in parts if part is not None]
    return sum(known) if known else None
