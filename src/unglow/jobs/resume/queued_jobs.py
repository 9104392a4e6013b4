"""Cancelling what a killed run has left in the queue of a scheduler, and waiting until it is gone.

Of Slurm, Snakemake gives all jobs of a run one name and writes it into its log. Of the others the
profile `cluster-generic` notes each job that it submits.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from unglow.core.errors import InputError
from unglow.core.files import open_text, read_file
from unglow.jobs.schedulers.choice import SCHEDULERS, SUBMITTED, NoAnswerError, Slurm, run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_LOGS = Path(".snakemake/log")
_RUN_ID = "SLURM run ID: "
PATIENCE_S = 300.0
"""How long a scheduler may take to cancel jobs, s."""
_LOOK_S = 1.0


def run_ids(directory: Path) -> list[str]:
    """Return the names that Slurm knows the jobs of the caller's runs in a directory by."""
    names: dict[str, None] = {}
    for log in sorted((directory / _LOGS).glob("*.snakemake.log")):
        if log.lstat().st_uid != os.geteuid():  # whoever wrote it could name any job
            continue
        with open_text(log, errors="replace") as lines:
            for line in lines:
                if line.startswith(_RUN_ID):
                    names[line.removeprefix(_RUN_ID).strip()] = None
    return list(names)


def list_submitted(directory: Path) -> dict[str, list[str]]:
    """Return the ids of the jobs that were submitted from a directory, by scheduler.

    Raises `InputError` if the list is somebody else's, or names a scheduler that is not known.
    """
    path = directory / SUBMITTED
    try:
        lines = read_file(path).decode("utf-8").splitlines()
    except FileNotFoundError:
        return {}
    if path.lstat().st_uid != os.geteuid():
        raise InputError(
            f"{path} belongs to another user, so no job is cancelled because it is named there: "
            "see that its jobs are gone, and delete the file."
        )
    jobs: dict[str, list[str]] = {}
    for line in lines:
        scheduler, job, _, submitted_from = (line.split("\t") + [""] * 4)[:4]
        if not job or Path(submitted_from).resolve() != directory.resolve():
            continue
        if scheduler not in SCHEDULERS:
            raise InputError(
                f"{SUBMITTED} names the scheduler {scheduler!r}, which is not one of "
                f"{', '.join(SCHEDULERS)}: cancel its jobs by hand and delete the file."
            )
        jobs.setdefault(scheduler, []).append(job)
    return jobs


def cancel_all(directory: Path, say: Callable[[str], None], *, local: bool = False) -> None:
    """Cancel every job that was submitted from a working directory, and wait until none is left.

    Even if the last run was ``local``, earlier ones may have used Slurm: it is asked if it is here.
    Raises `InputError` if a scheduler does not answer, or does not let go of a job.
    """
    names, jobs = run_ids(directory), list_submitted(directory)
    if names and not (local and shutil.which(Slurm.queue_command) is None):
        jobs.setdefault(Slurm.name, [])
    left = _queued(jobs, names)
    for scheduler, ids in left.items():
        say(f"cancelling {scheduler} jobs of the killed run: {', '.join(ids)}")
        run(SCHEDULERS[scheduler].cancel_command, *ids)
    end = time.monotonic() + PATIENCE_S
    while left := _queued(left, names):
        if time.monotonic() > end:
            job = next(iter(left.values()))[0]
            raise InputError(
                f"job {job} was cancelled but is still there after {PATIENCE_S:.0f} s: see to it, "
                "then try again."
            )
        time.sleep(_LOOK_S)
    (directory / SUBMITTED).unlink(missing_ok=True)


def _queued(jobs: Mapping[str, Sequence[str]], names: Sequence[str]) -> dict[str, list[str]]:
    """Return which of some jobs are queued, by scheduler; of Slurm also those of some names."""
    queued = {}
    for name, ids in jobs.items():
        scheduler = SCHEDULERS[name]()
        command = scheduler.queue_command
        if shutil.which(command) is None:
            raise InputError(
                f"jobs of the killed run were submitted to a queue, and its command {command} is "
                "not here: run `unglow resume` on a machine that has it."
            )
        try:
            if isinstance(scheduler, Slurm):
                queued[name] = scheduler.queued(ids, names)
            else:
                queued[name] = scheduler.queued(ids)
        except NoAnswerError as error:
            raise InputError(
                f"{command} does not say whether jobs of the killed run are left "
                f"({' '.join(str(error).split())[:200]}): try again when it answers, or, if you "
                f"know that they are gone, delete {SUBMITTED} first."
            ) from error
    return {name: ids for name, ids in queued.items() if ids}
