"""What a batch system adds to a job: memory and time of its launcher, and what it says of its end.

On a node the job is started by Snakemake itself, once more (with Slurm twice, one inside the
other), and what these take counts against the memory and the time that were asked for.
"""

from __future__ import annotations

import math
import re
import shutil
import subprocess
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

# Snakemake that has read this workflow, MB: what it holds alone, and its share of what it maps.
_SNAKEMAKE_MB = 145
STARTING_MIN = 1
"""Time that starting takes before the job's own begins, minutes: busy disks are slow."""
LOOK_S = 15.0
"""A batch system is asked how jobs are at least so often, s: of all of them together."""
ABSENCE_S = 900.0
"""A batch system that does not answer is waited for so long before a job is handed over, s."""
VARIABLE = "UNGLOW_LAUNCHER_MB"
"""Variable that tells a job how much of its declared memory is not its own, MB."""
SMALL_PX = 100_000_000
"""All jobs of a pair of at most so many px (per image) are one job of a batch system."""
OOM_KILLED, TIMEOUT, LOST, KILLED = "oom_killed", "timeout", "node_lost", "killed"

# States of Slurm that a job ends with, but for those that it can tell itself.
_STATES = {
    "OUT_OF_MEMORY": OOM_KILLED,
    "TIMEOUT": TIMEOUT,
    "DEADLINE": TIMEOUT,
    "NODE_FAIL": LOST,
    "BOOT_FAIL": LOST,
    "PREEMPTED": KILLED,
    "CANCELLED": KILLED,
}
# States that a job does not come back from, and those that one that is not listed cannot have.
_FOR_GOOD = ("PREEMPTED", "REVOKED")
_OPEN = ("PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "RESIZING")
_UNKNOWN = "UNKNOWN"
_LONGER = (
    "It asks for more time than the partition or account allows: let it ask for less "
    "(timeout_per_job), or choose another partition (--default-resources slurm_partition=NAME)"
)
_LESS = "It asks for more memory than the account allows: set memory_per_job to less"
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
# What Slurm writes into the log of a job that is not to go on.
_WORDS = (
    (re.compile(r"oom[-_ ]kill|Out Of Memory", re.IGNORECASE), OOM_KILLED),
    (re.compile(r"DUE TO TIME LIMIT"), TIMEOUT),
    (re.compile(r"DUE TO NODE FAILURE"), LOST),
    (re.compile(r"DUE TO PREEMPTION|CANCELLED AT"), KILLED),
)
_SENTENCES = {
    OOM_KILLED: "It was killed on its node because it took more memory than it had asked for",
    TIMEOUT: "It was ended by the batch system because its time was over",
    LOST: "Its node does not answer any more",
    KILLED: "It was cancelled or preempted by the batch system",
}
_PATIENCE_S, _ASK_S = 10.0, 5.0


def launcher_mb(executor: str | None, environment: Mapping[str, str]) -> int:
    """Return the memory of what starts a job on a node, MB.

    Parameters
    ----------
    executor
        Name of the executor plugin that submits; None on the node, where only the environment
        tells.
    environment
        Of this process.
    """
    twice = executor == "slurm" if executor is not None else "SLURM_STEP_ID" in environment
    return _SNAKEMAKE_MB * (2 if twice else 1)


def fate(job_id: str | None, log: str) -> str | None:
    """Return how a job of the batch system ended, as an outcome; None if that cannot be known.

    Parameters
    ----------
    job_id
        As the batch system calls it.
    log
        The end of what it wrote itself about the job.
    """
    if job_id is not None and job_id.isdigit():
        state = slurm_state(job_id)
        if state in _STATES:
            return _STATES[state]
    return next((word for pattern, word in _WORDS if pattern.search(log)), None)


def slurm_state(job_id: str) -> str | None:
    """Return the state of a Slurm job, one word in capitals; None where there is no Slurm."""
    listed = queue() or {}
    if job_id in listed:
        return listed[job_id][0]
    return _accounted([job_id]).get(job_id)


@dataclass
class Watch:
    """Looks after jobs of Slurm that its executor waits for."""

    _asking: threading.Lock = field(default_factory=threading.Lock)
    _answered: float = -math.inf
    _seen: set[str] = field(default_factory=set)
    _before: dict[str, str] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)

    def look(self, job_ids: Sequence[str]) -> tuple[dict[str, str], list[str]]:
        """Return the jobs that are waited for in vain.

        Returns
        -------
        States of those that have `ended`, once two looks in a row have said so, and what is to be
        told of those that are `hopeless`, once.
        """
        listed = queue() if job_ids else None
        if listed is None:
            return {}, []
        self._answered = time.monotonic()
        found = ended(job_ids, listed, self._seen)
        self._seen.update(listed)
        sure = {job: state for job, state in found.items() if self._before.get(job) == state}
        self._before = found
        news = set(hopeless(job_ids, listed).values()) - self._told
        self._told |= news
        return sure, sorted(news)

    def wait_until_slurm_answers(self, *, patience_s: float = ABSENCE_S) -> Iterator[str]:
        """Wait for a controller that is away before a job is handed over, which would fail.

        Yields
        ------
        What is to be told: one sentence when the waiting begins, one when it has ended.
        """
        with self._asking:  # jobs are handed over by several threads
            begun = time.monotonic()
            if begun < self._answered + LOOK_S:
                return
            if queue() is not None:
                self._answered = begun
                return
            yield f"Slurm does not answer: waiting up to {patience_s / 60:.0f} min to submit jobs."
            while time.monotonic() < begun + patience_s:
                time.sleep(min(_ASK_S, patience_s))
                if queue() is not None:
                    self._answered = time.monotonic()
                    yield f"Slurm answers again, after {self._answered - begun:.0f} s."
                    return


