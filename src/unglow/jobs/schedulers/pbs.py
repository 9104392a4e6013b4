"""The clients of PBS (Professional, OpenPBS) and of Torque."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from unglow.jobs.schedulers.scheduler import JobRequest, NoAnswerError, Scheduler, State, run

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

    def state(self, job: str) -> State:
        """See `Scheduler`; a server that has forgotten a job: then it counts as failed."""
        try:
            fields = _fields(job, *self._history)
        except NoAnswerError:
            return State.RUNNING
        if fields is None:
            return State.FAILED
        if fields.get("job_state") not in _OVER:
            return State.RUNNING
        code = fields.get("Exit_status", fields.get("exit_status"))
        return State.SUCCESS if code == "0" else State.FAILED

    def queued(self, jobs: Sequence[str]) -> list[str]:
        """See `Scheduler`; Torque is asked in the same words."""
        queued = []
        for job in jobs:
            fields = _fields(job)
            if fields is not None and fields.get("job_state") not in _OVER:
                queued.append(job)
        return queued


class Torque(PBS):
    """Torque, an older relative: no history, but it keeps finished jobs for some minutes."""

    _history = ()

    def resources(self, job: JobRequest) -> list[str]:
        """See `PBS`."""
        memory = f"mem={job.kib}kb"
        return ["-l", f"nodes=1:ppn={job.threads},{memory},walltime={job.clock}"]


def _fields(job: str, *options: str) -> dict[str, str] | None:
    """Return what a server tells of a job; None if it has forgotten it."""
    status, text = run("qstat", *options, "-f", job)
    if status == 0:
        return dict(re.findall(r"^\s*(\w+) = (.*)$", text, re.MULTILINE))
    if any(words in text for words in _GONE):
        return None
    raise NoAnswerError(text)
