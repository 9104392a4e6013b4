"""Following runs on a terminal (a screen that is redrawn) or in a log (a line per event)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.live import Live
from rich.text import Text

from unglow.core.printable import clean
from unglow.reporting.runs import RunReader
from unglow.reporting.terminal.event_lines import EventLines
from unglow.reporting.terminal.formatting import make_console
from unglow.reporting.terminal.screen import draw, fit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import TextIO

    from rich.console import Console

    from unglow.reporting.runs import Run, Runs

# Looking takes at most this share of the time.
_LOOKING = 0.1
GOOD = ("ok", "running", "not recorded")
"""Outcomes of a run that are not a problem."""


def follow(places: Sequence[Path], stream: TextIO, interval: float, *, once: bool) -> int:
    """Show the runs of results directories until all are over.

    Parameters
    ----------
    places
        The directories.
    stream
        Where to write; if it is not a terminal, a line for each event.
    interval
        Time between two looks, s; more where looking takes long.
    once
        Look once, and return.

    Returns
    -------
    0, or 1 if the last run of a directory failed or was killed.
    """
    console = make_console(stream)
    readers = [RunReader(place) for place in places]
    seen = [reader.read() for reader in readers]
    if not (once or _are_over(seen)):
        if not console.is_terminal or console.is_dumb_terminal:
            return _exit_code(_follow_in_lines(console, readers, interval))
        seen = _follow_on_screen(console, readers, interval)
    shown = _shown(seen)
    if shown:  # the terminal breaks long lines, so that commands can be copied
        console.print(draw(shown, console.width), soft_wrap=True)
    for line in _missing(seen):
        console.print(line, soft_wrap=True)
    return _exit_code(seen)


def _shown(seen: Sequence[Runs]) -> list[Run]:
    return [run for runs in seen for run in runs.shown]


def _are_over(seen: Sequence[Runs]) -> bool:
    """Whether every directory has had a run, and all are over."""
    return all(runs.runs for runs in seen) and all(run.is_over for run in _shown(seen))


def _exit_code(seen: Sequence[Runs]) -> int:
    return int(any(run.outcome not in GOOD for run in _shown(seen)))


def _missing(seen: Sequence[Runs]) -> list[Text]:
    return [
        Text(f"{clean(str(runs.results))} has no telemetry: no run has started.")
        for runs in seen
        if not runs.runs
    ]


def _follow_on_screen(
    console: Console, readers: Sequence[RunReader], interval: float
) -> list[Runs]:
    seen: list[Runs] = []
    with Live(console=console, screen=True, auto_refresh=False) as live:

        def show() -> bool:
            seen[:] = [reader.read() for reader in readers]
            shown = _shown(seen)
            live.update(fit(console, shown) if shown else _missing(seen)[0], refresh=True)
            return _are_over(seen)

        _repeat(show, interval)
    return seen


def _follow_in_lines(console: Console, readers: Sequence[RunReader], interval: float) -> list[Runs]:
    seen: list[Runs] = []
    events = [EventLines(str(one.results) if len(readers) > 1 else "") for one in readers]

    def show() -> bool:
        seen[:] = [reader.read() for reader in readers]
        for runs, new in zip(seen, events, strict=True):
            for line in new.lines(runs):
                console.print(Text(line), soft_wrap=True)
        console.file.flush()
        return _are_over(seen)

    _repeat(show, interval)
    return seen


def _repeat(look: Callable[[], bool], interval: float) -> None:
    """Look again and again until all is over, or the user presses Ctrl-C."""
    try:
        while True:
            began = time.monotonic()
            if look():
                return
            took = time.monotonic() - began
            time.sleep(max(interval, took / _LOOKING))
    except KeyboardInterrupt:
        return
