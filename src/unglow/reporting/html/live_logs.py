"""The log of an attempt, for a reader who follows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from unglow.core.files import tail
from unglow.telemetry.reading.incidents import log_files

if TYPE_CHECKING:
    from pathlib import Path

    from unglow.telemetry.reading.history import History
    from unglow.telemetry.reading.records import Placed

TAIL_BYTES = 65536
# A log that was written later than this after an attempt's end, s, is of another attempt.
_SAME_LOG_S = 30.0


@dataclass(frozen=True, slots=True)
class Log:
    """The end of a log.

    Attributes
    ----------
    name
        As the attempt names it; empty if there is no such attempt.
    text
        Its last `TAIL_BYTES`, from the begin of a line on.
    note
        Why there is no text, or what has to be known about it; empty if nothing.
    """

    name: str
    text: str = ""
    note: str = ""


def log_of(history: History, results: Path, attempt: str) -> Log:
    """Return the log of an attempt, given its id; only logs of these results are read."""
    for h in history.runs:
        for a in h.attempts:
            if a.attempt.id == attempt:
                return _read(a, log_files(a.attempt.log, h, results))
    return Log("", note="There is no such attempt.")


def _read(a: Placed, files: list[Path]) -> Log:
    name = a.attempt.log
    if not name:
        return Log("", note="This attempt has no log.")
    if not files:
        return Log(name, note="It is none of the logs of these results, and is not shown.")
    path = next((path for path in files if path.is_file()), None)
    if path is None:
        return Log(name, note="It is not there any more.")
    try:
        text, about = tail(path, TAIL_BYTES), path.stat()
    except OSError as error:
        return Log(name, note=f"It cannot be read ({error.strerror}).")
    if about.st_size > TAIL_BYTES:
        text = text.partition("\n")[2]
    over = a.attempt.end is not None
    later = over and about.st_mtime > a.attempt.wall + a.attempt.seconds + _SAME_LOG_S
    return Log(name, text, "A later attempt has written over it." if later else "")
