"""Events of runs as lines, and watchers of this process's own run: a thread, and a live page."""

from __future__ import annotations

import subprocess
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from unglow.core.levels import name_of
from unglow.core.printable import clean
from unglow.core.rounding import duration, memory
from unglow.core.workflow_files import COMMAND, is_foreign
from unglow.results.runs import RunReader
from unglow.results.wording import clock, count, describe_end, first_sentence
from unglow.telemetry.reading.history import UNRECORDED
from unglow.telemetry.reading.incidents import STALL
from unglow.telemetry.reading.plan import Machine
from unglow.telemetry.reading.records import ENDED_WELL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from unglow.results.runs import Run, Runs
    from unglow.telemetry.reading.incidents import Incident
    from unglow.telemetry.reading.records import Attempt


_JUDGED = ("ok", "suspect")
_INTERRUPTED, _SKIPPED = "interrupted", "skipped"


@dataclass(frozen=True, slots=True, order=True)
class Event:
    """Something that happened.

    Attributes
    ----------
    wall
        When, Unix time, s.
    text
        In words.
    status
        ``ok``, ``suspect`` or ``failed``; empty for what is neither good nor bad.
    remedy
        A command to copy; empty if there is none.
    """

    wall: float
    text: str
    status: str = ""
    remedy: str = ""

    @property
    def line(self) -> str:
        """All of it on a line, with the time of day."""
        return f"{clock(self.wall)} {self.text}" + (f" Try: {self.remedy}" if self.remedy else "")


class EventLines:
    """Events of a results directory, each once: runs, finished pairs, failed jobs.

    Parameters
    ----------
    name
        Start of each line after the time; empty if there is only one directory.
    inside
        Whether it is for the run itself, which shows its start and end in another way.
    """

    def __init__(self, name: str = "", *, inside: bool = False) -> None:
        self._inside = inside
        # whoever interrupts a run knows it; skipped inputs are printed at its start
        self._hidden = (_INTERRUPTED, _SKIPPED) if inside else (_INTERRUPTED,)
        self._name = f"{clean(name)}: " if name else ""
        self._written: set[str] = set()
        self._omitted: set[str] | None = None

    def lines(self, runs: Runs) -> list[str]:
        """Return a line for each new event, by time."""
        return [event.line for event in self.events(runs)]

    def events(self, runs: Runs) -> list[Event]:
        """Return the new events, by time; none of runs that were over at the first look."""
        if self._omitted is None:
            self._omitted = {run.id for run in runs.runs if run.is_over}
        followed = (run for run in runs.runs if run.id not in self._omitted)
        return sorted(event for run in followed for event in self._run(run))

    def _run(self, run: Run) -> Iterable[Event]:
        is_framed = run.id != UNRECORDED and not self._inside
        if is_framed:
            text = f"run of {count(run.of, 'job')} on {run.host}"
            yield from self._once(f"{run.id} start", Event(run.wall, text))
        for row in (row for row in run.pairs if row["status"] in _JUDGED):
            wall = run.find_end(row)
            if wall is not None:  # else it was done before
                event = Event(wall, _describe_pair(row), str(row["status"]))
                yield from self._once(f"{run.id} {event.text}", event)
        if is_foreign(run.results):  # no pairs: a line for each job
            for a in (a for a in run.history.attempts if a.outcome == ENDED_WELL):
                event = Event(run.wall + a.end, _describe_job(a), "ok")
                yield from self._once(a.id, event)
        for incident in run.incidents:
            if incident.cause in self._hidden:
                continue
            wall = round(incident.wall or run.wall, 1)
            key = f"{run.id} {incident.title}"  # of a pair, whose jobs go on
            if incident.kind != "pair":
                key += f" {incident.kind} {incident.attempt} {wall}"
            status = "failed" if incident.kind != STALL else ""
            event = Event(wall, _describe_incident(incident), status, clean(incident.remedy))
            yield from self._once(key, event)
        if run.is_over and is_framed:
            jobs = f"{run.done} of {run.of} jobs done"
            text = f"{describe_end(run)} after {duration(run.seconds)}, {jobs}"
            yield from self._once(f"{run.id} end", Event(run.wall + run.seconds, text))

    def _once(self, key: str, event: Event) -> Iterable[Event]:
        if key not in self._written:
            self._written.add(key)
            yield replace(event, text=f"{self._name}{event.text}")


def _describe_pair(row: Mapping[str, Any]) -> str:
    """Return what came out of a pair: state, candidates, gain, and why it is suspect."""
    count, gain = (row.get(key) for key in ("candidates", "gain"))
    numbers = [] if count in (None, "") else [f"{count} candidate{'s' * (str(count) != '1')}"]
    numbers += [] if gain in (None, "") else [f"gain {gain}"]
    reasons = first_sentence(str(row.get("reasons") or "")) if row["status"] != "ok" else ""
    text = ", ".join([f"{name_of(row)}: {row['status']}", *numbers])
    return clean(text + (f". {reasons}" if reasons else ""))


def _describe_job(attempt: Attempt) -> str:
    """Return what a job took: time, memory, and what its rule declared."""
    text = f"{clean(attempt.title)}: ok, {duration(attempt.seconds)}"
    if attempt.peak_mb is not None:
        least = "at least " if attempt.is_peak_bound else ""
        text += f", peak {least}{memory(attempt.peak_mb)}"
        text += f" of {memory(attempt.declared_mb)}" if attempt.declared_mb else ""
    return text


def _describe_incident(incident: Incident) -> str:
    number = (incident.numbers or {}).get("number", 1)
    title = clean(incident.title) + (f" (attempt {number:.0f})" if number > 1 else "")
    text = f"{title}: {clean(incident.cause.replace('_', ' '))}"
    text += f": {first_sentence(incident.message)}" if incident.message else ""
    text += f" What helps: {first_sentence(incident.helps)}" if incident.helps else ""
    return text + (f" (log: {clean(incident.log)})" if incident.log else "")


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
                events, looked = self.read_events(), now
                due = now + (time.thread_time() - before) / _LOOKING
            before = time.thread_time()
            self._show([run.later(now - looked) for run in self._runs], events)
            wait = max(INTERVAL_S, (time.thread_time() - before) / _SHOWING)

    def read_events(self) -> list[Event]:
        """Look at the runs of this process; return new events, by time."""
        machine = Machine()
        self._runs, events = [], []
        for reader, lines in zip(self._readers, self._events, strict=True):
            runs = reader.read(machine)
            own = [run for run in runs.runs if machine.runs_here(run.history.run)]
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
        words = ["monitor", "--web", "--until-input-ends", *map(str, places)]
        self._process = subprocess.Popen(  # noqa: S603 (our own command)
            [*COMMAND, *words],
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
