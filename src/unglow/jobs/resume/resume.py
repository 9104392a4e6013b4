"""`unglow resume`: one command after anything was killed.

Nothing of the earlier run may write any more; orphans on this machine are ended.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from unglow.core.errors import InputError
from unglow.core.process import host, working_in
from unglow.jobs.obstacles import refuse_what_snakemake_stumbles_over
from unglow.jobs.resume import identity, queued_jobs
from unglow.jobs.snakemake_command import add_options

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from unglow.core.process import Process
    from unglow.jobs.resume.identity import Trace


PATIENCE_S = 15.0
"""How long an orphan on this machine may take to end by itself before it is killed, s."""
_LOOK_S = 0.1
# A job writes ten lines a second, Snakemake one every two: of what does not grow for so long, s,
# nothing lives, even if a network drive shows it some seconds late.
_SILENCE_S, _GROWING_LOOK_S = 12.0, 1.0


def refuse_if_running(run: Trace) -> None:
    """Raise `InputError` if the Snakemake of a run still runs on this machine."""
    for process in run.processes:
        if process.lives():
            raise InputError(
                f"Snakemake (process {process.pid}) has been running here since {run.since}; "
                f"follow it with `unglow monitor {shlex.quote(str(run.path.parents[2]))}`, or end "
                "it with Ctrl-C first."
            )


def refuse_if_another(directory: Path) -> None:
    """Raise `InputError` if another Snakemake works in a directory, whatever it does.

    On this machine; those inside jobs of a cluster do not count.
    """
    for pid, in_job in _snakemakes(directory):
        if not in_job:
            raise InputError(
                f"Snakemake (process {pid}) is at work in {directory}; wait for it or end it."
            )


def end_cluster_snakemakes(directory: Path) -> None:
    """End each Snakemake of a cluster job that no queue knows any more.

    It would remove the outputs of its job when that ends. The job itself ends without it.
    """
    for pid, in_job in _snakemakes(directory):
        if in_job:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def _snakemakes(directory: Path) -> Iterator[tuple[int, bool]]:
    """Yield every Snakemake of this machine that works in a directory, and if it is in a job."""
    for pid, words in working_in(directory):
        if any(Path(word).name == "snakemake" for word in words[:3]):
            yield pid, _in_job(words)


def _in_job(words: Sequence[str]) -> bool:
    """Whether these are the words of a Snakemake that is part of a job: its queue contains it."""
    modes = ("remote", "subprocess")
    return any(word == "--mode" and mode in modes for word, mode in pairwise(words))


def end_orphans(attempts: Iterable[Trace], say: Callable[[str], None]) -> None:
    """End the jobs of this machine that nobody waits for, and see that they are gone.

    Raises `InputError` if one cannot be ended, or if only a file that others may write to says that
    it is one.
    """
    alive = []
    for trace in attempts:
        here = [process for process in trace.processes if process.lives()]
        if here and not trace.own:
            raise InputError(
                f"process {here[0].pid} is at work according to {trace.path}, which is not yours, "
                "or which others may write to, so it is not ended: wait for it, or see to it."
            )
        alive += here
    if not alive:
        return
    numbers = ", ".join(str(process.pid) for process in alive)
    say(f"ending jobs of the killed run: process {numbers}")
    for number, patience_s in ((signal.SIGTERM, PATIENCE_S), (signal.SIGKILL, PATIENCE_S)):
        for process in alive:
            _send(process, number)
        alive = _wait(alive, patience_s)
        if not alive:
            return
    raise InputError(
        f"process {alive[0].pid} of the killed run cannot be ended: is a disk or a network drive "
        "not answering?"
    )


def _send(process: Process, number: int) -> None:
    if process.lives():
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:
            return
        except PermissionError as error:
            raise InputError(
                f"process {process.pid} of the killed run belongs to somebody else, who has to "
                "end it."
            ) from error


def _wait(processes: Sequence[Process], seconds: float) -> list[Process]:
    end = time.monotonic() + seconds
    while alive := [process for process in processes if process.lives()]:
        if time.monotonic() > end:
            return alive
        time.sleep(_LOOK_S)
    return []


def refuse_if_growing(
    traces: Iterable[Trace], lost: Collection[str], say: Callable[[str], None]
) -> None:
    """See that runs and attempts without an end on other machines, but ``lost`` ones, are silent.

    Raises `InputError` if a file grows.
    """
    elsewhere = [t for t in traces if t.host != host() and t.host not in lost]
    if not elsewhere:
        return
    hosts = ", ".join(sorted({trace.host for trace in elsewhere}))
    say(f"listening for {_SILENCE_S:.0f} s whether anything still runs on {hosts}")
    before = [trace.size() for trace in elsewhere]
    end = time.monotonic() + _SILENCE_S
    while time.monotonic() < end:
        time.sleep(_GROWING_LOOK_S)
        for trace, size in zip(elsewhere, before, strict=True):
            if trace.size() > size:
                what = "Snakemake" if trace.fields.get("kind") == "run" else "a job"
                raise InputError(
                    f"{what} of the last run (process {trace.fields.get('pid')} on {trace.host}, "
                    f"since {trace.since}) is still at work; end it there first."
                )


def words_of(run: Trace, more: Sequence[str]) -> list[str]:
    """Return the command of a run, to give again, with more words; or raise `InputError`."""
    # -P: what happens to lie in the directory is no library; and options that take several values
    # must not swallow what follows
    options = add_options(identity.options_of(run), *more)
    return [sys.executable, "-Pm", *identity.program_of(run), *options]


def make_sure(
    run: Trace, results: Path, lost: Collection[str], say: Callable[[str], None]
) -> list[Path]:
    """See that nothing of a run, or of those before it, writes any more; return its old locks.

    Of ``lost`` machines the user says that they are gone; ``say`` is called with what is done.
    Raises `InputError` if something still runs, or may still run.
    """
    directory = identity.directory_of(run)
    stale = identity.locks_left_behind(directory)
    refuse_if_running(run)
    refuse_if_another(directory)
    queued_jobs.cancel_all(directory, say, local=run.fields.get("executor") == "local")
    end_cluster_snakemakes(directory)
    attempts = identity.open_attempts(results)
    end_orphans(attempts, say)
    refuse_if_growing([*([] if run.ended else [run]), *attempts], lost, say)
    return stale


def refuse_if_at_work(results: Path, lost: Collection[str], say: Callable[[str], None]) -> None:
    """See that nothing works on a results directory, as `make_sure`, but end nothing."""
    run = identity.last_run(results)
    attempts = identity.open_attempts(results)
    if run is not None:
        refuse_if_running(run)
        if Path(str(run.fields.get("directory"))).is_dir():
            refuse_if_another(identity.directory_of(run))
    for trace in attempts:
        for process in trace.processes:
            if process.lives():
                raise InputError(
                    f"a job (process {process.pid}) is at work in {results}; wait for it first."
                )
    silent = [*([] if run is None or run.ended else [run]), *attempts]
    refuse_if_growing(silent, lost, say)


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
    run = identity.last_run(results)
    if run is None:
        raise InputError(f"{results} has no record of a run: start one with `unglow run`.")
    directory = identity.check(run, named, results)
    words, place = words_of(run, more), identity.find_start_directory(run)
    refuse_what_snakemake_stumbles_over()
    say(f"cd {shlex.quote(str(place))} && {shlex.join(words[2:])}")
    identity.hold_lock(directory)
    identity.remove_locks(make_sure(run, results, lost, say))
    os.chdir(place)
    sys.stdout.flush()
    os.execv(words[0], words)  # noqa: S606 (no shell is wanted)
