"""Following runs in a terminal (a screen that is drawn anew) or in a log (a line per event)."""

from __future__ import annotations

import io
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.text import Text

from unglow.core.printable import clean
from unglow.reporting.terminal.event_lines import EventLines
from unglow.reporting.terminal.run_view import Watched
from unglow.reporting.terminal.screen import drawn, fitting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import TextIO

    from unglow.reporting.terminal.run_view import RunView

# Looking takes at most this share of the time.
_LOOKING = 0.1
GOOD = ("ok", "running", "")
"""Outcomes of a run that are no problem."""


def console_for(stream: TextIO) -> Console:
    """Return a console that takes text as text; it follows NO_COLOR, COLUMNS and TERM.

    Characters that the terminal's encoding does not have are replaced.
    """
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="replace")
    return Console(file=stream, markup=False, highlight=False, emoji=False)


def follow(places: Sequence[Path], stream: TextIO, interval: float, *, once: bool) -> int:
    """Show the runs of results directories until all are over.

    Parameters
    ----------
    places
        The directories.
    stream
        Where to; if it is no terminal, events are written as lines.
    interval
        Time between two looks, s; more where looking takes long.
    once
        Look once, and go.

    Returns
    -------
    0, or 1 if the last run of a directory failed or was killed.
    """
    console = console_for(stream)
    watched = [Watched(place) for place in places]
    runs = _look(watched)
    if not (once or _over(watched, runs)):
        if console.is_terminal and not console.is_dumb_terminal:
            runs = _screen(console, watched, interval)
        else:
            runs = _lines(console, watched, interval)
            return _status(runs)
    _print(console, watched, runs)
    return _status(runs)


def _look(watched: Sequence[Watched]) -> list[RunView]:
    return [
        run if run.over else replace(run, pairs=one.pairs())
        for one in watched
        for run in one.look()
    ]


def _over(watched: Sequence[Watched], runs: Sequence[RunView]) -> bool:
    """Whether nothing more will come: every directory has had a run, and all are over."""
    seen = {run.results for run in runs}
    return all(one.results in seen for one in watched) and all(run.over for run in runs)


def _status(runs: Sequence[RunView]) -> int:
    return int(any(run.outcome not in GOOD for run in runs))


def _print(console: Console, watched: Sequence[Watched], runs: Sequence[RunView]) -> None:
    """Print everything once; the terminal breaks long lines, so that commands can be copied."""
    if runs:
        console.print(drawn(runs, console.width), soft_wrap=True)
    for line in _waiting(watched, runs):
        console.print(line, soft_wrap=True)


def _waiting(watched: Sequence[Watched], runs: Sequence[RunView]) -> list[Text]:
    seen = {run.results for run in runs}
    return [
        Text(f"{clean(str(one.results))} has no telemetry: no run has begun.")
        for one in watched
        if one.results not in seen
    ]


def _screen(console: Console, watched: Sequence[Watched], interval: float) -> list[RunView]:
    runs: list[RunView] = []
    with Live(console=console, screen=True, auto_refresh=False) as live:

        def show() -> bool:
            nonlocal runs
            runs = _look(watched)
            waiting = _waiting(watched, runs)
            live.update(waiting[0] if not runs else fitting(console, runs), refresh=True)
            return _over(watched, runs)

        _repeat(show, interval)
    return runs


def _lines(console: Console, watched: Sequence[Watched], interval: float) -> list[RunView]:
    runs: list[RunView] = []
    names = [str(one.results) if len(watched) > 1 else "" for one in watched]
    events = [EventLines(one.results, name) for one, name in zip(watched, names, strict=True)]

    def show() -> bool:
        nonlocal runs
        runs = _look(watched)
        for one, new in zip(watched, events, strict=True):
            for line in new.lines(one.seen, one.rows()):
                console.print(Text(line), soft_wrap=True)
        console.file.flush()
        return _over(watched, runs)

    _repeat(show, interval)
    return runs


def _repeat(look: Callable[[], bool], interval: float) -> None:
    """Look again and again until there is no more to come, or the user has seen enough."""
    try:
        while True:
            began = time.monotonic()
            if look():
                return
            took = time.monotonic() - began
            time.sleep(max(interval, took / _LOOKING))
    except KeyboardInterrupt:
        return
