"""Outcomes of runs and attempts, those included that could not say how they ended.

A process that is gone was killed. Whether it is gone can only be seen on its own machine, and only
until that is restarted; of others, by the record of their run, or by their silence.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from unglow.core import process
from unglow.telemetry.jsonl import number
from unglow.telemetry.reading.records import RUNNING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from unglow.telemetry.reading.records import Attempt, Job, RunRecord

SILENCE_S = 120.0
"""Silence, s, after which an attempt on another machine is lost once its run is over."""
KILLED, LOST = "killed", "node_lost"


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine this runs on, and its knowledge about processes.

    Attributes
    ----------
    host, boot
        Its name, and the name of the time since it was started.
    now
        Unix time, s.
    ending
        How the run ends that asks, if one does: its file says so only after that.
    """

    host: str = field(default_factory=process.host)
    boot: str = field(default_factory=process.boot_id)
    now: float = field(default_factory=time.time)
    ending: str | None = None

    def asks(self, run: RunRecord) -> bool:
        """Whether it is this very process that runs it."""
        return run.fields.get("pid") == os.getpid() and self.lives(run.fields) is True

    def lives(self, fields: Mapping[str, Any]) -> bool | None:
        """Whether the process that wrote a first line lives; None if it cannot be seen from here.

        Parameters
        ----------
        fields
            With ``host``, ``boot``, ``pid`` and ``started``.
        """
        if fields.get("host") != self.host:
            return None
        pid, boot = fields.get("pid"), fields.get("boot")
        if boot != self.boot or not isinstance(pid, int):
            return False
        return process.is_running(pid, fields.get("started"))


def outcome_of_run(run: RunRecord, machine: Machine) -> str:
    """Return how a run ended, or ``running`` or ``killed``."""
    if run.outcome is not None:
        return run.outcome
    if machine.ending is not None and machine.asks(run):
        return machine.ending
    lives = machine.lives(run.fields)
    if lives is None:  # on another machine: as long as it was heard of lately
        lives = machine.now - (run.wall + run.seen) < SILENCE_S
    return RUNNING if lives else KILLED


def outcome_of_attempt(
    attempt: Attempt, run: tuple[RunRecord, str] | None, job: Job | None, machine: Machine
) -> str:
    """Return how an attempt ended, or ``running``, ``killed`` or ``node_lost``.

    Parameters
    ----------
    attempt, job
        The attempt, and its job as Snakemake reported it.
    run
        The run that it belongs to, and its outcome; None if it is not known.
    machine
        Where this is asked.
    """
    if attempt.end is not None:
        return attempt.end.outcome
    if job is not None and attempt.number in job.losses:
        return job.losses[attempt.number].outcome
    lives = machine.lives(attempt.fields)
    if lives:
        return RUNNING
    if lives is not None:
        return KILLED if attempt.fields.get("boot") == machine.boot else LOST
    silent = machine.now - (attempt.wall + attempt.seconds) >= SILENCE_S
    if run is None:
        return LOST if silent else RUNNING
    started = attempt.wall - run[0].wall
    failed = job is not None and any(t >= started for t in job.when("failed"))
    over = run[1] != RUNNING and (silent or run[0].outcome is not None)
    return LOST if failed or over else RUNNING


def boots(fields: Mapping[str, Any]) -> tuple[str, str]:
    """Return what has to be the same for two monotonic clocks to be one."""
    return str(fields.get("host")), str(fields.get("boot"))


def machine_mb(fields: Mapping[str, Any]) -> float | None:
    """Return the memory of the machine (or the container) of a first line, MB."""
    limits = [number(fields.get(key)) for key in ("machine_mb", "cgroup_mb")]
    return min((mb for mb in limits if mb), default=None)
