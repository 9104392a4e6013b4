"""Which connections a server keeps: who does not know the token cannot keep out who does."""

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
#: How long a stranger has from the first byte of its request to the last of the answer, s.
STRANGER_S = 10.0
#: How long a connection that has shown the token may wait before it has asked again, s.
KNOWN_S = 60.0


def room() -> int:
    """Return how many connections there may be with the files that this process may open."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return _MOST
    return max(_FEWEST, min(_MOST, files // _SHARE))


@dataclass
class _Guest:
    known: bool
    due: float


class Guests:
    """The open connections of a server; all methods may be called by any thread.

    A connection is a stranger's until it has shown the token. A stranger has `STRANGER_S` in all,
    however it drips; and where there are too many connections, the oldest stranger goes, then who
    has shown the token and asked for nothing for the longest time.

    Parameters
    ----------
    most
        How many connections there may be.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: dict[socket.socket, _Guest] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._open)

    def enter(self, connection: socket.socket) -> None:
        """Take a stranger in; if there is no room for it, another one goes."""
        with self._lock:
            while len(self._open) >= self._most:
                self._drop_one()
            self._open[connection] = _Guest(known=False, due=time.monotonic() + STRANGER_S)

    def know(self, connection: socket.socket) -> None:
        """Take note that a connection has shown the token, and is being answered."""
        with self._lock:
            if connection in self._open:
                self._open[connection] = _Guest(known=True, due=math.inf)

    def answered(self, connection: socket.socket) -> None:
        """Take note that a connection has its answer; if it has shown the token, it may ask on."""
        with self._lock:
            guest = self._open.get(connection)
            if guest is not None and guest.known:
                guest.due = time.monotonic() + KNOWN_S

    def leave(self, connection: socket.socket) -> None:
        """Forget a connection; call it before the connection is closed."""
        with self._lock:
            self._open.pop(connection, None)

    def drop_late(self) -> None:
        """End the connections whose time is over."""
        now = time.monotonic()
        with self._lock:
            for connection in [c for c, guest in self._open.items() if guest.due < now]:
                self._drop(connection)

    def make_room(self) -> None:
        """End a quarter of all connections: the process can open no more files or threads."""
        with self._lock:
            for _ in range((len(self._open) + 3) // 4):
                self._drop_one()

    def _drop_one(self) -> None:
        self._drop(min(self._open, key=lambda c: (self._open[c].known, self._open[c].due)))

    def _drop(self, connection: socket.socket) -> None:
        """End a connection; the thread that reads it then sees its end, and closes it."""
        del self._open[connection]
        with contextlib.suppress(OSError):  # the other side was faster
            connection.shutdown(socket.SHUT_RDWR)
