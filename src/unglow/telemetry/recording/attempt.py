"""The file of one attempt at a job: who, where and how much at its head, samples, and the end."""

from __future__ import annotations

import logging
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from unglow.core import machine
from unglow.core.process import started_ticks
from unglow.core.progress import record_steps
from unglow.core.version import __version__
from unglow.telemetry.attempt_files import inherited_run_id
from unglow.telemetry.jsonl import SCHEMA, LineFile, identity
from unglow.telemetry.recording import profiler
from unglow.telemetry.recording.process_sampler import COLUMNS
from unglow.telemetry.recording.profiler import StackSampler, interval_s
from unglow.telemetry.speedscope import SUFFIX

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from unglow.telemetry.recording.process_sampler import Sample

log = logging.getLogger("unglow")


class Attempt:
    """An attempt that has just started, in the process that will watch it.

    Parameters
    ----------
    path
        Its file, which has been created (`unglow.telemetry.attempt_files`); None for no telemetry.
    clock
        The monotonic time of its start, s.
    declared
        What else the first line says about the job.
    profiled
        Whether to write the stacks of its threads as well: by py-spy if that is possible.
    """

    def __init__(
        self,
        path: Path | None,
        clock: float,
        declared: Mapping[str, Any],
        *,
        profiled: bool = False,
    ) -> None:
        self._clock = clock
        self._file = LineFile(path, log.warning)
        self._profile = path.with_suffix(SUFFIX) if path is not None and profiled else None
        self._stacks: StackSampler | None = None
        self._py_spy: profiler.PySpy | None = None
        self._spy, self._no_spy = profiler.program() if self._profile else ("", "")
        if path is None:
            return
        physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        limits = [limit for limit, _ in machine.read_memory_bounds() if limit < physical]
        self._file.write(
            {
                "kind": "attempt",
                "schema": SCHEMA,
                **declared,
                "run": inherited_run_id(),
                **identity(),
                "wall": round(time.time() - (time.monotonic() - clock), 3),
                "clock": round(clock, 3),
                "unglow": __version__,
                "python": "{}.{}.{}".format(*sys.version_info),
                "machine_mb": round(physical / 1e6),
                "cgroup_mb": round(min(limits) / 1e6) if limits else None,
                "cores": machine.allowed_processors(),
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
        """Record the process that the job itself runs in."""
        process = {"pid": pid, "started": started_ticks(pid)}
        self._file.write({"kind": "process", "t": round(self.t, 4), **process})
        if self._profile is not None and not self._no_spy:
            job = profiler.Profiled(pid, self._clock, interval_s())
            self._py_spy = profiler.PySpy(self._profile, self._spy, job, log.warning)

    def sample(self, taken: Sample) -> None:
        """Add a sample."""
        self._file.write(taken.row(self.t))
        if self._py_spy is not None:
            self._py_spy.look()

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
