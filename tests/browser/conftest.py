"""Pages are opened from disk in a real browser without a window."""

from __future__ import annotations

import subprocess

import pytest
from pages import CHROMIUM, Opened


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
