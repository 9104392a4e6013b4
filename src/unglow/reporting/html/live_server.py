"""A server on this machine alone that shows runs in a browser.

It listens on 127.0.0.1, answers nobody who does not know the token in the address, and no name but
that of this machine (a web site may give its own name the address 127.0.0.1). No path of a request
is ever a path of a file. Everybody who works on the machine can connect, so connections are few and
those without the token short (`unglow.reporting.html.live_connections`). Servers from libraries
stop accepting when they are full, which lets anybody keep everybody out.
"""

from __future__ import annotations

import errno
import getpass
import gzip
import hmac
import http.client
import http.server
import io
import json
import os
import secrets
import sys
import time
import traceback
import urllib.parse
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from unglow.core.errors import InputError
from unglow.reporting.html.live_connections import AUTHENTICATED_S, Connections, room
from unglow.reporting.html.page import policy

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from unglow.reporting.html.live_site import Site

ADDRESS = "127.0.0.1"
PORT = 8798
_MORE_PORTS = 100
_OWN_NAMES = ("127.0.0.1", "localhost", "[::1]")
_HTML, _JSON, _TEXT = "text/html", "application/json", "text/plain"
_LONG = 2048
# The first line of a request may have half of it; a longer one is refused as such.
_LONGEST_HEAD = 2**17
# What accept says where this process or the machine has no files or memory left.
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_NO_ROOM_S = 0.1


