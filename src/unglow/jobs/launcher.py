"""The Snakemake that starts jobs: as `unglow run` starts it, and what its jobs know of it.

Run as a program, it is Snakemake without the line about the profile that it always names. It also
ends at once, where Python would first take apart all that Snakemake has imported.

Nobody waits for a job whose Snakemake was killed, so its watchdog ends it within a second. Jobs
inherit an environment variable that names the process: Snakemake sets it when it reads the
workflow, and so does the Snakemake that a cluster starts inside a job. With Slurm there are two,
one inside the other; the memory and time that they take count against what the job has asked for.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from unglow.core.process import boot_id, is_running, read_start_ticks

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TextIO


VARIABLE = "UNGLOW_LAUNCHER"
_MAIN, _IN_JOB = "main", "in-job"
# How long Slurm may take to end the other Snakemake, s.
_PATIENCE_S = 10
_START, _END = "Using workflow specific profile ", "for setting default command line arguments."


def announce(*, in_job: bool) -> None:
    """Record, for the jobs to come, that this process starts them.

    It may be part of a job of another Snakemake itself, on a cluster: ``in_job``.
    """
    own = os.getpid()
    words = (own, read_start_ticks(own), boot_id(), _IN_JOB if in_job else _MAIN)
    os.environ[VARIABLE] = " ".join(map(str, words))


@dataclass(frozen=True, slots=True)
class ParentProcess:
    """Who started a job.

    Attributes
    ----------
    parent
        Parent of the process that asked first: the shell that Snakemake runs scripts in.
    pid, started
        The Snakemake process, as in `core.process.Process`; None if it cannot be seen from here.
    in_job
        Whether it is itself part of a job on a cluster.
    """

    parent: int
    pid: int | None = None
    started: int | None = None
    in_job: bool = False

    @classmethod
    def find(cls) -> Self:
        """Return who started this process."""
        parent = os.getppid()
        try:
            pid, started, boot, role = os.environ.get(VARIABLE, "").split(" ")
            number, ticks = int(pid), int(started)
        except ValueError:
            return cls(parent)
        # In a container with processes of its own, or on another machine, it cannot be seen.
        if boot != boot_id() or not is_running(number, ticks):
            return cls(parent)
        return cls(parent, number, ticks, role == _IN_JOB)

    def is_gone(self) -> bool:
        """Whether Snakemake, or the shell between it and this process, is there no more."""
        if os.getppid() != self.parent:
            return True
        return self.pid is not None and not is_running(self.pid, self.started)

    def end_in_job(self) -> None:
        """End the Snakemake inside a cluster job, which would remove outputs of a failed job.

        They are no longer its outputs to remove: a later attempt has started. Does nothing to a
        Snakemake that a user has started.
        """
        if self.pid is None or not self.in_job or self.is_gone():
            return
        import shutil  # hardly ever needed
        import subprocess  # so is this

        job = os.environ.get("SLURM_JOB_ID")
        if job is not None and shutil.which("scancel"):
            # the step in which this runs has another Snakemake around it, in the batch script
            words = ["scancel", "--full", "--signal=KILL", job]
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                subprocess.run(words, timeout=_PATIENCE_S, check=False)  # noqa: S603 (own job)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


# Snakemake that has read this workflow, MB: what it holds alone, and its share of what it maps.
_SNAKEMAKE_MB = 145
STARTING_MIN = 1
"""Time that starting takes before the job's own begins, minutes: busy disks are slow."""
LAUNCHER_MB = "UNGLOW_LAUNCHER_MB"
"""Variable that says to a job how much of its declared memory is not its own, MB."""
SMALL_PX = 100_000_000
"""All jobs of a pair of at most this many px (per image) are one job of a scheduler."""


def launcher_mb(executor: str | None, environment: Mapping[str, str]) -> int:
    """Return the memory of what starts a job on a node, MB.

    ``executor`` is the name of the plugin that submits; None on the node, where only the
    environment says so.
    """
    twice = executor == "slurm" if executor is not None else "SLURM_STEP_ID" in environment
    return _SNAKEMAKE_MB * (2 if twice else 1)


class ProfileLineFilter:
    """A stream without this line; everything else reaches it unchanged.

    Snakemake prints it before it loads any logger plugin.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._drops_newline = False

    def write(self, text: str) -> int:
        """Write a text, unless it is that line or its end."""
        if self._drops_newline and text == "\n":
            self._drops_newline = False
            return len(text)
        if text.startswith(_START) and text.endswith(_END):
            self._drops_newline = True
            return len(text)
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


if __name__ == "__main__":
    from unglow.jobs.watchdog import leave  # first: the end that it registers is then the last

    from snakemake.cli import main  # isort: skip

    if "--verbose" not in sys.argv:
        sys.stderr = ProfileLineFilter(sys.stderr)
    sys.argv[0] = "snakemake"  # the name in its usage
    try:
        main()
    except SystemExit as end:
        if not isinstance(end.code, int):
            raise
        leave(end.code)
