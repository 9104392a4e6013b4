"""Outcomes of jobs: in a word, in a sentence for the user, and with a command that may help.

The words: ``ok``, ``memory`` (the memory limit, or an allocation that failed),
``oom_killed`` (by the kernel, for lack of memory), ``timeout``, ``stalled`` (ended while it did
nothing), ``bad_input``, ``error``, ``killed`` (from outside), ``interrupted`` (Ctrl-C) and
``superseded`` (a later attempt at the same job has started).
"""

from __future__ import annotations

import math
import os
import shlex
import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from unglow.core.errors import SupersededError, UnglowError
from unglow.core.files import tail
from unglow.jobs import memory_limit
from unglow.jobs.snakemake_command import set_options

if TYPE_CHECKING:
    from pathlib import Path

    from unglow.jobs.watchdog import Ending, Reason

LACKED_MEMORY = ("memory", "oom_killed")
"""Outcomes of a job that did not get the memory that it wanted."""
SUPERSEDED = "superseded"
"""Outcome of an attempt that has left everything to a later one."""
WORTH_ANOTHER = ("ok", "killed", "interrupted", "stalled", "node_lost", SUPERSEDED)
"""Outcomes that say nothing about the job itself, so another attempt may end well."""
COMMAND = "UNGLOW_COMMAND"
"""Variable with the command that the user typed, for remedies."""

MORE = 1.5
"""Factor by which what was declared is raised, where nothing says how much is enough."""
FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP)
_CRASHES = (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS)


_WHY_IDLE = (
    "A disk or network drive may not have answered (`dmesg`, `df`), or the machine may have been "
    "overloaded or swapping (`uptime`, `free -m`). Someone may have stopped the process, or it is "
    "a fault of the program. Look at these, then run again; if it stalls again, please report it."
)


class Declared(Protocol):
    """What is known of a job whose end is to be explained.

    Attributes
    ----------
    rule
        Its name.
    mem_mb, limit_s
        Memory, MB, and time, s, that it was declared with.
    launcher_mb
        Memory that has to be declared in addition for what starts it, MB.
    log_path
        Its log.
    in_flight
        Blocks in flight, if it has chosen.
    least_mb
        The least memory that it can do with, MB, if it knows.
    """

    rule: str
    mem_mb: float
    limit_s: float | None
    launcher_mb: float
    log_path: Path
    in_flight: int | None

    @property
    def least_mb(self) -> int | None:
        """See above."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a job ended.

    Attributes
    ----------
    outcome, message
        In a word, and in a sentence.
    needed_mb
        If it lacked memory: a declaration, MB, that may be enough.
    innocent
        It lacked memory, but had not taken more than was declared for it.
    orphaned
        What started it is gone, so the lock of a killed run may still be there.
    """

    outcome: str
    message: str = ""
    needed_mb: int | None = None
    innocent: bool = False
    orphaned: bool = False

    def report(self) -> dict[str, str | int]:
        """Return what a job reports to its watchdog."""
        needed = {} if self.needed_mb is None else {"needed_mb": self.needed_mb}
        return {"outcome": self.outcome, "message": self.message, **needed}


def explain_error(job: Declared, error: BaseException | None, peak_mb: float) -> Cause:
    """Judge, in the job itself, what ended its block.

    Parameters
    ----------
    job
        The job.
    error
        What was raised; None if it got to its end.
    peak_mb
        Its largest resident set, MB.
    """
    if error is None:
        return Cause("ok")
    # compiled code that gets no memory may fail without saying why
    silent = isinstance(error, SystemError) and peak_mb > job.mem_mb
    if silent or memory_limit.is_memory_failure(error):
        return _lack("memory", job, peak_mb, error)
    if isinstance(error, SupersededError):
        return Cause(SUPERSEDED, str(error))
    if isinstance(error, UnglowError):
        return Cause("bad_input", str(error))
    if isinstance(error, KeyboardInterrupt):
        return Cause("interrupted", "interrupted")
    return Cause("error", _explain_unforeseen(job, error))


