"""Home, caches and temporary files of the tests: never those of the user who runs them."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

#: Where they are; set for the processes that tests start, and for those of pytest itself.
VARIABLE = "UNGLOW_TESTS_AT"
PLACES = {
    "HOME": "home",
    "XDG_CACHE_HOME": "home/.cache",
    "XDG_CONFIG_HOME": "home/.config",
    "XDG_DATA_HOME": "home/.local/share",
    "XDG_STATE_HOME": "home/.local/state",
    "XDG_RUNTIME_DIR": "run",
    "TMPDIR": "tmp",
}
# What programs of the tests would write in the home of the user; others may write there meanwhile.
_LOOKED_THROUGH = tuple(
    f"{place}/{program}"
    for place in (".cache", ".config", ".local/share", ".local/state")
    for program in ("unglow", "snakemake", "matplotlib")
)


def take_own_places() -> Path | None:
    """Set the variables, at first in a new directory; return the home that was the user's then."""
    if VARIABLE in os.environ:
        tempfile.tempdir = os.environ["TMPDIR"]
        return None
    home, shared = Path.home(), tempfile.gettempdir()
    fonts = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "matplotlib"
    settings = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf"
    # short, as the path of a socket has at most 107 bytes; daemons with users of their own enter
    root = Path(tempfile.mkdtemp(prefix="unglow-"))
    root.chmod(0o755)
    os.environ[VARIABLE] = str(root)
    for name, place in PLACES.items():
        (root / place).mkdir(parents=True, exist_ok=True)
        os.environ[name] = str(root / place)
    (root / "run").chmod(0o700)
    (root / "home" / ".gitconfig").write_text("[safe]\n\tdirectory = *\n")
    if fonts.is_dir():  # they take seconds to list
        shutil.copytree(fonts, root / "home" / ".cache" / "matplotlib")
    if settings.is_file():  # where packages are
        os.environ.setdefault("PIP_CONFIG_FILE", str(settings))
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", shared)
    tempfile.tempdir = os.environ["TMPDIR"]
    return home


def leave_own_places() -> None:
    """Remove the directory."""
    shutil.rmtree(os.environ[VARIABLE], ignore_errors=True)


def files_of(home: Path) -> dict[str, int]:
    """When files of a user that programs of the tests would write were changed, by path."""
    found: dict[str, int] = {}
    for place in _LOOKED_THROUGH:
        for directory, names, files in os.walk(home / place):
            for path in (Path(directory), *(Path(directory, name) for name in (*names, *files))):
                if path.exists():
                    found[str(path)] = 0 if path.is_dir() else path.stat().st_mtime_ns
    return found


class UntouchedHome:
    """Fails a run whose tests have changed files in the home of the user."""

    def __init__(self, home: Path) -> None:
        self._home, self._before = home, files_of(home)
        self._changed: list[str] = []

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Compare."""
        after = files_of(self._home)
        self._changed = sorted(path for path in after if after[path] != self._before.get(path))
        if self._changed and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name them."""
        if self._changed:
            terminalreporter.section("changed outside of the tests' own directories", red=True)
            for path in self._changed:
                terminalreporter.write_line(path)
