"""One file, read in a child of a process that has the libraries loaded already.

So a crash is that of one file, and its memory is its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import logging
import os
import resource
import select
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from unglow.core.errors import InputError
from unglow.core.process import status_mb
from unglow.jobs.memory_limit import is_memory_failure, lift_limit

if TYPE_CHECKING:
    from collections.abc import Callable

CRASH, HANG, OVER, ESCAPED, WRONG = "crash", "hang", "too much memory", "no sentence", "wrong"
REFUSED, SAME, OTHER, MAYBE, FILLED = "refused", "same", "other", "not compared", "fill values"
BAD = (CRASH, HANG, OVER, ESCAPED, WRONG)
VERDICTS = (*BAD, REFUSED, SAME, OTHER, MAYBE, FILLED)
HANG_S = 10
# Reading small files while the workflow is parsed, or for a command, is declared nowhere, MB.
PARSING_MB = 100.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """A verdict of `VERDICTS`, with what was said."""

    verdict: str
    text: str = ""


def preload(read: Callable[[], object]) -> None:
    """Load what is imported only when a file is read, so that no child has to.

    ``read`` reads whole files; it is called in a child, which reports what it has imported.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            before = set(sys.modules)
            read()
            os.write(writing, "\n".join(set(sys.modules) - before).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        names = stream.read().split("\n")
    os.waitpid(pid, 0)
    for name in filter(None, names):
        with contextlib.suppress(ImportError):  # some are made, and not in files
            importlib.import_module(name)


def attempt(read: Callable[[], Outcome], name: str) -> Outcome:
    """Read a file in a child process.

    Parameters
    ----------
    read
        Reads it, and judges what came of it; `InputError` is a refusal.
    name
        Of the file; a refusal has to have it.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        code = 1
        try:
            outcome = _in_child(read, name)
            os.write(writing, json.dumps([outcome.verdict, outcome.text[:1000]]).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    try:
        return _await(pid, reading)
    finally:
        os.close(reading)


def _await(pid: int, reading: int) -> Outcome:
    """Return what a child says, or how it ended if it says nothing."""
    # Processor time is limited by the kernel; this is for one that waits for ever.
    worked, since, ready = 0, time.monotonic(), False
    while not ready and time.monotonic() - since < HANG_S:
        ready = bool(select.select([reading], [], [], 0.5)[0])
        if (now := _activity(pid)) != worked:
            worked, since = now, time.monotonic()
    if not ready:
        os.kill(pid, signal.SIGKILL)
    said = os.read(reading, 1 << 16) if ready else b""
    _, status = os.waitpid(pid, 0)
    if said:
        return Outcome(*json.loads(said))
    ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if not ready or ended == signal.SIGXCPU:
        return Outcome(HANG, f"more than {HANG_S} s")
    return Outcome(CRASH, f"signal {ended}" if ended else "it ended without a word")


def _activity(pid: int) -> int:
    """Return a number that changes unless a process sleeps: on a busy machine it only waits."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    sleeps = fields[0] == "S"
    return int(fields[11]) + int(fields[12]) if sleeps else time.monotonic_ns()


def _in_child(read: Callable[[], Outcome], name: str) -> Outcome:
    logging.disable()
    resource.setrlimit(resource.RLIMIT_CPU, (HANG_S, HANG_S + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        return read()
    except InputError as error:
        return judge_refusal(name, str(error))
    except BaseException as error:  # noqa: BLE001 - that is what is looked for
        lift_limit()
        if is_memory_failure(error):
            return Outcome(OVER, f"beyond the limit: {error}")
        return Outcome(ESCAPED, describe(error))


def describe(error: BaseException) -> str:
    """Return an exception with the place in unglow that it comes from."""
    place, trace = "", error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if "unglow" in code.co_filename:
            place = f" ({Path(code.co_filename).name}:{trace.tb_lineno} {code.co_name})"
        trace = trace.tb_next
    return f"{type(error).__name__}: {str(error)[:300]}{place}"


def judge_refusal(name: str, sentence: str) -> Outcome:
    """Judge a refusal: one line that names the file and says what to do."""
    right = name in sentence and "\n" not in sentence and sentence.endswith(".")
    return Outcome(REFUSED if right else ESCAPED, sentence)


def forget_peak() -> None:
    """Start to measure the largest resident set again, as in a process of its own."""
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_mb() -> float:
    """Return the largest resident set since `forget_peak`, MB."""
    return status_mb()["VmHWM"]
