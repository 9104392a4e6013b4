"""Pages are opened in a real browser without a window."""

from __future__ import annotations

import socket
import subprocess
import threading

import pytest
from devtools import Tab
from pages import CHROMIUM, Opened

from unglow.reporting.html.live_server import Server
from unglow.reporting.html.live_site import Site
from unglow.viewer.site import NAME, Viewer


@pytest.fixture(scope="session")
def browse(tmp_path_factory):
    """A function that opens a file with the network cut off and returns it as `Opened`."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed (Debian: apt-get install chromium)")
    profile = tmp_path_factory.mktemp("chromium")

    def opened(path, size="1300,1800"):
        done = subprocess.run(
            [
                CHROMIUM,
                *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
                f"--user-data-dir={profile}",
                "--host-resolver-rules=MAP * ~NOTFOUND",
                *("--enable-logging=stderr", "--v=0", f"--window-size={size}"),
                *("--virtual-time-budget=5000", "--dump-dom", path.absolute().as_uri()),
            ],
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        return Opened(done.stdout, done.stderr)

    return opened


@pytest.fixture(scope="module")
def view_tab(tmp_path_factory):
    """A tab for the viewer, as large as the screens of small laptops."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed (Debian: apt-get install chromium)")
    tab = Tab(CHROMIUM, tmp_path_factory.mktemp("chromium"), (1280, 900))
    yield tab
    tab.close()


@pytest.fixture
def view(view_tab):
    """A function that shows a results directory in the viewer, with what follows the ``#``.

    It returns the tab when all that is to be seen is there; ``tab.server`` serves it.
    """
    servers = []

    def show(results, **state):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = Server(Site([results], {NAME: Viewer}), port)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}).start()
        servers.append(server)
        view_tab.open("about:blank")
        view_tab.wait("location.href === 'about:blank'")
        view_tab.requests.clear()
        view_tab.complaints.clear()
        view_tab.server = server
        hashed = "&".join(f"{key}={value}" for key, value in state.items())
        view_tab.open(f"{server.url}0/{NAME}/#{hashed}")
        view_tab.wait(
            "window.unglow && document.documentElement.dataset.ready"
            " && (unglow.settled || !unglow.message.hidden)",
            120,
        )
        return view_tab

    yield show
    for server in servers:
        server.shutdown()
        server.server_close()
