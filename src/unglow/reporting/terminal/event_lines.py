"""Events of runs as lines, for log files, pipes and what scrolls past in a terminal."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from unglow.core.levels import name_of
from unglow.core.printable import clean
from unglow.core.rounding import duration, memory
from unglow.core.workflow_files import is_foreign
from unglow.reporting.terminal.formatting import OUTCOMES, clock, count
from unglow.reporting.terminal.run_view import incidents_of
from unglow.telemetry.reading import plan
from unglow.telemetry.reading.history import UNRECORDED
from unglow.telemetry.reading.records import ENDED_WELL, RUNNING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from unglow.telemetry.reading.history import History, RunHistory
    from unglow.telemetry.reading.incidents import Incident
    from unglow.telemetry.reading.records import Attempt

_Row = dict[str, Any]
_JUDGED = ("ok", "suspect")
_INTERRUPTED = "interrupted"
# Characters of a reason or a message.
_LONGEST = 200


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
    results
        The directory.
    name
        What lines begin with after the time; empty if there is only one directory.
    inside
        Whether it is for the run itself, which says where it begins and how it ends.
    """

    def __init__(self, results: Path, name: str = "", *, inside: bool = False) -> None:
        self.results, self._inside = results, inside
        self._name = f"{clean(name)}: " if name else ""
        self._written: set[str] = set()
        self._left_out: set[str] | None = None

    def lines(self, history: History, rows: Sequence[_Row] = ()) -> list[str]:
        """Return a line for each new event, by time."""
        return [event.line for event in self.events(history, rows)]

    def events(self, history: History, rows: Sequence[_Row] = ()) -> list[Event]:
        """Return the events that were not among those before, by time.

        Of the runs that were there at the first look, those that go on are followed from their
        start.

        Parameters
        ----------
        history
            The runs.
        rows
            The pairs (`unglow.reporting.pair_rows.rows_of`).
        """
        if self._left_out is None:
            self._left_out = {h.run.id for h in history.runs if h.outcome != RUNNING}
        events: list[Event] = []
        for h in history.runs:
            if h.run.id not in self._left_out:
                events += self._run(h, rows if h is history.last else ())
        return sorted(events)

    def _run(self, h: RunHistory, rows: Sequence[_Row]) -> Iterable[Event]:
        run, over = h.run, h.outcome != RUNNING
        is_framed = run.id != UNRECORDED and not self._inside
        if is_framed:
            jobs = count(plan.jobs_done(plan.by_rule(h))[1], "job")
            text = f"run of {jobs} on {run.host}"
            yield from self._once(f"{run.id} begin", Event(run.wall, text))
        ends: dict[tuple[str, str], float] = {}
        for a in h.attempts:
            pair = a.attempt.wildcards.get("sample", ""), a.attempt.wildcards.get("dye", "")
            ends[pair] = max(ends.get(pair, 0.0), run.wall + a.end)
        for row in (row for row in rows if row["status"] in _JUDGED):
            sample, dye = str(row["sample"]), str(row["dye"])
            wall = ends.get((sample, dye), ends.get((sample, "")))
            if wall is not None:  # else it was done before
                event = Event(wall, _finished(row), str(row["status"]))
                yield from self._once(f"{run.id} {event.text}", event)
        if is_foreign(self.results):  # no pairs: each job is told
            for a in (a for a in h.attempts if a.outcome == ENDED_WELL):
                event = Event(run.wall + a.end, _job_ended(a.attempt), "ok")
                yield from self._once(a.attempt.id, event)
        for incident in incidents_of(h, self.results):
            if incident.cause == _INTERRUPTED:  # as whoever did it knows
                continue
            key = f"{incident.kind} {incident.attempt} {incident.title} {incident.wall}"
            status = "failed" if not incident.mended else ""
            wall, remedy = incident.wall or run.wall, clean(incident.remedy)
            event = Event(wall, _went_wrong(incident), status, remedy)
            yield from self._once(key, event)
        if over and is_framed:
            yield from self._once(f"{run.id} end", Event(run.wall + h.seconds, _run_ended(h)))

    def _once(self, key: str, event: Event) -> Iterable[Event]:
        if key not in self._written:
            self._written.add(key)
            yield replace(event, text=f"{self._name}{event.text}")


def _finished(row: Mapping[str, Any]) -> str:
    """Return what came out of a pair: state, candidates, gain, and why it is suspect."""
    numbers = [
        f"{row[key]} {unit}" if unit == "candidates" else f"{unit} {row[key]}"
        for key, unit in (("candidates", "candidates"), ("gain", "gain"))
        if row.get(key) not in (None, "")
    ]
    reasons = first_sentence(str(row.get("reasons") or "")) if row["status"] != "ok" else ""
    text = ", ".join([f"{name_of(row)}: {row['status']}", *numbers])
    return clean(text + (f". {reasons}" if reasons else ""))


def first_sentence(text: str, longest: int = _LONGEST) -> str:
    """Return the first sentence of a text, or its beginning if that is too long."""
    head, stop, _ = clean(text).partition(". ")
    return textwrap.shorten(head + stop.rstrip(), longest, placeholder=" …")


def _job_ended(attempt: Attempt) -> str:
    """Return what a job took: time, memory, and what its rule declared."""
    text = f"{clean(attempt.title)}: ok, {duration(attempt.seconds)}"
    if attempt.peak_mb is not None:
        text += f", peak {memory(attempt.peak_mb)}"
        text += f" of {memory(attempt.declared_mb)}" if attempt.declared_mb else ""
    return text


def _went_wrong(incident: Incident) -> str:
    number = (incident.numbers or {}).get("number", 1)
    title = clean(incident.title) + (f" (attempt {number:.0f})" if number > 1 else "")
    text = f"{title}: {clean(incident.cause.replace('_', ' '))}"
    text += f": {first_sentence(incident.message)}" if incident.message else ""
    if incident.helps:  # of several things, the first
        text += f" What helps: {first_sentence(incident.helps.partition('; ')[0])}"
    return text + (f" (log: {clean(incident.log)})" if incident.log else "")


def _run_ended(h: RunHistory) -> str:
    how = OUTCOMES.get(h.outcome, clean(h.outcome))
    done, of = plan.jobs_done(plan.by_rule(h))
    return f"the run {how} after {duration(h.seconds)}, {done} of {of} jobs done"
