"""What earlier attempts at a job ended with, and what the next one does differently.

Snakemake deletes log and record of a job before it tries again, so what failed is noted beside
them. A job that lacked memory tries again with fewer blocks in flight; if there was one only, with
more memory. Snakemake does not count that memory anew (its scheduler goes on with what the first
attempt asked for), so of such jobs one at a time runs on a machine, and only once the machine has
that much memory to spare. A batch system counts it anew, and gives more time as well to a job that
was late.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from unglow.jobs.outcomes import LACKED_MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Record = dict[str, Any]

# Limits of time grow by so much after each attempt that was late.
_LONGER = 3
_PATIENCE_S = 1800.0
_LOOK_S = 0.5

log = logging.getLogger(__name__)


def notes_path(record: Path) -> Path:
    """Return where failed attempts of a job are noted, given its telemetry file."""
    return record.with_name(f".{record.stem}.attempts")


def read_notes(notes: Path) -> tuple[list[Record], str]:
    """Return the records of failed attempts and the log of the last; nothing if there are none."""
    try:
        noted: dict[str, Any] = json.loads(notes.read_text(encoding="utf-8"))
        return list(noted["records"]), str(noted["log"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return [], ""


def write_notes(notes: Path, records: list[Record], last_log: str) -> None:
    """Note failed attempts for the next.

    Raises
    ------
    OSError
        The file cannot be written.
    """
    notes.write_text(json.dumps({"records": records, "log": last_log}), encoding="utf-8")


def write_record(record: Path, records: list[Record], last_log: str) -> None:
    """Write what all attempts at a job took, a line for each, and note them if the last failed.

    Parameters
    ----------
    record
        The job's telemetry file.
    records
        Of all attempts, the last one at the end.
    last_log
        What that one has logged.

    Raises
    ------
    OSError
        A file cannot be written.
    """
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text("".join(json.dumps(one) + "\n" for one in records))
    notes = notes_path(record)
    if records[-1]["outcome"] == "ok":
        notes.unlink(missing_ok=True)
    else:
        write_notes(notes, records, last_log)


def fewer_in_flight(earlier: Mapping[str, Any]) -> int | None:
    """Return how many blocks another attempt may have in flight; None if fewer are no remedy."""
    in_flight = int(earlier.get("in_flight", 1))
    return in_flight // 2 if earlier["outcome"] in LACKED_MEMORY and in_flight > 1 else None


def raised_mb(earlier: Mapping[str, Any], declared_mb: int) -> int:
    """Return what another attempt should declare, MB: more only if nothing else helps.

    Parameters
    ----------
    earlier
        Record of the attempt before.
    declared_mb
        What the first attempt declared, MB.
    """
    if earlier["outcome"] not in LACKED_MEMORY or fewer_in_flight(earlier) is not None:
        return declared_mb
    return max(declared_mb, int(earlier.get("needed_mb", declared_mb)))


def next_mb(record: Path, declared_mb: int) -> int:
    """Return what the next attempt at a job declares, MB, given its telemetry file."""
    records, _ = read_notes(notes_path(record))
    return raised_mb(records[-1], declared_mb) if records else declared_mb


def next_min(record: Path, declared_min: int) -> int:
    """Return the time limit of the next attempt at a job, minutes: longer after one that was late.

    Parameters
    ----------
    record
        The job's telemetry file.
    declared_min
        The limit of the first attempt, minutes.
    """
    records, _ = read_notes(notes_path(record))
    late = sum(one["outcome"] == "timeout" for one in records)
    return int(declared_min * _LONGER**late)


@contextlib.contextmanager
def one_at_a_time(
    mb: float, *, patience_s: float = _PATIENCE_S, lock: Path | None = None
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

    Raises
    ------
    MemoryError
        The memory did not become available, or the machine does not have as much.
    """
    from unglow.core.machine import memory_available_mb, memory_total_mb  # noqa: PLC0415 (psutil)

    if mb > memory_total_mb():
        raise MemoryError(f"another attempt would need {mb:.0f} MB, which is more than there is")
    path = lock or Path(tempfile.gettempdir()) / f"unglow-{os.getuid()}.lock"
    end = time.monotonic() + patience_s
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "r+") as held:
        told = False
        while not (_locked(held) and memory_available_mb() >= mb):
            if not told:
                log.info("waiting until %.0f MB are free and no other such job runs", mb)
                told = True
            if time.monotonic() > end:
                raise MemoryError(
                    f"another attempt would need {mb:.0f} MB, and only "
                    f"{memory_available_mb():.0f} MB became free"
                )
            time.sleep(_LOOK_S)
        yield


def _locked(held: IO[str]) -> bool:
    """Take the lock if no other process holds it, or keep it if this one does."""
    import fcntl  # noqa: PLC0415 (Unix only)

    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
