"""`unglow resume`: one command after anything was killed."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from unglow.core.errors import InputError
from unglow.jobs.obstacles import refuse_what_snakemake_stumbles_over
from unglow.jobs.resume import identity, locks, queued_jobs, running_writers, unfinished
from unglow.jobs.snakemake_command import with_options

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from unglow.jobs.resume.unfinished import Trace


def words_of(run: Trace, more: Sequence[str]) -> list[str]:
    """Return the command of a run, to give again, with more words; or raise `InputError`."""
    # -P: what happens to lie in the directory is no library; and options that take several values
    # must not swallow what follows
    options = with_options(identity.options_of(run), *more)
    return [sys.executable, "-Pm", *identity.program_of(run), *options]


def make_sure(
    run: Trace, results: Path, lost: Collection[str], say: Callable[[str], None]
) -> list[Path]:
    """See that nothing of a run, or of those before it, writes any more; return its old locks.

    Of ``lost`` machines the user says that they are gone; ``say`` is called with what is done.
    Raises `InputError` if something still runs, or may still run.
    """
    directory = identity.directory_of(run)
    stale = locks.left_behind(directory)
    running_writers.refuse_if_running(run)
    running_writers.refuse_if_another(directory)
    queued_jobs.cancel_all(directory, say, local=run.fields.get("executor") == "local")
    running_writers.end_cluster_snakemakes(directory)
    attempts = unfinished.open_attempts(results)
    running_writers.end_orphans(attempts, say)
    running_writers.refuse_if_growing([*([] if run.ended else [run]), *attempts], lost, say)
    return stale


def refuse_if_at_work(results: Path, lost: Collection[str], say: Callable[[str], None]) -> None:
    """See that nothing works on a results directory, as `make_sure`, but end nothing."""
    run = unfinished.last_run(results)
    attempts = unfinished.open_attempts(results)
    if run is not None:
        running_writers.refuse_if_running(run)
        if Path(str(run.fields.get("directory"))).is_dir():
            running_writers.refuse_if_another(identity.directory_of(run))
    for trace in attempts:
        for process in trace.processes:
            if process.lives():
                raise InputError(
                    f"a job (process {process.pid}) is at work in {results}; wait for it first."
                )
    silent = [*([] if run is None or run.ended else [run]), *attempts]
    running_writers.refuse_if_growing(silent, lost, say)


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
    run = unfinished.last_run(results)
    if run is None:
        raise InputError(f"{results} has no record of a run: start one with `unglow run`.")
    directory = identity.check(run, named, results)
    words, place = words_of(run, more), identity.started_in(run)
    refuse_what_snakemake_stumbles_over()
    say(f"cd {shlex.quote(str(place))} && {shlex.join(words[2:])}")
    locks.hold(directory)
    locks.remove(make_sure(run, results, lost, say))
    os.chdir(place)
    sys.stdout.flush()
    os.execv(words[0], words)  # noqa: S606 (no shell is wanted)
