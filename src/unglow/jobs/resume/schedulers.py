"""Cancelling what a killed run has left in the queues of a scheduler, and waiting until it is gone.

Of Slurm, Snakemake names all jobs of a run alike and writes that name into its log. Of the others
the profile `cluster-generic` notes each job that it submits.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from unglow.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

SUBMITTED = Path(".snakemake/unglow/submitted.tsv")
"""One line for each job: scheduler, job id, name, working directory."""
_LOGS = Path(".snakemake/log")
_RUN_ID = "SLURM run ID: "
_ANSWER_S = 60.0
PATIENCE_S = 300.0
"""How long a scheduler may take to cancel jobs, s."""
_LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class Scheduler:
    """How a scheduler is asked.

    Attributes
    ----------
    cancel, ask
        Commands that a job id is added to.
    unknown
        Words in the answer, if there is a fault, that tell of a job that it does not know any more.
    over
        Words in the answer that tell of a job that has ended.
    """

    cancel: tuple[str, ...]
    ask: tuple[str, ...]
    unknown: tuple[str, ...]
    over: tuple[str, ...] = ()


SCHEDULERS = {
    "slurm": Scheduler(("scancel",), ("squeue", "-h", "-o", "%T", "-j"), ("Invalid job id",)),
    "sge": Scheduler(("qdel",), ("qstat", "-j"), ("do not exist",)),
    "pbs": Scheduler(
        ("qdel",),
        ("qstat", "-f"),
        ("Unknown Job", "has finished"),
        ("job_state = F", "job_state = C"),
    ),
    "lsf": Scheduler(
        ("bkill",), ("bjobs", "-noheader", "-o", "stat"), ("is not found",), ("DONE", "EXIT")
    ),
}


def run_ids(directory: Path) -> list[str]:
    """Return the names that Slurm knows the jobs of the caller's runs in a directory by."""
    found: dict[str, None] = {}
    for log in sorted((directory / _LOGS).glob("*.snakemake.log")):
        if log.lstat().st_uid != os.geteuid():  # whoever wrote it could name any job
            continue
        with log.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith(_RUN_ID):
                    found[line.removeprefix(_RUN_ID).strip()] = None
    return list(found)


def submitted(directory: Path) -> list[tuple[str, str]]:
    """Return scheduler and job id of what was submitted from a directory by other means.

    Raises
    ------
    InputError
        The list is somebody else's, or a line is of a scheduler that is not known.
    """
    path = directory / SUBMITTED
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    if path.lstat().st_uid != os.geteuid():
        raise InputError(
            f"{path} belongs to another user, so no job is cancelled because it is named there: "
            "see that its jobs are gone, and delete the file."
        )
    jobs = []
    for line in lines:
        scheduler, job, _, place = (line.split("\t") + [""] * 4)[:4]
        if not job or Path(place).resolve() != directory.resolve():
            continue
        if scheduler not in SCHEDULERS:
            raise InputError(
                f"{SUBMITTED} names the scheduler {scheduler!r}, which is not one of "
                f"{', '.join(SCHEDULERS)}: cancel its jobs by hand and delete the file."
            )
        jobs.append((scheduler, job))
    return jobs


def cancel_all(directory: Path, say: Callable[[str], None], *, local: bool = False) -> None:
    """Cancel every job that was submitted from a directory, and wait until none is left.

    Parameters
    ----------
    directory
        Working directory of the runs.
    say
        Told what is done.
    local
        Whether the last run used no queue; earlier ones may have, and are asked for where there is
        a Slurm.

    Raises
    ------
    InputError
        A scheduler does not answer, or does not let go of a job.
    """
    names = run_ids(directory)
    if names and not (local and shutil.which("squeue") is None):
        _cancel_slurm(names, say)
    jobs = [(scheduler, job) for scheduler, job in submitted(directory) if _queued(scheduler, job)]
    for scheduler, job in jobs:
        say(f"cancelling job {job} ({scheduler})")
        _call((*SCHEDULERS[scheduler].cancel, job))
    _wait(lambda: [job for scheduler, job in jobs if _queued(scheduler, job)])
    (directory / SUBMITTED).unlink(missing_ok=True)


def _cancel_slurm(names: Sequence[str], say: Callable[[str], None]) -> None:
    def left() -> list[str]:
        status, text = _call(("squeue", "-h", "-o", "%i", "--name", ",".join(names)))
        if status != 0:
            raise InputError(
                f"Slurm does not tell whether jobs of the killed run are left ({text.strip()}); "
                "try again when it answers."
            )
        return text.split()

    jobs = left()
    if jobs:
        say(f"cancelling {len(jobs)} Slurm jobs of the killed run: {', '.join(jobs)}")
        _call(("scancel", *jobs))
        _wait(left)


def _queued(scheduler: str, job: str) -> bool:
    """Whether a scheduler still has a job: waiting, running, or being ended.

    Raises
    ------
    InputError
        It does not say.
    """
    asked = SCHEDULERS[scheduler]
    status, text = _call((*asked.ask, job))
    if status == 0:
        return bool(text.strip()) and not any(word in text for word in asked.over)
    if any(word in text for word in asked.unknown):
        return False
    raise InputError(
        f"{asked.ask[0]} does not tell whether job {job} of the killed run is left "
        f"({' '.join(text.split())[:200]}): try again when it answers, or, if you know that the "
        f"job is gone, delete {SUBMITTED} first."
    )


def _wait(left: Callable[[], Iterable[str]]) -> None:
    end = time.monotonic() + PATIENCE_S
    while jobs := list(left()):
        if time.monotonic() > end:
            raise InputError(
                f"job {jobs[0]} was cancelled but is still there after {PATIENCE_S:.0f} s: see to "
                "it, then try again."
            )
        time.sleep(_LOOK_S)


def _call(words: Sequence[str]) -> tuple[int, str]:
    """Return exit status and output of a scheduler's command."""
    if shutil.which(words[0]) is None:
        raise InputError(
            f"jobs of the killed run were submitted to a queue, and its command {words[0]} is not "
            "here: run `unglow resume` on a machine that has it."
        )
    try:
        done = subprocess.run(  # noqa: S603 (a scheduler's own command)
            list(words), capture_output=True, text=True, timeout=_ANSWER_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise InputError(
            f"{words[0]} has not answered for {_ANSWER_S:.0f} s; try again later."
        ) from error
    return done.returncode, done.stdout + done.stderr if done.returncode else done.stdout
