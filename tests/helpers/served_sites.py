"""Sites on real servers of this process, each until its block ends."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager

from unglow.pages.report.live_server import Server


def free_port():
    """Return a port that nobody uses: browsers keep their connections to one that was used."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextmanager
def served(site, port=None, **options):
    """Serve a site; gives the server."""
    with Server(site, port, **options) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
