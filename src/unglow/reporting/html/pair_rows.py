"""The pairs of a results directory: rows as in summary.tsv, and the pictures that there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unglow.core.levels import LEVELS, RESULT_OF, names_of, place_of, variants_in
from unglow.reporting.summary import Entry, read_summary, rows, texts
from unglow.telemetry.reading.history import UNRECORDED
from unglow.telemetry.reading.records import RUNNING
from unglow.telemetry.reading.work import STOPPED, WAITING, last_attempts, state_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from unglow.telemetry.reading.history import History

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
    before = {names_of(row): row for row in summary}
    for row in made:
        row["control"] = before.get(names_of(row), {}).get("control")
    made_names = {names_of(row) for row in made}
    rows_made = [*(row for row in summary if names_of(row) not in made_names), *made]
    return _with_states(rows_made, history)


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


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row as summary.tsv has it, without what names files."""
    return dict(texts({k: v for k, v in row.items() if not isinstance(v, dict)}))


def _entries(results: Path, history: History) -> Iterator[Entry]:
    """Find pairs and variants by the files that are there; a pair without any has none yet."""
    directories = {path for path in results.glob("*/*") if any(_plans(path))}
    last = history.last
    pairs = last.run.fields.get("pairs") if last is not None else None
    for names in pairs if isinstance(pairs, list) else ():
        if isinstance(names, list) and len(names) == 2:
            directories.add(results.joinpath(*map(str, names)))
    for pair in sorted(directories):
        if pair.relative_to(results).parts[0] not in _RECORDS:
            yield from _variants(results, pair)


def _variants(results: Path, pair: Path) -> Iterator[Entry]:
    sample, dye = pair.relative_to(results).parts
    found = [*variants_in(pair)]
    shared = {place.parent for place, names in found if names}
    for place, names in found:
        if place in shared:  # of several variants, which are rows themselves
            continue
        row = dict.fromkeys(LEVELS, "") | {"sample": sample, "dye": dye} | names
        files = [place_of(results, row, level) / name for level, name in RESULT_OF.items()]
        plan, transform, scale, detection = (_below(path, results) for path in files)
        yield Entry(
            names=row,
            plan=plan,
            transform=transform,
            scale=scale,
            detection=detection,
            histograms={
                path.name.removesuffix(".histogram.npz"): _below(path, results)
                for path in sorted(files[2].parent.glob("difference/*.histogram.npz"))
            },
            logs=f"logs/{sample}/{dye}",
        )


def _plans(pair: Path) -> Iterator[Path]:
    """Yield the plans of a pair: one, or in a sweep of channels one of each variant."""
    yield from pair.glob("plan.json")
    yield from pair.glob("*/plan.json")


def _below(path: Path, results: Path) -> str:
    return path.relative_to(results).as_posix()