class _Requests(io.BufferedReader):
    """Requests as they come in; the head of each has at most `_LONGEST_HEAD` bytes."""

    def begin(self) -> None:
        """Expect the head of a request."""
        self._left = _LONGEST_HEAD

    def readline(self, most: int | None = -1, /) -> bytes:
        line = super().readline(most)
        self._left -= len(line)
        if self._left < 0:
            raise http.client.LineTooLong("head")
        return line


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers one browser."""

    protocol_version = "HTTP/1.1"
    timeout = AUTHENTICATED_S
    rfile: _Requests

    def __init__(self, *arguments: Any, site: Site, token: str, connections: Connections) -> None:
        self._site, self._token, self._connections = site, token, connections
        super().__init__(*arguments)

    def setup(self) -> None:
        """Prepare to read requests."""
        super().setup()
        self.rfile.close()
        self.rfile = _Requests(self.connection.makefile("rb", buffering=0))

    def handle_one_request(self) -> None:
        """Read a request and answer it."""
        self.rfile.begin()
        super().handle_one_request()
        self._connections.answered(self.connection)

    def do_GET(self) -> None:
        """Answer a request."""
        token, parts, asked = self._asked()
        authentic = hmac.compare_digest(token.encode("utf-8", "replace"), self._token.encode())
        if not (authentic and self._is_asked_by_own_name()):
            self.close_connection = True
            self._answer(HTTPStatus.FORBIDDEN, _TEXT, "Use the whole address that was printed.\n")
            return
        self._connections.authenticate(self.connection)
        if parts in ([], [""]):
            self._answer(HTTPStatus.FOUND, _TEXT, "", location=f"/{self._token}/0/")
            return
        try:
            kind, made = self._found(parts, asked)
        except (KeyError, ValueError):
            self._answer(HTTPStatus.NOT_FOUND, _TEXT, "There is no such page.\n")
            return
        try:
            text = made()
        except OSError as error:
            text = f"The results cannot be read ({error.strerror}).\n"
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, text)
        except Exception as error:
            text = f"The page could not be made ({type(error).__name__}: {error}).\n"
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, _TEXT, text)
            raise
        else:
            self._answer(HTTPStatus.OK, kind, text)

    def _asked(self) -> tuple[str, list[str], dict[str, str]]:
        """Return token, the parts after it and the query; the token is empty if there is none."""
        try:
            url = urllib.parse.urlsplit(self.path)
            _, token, *parts = url.path.split("/")
            return token, parts, dict(urllib.parse.parse_qsl(url.query))
        except ValueError:  # no address at all
            return "", [], {}

    def _found(self, parts: list[str], asked: dict[str, str]) -> tuple[str, Callable[[], str]]:
        """Return the type of what is asked for and what makes it."""
        place, kind = parts
        site, n = self._site, int(place)
        if not 0 <= n < len(site.sources):
            raise KeyError(n)
        if kind == "":
            return _HTML, lambda: site.page(n)
        if kind == "news":
            since = int(asked["since"])
            return _JSON, lambda: json.dumps(site.news(n, since))
        if kind == "log":
            attempt = asked["attempt"]
            return _JSON, lambda: json.dumps(site.sources[n].log(attempt))
        if kind == "pictures":
            return _JSON, lambda: json.dumps(site.pictures(n))
        raise KeyError(kind)

    def _is_asked_by_own_name(self) -> bool:
        """Whether the browser means this machine, by whatever port: that may be a forwarded one."""
        name = self.headers.get("Host", "").strip().lower()
        bare = name if name.endswith("]") else name.rpartition(":")[0] or name
        return bare in _OWN_NAMES

    def _answer(self, status: HTTPStatus, kind: str, text: str, location: str = "") -> None:
        body = text.encode("utf-8", "backslashreplace")
        packed = len(body) > _LONG and "gzip" in self.headers.get("Accept-Encoding", "")
        if packed:
            body = gzip.compress(body, 1, mtime=0)
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        if packed:
            self.send_header("Content-Encoding", "gzip")
        if location:
            self.send_header("Location", location)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", policy(live=True) + "; frame-ancestors 'none'")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)

    def version_string(self) -> str:
        """Tell the name of the program and no more."""
        return "unglow"

    def log_message(self, *_: object) -> None:
        """Print nothing: the terminal tells where to look, not who does."""


class Server(http.server.ThreadingHTTPServer):
    """Serves a site to browsers on this machine.

    Parameters
    ----------
    site
        What to show.
    port
        The port; if None, `PORT` or the next one that is free.

    Raises
    ------
    InputError
        The port, or every port that may be taken, is in use.
    """

    daemon_threads = True
    request_queue_size = 512

    def __init__(self, site: Site, port: int | None = None) -> None:
        self.token = secrets.token_urlsafe(16)
        self._connections = Connections(room())
        self._traced: set[tuple[str, int | None]] = set()
        handler = partial(Handler, site=site, token=self.token, connections=self._connections)
        ports = range(PORT, PORT + _MORE_PORTS) if port is None else (port,)
        for candidate in ports:
            try:
                super().__init__((ADDRESS, candidate), handler)
            except OSError:
                continue
            return
        taken = f"port {port}" if port is not None else f"every port from {PORT} to {ports[-1]}"
        raise InputError(f"{taken} of {ADDRESS} is in use; name another with --port.")

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        """The address to open."""
        return f"http://{ADDRESS}:{self.port}/{self.token}/"

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection; where there is no room for one, make it and wait a moment."""
        try:
            connection, address = super().get_request()
        except OSError as error:
            if error.errno in _NO_ROOM:
                self._make_room()
            raise
        self._connections.add(connection)
        return connection, address

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection in a thread of its own; if none can be had, not at all."""
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no more threads
            self.shutdown_request(request)
            self._make_room()

    def _make_room(self) -> None:
        self._connections.make_room()
        time.sleep(_NO_ROOM_S)  # until then nothing is accepted, and nothing tried

    def service_actions(self) -> None:
        """End the connections whose time is over."""
        self._connections.drop_late()

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        self._connections.remove(request)
        super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a browser that went away; anything else is worth a trace, once."""
        error = sys.exception()
        if error is None or isinstance(error, ConnectionError | TimeoutError):
            return
        last = traceback.extract_tb(error.__traceback__)[-1]
        if (last.filename, last.lineno) not in self._traced:
            self._traced.add((last.filename, last.lineno))
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def tunnel(port: int) -> str:
    """Return the command that makes the address work on another machine."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a user without a name
        user = str(os.getuid())
    return f"ssh -N -L {port}:{ADDRESS}:{port} {user}@{os.uname().nodename}"


def serve(site: Site, port: int | None, say: Callable[[str], None]) -> None:
    """Serve until Ctrl-C; the address is told first."""
    with Server(site, port) as server:
        say(f"Open {server.url}")
        say(f"From another machine, first: {tunnel(server.port)}")
        say("Ctrl-C ends this, and no run.")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say("")
