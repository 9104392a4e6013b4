"""What the client of each scheduler does: submit a job, tell its state, cancel it.

The commands of the profile `cluster-generic` start Python anew for each job and each question, so
the clients import little, and of Python's own library alone.
"""

from __future__ import annotations

import math
import subprocess
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

PATIENCE_S = 60.0
"""How long a scheduler's command may take, s; Snakemake asks again."""


class State(StrEnum):
    """How a job is, in the words that Snakemake expects."""

    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"


class NoAnswerError(Exception):
    """A scheduler does not say which jobs it has; the message is its complaint."""


def run(*words: str, patience_s: float = PATIENCE_S) -> tuple[int, str]:
    """Return exit status and output of a command; -1 and what is wrong if there is no answer.

    The complaints of a command that fails are part of its output.
    """
    try:
        done = subprocess.run(  # noqa: S603 (a scheduler's own command)
            words, capture_output=True, text=True, timeout=patience_s, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return -1, str(error)
    return done.returncode, done.stdout + (done.stderr if done.returncode else "")


class JobRequest(NamedTuple):
    """What a job asks for: cores on one machine, memory of all its processes, and time.

    Its name tells rule and pair (``unglow-align-Rock7-DAPI``), ``logs`` is the absolute directory
    for its output.
    """

    name: str
    threads: int
    mem_mb: float
    minutes: int
    script: str
    logs: str

    @property
    def kib(self) -> int:
        """Memory in units of 1024 bytes, which all schedulers count alike, rounded up."""
        return math.ceil(self.mem_mb * 1e6 / 1024)

    @property
    def clock(self) -> str:
        """Time as hours:minutes:seconds."""
        return f"{self.minutes // 60}:{self.minutes % 60:02d}:00"


class Scheduler:
    """What the client of a scheduler offers.

    ``name`` is its name in ``submitted.tsv``; the commands tell which jobs are queued, and cancel
    the jobs whose ids follow.
    """

    name = ""
    queue_command = ""
    cancel_command = ""

    def submission(self, job: JobRequest) -> list[str]:
        """Return the command that submits a job; it prints the job's id."""
        raise NotImplementedError

    def job_id(self, text: str) -> str:
        """Return the id from what that command prints."""
        return text.strip().splitlines()[-1].strip()

    def state(self, job: str) -> State:
        """Return how a job is; running, too, if nobody answers."""
        raise NotImplementedError

    def queued(self, jobs: Sequence[str]) -> list[str]:
        """Return those of the jobs that wait, run, or are being ended; raises `NoAnswerError`."""
        raise NotImplementedError
