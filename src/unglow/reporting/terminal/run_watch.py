"""Watchers of this process's own run: a thread that reads its telemetry, and a live page."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

from unglow.reporting.runs import RunReader
from unglow.reporting.terminal.event_lines import EventLines
from unglow.telemetry.reading.plan import Machine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from unglow.reporting.runs import Run
    from unglow.reporting.terminal.event_lines import Event

INTERVAL_S = 1.0
"""Time between two drawings, s; clocks are set forward where there was no new look."""
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
        self, places: Sequence[Path], show: Callable[[Sequence[Run], Sequence[Event]], None]
    ) -> None:
        self._readers = [RunReader(place) for place in places]
        self._events = [EventLines(inside=True) for _ in places]
        self._show = show
        self._runs: list[Run] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._repeat, name="display", daemon=True)

    def start(self) -> None:
        """Start to look."""
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


class LivePage:
    """`unglow monitor --web` as a process of its own, which ends with this one.

    Parameters
    ----------
    places
        The results directories of the run.

    Attributes
    ----------
    lines
        Its address, and the command that makes it work on another machine; empty if it could not
        be started.
    """

    def __init__(self, places: Sequence[Path]) -> None:
        for place in places:  # what it recognizes a results directory by
            (place / "telemetry").mkdir(parents=True, exist_ok=True)
        words = ["-Pm", "unglow", "monitor", "--web", "--until-input-ends", *map(str, places)]
        self._process = subprocess.Popen(  # noqa: S603 (our own command)
            [sys.executable, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # Ctrl-C ends the run first
        )
        said = self._process.stdout
        self.lines = [] if said is None else [said.readline().strip() for _ in range(2)]
        self.lines = [line for line in self.lines if line]

    def stop(self) -> None:
        """End it."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(_PATIENCE_S)