def _explain_unforeseen(job: Declared, error: BaseException) -> str:
    """Return the sentence of an error that nothing in the package has explained."""
    if isinstance(error, FileNotFoundError) and _is_data(error.filename):
        return (
            f"{error.filename} is gone: see that nothing moves or removes raw images or results "
            "while a run is at work, then run again."
        )
    words = " ".join(str(error).split())[:200]
    return (
        f"ended by an error that is not caused by the data ({type(error).__name__}: {words}); "
        f"please report it with {job.log_path}."
    )


def _is_data(name: object) -> bool:
    """Whether a file is none of the installation: only those can be missing by our own fault."""
    return isinstance(name, str | os.PathLike) and not str(name).startswith(sys.prefix)


def explain_end(job: Declared, ending: Ending) -> Cause:
    """Judge, in the watchdog, how a job ended: by its own report, if it could write one."""
    report = ending.report
    outcome, message = str(report.get("outcome", "")), str(report.get("message", ""))
    if ending.timed_out:
        return _explain_timeout(job, ending)
    if ending.abandoned:
        return Cause(
            "killed",
            "ended because the process that started it is gone; `unglow resume` continues.",
            orphaned=True,
        )
    if not outcome or (outcome == "ok" and ending.code != 0):
        return _explain_silent_end(job, ending)
    return Cause(outcome, message, report.get("needed_mb"))


def describe_overrun(job: Declared, peak_mb: float) -> str:
    """Return a sentence about a job that ended well with more than it had declared; else nothing.

    The limit cannot refuse such memory: pages of libraries and of other mapped files, and what is
    within its allowance (`memory_limit.allowance_mb`).
    """
    if peak_mb <= job.mem_mb:
        return ""
    enough = math.ceil((peak_mb + job.launcher_mb) / 10) * 10
    return (
        f"took {peak_mb:.0f} MB, more than the {job.mem_mb:.0f} MB that were declared for it; what "
        "it made is whole. Where memory is tight, declare it: --set-resources "
        f"{job.rule}:mem_mb={enough} (now {job.mem_mb + job.launcher_mb:.0f})."
    )


def explain_idleness(why: Reason, pid: int) -> str:
    """Return why a process does nothing, as far as that is known, what helps and shows more."""
    look = f"`ps -L -o pid,lwp,stat,wchan:24,comm -p {pid}`, `uptime` and `free -m` show more"
    return f"{why.message}: {why.helps}. {look}."


def remedy(job: Declared, cause: Cause) -> str:
    """Return a command to copy that may end well; empty if there is none."""
    if cause.orphaned:
        return "unglow resume"
    options: dict[str, tuple[str, str]] = {}
    if cause.innocent:
        options["--resources"] = ("mem_mb", str(math.ceil(job.mem_mb)))
    elif cause.needed_mb is not None:
        declared = math.ceil(cause.needed_mb + job.launcher_mb)
        options["--set-resources"] = (f"{job.rule}:mem_mb", str(declared))
    elif cause.outcome == "timeout":
        options["--config"] = ("timeout_per_job", str(_longer_min(job)))
    elif cause.outcome not in ("stalled", "killed", "interrupted"):
        return ""
    return shlex.join(set_options(shlex.split(os.environ.get(COMMAND) or "snakemake"), options))


def log_tail(job: Declared, size: int = 4000) -> str:
    """Return the last bytes of a job's log, where libraries say why they gave up."""
    try:
        return tail(job.log_path, size)
    except OSError:
        return ""


