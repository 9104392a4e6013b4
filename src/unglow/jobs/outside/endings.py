"""How a job ended that could not say so itself: from Snakemake and the control group."""

from __future__ import annotations

import math
import re
import shlex
import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unglow.jobs.memory_limit import mentions_memory
from unglow.jobs.snakemake_command import set_options, snakemake_words

if TYPE_CHECKING:
    from collections.abc import Sequence

_STATUS = re.compile(r"returned non-zero exit status (\d+)")
_SIGNAL = re.compile(r"died with <Signals\.(\w+)")
# A shell ends with this and the number of the signal that ended its command.
_BY_SIGNAL = 128
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP)
# What Python and R write when an allocation has failed.
_NO_MEMORY = ("MemoryError", "cannot allocate vector of size")
_MORE, _STEP_MB = 1.5, 50


@dataclass(frozen=True, slots=True)
class Failure:
    """What is known of a job that failed.

    Attributes
    ----------
    rule, declared_mb, peak_mb
        The job: its rule, the memory that it declared, and what it was seen to take; None if
        nothing is known.
    code
        Exit status, minus the number of a signal; None if Snakemake has not reported it.
    kernel_kills
        How many processes of its control group the kernel killed meanwhile because memory ran out.
    interrupted
        Whether the run was asked to end.
    log
        The end of its log.
    """

    rule: str
    declared_mb: float | None
    peak_mb: float | None
    code: int | None
    kernel_kills: int
    interrupted: bool
    log: str = ""


def exit_code(errors: Sequence[str], names: Sequence[str]) -> int | None:
    """Return the exit status of a job from Snakemake's errors, the last first; None if unknown.

    Parameters
    ----------
    errors
        Texts of errors.
    names
        What an error that is about the job holds one of: its command or script.
    """
    for text in reversed(errors):
        if not any(name in text for name in names if name):
            continue
        if found := _SIGNAL.search(text):
            return -signal.Signals[found[1]].value
        if found := _STATUS.search(text):
            status = int(found[1])
            return _BY_SIGNAL - status if _BY_SIGNAL < status < _BY_SIGNAL + 65 else status
    return None


def describe_failure(failure: Failure) -> dict[str, Any]:
    """Return how a failed job ended, as the last line of an attempt says it."""
    code = failure.code or 0
    status = {"signal": max(0, -code), "code": failure.code}
    if failure.interrupted:
        return {"outcome": "interrupted", "message": "", **status}
    if code == -signal.SIGKILL and failure.kernel_kills:
        sentence = f"killed by the system because memory ran out ({_memory(failure)})"
        return {**_lack("oom_killed", sentence, failure), **status}
    if mentions_memory(failure.log) or any(words in failure.log for words in _NO_MEMORY):
        return {**_lack("memory", f"an allocation failed ({_memory(failure)})", failure), **status}
    if -code in _FROM_OUTSIDE:
        name = signal.Signals(-code).name
        return {"outcome": "killed", "message": f"ended from outside by {name}.", **status}
    if code < 0:
        how = f"ended by {signal.Signals(-code).name}"
    else:
        how = "failed" if failure.code is None else f"ended with exit status {code}"
    where = "see its log" if failure.log else "Snakemake's log (.snakemake/log) says more"
    return {"outcome": "error", "message": f"{how}; {where}.", **status}


def overrun(declared_mb: float | None, peak_mb: float | None) -> str:
    """Return a sentence about a job that ended well with more than it declared; else nothing."""
    if declared_mb is None or peak_mb is None or peak_mb <= declared_mb:
        return ""
    return f"took {peak_mb:.0f} MB, more than the mem_mb of {declared_mb:.0f} of its rule."


def _memory(failure: Failure) -> str:
    seen = "no peak seen" if failure.peak_mb is None else f"{failure.peak_mb:.0f} MB seen"
    declared = failure.declared_mb
    return seen if declared is None else f"{seen}, mem_mb is {declared:.0f}"


def _lack(outcome: str, sentence: str, failure: Failure) -> dict[str, Any]:
    """Return the ending of a job that lacked memory, with what to declare for another attempt."""
    if failure.declared_mb is None:
        helps = "run fewer jobs at a time, or declare mem_mb for its rule."
        return {"outcome": outcome, "message": f"{sentence}; {helps}"}
    most = max(_MORE * failure.declared_mb, failure.peak_mb or 0.0)
    needed = math.ceil(most / _STEP_MB) * _STEP_MB
    options = {"--set-resources": (f"{failure.rule}:mem_mb", str(needed))}
    command = shlex.join(set_options(snakemake_words(sys.argv), options))
    message = f"{sentence}; declare more, or run fewer jobs at a time."
    return {"outcome": outcome, "message": message, "needed_mb": needed, "remedy": command}
