"""Logs of a results directory: telemetry names them, and is not trusted with more.

Whoever may write to a results directory may write records. A record must not make a reader, or the
report that is passed on, show files of the reader's own.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from unglow.telemetry.attempt_files import RUNS
from unglow.telemetry.reading.history import UNRECORDED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unglow.telemetry.reading.history import RunHistory

_LOGS, _SUFFIX = "logs", ".log"


def log_files(log: str, h: RunHistory, results: Path) -> list[Path]:
    """Return where a log may be, resolved; nothing if it is none of these results' own.

    It ends on ``.log`` and lies in ``logs`` beside the results, or in ``logs`` of the directory
    that the run worked in, if that run wrote these results and was begun by who asks.

    Parameters
    ----------
    log
        As telemetry names it.
    h
        The run.
    results
        The results directory.
    """
    paths: list[Path] = []
    for directory in _directories(h, results):
        try:
            path, own = (directory / log).resolve(), (directory / _LOGS).resolve()
        except (OSError, ValueError, RuntimeError):  # no name that a file can have
            continue
        if path.suffix == _SUFFIX and path.is_relative_to(own) and path not in paths:
            paths.append(path)
    return paths


def _directories(h: RunHistory, results: Path) -> Iterator[Path]:
    """Return the directories that paths of a run may start from."""
    yield results.absolute().parent
    directory, named = (h.run.fields.get(key) for key in ("directory", "results"))
    if h.run.id == UNRECORDED or not (isinstance(directory, str) and isinstance(named, str)):
        return
    try:
        record = results / "telemetry" / RUNS / f"{h.run.id}.jsonl"
        same = Path(directory, named).resolve() == results.resolve()
        if same and record.stat().st_uid == os.geteuid():
            yield Path(directory)
    except (OSError, ValueError, RuntimeError):
        return
