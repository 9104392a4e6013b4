"""The program that keeps status lines below Snakemake's own; it is run with ``-m``.

It is a process of its own, so that it neither holds up Snakemake nor can end it, and so that it can
give the terminal back when Snakemake was killed: it ends with its standard input.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from unglow.core.machine import processors
from unglow.core.rounding import duration, memory
from unglow.core.terminal import warn
from unglow.reporting.terminal.follow import console_for
from unglow.reporting.terminal.run_view import Watched
from unglow.reporting.terminal.screen import BAD, Bar, job_lines
from unglow.reporting.terminal.scroll_region import Region

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console, RenderableType

    from unglow.reporting.terminal.run_view import RunView

INTERVAL_S = 1.0
# Looking takes at most this share of the time.
_LOOKING = 0.05
_MOST_JOBS = 4
_INPUT, _TERMINAL = 0, 2
_NICER = 5


def status(run: RunView, jobs: int) -> RenderableType:
    """Return a line for the run, and one for each of at most so many running jobs."""
    left = "" if run.left is None else f", {run.left.words}"
    budget = "" if run.budget_mb is None else f" of {memory(run.budget_mb)}"
    failed = sum(row.failed for row in run.rules)
    line = Text.assemble(
        f"{run.done} of {run.of} jobs",
        (f", {failed} failed" if failed else "", BAD),
        f", {duration(run.seconds)}{left}; jobs take {memory(run.used_mb)} (PSS){budget}",
        no_wrap=True,
        overflow="ellipsis",
    )
    head = Table.grid(padding=(0, 1))
    head.add_row(Bar(run.done / max(1, run.of), 20), line)
    return Group(head, job_lines(run.jobs[:jobs]))


def lines_of(shown: RenderableType, console: Console, width: int) -> list[str]:
    """Return what is shown as lines with escapes, no wider than ``width``."""
    with console.capture() as captured:
        console.print(shown, width=width)
    return captured.get().splitlines()


def main(words: Sequence[str]) -> int:
    """Show the run of a process, given its results directory and the number of the process."""
    results, pid = Path(words[0]), int(words[1])
    os.nice(_NICER)
    # Ctrl-C is meant for Snakemake, which may take a while to end its jobs
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    region = Region(_TERMINAL, 1 + min(_MOST_JOBS, processors()))
    signal.signal(signal.SIGTSTP, lambda *_: _stop(region))
    try:
        _keep(region, Watched(results), pid)
    except Exception as error:  # noqa: BLE001 (whatever it is, the run goes on without)
        region.close()
        warn(f"unglow: no status lines any more ({error!r})")
        return 1
    finally:
        region.close()
    return 0


def _keep(region: Region, watched: Watched, pid: int) -> None:
    console = console_for(sys.stderr)
    wait = 0.0
    while not select.select([_INPUT], [], [], wait)[0]:
        began = time.monotonic()
        if os.tcgetpgrp(_TERMINAL) == os.getpgrp():
            for run in watched.look():
                if run.pid == pid:
                    region.draw(lines_of(status(run, _MOST_JOBS), console, region.columns))
        else:
            region.close()
        wait = max(INTERVAL_S, (time.monotonic() - began) / _LOOKING)


def _stop(region: Region) -> None:
    """Give the terminal back before this process is stopped together with Snakemake."""
    region.close()
    signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTSTP)
    signal.signal(signal.SIGTSTP, lambda *_: _stop(region))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
