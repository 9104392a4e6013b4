"""A server on this machine alone that shows runs and pixels in a browser.

It listens on 127.0.0.1, answers nobody who does not know the token in the address, and no name but
that of this machine (a web site may give its own name the address 127.0.0.1). No path of a request
is ever a path of a file. Everybody who works on the machine can connect, so connections are few and
those without the token short (`unglow.pages.report.live_answers`). Servers from libraries
stop accepting when they are full, which lets anybody keep everybody out.
"""

from __future__ import annotations

import errno
import gzip
import hmac
import http.client
import http.server
import io
import json
import os
import secrets
import select
import socket
import sys
import time
import traceback
import urllib.parse
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from unglow.core.errors import InputError
from unglow.core.process import find_socket_user
from unglow.pages.report.live_answers import (
    AUTHENTICATED_S,
    BYTES,
    JSON,
    NO_STORE,
    TEXT,
    Answer,
    Connections,
    FileBody,
    Request,
    matches,
    most_connections,
    range_of,
)
from unglow.pages.report.report import policy

if TYPE_CHECKING:
    from unglow.pages.report.live_site import Site

ADDRESS = "127.0.0.1"
PORT = 8798
_MORE_PORTS = 100
_OWN_NAMES = ("127.0.0.1", "localhost", "[::1]")
# Shorter texts are not worth making smaller, bytes.
_LONG = 2048
MOST_SENT = 8_000_000
"""So many bytes are taken of what a page sends."""
_DIGITS = 9
# The first line of a request may have half of it; a longer one is refused as such.
_LONGEST_HEAD = 2**17
# What accept says where this process or the machine has no files or memory left.
_FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_FULL_S = 0.1


