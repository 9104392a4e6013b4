"""The client of LSF."""

from __future__ import annotations

import math
import os
import re
from typing import TYPE_CHECKING

from unglow.jobs.schedulers.scheduler import JobRequest, NoAnswerError, Scheduler, State, run

if TYPE_CHECKING:
    from collections.abc import Sequence

_KIB = {"KB": 1, "MB": 1024, "GB": 1024**2}
_ENDED = {"DONE": State.SUCCESS, "EXIT": State.FAILED}
_FORGOTTEN = "is not found"


class LSF(Scheduler):
    """LSF; memory in the site's unit, which ``UNGLOW_LSF_UNIT`` tells (KB, MB or GB; MB)."""

    name = "lsf"
    queue_command = "bjobs"
    cancel_command = "bkill"

    def submission(self, job: JobRequest) -> list[str]:
        """See `Scheduler`."""
        memory = math.ceil(job.kib / _KIB[os.environ.get("UNGLOW_LSF_UNIT", "MB")])
        resources = f"span[hosts=1] rusage[mem={memory}]"
        return [
            *("bsub", "-rn", "-J", job.name, "-n", str(job.threads), "-W", str(job.minutes)),
            *("-M", str(memory), "-R", resources, "-o", f"{job.logs}/{job.name}.%J.log"),
            job.script,
        ]

    def job_id(self, text: str) -> str:
        """Return the number in ``Job <123> is submitted to queue <normal>.``."""
        found = re.search(r"Job <(\d+)>", text)
        return found[1] if found else ""

    def state(self, job: str) -> State:
        """See `Scheduler`."""
        try:
            state = _listed(job)
        except NoAnswerError:
            state = None
        if state is not None:
            return _ENDED.get(state, State.RUNNING)
        status, text = run("bhist", "-l", "-n", "0", job)
        if status or not re.search(r"Done successfully|Exited", text):
            return State.RUNNING
        return State.SUCCESS if "Done successfully" in text else State.FAILED

    def queued(self, jobs: Sequence[str]) -> list[str]:
        """See `Scheduler`."""
        states = {job: _listed(job) for job in jobs}
        return [job for job, state in states.items() if state is not None and state not in _ENDED]


def _listed(job: str) -> str | None:
    """Return the state of a job, one word in capitals; None if it is no longer listed."""
    status, text = run("bjobs", "-noheader", "-o", "stat", job)
    if _FORGOTTEN in text or (status == 0 and not text.strip()):
        return None
    if status:
        raise NoAnswerError(text)
    return text.split()[0]