def _lack(outcome: str, job: Declared, peak_mb: float, error: BaseException | None = None) -> Cause:
    """Return the cause of a job that needs more memory than was declared."""
    needed = _estimate_needed_mb(job, peak_mb, error)
    asked = memory_limit.read_asked_mb(error)
    wanted = f", {asked:.0f} MB more asked for" if asked is not None else ""
    blocks = f", {job.in_flight} blocks in flight" if (job.in_flight or 1) > 1 else ""
    sentence = (
        f"needs more memory than the {job.mem_mb:.0f} MB that were declared for it "
        f"(peak {peak_mb:.0f} MB so far{wanted}{blocks}); run again with --set-resources "
        f"{job.rule}:mem_mb={needed + job.launcher_mb:.0f} "
        f"(now {job.mem_mb + job.launcher_mb:.0f})."
    )
    return Cause(outcome, sentence, needed)


def _estimate_needed_mb(job: Declared, peak_mb: float, error: BaseException | None) -> int:
    """Return a declaration, MB, that a job which lacked memory may get along with."""
    least = job.least_mb
    if least is not None and job.mem_mb < least:
        return least
    return raise_mb(job.mem_mb, peak_mb + (memory_limit.read_asked_mb(error) or 0), least or 0)


def raise_mb(declared_mb: float, *seen_mb: float) -> int:
    """Return a declaration, MB, for another attempt of a job that lacked memory."""
    return math.ceil(max(declared_mb * MORE, *seen_mb) / 50) * 50


def _explain_timeout(job: Declared, ending: Ending) -> Cause:
    minutes = (job.limit_s or 0) / 60
    if ending.idle_s:
        return Cause(
            "stalled",
            f"ended because it had done nothing for {ending.idle_s:.0f} s when its limit of "
            f"{minutes:.3g} min was over; what every thread was doing is in {job.log_path}. "
            f"{_why_idle(ending)}",
        )
    return Cause(
        "timeout",
        f"ended because it took longer than its limit of {minutes:.3g} min; what every thread "
        f"was doing is in {job.log_path}. If it was only slow, run again with --config "
        f"timeout_per_job={_longer_min(job)}.",
    )


def _longer_min(job: Declared) -> int:
    """Return a limit, minutes, for a job that was only slow."""
    return math.ceil(3 * (job.limit_s or 0) / 60)


def _explain_silent_end(job: Declared, ending: Ending) -> Cause:
    """Judge a job that could not report how it ended."""
    peak = ending.peak_mb
    killed = ending.signal == signal.SIGKILL and ending.by_kernel
    if killed and peak > job.mem_mb:
        return _lack("oom_killed", job, peak)
    if killed:
        return Cause(
            "oom_killed",
            "killed by the system because the machine ran out of memory (the job had taken "
            f"{peak:.0f} MB of {job.mem_mb:.0f} declared); run fewer jobs at a time "
            "with a smaller --resources mem_mb, or end other programs.",
            needed_mb=_estimate_needed_mb(job, peak, None),
            innocent=True,
        )
    overran = ending.signal in _CRASHES and peak > job.mem_mb
    if overran or memory_limit.mentions_memory(log_tail(job)):
        return _lack("memory", job, peak)
    if ending.signal == signal.SIGINT:
        return Cause("interrupted", "interrupted")
    name = signal.Signals(ending.signal).name if ending.signal else f"status {ending.code}"
    if ending.signal in FROM_OUTSIDE:
        return _explain_kill(ending, name)
    return Cause(
        "error", f"ended by a fault in a library ({name}); please report it with {job.log_path}."
    )


def _explain_kill(ending: Ending, name: str) -> Cause:
    """Return the cause of a job that a signal from outside has ended."""
    if ending.idle_s:
        return Cause(
            "stalled",
            f"ended from outside by {name} when it had done nothing for {ending.idle_s:.0f} s. "
            f"{_why_idle(ending)}",
        )
    return Cause("killed", f"ended from outside by {name}; run again.")


def _why_idle(ending: Ending) -> str:
    """Return what a job that was ended had waited for, or what may be looked at."""
    if ending.waited is None or not ending.waited.reason:
        return _WHY_IDLE
    message = ending.waited.message
    return f"{message[0].upper()}{message[1:]}: see to that, then run again."
