"""`unglow resume`: continue after anything was killed, once nothing of the run can still write.

Only a record that nobody but the caller can have written is executed, and only for the directory
that was named. No process is ended.
"""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import shutil
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from unglow.core.errors import InputError
from unglow.core.files import open_text, read_file, resolve_links
from unglow.core.process import host, working_in
from unglow.core.workflow_files import OWN, snakefile
from unglow.jobs import schedulers
from unglow.jobs.run_records import (
    Trace,
    find_directory,
    find_start_directory,
    last_run,
    open_attempts,
    same_place,
)
from unglow.jobs.schedulers import SCHEDULERS, SUBMITTED
from unglow.jobs.snakemake_command import (
    RUN,
    add_options,
    refuse_what_snakemake_stumbles_over,
    split_command,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    import psutil

PATIENCE_S, QUEUE_PATIENCE_S = 15.0, 300.0
"""How long jobs may take to end by themselves, and a scheduler to cancel jobs, s."""
_LOOK_S, _QUEUE_LOOK_S = 0.1, 1.0
_RERUN = "--rerun-incomplete"
# Where Snakemake looks unless a Snakefile is named.
_SNAKEFILES = ("Snakefile", "snakefile", "workflow/Snakefile", "workflow/snakefile")
_SLURM_RUN = "SLURM run ID: "


def resume(
    named: Path,
    results: Path,
    more: Sequence[str],
    lost: Collection[str],
    say: Callable[[str], None],
) -> NoReturn:
    """Make sure that nothing writes, unlock, and become the Snakemake of the last run.

    Its command is given again with ``more`` words. Raises `InputError` if there was no run, if it
    was not in the ``named`` directory or not the caller's, or if something still runs.
    """
    run = last_run(results)
    if run is None:
        raise InputError(f"{results} has no record of a run: start one with `unglow run`.")
    directory, words = check(run, named, results), extend_command(run, more)
    start = find_start_directory(run)
    refuse_what_snakemake_stumbles_over()
    say(f"cd {shlex.quote(str(start))} && {shlex.join(words)}")
    hold_lock(directory)
    for lock in make_sure(run, directory, results, lost, say):  # locks that have come since stay
        lock.unlink(missing_ok=True)
    os.chdir(start)
    sys.stdout.flush()
    # -P: what happens to lie in the directory is no library
    os.execv(sys.executable, [sys.executable, "-Pm", *words])  # noqa: S606 (no shell is wanted)


def make_sure(
    run: Trace, directory: Path, results: Path, lost: Collection[str], say: Callable[[str], None]
) -> list[Path]:
    """See that nothing of a run, or of those before it, starts jobs any more; return its old locks.

    Its jobs end by themselves when their Snakemake has gone, and one that leaves a queue later ends
    before it touches results. Of ``lost`` machines the user says that they are gone; ``say`` is
    called with what is done. Raises `InputError` if something still runs, or may still run.
    """
    stale = sorted((directory / ".snakemake" / "locks").glob("*.lock"))
    refuse_if_running(run, directory)
    cancel_queued(directory, say, local=run.fields.get("executor") == "local")
    wait_for_jobs(directory, open_attempts(results))
    refuse_if_elsewhere([run], lost)
    return stale


def refuse_if_at_work(results: Path, lost: Collection[str]) -> None:
    """See that nothing works on a results directory, as `make_sure`, but end nothing."""
    run, attempts = last_run(results), open_attempts(results)
    if run is not None:
        refuse_if_running(run, resolve_links(Path(str(run.fields.get("directory")))))
    for process in (process for trace in attempts for process in trace.processes):
        if process.lives():
            raise InputError(
                f"a job (process {process.pid}) is at work in {results}; wait for it first."
            )
    refuse_if_elsewhere([*([] if run is None else [run]), *attempts], lost)


# Whose word is taken, and for which directory


def check(run: Trace, named: Path, results: Path) -> Path:
    """Return the working directory of the last run that some results name.

    Raises `InputError` if others can have written its record, or if it is about another directory
    than the one that the user ``named``, of the run or of its results.
    """
    if not run.own:
        raise InputError(
            f"{run.path}, the record of the last run, is not yours or may be written by others, so "
            "nothing of it is executed: its owner can resume the run. If you know that nobody "
            f"changed yours, give `chmod go-w {shlex.quote(str(run.path))}` first."
        )
    directory = find_directory(run)
    recorded = directory / str(run.fields.get("results", results.name))
    if not same_place(recorded, results):
        raise InputError(
            f"{named} was copied or moved: its last run worked in {directory} and wrote to "
            f"{recorded}. Start it by hand where it is now, after `snakemake --unlock`; finished "
            "files are kept."
        )
    if not (same_place(named, directory) or same_place(named, results)):
        raise InputError(
            f"the last run that has written to {results} worked in {directory}, not in {named}: "
            f"`unglow resume {shlex.quote(str(directory))}` continues it."
        )
    if not directory.is_dir():
        raise InputError(
            f"the last run worked in {directory}, which is not here: start it again by hand where "
            "its files are now."
        )
    workflow, starts = run.fields.get("workflow"), find_snakefile(run)
    if workflow and starts and not same_place(starts.parent, Path(str(workflow))):
        raise InputError(
            f"the last run was of the workflow in {workflow}, but its command would start "
            f"{starts}: start it again by hand with the workflow that you mean."
        )
    return resolve_links(directory)


def extend_command(run: Trace, more: Sequence[str] = ()) -> list[str]:
    """Return the command of a run with more words; raises `InputError` without a command."""
    program, options = split_command(run.command)
    if not program or not (options or tuple(program) == RUN):
        raise InputError(
            "the last run was not started by the snakemake command, so it is not known how to go "
            "on: start it again the way it was."
        )
    # options that take several values must not swallow what follows
    more = [*([] if _RERUN in options else [_RERUN]), *more]
    return [*(RUN if tuple(program) == RUN else ["snakemake"]), *add_options(options, *more)]


def find_snakefile(run: Trace) -> Path | None:
    """Return the Snakefile that a run's command reads; None if a profile or an address names it."""
    program, options = split_command(run.command)
    if tuple(program) == RUN:
        return snakefile()
    named = None
    for word, value in pairwise([*options, ""]):
        if word in {"-s", "--snakefile"}:
            named = value or named
        elif match := re.match("(?:--snakefile=|-s)(.+)", word):
            named = match[1]
    start = find_start_directory(run)
    if named is None:
        return next((start / name for name in _SNAKEFILES if (start / name).is_file()), None)
    return None if "://" in named else start / named


def hold_lock(directory: Path) -> int:
    """Keep every other `unglow resume` out of a directory; returns the descriptor that does.

    Programs that this process turns into keep it, so it holds until Snakemake ends. Raises
    `InputError` if another one holds it.
    """
    path = directory / OWN / "resume.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise InputError(
            f"another `unglow resume`, or the Snakemake that it has started, is at work in "
            f"{directory}; wait for it, or end it first."
        ) from error
    os.set_inheritable(descriptor, True)  # noqa: FBT003 (its only form)
    return descriptor


