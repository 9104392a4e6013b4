"""Which connections a server keeps: those without the token cannot keep out those with it."""

from __future__ import annotations

import contextlib
import math
import resource
import socket
import threading
import time
from dataclasses import dataclass

# A browser opens six connections; the rest of what a process may open is for reading results.
_MOST, _FEWEST, _SHARE = 128, 8, 4
#: How long a connection without the token has from the first byte of its request to the last of the
#: answer, s.
UNAUTHENTICATED_S = 10.0
#: How long a connection that has shown the token may wait before it has asked again, s.
AUTHENTICATED_S = 60.0


def most_connections() -> int:
    """Return how many connections there may be with the files that this process may open."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return _MOST
    return max(_FEWEST, min(_MOST, files // _SHARE))


@dataclass
class _Connection:
    authenticated: bool
    due: float


class Connections:
    """The open connections of a server; all methods may be called by any thread.

    A connection has `UNAUTHENTICATED_S` in all to show the token, however slowly it sends. Where
    there are too many, the oldest of those without the token is closed, then the one that has shown
    it and has asked for nothing for the longest time.

    Parameters
    ----------
    most
        How many connections there may be.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: dict[socket.socket, _Connection] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, connection: socket.socket) -> None:
        """Take a new connection; if there is no space for it, another one is closed."""
        with self._lock:
            while len(self._open) >= self._most:
                self._drop_one()
            due = time.monotonic() + UNAUTHENTICATED_S
            self._open[connection] = _Connection(authenticated=False, due=due)

    def authenticate(self, connection: socket.socket) -> None:
        """Take note that a connection has shown the token, and is being answered."""
        with self._lock:
            if connection in self._open:
                self._open[connection] = _Connection(authenticated=True, due=math.inf)

    def mark_answered(self, connection: socket.socket) -> None:
        """Take note that a connection has its answer; if it has shown the token, it may ask on."""
        with self._lock:
            one = self._open.get(connection)
            if one is not None and one.authenticated:
                one.due = time.monotonic() + AUTHENTICATED_S

    def remove(self, connection: socket.socket) -> None:
        """Forget a connection; call it before the connection is closed."""
        with self._lock:
            self._open.pop(connection, None)

    def drop_late(self) -> None:
        """End the connections whose time is over."""
        now = time.monotonic()
        with self._lock:
            for connection in [c for c, one in self._open.items() if one.due < now]:
                self._drop(connection)

    def close_oldest(self) -> None:
        """End a quarter of all connections: the process can open no more files or threads."""
        with self._lock:
            for _ in range((len(self._open) + 3) // 4):
                self._drop_one()

    def _drop_one(self) -> None:
        self._drop(min(self._open, key=lambda c: (self._open[c].authenticated, self._open[c].due)))

    def _drop(self, connection: socket.socket) -> None:
        """End a connection; the thread that reads it then sees its end, and closes it."""
        del self._open[connection]
        with contextlib.suppress(OSError):  # the other side was faster
            connection.shutdown(socket.SHUT_RDWR)
