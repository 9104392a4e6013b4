"""Jobs of a run that continues during the test: found, waited for, and held still."""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from unglow.jobs.run_records import read_trace
from unglow.telemetry.attempt_files import attempt_files


def wait_for(condition, seconds=1500):
    """Wait until something is true, and return it."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
    return found


def attempt_at(directory: Path, stage: str):
    """Return watchdog, job and file of the last attempt at a stage, once there is one."""
    for path in reversed(attempt_files(directory / "results" / "telemetry")):
        if path.parent.name == stage and (trace := read_trace(path)) and len(trace.processes) == 2:
            return {"watchdog": trace.processes[0].pid, "job": trace.processes[1].pid, "file": path}
    return None


def state_of(pid: int) -> str:
    """One letter for what a process does: R and S live, T is stopped, Z and nothing have ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    return state_of(pid) not in ("", "Z")


@contextmanager
def held(directory: Path, stage: str):
    """Stop the job of a stage as soon as it is at work, so that its run cannot end meanwhile.

    Commands that take longer to start on a busy machine than the job takes to end find it there.
    """
    attempt = wait_for(lambda: attempt_at(directory, stage))
    os.kill(attempt["job"], signal.SIGSTOP)
    wait_for(lambda: state_of(attempt["job"]) not in ("R", "S", "D"))
    assert state_of(attempt["job"]) == "T", f"{stage} had ended before it could be stopped"
    try:
        yield attempt
    finally:
        with suppress(ProcessLookupError):
            os.kill(attempt["job"], signal.SIGCONT)