def queue() -> dict[str, tuple[str, str]] | None:
    """Return state, and why it waits, of each job of this user; None if Slurm does not answer."""
    # of all jobs, for a question about a single one that is not listed fails
    words = ("--noheader", "--states=all", "--me", "--format=%i|%T|%r")
    answer = _answer(("squeue", *words))
    if answer is None:
        return None
    rows = [row.strip().split("|") for row in answer.splitlines()]
    return {row[0]: (row[1], row[2]) for row in rows if len(row) == 3}


def ended(
    job_ids: Sequence[str], listed: Mapping[str, tuple[str, str]], seen: Container[str]
) -> dict[str, str]:
    """Return states of Slurm jobs that have ended though its executor goes on waiting for them.

    The executor takes it that a preempted job is queued again, and it waits for ever for a job that
    is no longer listed: ended while nobody answered, or lost by a controller that was restarted.

    Parameters
    ----------
    job_ids
        Jobs that are waited for.
    listed
        The `queue`.
    seen
        Jobs that have been in it before: others may be in the queue of another cluster.

    Returns
    -------
    States by job, ``UNKNOWN`` for one that nobody knows any more.
    """
    asked = [job_id for job_id in job_ids if job_id.isdigit()]
    states = {job_id: listed[job_id][0] for job_id in asked if job_id in listed}
    found = {job_id: state for job_id, state in states.items() if state in _FOR_GOOD}
    gone = [job_id for job_id in asked if job_id not in states]
    if gone:
        told = _accounted(gone)
        for job_id in gone:
            state = told.get(job_id, _UNKNOWN)
            if state not in (_UNKNOWN, *_OPEN):
                found[job_id] = state
            elif job_id in seen:
                found[job_id] = _UNKNOWN
    return found


def hopeless(job_ids: Sequence[str], listed: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Return why jobs wait that will not start before somebody changes something, in sentences."""
    waiting = {job_id: listed[job_id] for job_id in job_ids if job_id in listed}
    return {
        job_id: f"Job {job_id} will not start: Slurm says {reason}. {_REMEDIES[reason]}."
        for job_id, (state, reason) in waiting.items()
        if state == "PENDING" and reason in _REMEDIES
    }


def sentence(outcome: str, job_id: str | None) -> str:
    """Say in words how the batch system ended a job."""
    job = "" if job_id is None else f" (job {job_id} of the batch system)"
    return f"{_SENTENCES.get(outcome, _SENTENCES[KILLED])}{job}."


def _accounted(job_ids: Sequence[str]) -> dict[str, str]:
    """Return states by job from Slurm's accounts, one word each; of those that they know."""
    words = ("--noheader", "--parsable2", "--format=JobIDRaw,State", f"--jobs={','.join(job_ids)}")
    rows = (row.partition("|") for row in (_answer(("sacct", "-X", *words)) or "").splitlines())
    return {job_id: state.split()[0] for job_id, _, state in rows if state.strip()}


def _answer(question: Sequence[str]) -> str | None:
    """Return an answer; None if there is nobody to ask, or no answer in time."""
    if shutil.which(question[0]) is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603 (words of our own, and the number of a job)
            question, capture_output=True, text=True, timeout=_PATIENCE_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout
