"""Events of runs as lines, for log files and pipes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unglow.core.printable import clean
from unglow.core.rounding import duration, memory
from unglow.reporting.terminal.formatting import OUTCOMES, clock, count
from unglow.reporting.terminal.run_view import incidents_of
from unglow.telemetry.reading import plan
from unglow.telemetry.reading.history import UNRECORDED
from unglow.telemetry.reading.records import ENDED_WELL, RUNNING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from unglow.telemetry.reading.history import History, Placed, RunHistory
    from unglow.telemetry.reading.incidents import Incident

_Event = tuple[float, str]


class EventLines:
    """Lines for the events of a results directory, each once.

    Parameters
    ----------
    results
        The directory.
    name
        What lines begin with after the time; empty if there is only one directory.
    """

    def __init__(self, results: Path, name: str = "") -> None:
        self.results = results
        self._name = f"{clean(name)}: " if name else ""
        self._written: set[str] = set()
        self._left_out: set[str] | None = None

    def lines(self, history: History) -> list[str]:
        """Return a line for each event that was not among those before, by time.

        Of the runs that were there at the first look, those that go on are followed from their
        start.
        """
        if self._left_out is None:
            self._left_out = {h.run.id for h in history.runs if h.outcome != RUNNING}
        events: list[_Event] = []
        for h in history.runs:
            if h.run.id not in self._left_out:
                events += self._run(h)
        return [f"{clock(wall)} {self._name}{text}" for wall, text in sorted(events)]

    def _run(self, h: RunHistory) -> Iterable[_Event]:
        run, over = h.run, h.outcome != RUNNING
        if run.id != UNRECORDED:
            jobs = count(plan.jobs_done(plan.by_rule(h))[1], "job")
            yield from self._once(f"{run.id} begin", run.wall, f"run of {jobs} on {run.host}")
        for a in h.attempts:
            begin = run.wall + a.start
            yield from self._once(f"{a.attempt.id} begin", begin, f"{_title(a)} begins")
            if a.outcome == ENDED_WELL:
                yield from self._once(f"{a.attempt.id} end", run.wall + a.end, _ended_well(a))
        for incident in incidents_of(h, self.results):
            key = f"{incident.kind} {incident.attempt} {incident.title} {incident.wall}"
            yield from self._once(key, incident.wall or run.wall, _went_wrong(incident))
        if over and run.id != UNRECORDED:
            yield from self._once(f"{run.id} end", run.wall + h.seconds, _run_ended(h))

    def _once(self, key: str, wall: float, text: str) -> Iterable[_Event]:
        if key not in self._written:
            self._written.add(key)
            yield wall, text


def _title(a: Placed) -> str:
    number = a.attempt.number
    return clean(a.attempt.title) + (f" (attempt {number})" if number > 1 else "")


def _ended_well(a: Placed) -> str:
    took = duration(a.attempt.seconds)
    peak, declared = memory(a.attempt.peak_mb), memory(a.attempt.declared_mb)
    return f"{_title(a)} ended well after {took}, peak {peak} of {declared} declared"


def _went_wrong(incident: Incident) -> str:
    number = (incident.numbers or {}).get("number", 1)
    title = clean(incident.title) + (f" (attempt {number:.0f})" if number > 1 else "")
    text = f"{title}: {clean(incident.cause.replace('_', ' '))}"
    message = clean(incident.message)
    text += f": {message}" if message else ""
    helps = clean(incident.remedy or incident.helps)
    return text + (f" What helps: {helps}" if helps else "")


def _run_ended(h: RunHistory) -> str:
    how = OUTCOMES.get(h.outcome, clean(h.outcome))
    done, of = plan.jobs_done(plan.by_rule(h))
    return f"the run {how} after {duration(h.seconds)}, {done} of {of} jobs done"
