"""Status lines below the output of Snakemake, for as long as it runs."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from unglow.core.terminal import warn

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path
    from typing import TextIO

SWITCH = "UNGLOW_MONITOR"
"""Environment variable that switches the lines off if it is 0."""
_MODULE = "unglow.reporting.terminal.status_lines"
# What Snakemake may be asked to be quiet about (`--quiet`) that the lines are a part of.
_QUIET = ("all", "progress")
# The program has so long to give the terminal back, s; it does so at its next look, within 1 s.
_PATIENCE_S = 3.0


def is_wanted(stream: TextIO, environment: Mapping[str, str], quiet: Iterable[str]) -> bool:
    """Whether there is a terminal that can show status lines, and nobody has switched them off.

    Parameters
    ----------
    stream
        Where Snakemake's lines go.
    environment
        Of this process.
    quiet
        What Snakemake was asked to be quiet about.
    """
    off = environment.get(SWITCH) == "0" or any(name in _QUIET for name in quiet)
    return not off and stream.isatty() and environment.get("TERM", "dumb") != "dumb"


class StatusHandler(logging.Handler):
    """Starts the program of the status lines once there are jobs to do, and ends it.

    Parameters
    ----------
    results
        The results directory.
    """

    def __init__(self, results: Path) -> None:
        super().__init__(logging.INFO)
        self._results = results
        self._program: subprocess.Popen[bytes] | None = None
        self._begun = False

    def emit(self, record: logging.LogRecord) -> None:
        """Start it with the first jobs; that it cannot be started is told, and no reason to end."""
        if self._begun or str(getattr(record, "event", "")) != "run_info":
            return
        self._begun = True
        try:
            self._program = subprocess.Popen(  # noqa: S603
                [sys.executable, "-P", "-m", _MODULE, str(self._results), str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
            )
        except Exception as error:  # noqa: BLE001 (it is only a view)
            warn(f"unglow: no status lines ({error!r})")

    def close(self) -> None:
        """End it, and wait until it has given the terminal back."""
        program, self._program = self._program, None
        if program is not None and program.stdin is not None:
            program.stdin.close()
            try:
                program.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                program.kill()
        super().close()
