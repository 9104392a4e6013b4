"""A server on this machine alone that shows runs in a browser.

It listens on 127.0.0.1, answers nobody who does not know the token in the address, and no name but
that of this machine (a web site may give its own name the address 127.0.0.1). No path of a request
is ever a path of a file.
"""

from __future__ import annotations

import getpass
import gzip
import hmac
import http.server
import json
import os
import secrets
import sys
import urllib.parse
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from unglow.errors import InputError
from unglow.report.page import policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from unglow.monitor.site import Site

ADDRESS = "127.0.0.1"
PORT = 8798
_MORE_PORTS = 100
_OWN_NAMES = ("127.0.0.1", "localhost", "[::1]")
_HTML, _JSON, _TEXT = "text/html", "application/json", "text/plain"
_LONG = 2048
# A browser that keeps quiet is let go after so many s.
_PATIENCE_S = 60.0


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers one browser."""

    protocol_version = "HTTP/1.1"
    timeout = _PATIENCE_S

    def __init__(self, *arguments: Any, site: Site, token: str) -> None:
        self._site, self._token = site, token
        super().__init__(*arguments)

    def do_GET(self) -> None:
        """Answer a request."""
        url = urllib.parse.urlsplit(self.path)
        _, token, *parts = url.path.split("/")
        known = hmac.compare_digest(token.encode("utf-8", "replace"), self._token.encode())
        if not (known and self._is_asked_by_own_name()):
            self._answer(HTTPStatus.FORBIDDEN, _TEXT, "Use the whole address that was printed.\n")
            return
        asked = dict(urllib.parse.parse_qsl(url.query))
        try:
            self._give(parts, asked)
        except (KeyError, ValueError, IndexError):
            self._answer(HTTPStatus.NOT_FOUND, _TEXT, "There is no such page.\n")
        except OSError as error:
            text = f"The results cannot be read ({error.strerror}).\n"
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, text)

    def _give(self, parts: list[str], asked: dict[str, str]) -> None:
        if parts in ([], [""]):
            self._answer(HTTPStatus.FOUND, _TEXT, "", location=f"/{self._token}/0/")
            return
        place, kind = parts
        n = int(place)
        if not 0 <= n < len(self._site.sources):
            raise IndexError(n)
        if kind == "":
            self._answer(HTTPStatus.OK, _HTML, self._site.page(n))
        else:
            self._answer(HTTPStatus.OK, _JSON, json.dumps(self._told(n, kind, asked)))

    def _told(self, n: int, kind: str, asked: dict[str, str]) -> object:
        kinds: dict[str, Callable[[], object]] = {
            "news": lambda: self._site.news(n, int(asked["since"])),
            "log": lambda: self._site.sources[n].log(asked["attempt"]),
            "pictures": lambda: self._site.pictures(n),
        }
        return kinds[kind]()

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

    def __init__(self, site: Site, port: int | None = None) -> None:
        self.token = secrets.token_urlsafe(16)
        handler = partial(Handler, site=site, token=self.token)
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

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a browser that went away; anything else is worth a trace."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
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
