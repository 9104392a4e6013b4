"""Runs and attempts that results name: whether they are the caller's own, and have ended.

Whoever may write to a directory may write telemetry into it. A record is therefore taken at its
word only if nobody but the caller can have written it, and only about the directory that was named.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unglow.core.errors import InputError
from unglow.core.files import open_file
from unglow.core.process import Process
from unglow.core.workflow_files import snakefile
from unglow.jobs.snakemake_command import RUN, add_options, set_options, split_command
from unglow.telemetry.attempt_files import LOST, attempt_files, read_ends, run_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_LOCKS = Path(".snakemake/locks")
_OWN_LOCK = Path(".snakemake/unglow/resume.lock")


def hold_lock(directory: Path) -> int:
    """Keep every other `unglow resume` out of a directory; returns the descriptor that does.

    Programs that this process turns into keep it, so it holds until Snakemake ends. Raises
    `InputError` if another one holds it.
    """
    path = directory / _OWN_LOCK
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


def locks_left_behind(directory: Path) -> list[Path]:
    """Return the files by which Snakemake keeps others out of a directory."""
    return sorted((directory / _LOCKS).glob("*.lock"))


def remove_locks(files: list[Path]) -> None:
    """Unlock, as ``snakemake --unlock`` does; locks that have come since stay."""
    for path in files:
        path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Trace:
    """The file of a run or of an attempt: its first line, who wrote it, and how it ended.

    The process that began it is the first. ``own``: nobody but the caller can have written it.
    """

    path: Path
    fields: Mapping[str, Any]
    processes: tuple[Process, ...] = ()
    ended: bool = False
    own: bool = False

    @property
    def host(self) -> str:
        """The machine."""
        return str(self.fields.get("host", ""))

    @property
    def since(self) -> str:
        """When it began, local time, in words."""
        wall = self.fields.get("wall")
        known = isinstance(wall, int | float)
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(wall)) if known else "?"

    def size(self) -> int:
        """Return the size of the file, bytes; opening it makes a network drive look again."""
        with contextlib.suppress(OSError), open_file(self.path) as stream:
            return stream.seek(0, os.SEEK_END)
        return 0


def is_own(about: os.stat_result) -> bool:
    """Whether a file is the caller's, and nobody else may write to it."""
    shared = about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return about.st_uid == os.geteuid() and not shared


def trace_of(path: Path) -> Trace | None:
    """Return the record in the file of a run or an attempt; None before its first line."""
    try:
        ends = read_ends(path)
    except OSError:  # it was deleted just now
        return None
    head = ends.head
    if not head or head.get("kind") == LOST:
        return None
    lines = [head, *(line for line in ends.first if line.get("kind") == "process")]
    processes = [
        Process(str(head.get("host")), str(head.get("boot")), line["pid"], line.get("started"))
        for line in lines
        if isinstance(line.get("pid"), int)
    ]
    return Trace(path, head, tuple(processes), ends.end is not None, is_own(ends.about))


def last_run(results: Path) -> Trace | None:
    """Return the run that began last; None if none has left a file."""
    traces = (trace_of(path) for path in run_files(results / "telemetry"))
    known = [trace for trace in traces if trace is not None]
    return max(known, key=lambda t: (t.fields.get("wall") or 0.0, t.path.name), default=None)


def open_attempts(results: Path) -> list[Trace]:
    """Return the attempts that have not ended and could still publish: the last one at each job."""
    last = {path.parent: path for path in attempt_files(results / "telemetry")}
    traces = (trace_of(path) for path in last.values())
    return [trace for trace in traces if trace is not None and not trace.ended]


RERUN = "--rerun-incomplete"
_SNAKEFILE = ("-s", "--snakefile")
# Where Snakemake looks unless a Snakefile is named.
_DEFAULTS = ("Snakefile", "snakefile", "workflow/Snakefile", "workflow/snakefile")


def check(run: Trace, named: Path, results: Path) -> Path:
    """Return the working directory of the last run that some results name.

    Raises `InputError` if its record can be somebody else's word, or is about another directory
    than the one that the user ``named``, of the run or of its results.
    """
    if not run.own:
        raise InputError(_not_own(run))
    options = options_of(run)
    directory = _recorded(run)
    recorded = directory / str(run.fields.get("results", results.name))
    if not same_place(recorded, results):
        raise InputError(
            f"{named} was copied or moved: its last run worked in {directory} and "
            f"wrote to {recorded}. To go on here, once nothing else is at work in it, give\n"
            f"    {_again(run, options, results)}"
        )
    if not (same_place(named, directory) or same_place(named, results)):
        raise InputError(
            f"the last run that has written to {results} worked in {directory}, not in {named}: "
            f"`unglow resume {shlex.quote(str(directory))}` goes on there."
        )
    _check_workflow(run, options)
    return directory_of(run)


