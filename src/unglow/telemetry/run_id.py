"""The id of a run, which its jobs inherit as an environment variable and write into their files.

It is the name of the run's file in ``telemetry/runs``, without its suffix.
"""

from __future__ import annotations

import os
import time

from unglow.core.process import host

VARIABLE = "UNGLOW_RUN_ID"
"""Variable that holds the id for the jobs of a run."""


def make_run_id(wall: float, pid: int) -> str:
    """Return an id that no other run has: time (UTC), host and process.

    Parameters
    ----------
    wall
        When the run started, s since 1970.
    pid
        Its process.
    """
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(wall))
    return f"{stamp}.{int(wall % 1 * 1000):03d}Z{_owner(pid)}"


def start_run() -> str:
    """Return the id of this process's run, and set the variable for its jobs.

    Several instances of the workflow in one process (modules of another workflow) are one run.
    """
    pid = os.getpid()
    if not os.environ.get(VARIABLE, "").endswith(_owner(pid)):
        os.environ[VARIABLE] = make_run_id(time.time(), pid)
    return os.environ[VARIABLE]


def finish_run(run_id: str) -> None:
    """Unset the variable if it holds this id: the next workflow of this process is another run."""
    if os.environ.get(VARIABLE) == run_id:
        del os.environ[VARIABLE]


def inherited_run_id() -> str | None:
    """Return the id of the run that started this job; None if it was not handed down."""
    return os.environ.get(VARIABLE) or None


def _owner(pid: int) -> str:
    return f"-{host().replace('/', '_')}-{pid}"