# Processes of this machine, and files that those of others write


def refuse_if_running(run: Trace, directory: Path) -> None:
    """Raise `InputError` if a run's Snakemake, or any in its directory, runs on this machine.

    Those inside jobs of a cluster do not count.
    """
    for process in run.processes:
        if process.lives():
            raise InputError(
                f"Snakemake (process {process.pid}) has been running here since {run.since}; "
                f"follow it with `unglow monitor {shlex.quote(str(run.path.parents[2]))}`, or end "
                "it with Ctrl-C first."
            )
    for snakemake in _find_snakemakes(directory, in_jobs=False):
        raise InputError(
            f"Snakemake (process {snakemake.pid}) is at work in {directory}; wait for it or end it."
        )


def _find_snakemakes(directory: Path, *, in_jobs: bool) -> list[psutil.Process]:
    """Return the Snakemakes here that work in a directory: those in cluster jobs, or the others."""
    modes = {("--mode", "remote"), ("--mode", "subprocess")}
    return [
        process
        for process, words in working_in(directory)
        if any(Path(word).name in ("snakemake", "unglow.jobs.launcher") for word in words[:3])
        and in_jobs != modes.isdisjoint(pairwise(words))
    ]


def wait_for_jobs(directory: Path, attempts: Sequence[Trace]) -> None:
    """Wait until no job of a directory is at work on this machine, nor a Snakemake inside one.

    Raises `InputError` for one that is still there after `PATIENCE_S`.
    """
    end = time.monotonic() + PATIENCE_S
    while alive := _find_jobs(directory, attempts):
        if time.monotonic() > end:
            raise InputError(
                f"a job of the killed run (process {alive[0]}) is still at work after "
                f"{PATIENCE_S:.0f} s: wait for it, or end it first."
            )
        time.sleep(_LOOK_S)


