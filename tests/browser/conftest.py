"""Pages are opened in a real browser without a window."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack

import pytest
from devtools import Tab, leave
from made_results import made_pair, refused
from pages import CHROMIUM, Opened
from served_sites import free_port, served

from unglow.pages.report.live_site import Site
from unglow.pages.viewer.site import NAME, Viewer

SUMMARY = """\
sample\tdye\tstatus\treasons\tcandidates
A\tDAPI\tskipped\traw/A holds no pre-stain image: add one.\t
B\tDAPI\tfailed\tNo match was found.\t
C\tDAPI\tok\t\t30
"""


@pytest.fixture(scope="session")
def batch(tmp_path_factory):
    """Results of a skipped pair, of one that failed and of one that is ok; not to be changed."""
    results = tmp_path_factory.mktemp("batch") / "results"
    refused(results / "B" / "DAPI")
    made_pair(results / "C" / "DAPI")
    (results / "summary.tsv").write_text(SUMMARY)
    return results


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
def open_tab(tmp_path_factory):
    """A function that opens a tab of some size, px, in a browser of its own."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed (Debian: apt-get install chromium)")
    with ExitStack() as stack:

        def opened(*size):
            tab = Tab(CHROMIUM, tmp_path_factory.mktemp("chromium"), *size)
            stack.callback(tab.close)
            return tab

        yield opened


@pytest.fixture(scope="module")
def view_tab(open_tab):
    """A tab for the viewer, as large as the screens of small laptops."""
    return open_tab((1280, 900))


@pytest.fixture
def view(view_tab):
    """A function that shows a results directory in the viewer, with what follows the ``#``.

    It returns the tab when all that is to be seen is there; ``tab.server`` serves it.
    """
    with ExitStack() as stack:

        def show(results, **state):
            server = stack.enter_context(served(Site([results], {NAME: Viewer}), free_port()))
            leave(view_tab)
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
