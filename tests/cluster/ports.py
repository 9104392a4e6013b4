"""Ports that nobody else has, nor the tests of another checkout that run at the same time."""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from contextlib import contextmanager
from pathlib import Path

#: Below those that the system gives away by itself, in steps of what one cluster may take.
CHOICE = range(20000, 32000, 40)


def _is_free(port: int) -> bool:
    """Whether a daemon could listen there now."""
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as daemons do
        try:
            tried.bind(("", port))
        except OSError:
            return False
    return True


@contextmanager
def taken(*further: int):
    """Take a port and those at some distances from it until the end; yields the first.

    A lock on a file keeps them from all who ask here, before and after a daemon listens.
    """
    place = Path(tempfile.gettempdir()) / f"unglow-test-ports-{os.getuid()}"
    place.mkdir(exist_ok=True)
    for first in CHOICE:
        with (place / str(first)).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            if all(_is_free(first + k) for k in (0, *further)):
                yield first
                return
    raise RuntimeError(f"no ports are free from {CHOICE.start} to {CHOICE.stop}")
