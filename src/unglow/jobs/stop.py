"""End of a run that is at work, on request: `unglow stop`.

Signals go only to processes of this machine that the run's own files prove (number, start and
boot), and only if nobody but the caller can have written these files.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import time
from typing import TYPE_CHECKING

from unglow.core.errors import InputError
from unglow.core.process import host, ignores
from unglow.jobs.run_records import open_attempts, read_trace
from unglow.telemetry.attempt_files import run_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from unglow.core.process import Process
    from unglow.jobs.run_records import Trace

PATIENCE_S = 30.0
"""How long Snakemake and its jobs may take to end by themselves after ``--now``, s."""
_LOOK_S = 0.1


def find_running(results: Path) -> Trace | None:
    """Return the run that is at work on a results directory; None if none is.

    Raises
    ------
    InputError
        It is at work on another machine, or its record may be the word of somebody else.
    """
    traces = (read_trace(path) for path in reversed(run_files(results / "telemetry")))
    open_runs = [trace for trace in traces if trace is not None and not trace.ended]
    for run in open_runs:
        if any(process.lives() for process in run.processes):
            if not run.own:
                raise InputError(
                    f"{run.path} is not yours, or others may write to it, so the process that it "
                    "names is not ended: ask who started the run."
                )
            return run
    for run in open_runs[:1]:
        if run.processes and run.host != host():
            raise InputError(
                f"the run began on {run.host} (process {run.processes[0].pid}, {run.since}): "
                f"give `unglow stop {shlex.quote(str(results.absolute()))}` there."
            )
    return None


def finish_jobs(run: Trace) -> None:
    """Have Snakemake end once its running jobs are done: no other job begins."""
    _send(run.processes[0], signal.SIGTERM)


def end_jobs(run: Trace, results: Path) -> None:
    """End running jobs and Snakemake, as Ctrl-C does; return when they are gone.

    Raises
    ------
    InputError
        Snakemake is still there after `PATIENCE_S`.
    """
    snakemake = run.processes[0]
    # a command that a script has put into the background does not hear Ctrl-C
    deaf = ignores(snakemake.pid, signal.SIGINT)
    _send(snakemake, signal.SIGTERM if deaf else signal.SIGINT)
    for process in _jobs(results):
        _send(process, signal.SIGTERM if ignores(process.pid, signal.SIGINT) else signal.SIGINT)
    if not wait(run, PATIENCE_S):
        raise InputError(
            f"Snakemake (process {snakemake.pid}) is still there after {PATIENCE_S:.0f} s: give "
            f"`kill -9 {snakemake.pid}`, then `unglow resume`."
        )


def wait(run: Trace, seconds: float | None = None) -> bool:
    """Wait until the Snakemake of a run is gone, at most this long; return whether it is."""
    end = None if seconds is None else time.monotonic() + seconds
    while run.processes[0].lives():
        if end is not None and time.monotonic() > end:
            return False
        time.sleep(_LOOK_S)
    return True


def _jobs(results: Path) -> Iterator[Process]:
    """Yield the processes of this machine that jobs of the caller run in, without watchdogs."""
    for trace in open_attempts(results):
        if trace.own:
            yield from (process for process in trace.processes[1:] if process.lives())


def _send(process: Process, number: int) -> None:
    if process.lives():
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)
