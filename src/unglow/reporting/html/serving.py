"""Serving a site until Ctrl-C, and a browser that is led to it.

Every user of a machine can read the arguments of all programs. A browser is therefore not given the
address, which holds the token, but a file that nobody else may read and that leads there.
"""

from __future__ import annotations

import getpass
import html
import os
import shutil
import signal
import sys
import tempfile
import threading
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from unglow.reporting.html.live_server import ADDRESS, Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from unglow.reporting.html.live_site import Site

_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}">
<title>unglow</title>
</head>
<body><a href="{url}" rel="noreferrer">Open the page of unglow</a></body>
</html>
"""


def serve(
    site: Site,
    port: int | None,
    say: Callable[[str], None],
    *,
    page: str = "",
    open_browser: Callable[[str], object] | None = None,
    until_input_ends: bool = False,
    same_user: bool = False,
) -> None:
    """Serve until Ctrl-C; the address is printed first.

    Parameters
    ----------
    site, port, same_user
        As for `Server`.
    say
        Prints a line.
    page
        What of the site to open: the end of its address.
    open_browser
        Opens an address in a browser; None for none. It is given a `redirect_file`, since others
        can read the arguments of programs.
    until_input_ends
        Whether to stop as soon as standard input ends as well.
    """
    with ExitStack() as stack:
        server = stack.enter_context(Server(site, port, same_user=same_user))
        say(f"Open {server.url}{page}")
        say(f"From another machine, first: {tunnel(server.port)}")
        say("Press Ctrl-C to stop this server; runs continue.")
        if open_browser is not None:
            _exit_on_signals()
            file = stack.enter_context(redirect_file(server.url + page))
            threading.Thread(target=open_browser, args=(file.as_uri(),), daemon=True).start()
        if until_input_ends:
            threading.Thread(target=_stop_with_input, args=(server,), daemon=True).start()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say("")


def _stop_with_input(server: Server) -> None:
    sys.stdin.buffer.read()
    server.shutdown()


def _exit_on_signals() -> None:
    """Exit on signals that end a process without removing its files; ignored ones stay ignored."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, lambda received, _: sys.exit(128 + received))


def tunnel(port: int) -> str:
    """Return the command that makes the address work on another machine."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a user without a name
        user = str(os.getuid())
    return f"ssh -N -L {port}:{ADDRESS}:{port} {user}@{os.uname().nodename}"


@contextmanager
def redirect_file(url: str) -> Iterator[Path]:
    """Make a file of mode 0600 in a directory of mode 0700 that leads to ``url``; remove both."""
    directory = Path(tempfile.mkdtemp(prefix="unglow-", dir=_runtime_directory()))
    try:
        path = directory / "open.html"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as stream:  # noqa: PTH123 (a descriptor)
            stream.write(_PAGE.format(url=html.escape(url)))
        yield path
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _runtime_directory() -> str | None:
    """Return the user's own directory for files of running programs; None if there is none."""
    place = os.environ.get("XDG_RUNTIME_DIR", "")
    try:
        is_own = os.stat(place).st_uid == os.geteuid()  # noqa: PTH116 (may be empty)
    except OSError:
        return None
    return place if is_own and os.access(place, os.W_OK | os.X_OK) else None
