"""The pairs of a results directory: rows as in summary.tsv, and the pictures that there are."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from unglow.reporting.summary import Entry, read_summary, rows, texts
from unglow.telemetry.reading.history import UNRECORDED
from unglow.telemetry.reading.records import RUNNING
from unglow.telemetry.reading.work import STOPPED, WAITING, last_attempts, state_of, works_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from unglow.telemetry.reading.history import History

_NAMES = ("sample", "dye", "registration", "subtraction")
_CONCLUDED = ("ok", "failed")
# A run that ended like this, or goes on, may have left a pair undone without any fault.
_NO_FAULT = ("ok", "interrupted", RUNNING)
# Directories of a results directory that hold no pairs.
_RECORDS = ("telemetry", "benchmarks", "logs")


def rows_of(results: Path, history: History) -> list[dict[str, Any]]:
    """Return a row for each pair and variant: those of summary.tsv, or what the files tell.

    The table is made as a run ends. While the last one goes on, or if it was killed, rows are made
    of the files that are there. A pair that is not done and that no fault has stopped is
    ``waiting`` or ``running``; what then runs, and how far it is, is its ``working``.
    """
    try:
        summary = [dict(row) for row in read_summary(results / "summary.tsv")]
    except OSError:
        summary = []
    recorded = [h for h in history.runs if h.run.id != UNRECORDED]
    if summary and (not recorded or recorded[-1].outcome in _CONCLUDED):
        return _with_states(summary, history)
    made = [_plain(row) for row in rows(_entries(results, history), (), results)]
    before = {_names(row): row for row in summary}
    for row in made:
        row["control"] = before.get(_names(row), {}).get("control")
    made_names = {_names(row) for row in made}
    rows_made = [*(row for row in summary if _names(row) not in made_names), *made]
    return _with_states(rows_made, history)


def name_of(row: Mapping[str, Any]) -> str:
    """Return sample, dye and variant of a row, as the page does."""
    return " ".join(filter(None, _names(row)))


def _with_states(rows: list[dict[str, Any]], history: History) -> list[dict[str, Any]]:
    """Tell pairs that are not done yet from those that a fault has stopped."""
    last = history.last
    if last is None or last.run.id == UNRECORDED:
        return rows
    attempts = last_attempts(history)

    def settled(row: dict[str, Any]) -> dict[str, Any]:
        if row.get("status") != STOPPED:
            return row
        own = attempts.get((str(row.get("sample")), str(row.get("dye"))), [])
        status, note = state_of(own, last, row)
        if status == RUNNING:
            return row | {"status": RUNNING, "reasons": "", "working": note}
        if status == STOPPED:
            return row | {"reasons": note} if last.outcome == RUNNING else row
        return row | {"status": WAITING, "reasons": ""} if last.outcome in _NO_FAULT else row

    return [settled(row) for row in rows]


def costs_of(rows: Sequence[Mapping[str, Any]], history: History) -> list[dict[str, float | None]]:
    """Return for each row what the last attempts at its jobs took, those that have ended.

    ``seconds`` is the sum of their times, ``peak_mb`` the memory of the largest; None without any.
    What several variants share counts to each of them.
    """
    attempts = last_attempts(history)

    def cost(row: Mapping[str, Any]) -> dict[str, float | None]:
        own = attempts.get((str(row.get("sample")), str(row.get("dye"))), [])
        ended = [a for a in own if a.outcome != RUNNING and works_for(a.attempt.wildcards, row)]
        peaks = [a.attempt.peak_mb for a in ended if a.attempt.peak_mb is not None]
        seconds = round(sum(a.end - a.start for a in ended), 2) if ended else None
        return {"seconds": seconds, "peak_mb": max(peaks, default=None)}

    return [cost(row) for row in rows]


def _names(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(row.get(name) or "") for name in _NAMES)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row as summary.tsv has it, without what names files."""
    return dict(texts({k: v for k, v in row.items() if not isinstance(v, dict | tuple)}))


def _entries(results: Path, history: History) -> Iterator[Entry]:
    """Find pairs and variants by the files that are there; a pair without any has none yet."""
    directories = {path.parent for path in results.glob("*/*/plan.json")}
    last = history.last
    pairs, groups = (last.run.fields.get(k) if last else None for k in ("pairs", "groups"))
    told = {}
    for names, own in zip_longest(pairs if isinstance(pairs, list) else (), groups or ()):
        if isinstance(names, list) and len(names) == 2:
            directories.add(results.joinpath(*map(str, names)))
            told[results.joinpath(*map(str, names))] = own
    for pair in sorted(directories):
        if pair.relative_to(results).parts[0] not in _RECORDS:
            yield from _variants(results, pair, told.get(pair) or {})


def _variants(results: Path, pair: Path, groups: dict[str, str]) -> Iterator[Entry]:
    sample, dye = pair.relative_to(results).parts
    ends = [*pair.glob("**/scale.json")] or [*pair.glob("**/transform.json")] or [pair / ""]
    for end in sorted(ends):
        place = end.parent if end != pair else pair
        registered = next((p for p in (place, place.parent) if _is_registered(p)), place)
        levels = place.relative_to(pair).parts
        swept = registered != pair  # whether the outer level is one of registrations
        yield Entry(
            sample=sample,
            dye=dye,
            registration=levels[0] if levels and swept else "",
            subtraction=levels[-1] if len(levels) == 2 or (levels and not swept) else "",
            plan=_below(pair / "plan.json", results),
            transform=_below(registered / "transform.json", results),
            scale=_below(place / "scale.json", results),
            detection=_below(place / "detection.json", results),
            histograms={
                path.name.removesuffix(".histogram.npz"): _below(path, results)
                for path in sorted(place.glob("difference/*.histogram.npz"))
            },
            logs=f"logs/{sample}/{dye}",
            groups=groups,
        )


def _is_registered(place: Path) -> bool:
    return (place / "transform.json").is_file()


def _below(path: Path, results: Path) -> str:
    return path.relative_to(results).as_posix()


def place_of(results: Path, row: dict[str, Any], *, registered: bool = False) -> Path:
    """Return the directory of a row's results; that of its registration if asked for."""
    names = _NAMES[:3] if registered else _NAMES
    return results.joinpath(*(str(row[name]) for name in names if row.get(name)))
