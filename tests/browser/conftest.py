"""Pages are opened from disk in a real browser without a window: Debian's chromium."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from dataclasses import dataclass

import pytest

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser") if (path := shutil.which(name))), None
)


@dataclass(frozen=True)
class Opened:
    """A page as the browser had it after a while, and what the browser had to say."""

    dom: str
    log: str

    @property
    def root(self) -> dict[str, str]:
        """Attributes of the root: ``data-ready`` (ms) once it is drawn, or ``data-failed``."""
        return dict(re.findall(r'(data-\w+)="([^"]*)"', re.search("<html[^>]*>", self.dom)[0]))

    @property
    def text(self) -> str:
        """What is between the marks of elements, without scripts and styles."""
        body = re.sub(r"(?s)<(script|style).*?</\1>", "", self.dom)
        return html.unescape(re.sub("<[^>]*>", "\n", body))

    def complaints(self) -> list[str]:
        """Return what a page causes in the console: errors, and what its policy forbids."""
        return [line for line in self.log.splitlines() if ":CONSOLE" in line]


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
            timeout=120,
            check=False,
        )
        return Opened(done.stdout, done.stderr)

    return opened
