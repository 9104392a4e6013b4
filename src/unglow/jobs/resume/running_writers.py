"""Proof that nothing of an earlier run writes any more; orphans on this machine are ended."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from unglow.core.errors import InputError
from unglow.core.process import host, working_in

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from unglow.core.process import Process
    from unglow.jobs.resume.unfinished import Trace

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
    """Whether these are the words of a Snakemake that is part of a job: its queue tells of it."""
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
