"""Retries: how earlier attempts at a job have ended, and what the next one does differently.

A job that lacked memory tries again with fewer blocks in flight; if there was one only, with
more memory. Snakemake does not count that memory again (its scheduler continues with what the first
attempt asked for), so of such jobs one at a time runs on a machine, and only once the machine has
that much memory to spare. A batch system counts it again, and gives more time as well to a job that
was late.

Everything is read from the files of the attempts. The record of a job, a line for each attempt of
a run, is made of them for people, and for Snakemake, which shows it after a failure.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from unglow.core import machine
from unglow.core.process import host
from unglow.jobs.outcomes import LACKED_MEMORY
from unglow.telemetry.attempt_files import (
    LOST,
    Ends,
    attempt_file,
    attempt_numbers,
    read_ends,
    read_inherited_run_id,
    take_number,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Record = dict[str, Any]

LOG_BYTES = 1 << 16
"""How much of the log of a failed attempt is kept for the next one, bytes."""
# Of a file, bytes: its end, and before it that log, longer as JSON by what has to be escaped.
_TAIL = 4 * LOG_BYTES
# Keys of a record that the first line of an attempt has, and those that the last one has under
# another name, or that are no part of a record.
_DECLARED = ("run", "rule", "wildcards", "attempt", "threads", "declared_mb", "limit_s")
_RENAMED = {
    "t": "seconds",
    "cpu_s": "cpu_seconds",
    "read": "bytes_read",
    "written": "bytes_written",
}
_NOT_RECORDED = ("kind", "wall", "signal", "code", "remedy")

# Limits of time grow by this factor after each attempt that was late (docs/running.md).
_LONGER = 3
# How long a job waits for memory before it gives up, and between two looks, s.
PATIENCE_S = 1800.0
_LOOK_S = 0.5

log = logging.getLogger(__name__)


def attempts_directory(record: Path) -> Path:
    """Return where the attempts at a job write their files, given its record."""
    return record.with_suffix("")


def list_outcomes(directory: Path, before: int | None = None) -> tuple[list[Record], str]:
    """Return how the attempts of this run at a job have ended; of the last run where none is known.

    Attempts that could not say it, and of which nothing else has, are left out.

    Parameters
    ----------
    directory
        That of the attempts.
    before
        Only attempts with lower numbers count; None for all.

    Returns
    -------
    Their records, the first attempt first, and what the last of them has logged.
    """
    found: list[Record] = []
    last_log = ""
    run = read_inherited_run_id()
    following = None
    numbers: list[int] = []
    with contextlib.suppress(OSError):
        numbers = attempt_numbers(directory)
    for number in reversed(numbers):
        if before is not None and number >= before:
            continue
        try:
            ends = read_ends(attempt_file(directory, number), _TAIL)
        except OSError:
            continue
        record = _record(ends)
        attempt = record.get("attempt")
        if not isinstance(attempt, int):
            continue
        of_another_run = run and record.get("run") not in (None, run)
        # by the number alone where one of them does not name its run
        of_another_run = of_another_run or (following is not None and attempt > following)
        if of_another_run or (record.get("outcome") == "ok" and (following or before)):
            break
        following = attempt
        if "outcome" in record:
            last_log = last_log if found else _log(ends)
            found.insert(0, record)
        if attempt == 1:
            break
    return found, last_log


def _record(ends: Ends) -> Record:
    """Return what an attempt was given, and how it has ended if that is known."""
    if ends.head.get("kind") == LOST:
        return {key: value for key, value in ends.head.items() if key != "kind"}
    declared = {key: ends.head.get(key) for key in _DECLARED}
    measured = {
        _RENAMED.get(key, key): value
        for key, value in (ends.end or {}).items()
        if key not in _NOT_RECORDED and value != ""
    }
    return {**declared, **measured}


def _log(ends: Ends) -> str:
    kept = (line for line in ends.last if line.get("kind") == "log")
    return str(next(kept, {}).get("text", ""))


def write_record(record: Path) -> None:
    """Write what all attempts of this run at a job took, a line for each.

    Raises
    ------
    OSError
        The file cannot be written.
    """
    records, _ = list_outcomes(attempts_directory(record))
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text("".join(json.dumps(one) + "\n" for one in records))


def note_loss(record: Path, loss: Record) -> None:
    """Note for the next attempt how one has ended that could not say so, if it can be noted.

    It is noted in the file of the next number: the attempt itself, should it still run, publishes
    nothing from then on.
    """
    directory = attempts_directory(record)
    with contextlib.suppress(OSError):
        path = attempt_file(directory, take_number(directory))
        line = {"kind": LOST, "run": read_inherited_run_id(), **loss}
        path.write_text(json.dumps(line) + "\n", encoding="utf-8")


def fewer_in_flight(earlier: Mapping[str, Any]) -> int | None:
    """Return how many blocks another attempt may have in flight; None if fewer are no remedy."""
    in_flight = int(earlier.get("in_flight", 1))
    return in_flight // 2 if earlier["outcome"] in LACKED_MEMORY and in_flight > 1 else None


def next_mb(record: Path, declared_mb: int) -> int:
    """Return what the next attempt at a job declares, MB: more only if nothing else helps.

    ``record`` is that of the job, ``declared_mb`` what the first attempt declared.
    """
    records, _ = list_outcomes(attempts_directory(record))
    last = records[-1] if records else {"outcome": ""}
    if last["outcome"] not in LACKED_MEMORY or fewer_in_flight(last) is not None:
        return declared_mb
    return max(declared_mb, int(last.get("needed_mb", declared_mb)))


def next_min(record: Path, declared_min: int) -> int:
    """Return the time limit of the next attempt at a job, minutes: longer after one that was late.

    ``record`` is that of the job, ``declared_min`` the limit of the first attempt.
    """
    records, _ = list_outcomes(attempts_directory(record))
    late = sum(one["outcome"] == "timeout" for one in records)
    return int(declared_min * _LONGER**late)


@contextlib.contextmanager
def one_at_a_time(
    mb: float,
    *,
    patience_s: float = PATIENCE_S,
    lock: Path | None = None,
    abandoned: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Wait until no other job with raised memory runs on this machine, and until it has ``mb``.

    Parameters
    ----------
    mb
        Memory that has to be available, MB.
    patience_s
        How long to wait, s.
    lock
        File that is held meanwhile; one for each user and machine if None.
    abandoned
        Whether nobody waits for this job any more: no watchdog sees that yet.

    Raises
    ------
    MemoryError
        The memory did not become available, or the machine does not have as much.
    KeyboardInterrupt
        It was abandoned meanwhile.
    """
    if mb > machine.memory_total_mb():
        raise MemoryError(f"another attempt would need {mb:.0f} MB, which is more than there is")
    path = lock or _lock_file("")
    end = time.monotonic() + patience_s
    with _open_lock(path) as held:
        announced = False
        while not ((is_ours := _take_lock(held)) and machine.memory_available_mb() >= mb):
            if not announced:
                log.info("waiting until %.0f MB are free and no other such job runs", mb)
                announced = True
            if abandoned():
                raise KeyboardInterrupt
            if time.monotonic() > end:
                if not is_ours:
                    raise MemoryError(f"another job waits for memory, and holds {path}; run again")
                raise MemoryError(
                    f"another attempt would need {mb:.0f} MB, and only "
                    f"{machine.memory_available_mb():.0f} MB became free"
                )
            time.sleep(_LOOK_S)
        yield


