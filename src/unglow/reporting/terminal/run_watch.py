"""A thread that looks at the telemetry of this process's own run, and hands on what it sees."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from unglow.reporting.runs import RunReader
from unglow.reporting.terminal.event_lines import EventLines
from unglow.telemetry.reading.outcomes import Machine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from unglow.reporting.runs import Run
    from unglow.reporting.terminal.event_lines import Event

INTERVAL_S = 1.0
"""What is seen is shown so often, s, its clocks set forward where there was no new look."""
# Looking takes at most this share of a processor, and showing that one.
_LOOKING, _SHOWING = 0.015, 0.005
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
        show: Callable[[Sequence[Run], Sequence[Event]], None],
    ) -> None:
        self._readers = [RunReader(place) for place in places]
        self._events = [EventLines(inside=True) for _ in places]
        self._show = show
        self._runs: list[Run] = []
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
        wait = looked = due = 0.0
        last = False
        while not last:
            last = self._over.wait(wait)
            before, now = time.thread_time(), time.monotonic()
            events: list[Event] = []
            if last or now >= due:
                events, looked = self.look(), now
                due = now + (time.thread_time() - before) / _LOOKING
            before = time.thread_time()
            self._show([run.later(now - looked) for run in self._runs], events)
            wait = max(INTERVAL_S, (time.thread_time() - before) / _SHOWING)

    def look(self) -> list[Event]:
        """Look at the runs of this process; return new events, by time."""
        machine = Machine()
        self._runs, events = [], []
        for reader, lines in zip(self._readers, self._events, strict=True):
            runs = reader.read(machine)
            own = [run for run in runs.runs if machine.asks(run.history.run)]
            if own:
                self._runs.append(own[-1])
                events += lines.events(runs)
        return sorted(events)
