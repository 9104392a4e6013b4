"""The clients of PBS (Professional, OpenPBS) and of Torque."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from unglow.jobs.schedulers.scheduler import (
    FAILED,
    RUNNING,
    SUCCESS,
    JobRequest,
    NoAnswerError,
    Scheduler,
    run,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

# Answers about a job that is no longer queued.
_GONE = ("Unknown Job", "has finished")
_OVER = ("F", "C")


class PBS(Scheduler):
    """PBS Professional and OpenPBS."""

    name = "pbs"
    queue_command = "qstat"
    cancel_command = "qdel"
    _history: tuple[str, ...] = ("-x",)

    def resources(self, job: JobRequest) -> list[str]:
        """Return the options that ask for cores, memory and time."""
        select = f"select=1:ncpus={job.threads}:mem={job.kib}kb"
        return ["-l", select, "-l", f"walltime={job.clock}"]

    def submission(self, job: JobRequest) -> list[str]:
        """See `Scheduler`."""
        words = ["qsub", "-V", "-r", "n", "-N", job.name, "-j", "oe", "-o", f"{job.logs}/"]
        return [*words, *self.resources(job), job.script]

    def state(self, job: str) -> str:
        """See `Scheduler`; a server that has forgotten a job: then it counts as failed."""
        status, text = run("qstat", *self._history, "-f", job)
        if status:
            return FAILED if any(words in text for words in _GONE) else RUNNING
        fields = _fields(text)
        if fields.get("job_state") not in _OVER:
            return RUNNING
        return SUCCESS if fields.get("Exit_status", fields.get("exit_status")) == "0" else FAILED

    def queued(self, jobs: Sequence[str]) -> list[str]:
        """See `Scheduler`; Torque is asked in the same words."""
        return [job for job in jobs if _is_queued(job)]


class Torque(PBS):
    """Torque, an older relative: no history, but it keeps finished jobs for some minutes."""

    _history = ()

    def resources(self, job: JobRequest) -> list[str]:
        """See `PBS`."""
        memory = f"mem={job.kib}kb"
        return ["-l", f"nodes=1:ppn={job.threads},{memory},walltime={job.clock}"]


def _is_queued(job: str) -> bool:
    status, text = run("qstat", "-f", job)
    if status == 0:
        return bool(text.strip()) and _fields(text).get("job_state") not in _OVER
    if any(words in text for words in _GONE):
        return False
    raise NoAnswerError(text)


def _fields(text: str) -> dict[str, str]:
    return dict(re.findall(r"^\s*(\w+) = (.*)$", text, re.MULTILINE))
