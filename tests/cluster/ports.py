"""Ports that nobody else has, nor the tests of another checkout that run at the same time."""

from __future__ import annotations

import socket
from contextlib import contextmanager

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

    A name that one process can have at a time keeps them from all who ask here, before and after a
    daemon listens.
    """
    for first in CHOICE:
        with socket.socket(socket.AF_UNIX) as lock:
            try:
                lock.bind(f"\0unglow-test-port-{first}")  # in no directory
            except OSError:
                continue
            if all(_is_free(first + k) for k in (0, *further)):
                yield first
                return
    raise RuntimeError(f"no ports are free from {CHOICE.start} to {CHOICE.stop}")
