"""Where the variable CI is set, a test that is skipped fails the run, unless skips.toml has it."""

from __future__ import annotations

import os
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

LIST = Path(__file__).parents[1] / "skips.toml"


def listed() -> list[dict[str, str]]:
    """What may be skipped, and why."""
    return tomllib.loads(LIST.read_text())["may_skip"]


class Skips:
    """Collects what was skipped and is not listed, and fails the run for it."""

    def __init__(self) -> None:
        self._listed = listed()
        self._unlisted: dict[str, str] = {}

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if not report.skipped or hasattr(report, "wasxfail"):
            return
        file = report.nodeid.partition("::")[0]
        said = report.longrepr
        words = str(said[2] if isinstance(said, tuple) else said).removeprefix("Skipped: ")
        if not any(
            fnmatchcase(file, row["tests"]) and fnmatchcase(words, row["says"])
            for row in self._listed
        ):
            self._unlisted[report.nodeid] = words

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Look at each part of a test."""
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Look at each file: a whole one can be skipped."""
        self._note(report)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a run that was well otherwise."""
        if self._unlisted and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say which, and what to do."""
        if self._unlisted:
            terminalreporter.section("skipped, and not in tests/skips.toml", red=True)
            for test, words in sorted(self._unlisted.items()):
                terminalreporter.write_line(f"{test}: {words}")
            terminalreporter.write_line("Install what is missing, or list it with a reason.")


def pytest_configure(config: pytest.Config) -> None:
    """Watch where it counts, and only in the process that all others report to."""
    if os.environ.get("CI") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Skips(), "skips-of-ci")
