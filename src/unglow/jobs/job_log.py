"""The log of a job: a file of its own, started again by each attempt."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any

from unglow.core.printable import PlainFormatter

if TYPE_CHECKING:
    from pathlib import Path

NAME = "unglow"
"""Logger of the package."""


def begin(path: Path | None) -> int | None:
    """Start the log and return its descriptor; without a file, it goes to standard error."""
    logging.raiseExceptions = False  # a log that cannot be written must not hide an error
    handler: logging.StreamHandler[Any] = logging.StreamHandler()
    descriptor = None
    if path is not None:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            stream = path.open("a", encoding="utf-8", errors="backslashreplace")
            handler, descriptor = logging.StreamHandler(stream), stream.fileno()
    handler.setFormatter(PlainFormatter("%(asctime)s %(levelname)s %(message)s"))
    log = logging.getLogger(NAME)
    log.handlers[:] = [handler]
    log.setLevel(logging.INFO)
    return descriptor
