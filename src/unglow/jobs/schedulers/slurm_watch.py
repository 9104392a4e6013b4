"""What the executor of Slurm does not do: bear a controller that is away, and give up lost jobs."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from unglow.jobs.schedulers.scheduler import NoAnswerError
from unglow.jobs.schedulers.slurm import QueuedJob, accounted, has_ended, queue

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

LOOK_S = 15.0
"""Slurm is asked how jobs are at least so often, s: of all of them together."""
ABSENCE_S = 900.0
"""A Slurm that does not answer is waited for so long before a job is submitted, s."""
UNKNOWN = "UNKNOWN"
"""State of a job that nobody knows any more."""
# How long a command of Slurm may take while Snakemake waits for it, and between two of them, s.
_PATIENCE_S, _ASK_S = 10.0, 5.0
# States that the executor takes for passing, and a job does not come back from.
_FOR_GOOD = ("PREEMPTED", "REVOKED")
_LONGER = (
    "It asks for more time than the partition or account allows: let it ask for less "
    "(timeout_per_job), or choose another partition (--default-resources slurm_partition=NAME)"
)
_LESS = "It asks for more memory than the account allows: set memory_per_job to less"
# Reasons for which a job waits until somebody changes something (squeue(1), job reason codes).
_REMEDIES = {
    "PartitionTimeLimit": _LONGER,
    "AssocMaxWallDurationPerJobLimit": _LONGER,
    "QOSMaxWallDurationPerJobLimit": _LONGER,
    "AssocMaxMemPerJob": _LESS,
    "QOSMaxMemoryPerJob": _LESS,
    "BadConstraints": "No node has what it asks for: see slurm_extra and memory_per_job",
    "PartitionNodeLimit": "No node of the partition has what it asks for: choose another partition",
    "InvalidAccount": "Name another account (--default-resources slurm_account=NAME)",
    "InvalidQOS": "Name another quality of service (--default-resources slurm_extra=...)",
}


@dataclass
class SlurmWatch:
    """Looks after jobs of Slurm that its executor waits for."""

    _asking: threading.Lock = field(default_factory=threading.Lock)
    _answered: float = -math.inf
    _seen: set[str] = field(default_factory=set)
    _ended_before: dict[str, str] = field(default_factory=dict)
    _warned: set[str] = field(default_factory=set)

    def look(self, job_ids: Sequence[str]) -> tuple[dict[str, str], list[str]]:
        """Return the jobs that are waited for in vain.

        These are states of those that have `ended`, once two looks in a row have said so, and
        warnings about those that are `hopeless`, each of them once.
        """
        listed = _queue() if job_ids else None
        if listed is None:
            return {}, []
        self._answered = time.monotonic()
        states = ended(job_ids, listed, self._seen)
        self._seen.update(listed)
        certain = {job: s for job, s in states.items() if self._ended_before.get(job) == s}
        self._ended_before = states
        warnings = set(hopeless(job_ids, listed).values()) - self._warned
        self._warned |= warnings
        return certain, sorted(warnings)

    def wait_until_slurm_answers(self, *, patience_s: float = ABSENCE_S) -> Iterator[str]:
        """Wait for a controller that is away before a job is submitted, which would fail.

        Yields a message when the waiting begins, and one when it has ended.
        """
        with self._asking:  # jobs are submitted by several threads
            begun = time.monotonic()
            if begun < self._answered + LOOK_S:
                return
            if _queue() is not None:
                self._answered = begun
                return
            yield f"Slurm does not answer: waiting up to {patience_s / 60:.0f} min to submit jobs."
            while time.monotonic() < begun + patience_s:
                time.sleep(min(_ASK_S, patience_s))
                if _queue() is not None:
                    self._answered = time.monotonic()
                    yield f"Slurm answers again, after {self._answered - begun:.0f} s."
                    return


def ended(
    job_ids: Sequence[str], listed: Mapping[str, QueuedJob], seen: Container[str]
) -> dict[str, str]:
    """Return states of Slurm jobs that have ended though its executor goes on waiting for them.

    The executor takes it that a preempted job is queued again, and it waits for ever for a job that
    is no longer listed: ended while nobody answered, or lost by a controller that was restarted.
    A job that nobody knows is `UNKNOWN` if it was ``seen`` in the queue before: others may be in
    the queue of another cluster.
    """
    numbers = [job_id for job_id in job_ids if job_id.isdigit()]
    states = {job_id: listed[job_id].state for job_id in numbers if job_id in listed}
    states = {job_id: state for job_id, state in states.items() if state in _FOR_GOOD}
    unlisted = [job_id for job_id in numbers if job_id not in listed]
    accounts = accounted(unlisted, _PATIENCE_S) if unlisted else {}
    for job_id in unlisted:
        state = accounts.get(job_id, UNKNOWN)
        if has_ended(state):
            states[job_id] = state
        elif job_id in seen:
            states[job_id] = UNKNOWN
    return states


def hopeless(job_ids: Sequence[str], listed: Mapping[str, QueuedJob]) -> dict[str, str]:
    """Return why jobs wait that will not start before somebody changes something, in sentences."""
    waiting = {job_id: listed[job_id] for job_id in job_ids if job_id in listed}
    return {
        job_id: f"Job {job_id} will not start: Slurm says {job.reason}. {_REMEDIES[job.reason]}."
        for job_id, job in waiting.items()
        if job.state == "PENDING" and job.reason in _REMEDIES
    }


def _queue() -> dict[str, QueuedJob] | None:
    """Return the queue; None if Slurm does not answer."""
    try:
        return queue(_PATIENCE_S)
    except NoAnswerError:
        return None