class _Requests(io.BufferedReader):
    """Requests as they come in; the head of each has at most `_LONGEST_HEAD` bytes."""

    def expect_head(self) -> None:
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
    # head and body are two packets: the second would wait for the answer to the first
    disable_nagle_algorithm = True
    rfile: _Requests
    server: Server

    def __init__(self, *arguments: Any, site: Site, token: str, connections: Connections) -> None:
        self._site, self._token, self._connections = site, token, connections
        super().__init__(*arguments)

    def setup(self) -> None:
        """Prepare to read requests."""
        super().setup()
        self._user: int | None = None
        self.rfile.close()
        self.rfile = _Requests(self.connection.makefile("rb", buffering=0))

    def _find_user(self) -> int | None:
        """Return who has opened the connection; None if that is not known."""
        try:
            ends = self.connection.getpeername(), self.connection.getsockname()
        except OSError:  # gone already
            return None
        return find_socket_user(*ends)

    def handle_one_request(self) -> None:
        """Read a request and answer it."""
        self.rfile.expect_head()
        super().handle_one_request()
        self._connections.mark_answered(self.connection)

    def do_GET(self) -> None:
        """Answer a request; what is sent is taken from a page of this server or from no page."""
        method = "POST" if self.command == "POST" else "GET"
        token, parts, asked = self._read_request()
        authentic = hmac.compare_digest(token.encode("utf-8", "replace"), self._token.encode())
        if not (authentic and self._is_asked_by_own_name()):
            self._refuse(HTTPStatus.FORBIDDEN, "Use the complete address that was printed.\n")
            return
        # only now: whoever is on the machine may connect, and the system's table may be long
        if self.server.same_user and self._user is None:
            self._user = self._find_user()
        if self.server.same_user and self._user != os.geteuid():
            text = "This page answers only the user who has started it.\n"
            self._refuse(HTTPStatus.FORBIDDEN, text)
            return
        self._connections.authenticate(self.connection)
        body = b""
        if method == "POST":
            if refusal := self._refusal():
                self._refuse(refusal[0], json.dumps({"error": refusal[1]}), JSON)
                return
            body = self.rfile.read(int(self.headers["Content-Length"]))
        if parts in ([], [""]):
            first = {"Location": f"/{self._token}/0/"}
            self._answer(Answer(TEXT, status=HTTPStatus.FOUND, headers=first))
            return
        self._answer_from_site(Request(method, tuple(parts), asked, body, self._is_there))

    do_HEAD = do_POST = do_GET  # noqa: N815 (the names of the library)

    def _answer_from_site(self, request: Request) -> None:
        try:
            make = self._site.found(request)
        except (KeyError, ValueError):
            self._answer(Answer.text("There is no such page.\n", status=HTTPStatus.NOT_FOUND))
            return
        try:
            answer = make()
        except OSError as error:
            text = f"The results cannot be read ({error.strerror}).\n"
            self._answer(Answer.text(text, status=HTTPStatus.SERVICE_UNAVAILABLE))
        except Exception as error:
            text = f"The page could not be made ({type(error).__name__}: {error}).\n"
            self._answer(Answer.text(text, status=HTTPStatus.INTERNAL_SERVER_ERROR))
            raise
        else:
            self._answer(answer)

    def _read_request(self) -> tuple[str, list[str], dict[str, str]]:
        """Return token, the parts after it and the query; the token is empty if there is none."""
        try:
            url = urllib.parse.urlsplit(self.path)
            _, token, *parts = url.path.split("/")
            return token, parts, dict(urllib.parse.parse_qsl(url.query))
        except ValueError:  # no address at all
            return "", [], {}

    def _is_asked_by_own_name(self) -> bool:
        """Whether the browser means this machine, by whatever port: that may be a forwarded one."""
        name = self.headers.get("Host", "").strip().lower()
        bare = name if name.endswith("]") else name.rpartition(":")[0] or name
        return bare in _OWN_NAMES

    def _refusal(self) -> tuple[HTTPStatus, str] | None:
        """Return why nothing is taken from who sends something; None if it is."""
        origin, host = self.headers.get("Origin"), self.headers.get("Host", "").strip().lower()
        # browsers say where a page that sends something is from; programs do not
        if origin is not None and origin.strip().lower() != f"http://{host}":
            return HTTPStatus.FORBIDDEN, "Nothing is taken from pages of other servers."
        if self.headers.get_content_type() != JSON:
            return HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Content has to be {JSON}."
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            return HTTPStatus.LENGTH_REQUIRED, "Say how many bytes are sent (Content-Length)."
        if len(length) > _DIGITS or int(length) > MOST_SENT:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"At most {MOST_SENT} bytes are taken."
        return None

    def _refuse(self, status: HTTPStatus, text: str, kind: str = TEXT) -> None:
        """Answer and hang up: what was sent along has not been read."""
        self.close_connection = True
        self._answer(Answer.text(text, kind, status))

    def _is_there(self) -> bool:
        """Whether the other side still waits: it has not closed the connection."""
        try:
            has_come = select.poll()
            has_come.register(self.connection, select.POLLIN)
            return not has_come.poll(0) or self.connection.recv(1, socket.MSG_PEEK) != b""
        except (OSError, ValueError):
            return False

    def _answer(self, answer: Answer) -> None:
        body = answer.body
        try:
            self._send(answer)
        finally:
            if isinstance(body, FileBody):
                body.file.close()

    def _send(self, answer: Answer) -> None:
        """Send an answer: all of it, the range that is asked for, or that it is as it was."""
        status, content, part = answer.status, answer.body, (0, answer.size)
        headers: dict[str, str] = {}
        if status == HTTPStatus.OK:
            if matches(self.headers.get("If-None-Match", ""), answer.tag):
                status, content, part = HTTPStatus.NOT_MODIFIED, b"", (0, 0)
            else:
                status, part, headers = self._part(answer)
        if isinstance(content, bytes):
            content = content[slice(*part)]
            if self._is_packed(answer.kind, status, content):
                headers["Content-Encoding"] = "gzip"
                content = gzip.compress(content, 1, mtime=0)
        size = len(content) if isinstance(content, bytes) else part[1] - part[0]
        self._send_head(answer, status, {"Content-Length": str(size), **headers})
        if self.command == "HEAD":
            return
        if isinstance(content, bytes):
            self.wfile.write(content)
        elif size:
            self.connection.sendfile(content.file, part[0], size)

    def _part(self, answer: Answer) -> tuple[HTTPStatus, tuple[int, int], dict[str, str]]:
        """Return status, bytes and headers of what is sent of an answer."""
        size = answer.size
        if answer.kind != BYTES:
            return HTTPStatus.OK, (0, size), {}
        taken = {"Accept-Ranges": "bytes"}
        try:
            part = range_of(self.headers.get("Range", ""), size)
        except ValueError:
            headers = taken | {"Content-Range": f"bytes */{size}"}
            return HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, (0, 0), headers
        if part is None:
            return HTTPStatus.OK, (0, size), taken
        headers = taken | {"Content-Range": f"bytes {part[0]}-{part[1] - 1}/{size}"}
        return HTTPStatus.PARTIAL_CONTENT, part, headers

    def _is_packed(self, kind: str, status: HTTPStatus, content: bytes) -> bool:
        is_text = kind.startswith("text/") or kind.split(";", maxsplit=1)[0] == JSON
        asked = "gzip" in self.headers.get("Accept-Encoding", "")
        return is_text and asked and status != HTTPStatus.NOT_MODIFIED and len(content) > _LONG

    def _send_head(self, answer: Answer, status: HTTPStatus, more: dict[str, str]) -> None:
        headers = {
            "Content-Type": answer.kind,
            "Cache-Control": NO_STORE,
            "Content-Security-Policy": policy(live=True) + "; frame-ancestors 'none'",
            "Cross-Origin-Resource-Policy": "same-origin",
            "X-Content-Type-Options": "nosniff",
            **({"ETag": f'"{answer.tag}"'} if answer.tag else {}),
            **({"Connection": "close"} if self.close_connection else {}),
            **answer.headers,
            **more,
        }
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def end_headers(self) -> None:
        """End the head of any answer, also of one that the library makes of a broken request."""
        self.send_header("Referrer-Policy", "no-referrer")
        super().end_headers()

    def version_string(self) -> str:
        """Report the name of the program and no more."""
        return "unglow"

    def log_message(self, *_: object) -> None:
        """Print nothing: the terminal shows where to look, not who does."""


class Server(http.server.ThreadingHTTPServer):
    """Serves a site to browsers on this machine.

    Parameters
    ----------
    site
        What to show.
    port
        The port; if None, `PORT` or the next one that is free.
    same_user
        Whether only processes of the user who serves are answered, even with the token.

    Raises
    ------
    InputError
        The port, or every port that may be taken, is in use.
    """

    daemon_threads = True
    request_queue_size = 512

    def __init__(self, site: Site, port: int | None = None, *, same_user: bool = False) -> None:
        self.token = secrets.token_urlsafe(16)
        self.same_user = same_user
        self._connections = Connections(most_connections())
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
        """Accept a connection; where there is no space for one, make it and wait a moment."""
        try:
            connection, address = super().get_request()
        except OSError as error:
            if error.errno in _FULL:
                self._close_oldest()
            raise
        self._connections.add(connection)
        return connection, address

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection in a thread of its own; if none can be had, not at all."""
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no more threads
            self.shutdown_request(request)
            self._close_oldest()

    def _close_oldest(self) -> None:
        self._connections.close_oldest()
        time.sleep(_FULL_S)  # until then nothing is accepted, and nothing tried

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