def wait_while_short(
    report: Callable[[float], None], abandoned: Callable[[], bool] = lambda: False
) -> None:
    """Wait while the machine is short of memory, but not forever: the job has its own limit.

    Parameters
    ----------
    report
        Called with the time waited so far, s, at first and when the wait is over; of all jobs that
        wait on this machine, only one calls it.
    abandoned
        As in `one_at_a_time`.

    Raises
    ------
    KeyboardInterrupt
        It was abandoned meanwhile.
    OSError
        The lock file cannot be opened.
    """
    if not machine.is_memory_short():
        return
    started, waited, reports = time.monotonic(), 0.0, False
    with _open_lock(_lock_file("-short")) as held:
        while machine.is_memory_short() and waited < PATIENCE_S:
            if abandoned():
                raise KeyboardInterrupt
            if not reports and (reports := _take_lock(held)):
                report(0.0)
            time.sleep(_LOOK_S)
            waited = time.monotonic() - started
        if reports:
            report(waited)


def _lock_file(kind: str) -> Path:
    """Return a lock file of this user and machine."""
    # not where everybody may write, and so hold it; a home may be that of several machines
    place = Path(machine.runtime_directory() or machine.cache_directory())
    place.mkdir(parents=True, exist_ok=True)
    return place / f"unglow-{host()}{kind}.lock"


def _open_lock(path: Path) -> IO[str]:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.fdopen(os.open(path, flags, 0o600), "r+")


def _take_lock(held: IO[str]) -> bool:
    """Take the lock if no other process holds it, or keep it if this one does."""
    import fcntl  # Unix only

    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