def _find_jobs(directory: Path, attempts: Iterable[Trace]) -> list[int]:
    """Return the processes of jobs that are at work on this machine."""
    at_work = [p.pid for trace in attempts for p in trace.processes if p.lives()]
    return at_work or [one.pid for one in _find_snakemakes(directory, in_jobs=True)]


def refuse_if_elsewhere(traces: Iterable[Trace], lost: Collection[str]) -> None:
    """Raise `InputError` if a run or job without an end is on another machine that is not lost."""
    for trace in traces:
        if not trace.ended and trace.host != host() and trace.host not in lost:
            what = "Snakemake" if trace.fields.get("kind") == "run" else "a job"
            raise InputError(
                f"{what} (process {trace.fields.get('pid')}) may still be at work on {trace.host}, "
                f"since {trace.since}: see there, or give `--lost {trace.host}` if that has gone."
            )


# Queues of schedulers


def cancel_queued(directory: Path, say: Callable[[str], None], *, local: bool = False) -> None:
    """Cancel every job that was submitted from a working directory, and wait until none is left.

    Even if the last run was ``local``, earlier ones may have used Slurm: it is asked if it is here.
    Raises `InputError` if a scheduler does not answer, or does not let go of a job.
    """
    names, jobs = find_slurm_runs(directory), read_submitted(directory)
    if names and not (local and shutil.which("squeue") is None):
        jobs.setdefault("slurm", [])
    left = _find_queued(jobs, names)
    for scheduler, ids in left.items():
        say(f"cancelling {scheduler} jobs of the killed run: {', '.join(ids)}")
        schedulers.run(SCHEDULERS[scheduler].cancel_command, *ids)
    end = time.monotonic() + QUEUE_PATIENCE_S
    while left := _find_queued(left, names):
        if time.monotonic() > end:
            job = next(iter(left.values()))[0]
            raise InputError(
                f"job {job} was cancelled but is still there after {QUEUE_PATIENCE_S:.0f} s: see "
                "to it, then try again."
            )
        time.sleep(_QUEUE_LOOK_S)
    (directory / SUBMITTED).unlink(missing_ok=True)


def find_slurm_runs(directory: Path) -> list[str]:
    """Return the names that Slurm knows the jobs of the caller's runs in a directory by.

    Snakemake gives all jobs of a run one name and writes it into its log.
    """
    names = []
    for log in sorted((directory / ".snakemake" / "log").glob("*.snakemake.log")):
        if log.lstat().st_uid == os.geteuid():  # whoever wrote it could name any job
            with open_text(log, errors="replace") as lines:
                names += [line for line in lines if line.startswith(_SLURM_RUN)]
    return list(dict.fromkeys(line.removeprefix(_SLURM_RUN).strip() for line in names))


def read_submitted(directory: Path) -> dict[str, list[str]]:
    """Return the ids of jobs that `cluster-generic` submitted from a directory, by scheduler.

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
        if not job or resolve_links(Path(submitted_from)) != resolve_links(directory):
            continue
        if scheduler not in SCHEDULERS:
            raise InputError(
                f"{SUBMITTED} names the scheduler {scheduler!r}, which is not one of "
                f"{', '.join(SCHEDULERS)}: cancel its jobs by hand and delete the file."
            )
        jobs.setdefault(scheduler, []).append(job)
    return jobs


def _find_queued(jobs: Mapping[str, Sequence[str]], names: Sequence[str]) -> dict[str, list[str]]:
    """Return which of some jobs are queued, by scheduler; of Slurm also those of some names."""
    queued = {}
    for name, ids in jobs.items():
        command = SCHEDULERS[name].queue_command
        if shutil.which(command) is None:
            raise InputError(
                f"jobs of the killed run were submitted to a queue, and its command {command} is "
                "not here: run `unglow resume` on a machine that has it."
            )
        try:
            queued[name] = SCHEDULERS[name]().list_queued(ids, names)
        except schedulers.NoAnswerError as error:
            raise InputError(
                f"{command} does not say whether jobs of the killed run are left "
                f"({' '.join(str(error).split())[:200]}): try again when it answers, or, if you "
                f"know that they are gone, delete {SUBMITTED} first."
            ) from error
    return {name: ids for name, ids in queued.items() if ids}
