"""A thread that looks at the telemetry of this process's own run, and hands on what it sees."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from unglow.reporting.terminal.event_lines import EventLines
from unglow.reporting.terminal.run_view import Watched

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from unglow.reporting.terminal.event_lines import Event
    from unglow.reporting.terminal.run_view import RunView

INTERVAL_S = 1.0
# Looking and drawing take at most this share of a processor.
_SHARE = 0.02
_PATIENCE_S = 30.0


class RunWatch:
    """Looks until it is stopped, and once more then.

    Parameters
    ----------
    places
        The results directories of the run.
    show
        Called with the run of each directory as it looks, and with new events, by time.
    """

    def __init__(
        self,
        places: Sequence[Path],
        show: Callable[[Sequence[RunView], Sequence[Event]], None],
    ) -> None:
        self._watched = [Watched(place) for place in places]
        self._events = [EventLines(place) for place in places]
        self._show = show
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._repeat, name="display", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look for the last time, and wait for it."""
        self._over.set()
        self._thread.join(_PATIENCE_S)

    def _repeat(self) -> None:
        wait, last = 0.0, False
        while not last:
            last = self._over.wait(wait)
            before = time.thread_time()
            self._look()
            wait = max(INTERVAL_S, (time.thread_time() - before) / _SHARE)

    def _look(self) -> None:
        runs: list[RunView] = []
        events: list[Event] = []
        for watched, lines in zip(self._watched, self._events, strict=True):
            own = [run for run in watched.look() if run.pid == os.getpid() and not run.over]
            if own:
                runs += [replace(run, pairs=watched.pairs(), incidents=()) for run in own]
                events += lines.events(watched.seen, watched.rows())
        self._show(runs, sorted(events))