def directory_of(run: Trace) -> Path:
    """Return the working directory of a run; raises `InputError` if it is not there."""
    directory = _recorded(run)
    if not directory.is_dir():
        raise InputError(
            f"the last run worked in {directory}, which is not here: start it again by hand where "
            "its files are now."
        )
    return directory.resolve()


def options_of(run: Trace) -> list[str]:
    """Return the options of the snakemake command of a run; raises `InputError` without one."""
    program, options = split_command(command_of(run))
    if not program or not (options or _by_unglow_run(run)):
        raise InputError(
            "the last run was not started by the snakemake command, so it is not known how to go "
            "on: start it again the way it was."
        )
    return options if RERUN in options else add_options(options, RERUN)


def program_of(run: Trace) -> list[str]:
    """Return the module, and its command, that the options of a run are for."""
    return [*RUN] if _by_unglow_run(run) else ["snakemake"]


def command_of(run: Trace) -> list[str]:
    """Return the words of the command of a run, as they were typed."""
    command = run.fields.get("command")
    return [str(word) for word in command] if isinstance(command, list) else []


def _by_unglow_run(run: Trace) -> bool:
    return tuple(command_of(run)[: len(RUN)]) == RUN


def find_start_directory(run: Trace) -> Path:
    """Return the directory in which the command of a run was given."""
    started_in = run.fields.get("started_in")
    return Path(started_in) if isinstance(started_in, str) and started_in else _recorded(run)


def _recorded(run: Trace) -> Path:
    """Return the working directory that a run names, there or not."""
    directory = run.fields.get("directory")
    if isinstance(directory, str) and directory:  # an empty path would be the current directory
        return Path(directory)
    raise InputError(
        f"{run.path} does not say where the last run worked: start it again the way it was."
    )


def _not_own(run: Trace) -> str:
    """Say why nothing of a record is executed."""
    owner = run.path.lstat().st_uid
    if owner != os.geteuid():
        return (
            f"{run.path}, which says how the last run was started, belongs to another user "
            f"(uid {owner}), so nothing of it is executed: let them resume it, or start the run "
            "again yourself."
        )
    return (
        f"{run.path}, which says how the last run was started, may be written by others, so "
        "nothing of it is executed: start the run again yourself, or, if you know that nobody has "
        f"changed it, give `chmod go-w {shlex.quote(str(run.path))}` and try again."
    )


def same_place(one: Path, other: Path) -> bool:
    """Whether two paths lead to one directory."""
    try:
        return one.samefile(other)
    except OSError:
        return False


def _check_workflow(run: Trace, options: Sequence[str]) -> None:
    """See that a command starts the workflow that the run was of."""
    recorded = run.fields.get("workflow")
    named = snakefile() if _by_unglow_run(run) else _snakefile(options, find_start_directory(run))
    if recorded is None or named is None or same_place(named.parent, Path(str(recorded))):
        return
    raise InputError(
        f"the last run was of the workflow in {recorded}, but its command would start {named}: "
        "start it again by hand with the workflow that you mean."
    )


def _snakefile(options: Sequence[str], directory: Path) -> Path | None:
    """Return the Snakefile that a command reads; None if a profile or an address says which."""
    at = _snakefile_word(options)
    if at is None:
        defaults = (directory / name for name in _DEFAULTS)
        return next((path for path in defaults if path.is_file()), None)
    index, prefix = at
    value = options[index].removeprefix(prefix)
    return None if "://" in value else directory / value


def _snakefile_word(options: Sequence[str]) -> tuple[int, str] | None:
    """Return which word names the Snakefile, and what comes before the name in that word."""
    last = None
    for index, word in enumerate(options):
        if word in _SNAKEFILE and index + 1 < len(options):
            last = index + 1, ""
        elif word.startswith("--snakefile="):
            last = index, "--snakefile="
        elif word.startswith("-s") and len(word) > len("-s"):
            last = index, "-s"
    return last


def _again(run: Trace, options: Sequence[str], results: Path) -> str:
    """Return what to give in the place of a command, where results lie elsewhere by now."""
    start, below = find_start_directory(run), Path(str(run.fields.get("results", results.name)))
    words = [*program_of(run), *options]
    if (at := _snakefile_word(options)) is not None:  # it may have been named from there
        index, prefix = at[0] + len(program_of(run)), at[1]
        value = words[index].removeprefix(prefix)
        words[index] = value if "://" in value else f"{prefix}{(start / value).resolve()}"
    here = results.resolve()
    work = here.parents[len(below.parts) - 1] if not below.is_absolute() and below.parts else here
    elsewhere = any(word.startswith(("-d", "--directory")) for word in options)
    if not below.is_absolute() and work / below == here and not elsewhere:
        start = work
    else:
        words = set_options(words, {"--config": ("results", str(here))})
    unlocked = shlex.join(add_options(words, "--unlock"))
    unlock = f"{unlocked} && " if locks_left_behind(start) else ""
    return f"cd {shlex.quote(str(start))} && {unlock}{shlex.join(words)}"
