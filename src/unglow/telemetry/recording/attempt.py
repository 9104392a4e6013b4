"""The file of one attempt at a job: what it is, samples, stalls, and how it ended."""

from __future__ import annotations

import logging
import os
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unglow import __version__
from unglow.core import machine
from unglow.core.process import read_start_ticks
from unglow.core.progress import record_steps
from unglow.telemetry.attempt_files import read_inherited_run_id
from unglow.telemetry.jsonl import COLUMNS, SCHEMA, LineFile, identity
from unglow.telemetry.recording import profiler
from unglow.telemetry.recording.profiler import StackSampler, interval_s
from unglow.telemetry.speedscope import SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


INTERVAL_S = 0.5
"""Time between two samples, s, unless they cost too much."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Resources of a job and its children at one moment.

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
        of the job's own: ``S`` (sleeps), ``T`` (stopped), ``t`` (traced) or ``Z`` (has ended).
    peak_mb
        Most memory so far, MB: largest resident set of one process, or ``pss_mb`` of several.
    available_mb
        Memory that the machine could still give without swapping, MB; None where unknown.
    file_mb, shmem_mb, swap_mb
        Of the processes together, as in `unglow.core.process.Memory`; None where unknown.
    runnable
        Threads that run or could run; None where it was not looked up.
    disk_read, disk_written
        Bytes from and to disks so far, as ``read`` and ``written`` otherwise.
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
    file_mb: float | None = None
    shmem_mb: float | None = None
    swap_mb: float | None = None
    runnable: int | None = None
    disk_read: int = 0
    disk_written: int = 0

    def row(self, t: float) -> list[float | int | str | None]:
        """Return the sample as in `COLUMNS`, taken ``t`` s after the start of the attempt."""
        used = (round(t, 3), *_round((self.rss_mb, self.pss_mb, self.cpu_s), 2))
        counts = (self.read, self.written, self.threads, self.processes, self.state)
        memory = (*_round((self.peak_mb,), 2), *_round((self.available_mb,)))
        parts = _round((self.file_mb, self.shmem_mb, self.swap_mb), 1)
        return [*used, *counts, *memory, *parts, self.runnable]


def _round(values: Iterable[float | None], digits: int | None = None) -> list[float | None]:
    return [None if value is None else round(value, digits) for value in values]


log = logging.getLogger("unglow")


class Attempt:
    """An attempt that has just started, in the process that will watch it.

    Parameters
    ----------
    path
        Its file, which has been created (`unglow.telemetry.attempt_files`).
    clock
        The monotonic time of its start, s.
    declared
        What else the first line says about the job.
    profiled
        Whether to write the stacks of its threads as well: by py-spy if that is possible.
    """

    def __init__(
        self,
        path: Path,
        clock: float,
        declared: Mapping[str, Any],
        *,
        profiled: bool = False,
    ) -> None:
        self._clock = clock
        self._file = LineFile(path, log.warning)
        self._profile = path.with_suffix(SUFFIX) if profiled else None
        self._stacks: StackSampler | None = None
        self._py_spy: profiler.PySpy | None = None
        self._spy, self._no_spy = profiler.program() if self._profile else ("", "")
        physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        limits = [limit for limit, _ in machine.read_memory_bounds() if limit < physical]
        self._file.write(
            {
                "kind": "attempt",
                "schema": SCHEMA,
                **declared,
                "run": read_inherited_run_id(),
                **identity(),
                "wall": round(time.time() - (time.monotonic() - clock), 3),
                "clock": round(clock, 3),
                "unglow": __version__,
                "python": "{}.{}.{}".format(*sys.version_info),
                "machine_mb": round(physical / 1e6),
                "cgroup_mb": round(min(limits) / 1e6) if limits else None,
                "cores": machine.count_allowed_processors(),
                "columns": list(COLUMNS),
            }
        )

    @property
    def t(self) -> float:
        """Time since its start, s."""
        return time.monotonic() - self._clock

    def enter_job(self) -> None:
        """In the job's own process: have its steps written, and leave complaints to the other."""
        self._file.silence()
        record_steps(self._file, self._clock)
        if self._profile is not None and self._no_spy:
            log.info("profiled by a thread of the job, not by py-spy: %s", self._no_spy)
            self._stacks = StackSampler(self._profile, self._clock, log.warning)
            self._stacks.start()
        elif self._profile is not None:
            profiler.permit(os.getppid())

    def leave_job(self) -> None:
        """In the job's own process: its work is done."""
        if self._stacks is not None:
            self._stacks.stop()

    def forked(self, pid: int) -> None:
        """Record a process that the job runs in."""
        process = {"pid": pid, "started": read_start_ticks(pid)}
        self._file.write({"kind": "process", "t": round(self.t, 4), **process})

    @property
    def lacks_spy(self) -> bool:
        """Whether stacks are to be taken from outside, and nobody does."""
        return self._profile is not None and not self._no_spy and self._py_spy is None

    def spy_on(self, pid: int) -> None:
        """Have the stacks of a Python process of the job taken, if they are wanted."""
        if self._profile is not None and self.lacks_spy:
            job = profiler.Profiled(pid, self._clock, interval_s())
            self._py_spy = profiler.PySpy(self._profile, self._spy, job, log.warning)

    def sample(self, taken: Sample) -> None:
        """Add a sample."""
        self._file.write(taken.row(self.t))
        if self._py_spy is not None:
            self._py_spy.keep_running()

    def write(self, line: Mapping[str, Any]) -> None:
        """Add a line that another process of the job has written."""
        self._file.write({**line})

    def finish_spy(self) -> None:
        """Before the process of the job is waited for: nobody looks into it any more."""
        if self._py_spy is not None:
            self._py_spy.finish()

    def stall(self, seconds: float, why: Mapping[str, str], *, over: bool = False) -> None:
        """Record that the job has done nothing for a time, s, and why; and again when it is over.

        ``why`` has ``reason`` (a few words, or empty), ``message`` and ``helps``.
        """
        stalled = {"t": round(self.t, 3), "seconds": round(seconds, 1), "over": over}
        self._file.write({"kind": "stall", **stalled, **why})

    def end(self, outcome: str, message: str = "", log_tail: str = "", **measured: Any) -> None:
        """Record how it ended, with the end of its log if that is of use, and write no more."""
        if log_tail:
            self._file.write({"kind": "log", "text": log_tail})
        times = {"t": round(self.t, 4), "wall": round(time.time(), 3)}
        end = {"kind": "end", **times, "outcome": outcome, "message": message, **measured}
        self._file.write(end)
        self._file.close()
