"""Requests of a browser and their answers, and which connections a server keeps.

Connections without the token cannot keep out those with it.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import resource
import socket
import threading
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol

from unglow.core.errors import InputError
from unglow.core.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


HTML, JSON, TEXT, BYTES = "text/html", "application/json", "text/plain", "application/octet-stream"
NO_STORE = "no-store"
"""How long an answer may be kept: not at all."""
ASK_AGAIN = "private, no-cache"
"""By the browser alone, which asks each time if it is still so."""
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


@dataclass(frozen=True, slots=True)
class Request:
    """Request of somebody who knows the token.

    Attributes
    ----------
    method
        ``GET`` or ``POST``; who asks for the head alone has asked ``GET``.
    parts
        Parts of the address between slashes, below the part of the site that answers; as received,
        percent signs and all.
    query
        Values behind the question mark; of a name that comes twice, the last.
    body
        Content that was sent.
    wanted
        Whether somebody still waits for the answer.
    """

    method: str
    parts: tuple[str, ...]
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    wanted: Callable[[], bool] = lambda: True


def parse_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object that a page sent; InputError if it is none."""
    try:
        sent = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InputError("What was sent is not JSON.") from error
    if not isinstance(sent, dict):
        raise InputError("What was sent is not a JSON object.")
    return sent


class FileBody:
    """An opened file as the body of an answer; it is closed when it has been sent.

    Raises `OSError` if it cannot be opened, or is not a regular file.
    """

    def __init__(self, path: Path) -> None:
        self.file = os.fdopen(open_regular(path), "rb", buffering=0)
        state = os.fstat(self.file.fileno())
        self.size = state.st_size
        self.tag = f"{state.st_mtime_ns:x}-{state.st_size:x}-{state.st_ino:x}"
        """Another one when the file has changed."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer to a request.

    Attributes
    ----------
    kind
        Media type.
    body
        The content, or the file that holds it.
    tag
        Another one when the content has changed (``ETag``); empty for none.
    headers
        More headers, by name; they go before those that every answer has.
    """

    kind: str
    body: bytes | FileBody = b""
    status: HTTPStatus = HTTPStatus.OK
    tag: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of the content."""
        return self.body.size if isinstance(self.body, FileBody) else len(self.body)

    @classmethod
    def text(cls, text: str, kind: str = TEXT, status: HTTPStatus = HTTPStatus.OK) -> Answer:
        """Return an answer of text; what is not Unicode in names is escaped."""
        return cls(f"{kind}; charset=utf-8", text.encode("utf-8", "backslashreplace"), status)


class Part(Protocol):
    """A part of a site next to the page of the runs: all below ``<n>/<name>/``."""

    def answer(self, request: Request) -> Answer:
        """Answer a request; may be called by several threads at once."""
        ...


def range_of(header: str, size: int) -> tuple[int, int] | None:
    """Return (start, end) of the one range of bytes that a header asks for, of ``size`` in all.

    Returns
    -------
    None if the header asks for none or for several, or makes no sense: all is sent then.

    Raises
    ------
    ValueError
        No byte of it is there.
    """
    found = _RANGE.fullmatch(header.replace(" ", ""))
    if found is None or found.group(0) == "bytes=-":
        return None
    first, last = found.groups()
    if not first:
        start, end = max(0, size - int(last)), size
    elif last and int(last) < int(first):
        return None
    else:
        start, end = int(first), min(size, int(last) + 1) if last else size
    if start >= end:
        raise ValueError(f"{header} of {size} bytes")
    return start, end


def matches(header: str, tag: str) -> bool:
    """Return whether an ``If-None-Match`` names the tag of what would be sent."""
    names = [name.strip().removeprefix("W/") for name in header.split(",")]
    return bool(tag) and (f'"{tag}"' in names or "*" in names)


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
        # whether it has shown the token, and until when it has to ask
        self._open: dict[socket.socket, tuple[bool, float]] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, connection: socket.socket) -> None:
        """Take a new connection; if there is no space for it, another one is closed."""
        with self._lock:
            while len(self._open) >= self._most:
                self._drop_one()
            self._open[connection] = False, time.monotonic() + UNAUTHENTICATED_S

    def authenticate(self, connection: socket.socket) -> None:
        """Take note that a connection has shown the token, and is being answered."""
        with self._lock:
            if connection in self._open:
                self._open[connection] = True, math.inf

    def mark_answered(self, connection: socket.socket) -> None:
        """Take note that a connection has its answer; if it has shown the token, it may ask on."""
        with self._lock:
            if self._open.get(connection, (False, 0.0))[0]:
                self._open[connection] = True, time.monotonic() + AUTHENTICATED_S

    def remove(self, connection: socket.socket) -> None:
        """Forget a connection; call it before the connection is closed."""
        with self._lock:
            self._open.pop(connection, None)

    def drop_late(self) -> None:
        """End the connections whose time is over."""
        now = time.monotonic()
        with self._lock:
            for connection in [c for c, (_, due) in self._open.items() if due < now]:
                self._drop(connection)

    def close_oldest(self) -> None:
        """End a quarter of all connections: the process can open no more files or threads."""
        with self._lock:
            for _ in range((len(self._open) + 3) // 4):
                self._drop_one()

    def _drop_one(self) -> None:
        self._drop(min(self._open, key=self._open.__getitem__))

    def _drop(self, connection: socket.socket) -> None:
        """End a connection; the thread that reads it then sees its end, and closes it."""
        del self._open[connection]
        with contextlib.suppress(OSError):  # the other side was faster
            connection.shutdown(socket.SHUT_RDWR)
