"""Runs side by side: the same numbers of each, and what may have made their results different."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unglow.core import rounding
from unglow.core.errors import InputError
from unglow.results.runs import find_results, find_runs
from unglow.results.wording import name_outcome
from unglow.telemetry.reading.records import ENDED_WELL, RUNNING
from unglow.telemetry.reading.totals import group_by_rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from unglow.results.runs import Run

# What is recorded of the environment of a run, and how it is called.
_COMPARED = {"unglow": "unglow", "processor": "processor", "blas": "linear algebra",
             "variables": "variables"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """A number of each run; ``unit`` is ``s``, ``MB``, ``bytes``, ``share`` or empty."""

    name: str
    unit: str
    values: list[Any]

    @property
    def change(self) -> str | None:
        """Change from the first of two numbers to the second, in words; else None."""
        if len(self.values) != 2 or not self.unit or None in self.values:
            return None
        return rounding.change(self.values[0], self.values[1], self.unit)


def runs_of(place: Path) -> dict[str, Run]:
    """Return the runs that a path names, the oldest first, by name.

    Parameters
    ----------
    place
        A results directory, the working directory above it, or the file of one run in
        ``telemetry/runs``.

    Raises
    ------
    InputError
        There is no telemetry of a run.
    """
    runs = [run for run in find_runs(place) if run.attempts]
    if not runs:
        raise InputError(f"{place} has the record of a run, but no job of it was tried.")
    results = find_results(place)[0]
    name = results.absolute().parent.name if results.name == "results" else results.name
    return {f"{name} {run.id[:15]}".strip(): run for run in runs}


def select_runs(groups: Sequence[Mapping[str, Run]]) -> dict[str, Run]:
    """Return the last run of each place, or all of a single one, with names as short as may be."""
    named = [*groups[0].items()] if len(groups) == 1 else [[*own.items()][-1] for own in groups]
    short = {name.rsplit(" ", 1)[0]: run for name, run in named}
    # the time is only needed to distinguish runs of one place
    return short if len(short) == len(named) else dict(named)


def rows(runs: Iterable[Run]) -> list[Row]:
    """Return the numbers to compare."""
    own = [*runs]
    return [Row(name, unit, [of(run) for run in own]) for name, unit, of in _NUMBERS]


def _fields(run: Run) -> Mapping[str, Any]:
    return run.history.run.fields


def _part(run: Run, key: str, part: str) -> Any:
    """Return a part of what a run has recorded; None where it has not."""
    record = _fields(run).get(key)
    return record.get(part) if isinstance(record, dict) else None


def compare_environments(named: Mapping[str, Run]) -> list[str]:
    """Return a sentence for each run that was computed by other things than the first."""
    first = next(iter(named.values()))
    sentences = {name: warn_of_digits(_fields(first), _fields(run)) for name, run in named.items()}
    return [f"{name}: {text}" for name, text in sentences.items() if text is not None]


def origins(a: Run | None, b: Run | None) -> list[str]:
    """Return in sentences what may have made the results of two runs different.

    None is a side that has no record of one.
    """
    if a is None or b is None:
        sides = [side for side, run in (("A", a), ("B", b)) if run is None]
        return [
            f"{' and '.join(sides)} without a record of a run: settings and versions are not known."
        ]
    of_a, of_b = (_flat(run.config) for run in (a, b))
    changed = [
        f"{key} {of_a.get(key, 'not set')} against {of_b.get(key, 'not set')}"
        for key in dict.fromkeys([*of_a, *of_b])
        if of_a.get(key) != of_b.get(key)
    ]
    settings = [f"Other settings: {', '.join(changed)}."] if changed else []
    versions = warn_of_digits(_fields(a), _fields(b))
    return [*settings, *([versions] if versions else [])]


def _flat(config: Mapping[str, Any], above: str = "") -> dict[str, str]:
    """Return the settings of a configuration as JSON, by dotted names."""
    flat: dict[str, str] = {}
    for key, value in config.items():
        inner = isinstance(value, dict) and value
        flat |= _flat(value, f"{above}{key}.") if inner else {above + key: json.dumps(value)}
    return flat


def _count_failed(run: Run) -> int:
    return sum(a.outcome not in (ENDED_WELL, RUNNING) for a in run.attempts)


def _total(key: str) -> Callable[[Run], float]:
    return lambda run: sum(getattr(a, key) or 0.0 for a in run.attempts)


def _busy(run: Run) -> float | None:
    able = run.seconds * (run.cores or 0)
    return _total("cpu_s")(run) / able if able else None


_NUMBERS: tuple[tuple[str, str, Callable[[Run], Any]], ...] = (
    ("outcome", "", name_outcome),
    ("unglow", "", lambda run: _fields(run).get("unglow")),
    ("machine", "", lambda run: run.history.run.host),
    ("processor", "", lambda run: _part(run, "processor", "name")),
    ("BLAS kernels", "", lambda run: _part(run, "blas", "kernels")),
    ("cores", "", lambda run: run.cores),
    ("memory for all jobs", "MB", lambda run: run.budget_mb),
    ("time", "s", lambda run: run.seconds),
    ("attempts", "", lambda run: len(run.attempts)),
    ("failed attempts", "", _count_failed),
    ("peak memory of all jobs", "MB", lambda run: run.peak_mb),
    ("peak of declared memory", "MB", lambda run: run.most_declared_mb),
    ("processor time", "s", _total("cpu_s")),
    ("processors at work", "share", _busy),
    ("time of all jobs", "s", _total("seconds")),
    ("read", "bytes", _total("read")),
    ("written", "bytes", _total("written")),
)


def compare_rules(runs: Iterable[Run], key: str) -> dict[str, list[Any]]:
    """Return a number of each rule in each run, as `RuleTally` names it; None where it has none."""
    tallies = [{row.rule: row for row in group_by_rule(run.attempts)} for run in runs]
    names = dict.fromkeys(rule for tally in tallies for rule in tally)
    return {rule: [getattr(tally.get(rule), key, None) for tally in tallies] for rule in names}


def describe_differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return in words what makes the bytes of two runs differ, if anything does.

    Parameters
    ----------
    one, other
        Heads of two runs, or `telemetry.recording.run.surroundings()` of this machine. What one of
        them has not recorded is not compared.
    """
    found = []
    for key, words in _COMPARED.items():
        a, b = one.get(key), other.get(key)
        if key in one and key in other and _decisive(a) != _decisive(b):
            found.append(f"{words} ({_words(a)}; {_words(b)})")
    versions = _list_changes(one, other, "packages")
    builds = [name for name in _list_changes(one, other, "builds") if name not in versions]
    found += [f"{name} ({one['packages'][name]}; {other['packages'][name]})" for name in versions]
    found += [f"build of {name}" for name in builds]
    return found


def _decisive(value: Any) -> Any:
    """Return what counts of a recorded value: of a processor, what it can do."""
    return value.get("features", value) if isinstance(value, dict) else value


def warn_of_digits(one: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    """Return what differs of what computed two results, as a sentence; None if nothing does."""
    found = describe_differences(one, other)
    if not found:
        return None
    return f"Last digits may differ, since other things computed them: {', '.join(found)}."


def _words(value: Any) -> str:
    """Return a recorded value in one phrase."""
    if isinstance(value, dict):
        return " ".join(_words(part) for part in value.values() if part) or "none"
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _list_changes(one: Mapping[str, Any], other: Mapping[str, Any], key: str) -> list[str]:
    """Return the packages of which both records have a version, and not the same."""
    a, b = one.get(key), other.get(key)
    if not isinstance(a, dict) or not isinstance(b, dict):
        return []
    return [n for n in sorted(a.keys() & b.keys()) if a[n] and b[n] and a[n] != b[n]]
