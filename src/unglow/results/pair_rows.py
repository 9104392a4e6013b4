"""The pairs of a results directory: rows as in summary.tsv, and which are unlike the others."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from statistics import median
from typing import TYPE_CHECKING, Any

from unglow.core.digests import list_of
from unglow.core.errors import UnglowError
from unglow.core.levels import LEVELS, PAIR, RESULT_OF, VARIANT, names_of, place_of, variants_in
from unglow.core.reasons import DETAILS, list_details
from unglow.core.workflow_files import is_foreign
from unglow.results import RECORDS, SKIPPED, read_summary
from unglow.results.marker_rows import SlideEntry, read_written_ns, slide_files
from unglow.results.pair import STAGE_FILES, PairResults
from unglow.results.slide_files import SlideRecord
from unglow.results.summary import Entry, rows, texts
from unglow.review import REVIEW
from unglow.telemetry.reading.history import UNRECORDED
from unglow.telemetry.reading.pairs import (
    STOPPED,
    WAITING,
    Work,
    find_refusal,
    last_attempts,
    select_pair,
    works_for,
)
from unglow.telemetry.reading.records import RUNNING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from unglow.telemetry.reading.history import History


_CONCLUDED = ("ok", "failed")
FAILED = "failed"
Known = dict[str, tuple[object, list[dict[str, Any]]]]
"""Rows as they were made of files, and the state of these; by the place of pair or slide."""
# A run in this state may have left a pair undone without any fault.
_NO_FAULT = ("ok", "interrupted", RUNNING)
_NEEDED = ("sample", "dye", "status")


def rows_of(results: Path, history: History, known: Known | None = None) -> list[dict[str, Any]]:
    """Return a row for each pair and variant: those of summary.tsv, or made from the files.

    The table is made as a run ends. While the last one is running, or if it was killed, rows are
    made from the files that are there. Those of markers always are: the table has their names
    cleaned. A pair that is not done and that no fault has stopped is ``waiting`` or ``running``;
    ``working`` is then the job that runs, and its progress.

    Parameters
    ----------
    results, history
        The results directory, and its runs.
    known
        Rows that were made of files before, for those who look again and again: it is filled.
    """
    if is_foreign(results):
        return []
    summary: list[dict[str, Any]] = []
    with suppress(UnglowError, OSError):
        summary = [
            dict.fromkeys(_NEEDED, "") | row for row in read_summary(results / "summary.tsv")
        ]
    recorded = [h for h in history.runs if h.run.id != UNRECORDED]
    finished = bool(summary) and (not recorded or recorded[-1].outcome in _CONCLUDED)
    listed = {row["sample"] for row in summary if row.get("background_channel")}
    slides = [e for e in _slides(results, history) if not finished or e.sample in listed]
    entries: list[Entry | SlideEntry] = [*(() if finished else _entries(results, history)), *slides]
    known = {} if known is None else known
    made = [row for entry in entries for row in _rows(entry, results, known)]
    before = {names_of(row): row for row in summary}
    for row in made:
        known_of = before.get(names_of(row), {})
        if control := known_of.get("control"):
            row["control"] = control
        if (text := known_of.get("outdated")) and not _is_made_again(row, results):
            row["outdated"] = text
    made_names, made_slides = {names_of(row) for row in made}, {e.sample for e in slides}
    kept = [
        row
        for row in summary
        if names_of(row) not in made_names
        and not (row.get("background_channel") and row["sample"] in made_slides)
    ]
    for row in kept:
        row[DETAILS] = _explain(row, results, known)
    return _add_states(results, [*kept, *made], history)


def _is_made_again(row: Mapping[str, Any], results: Path) -> bool:
    """Whether the last jobs of a row have ended since summary.tsv was written, as a run began."""
    place, search, figures = place_of(results, row), "detect", "figures"
    if row.get("background_channel"):
        place, search, figures = results / row["sample"], "slide_subtract", "slide_figures"
    table, searched, drawn = (
        read_written_ns(path)
        for path in (results / "summary.tsv", list_of(place, search), list_of(place, figures))
    )
    return searched > table and (not drawn or drawn > table)


def _explain(row: Mapping[str, Any], results: Path, known: Known) -> list[dict[str, Any]]:
    """Return what is behind the reasons and notes of a row of the table."""
    pair = PairResults(place_of(results, row), place_of(results, row, PAIR[-1]))
    found = [pair.find(name) for name in STAGE_FILES[:4]]
    state, key = [read_written_ns(path) for path in found if path], f"{DETAILS} {pair.directory}"
    if key not in known or known[key][0] != state:
        why: list[dict[str, Any]] = []
        with suppress(UnglowError):
            _, reasons, notes = pair.judge_available()
            why = list_details([*reasons, *notes])
        known[key] = state, why
    return known[key][1]


def _add_states(
    results: Path, rows: list[dict[str, Any]], history: History
) -> list[dict[str, Any]]:
    """Distinguish pairs that are not done yet from those that a fault has stopped.

    A pair whose results a running job is about to replace is not done either.
    """
    last = history.last
    if last is None or last.run.id == UNRECORDED:
        return rows
    work = Work(history)

    def settle(row: dict[str, Any]) -> dict[str, Any]:
        remaining = work.remaining(row)
        refused = row["status"] in (FAILED, SKIPPED)
        stale = remaining and (not refused or _is_stale(results, row, last.run.wall))
        if row["status"] != STOPPED and not stale:
            return row | {"working": work.describe_running(row)}
        status, note = work.state_of(row)
        if status == RUNNING:
            return row | {"status": RUNNING, "reasons": "", "working": note}
        if status == STOPPED:
            return row | {"status": STOPPED, "reasons": note} if last.outcome == RUNNING else row
        return row | {"status": WAITING, "reasons": ""} if last.outcome in _NO_FAULT else row

    return [settle(row) for row in rows]


def _is_stale(results: Path, row: Mapping[str, Any], since: float) -> bool:
    """Whether the files of a failed pair are older than a run that is to replace them."""
    refusal = find_refusal(results, row)
    return refusal is None or refusal.stat().st_mtime < since


def costs_of(rows: Sequence[Mapping[str, Any]], history: History) -> list[dict[str, float | None]]:
    """Return for each row what the last attempts at its jobs took, those that have ended.

    ``seconds`` is the sum of their times, ``peak_mb`` the memory of the largest; None without any.
    What several variants share counts to each of them, and what a slide took to all its markers.
    """
    attempts = last_attempts(history)

    def cost(row: Mapping[str, Any]) -> dict[str, float | None]:
        own = select_pair(attempts, row)
        ended = [a for a in own if a.outcome != RUNNING and works_for(a.wildcards, row)]
        peaks = [a.peak_mb for a in ended if a.peak_mb is not None]
        seconds = round(sum(a.end - a.start for a in ended), 2) if ended else None
        return {"seconds": seconds, "peak_mb": max(peaks, default=None)}

    return [cost(row) for row in rows]


def _rows(entry: Entry | SlideEntry, results: Path, known: Known) -> list[dict[str, Any]]:
    """Return the rows of an entry, made again if any of its files has changed."""
    if isinstance(entry, SlideEntry):
        key = entry.sample
        paths = slide_files(results / entry.sample)
    else:
        key = entry.files[-1]
        files = (results / file for file in (*entry.files, entry.histogram))
        paths = [*files, place_of(results, entry.names) / REVIEW]
    state = entry, [read_written_ns(path) for path in paths]
    if key not in known or known[key][0] != state:
        known[key] = (
            state,
            [
                {
                    **texts(
                        {k: v for k, v in row.items() if not isinstance(v, dict | tuple | list)}
                    ),
                    DETAILS: row.get(DETAILS, []),
                }
                for row in rows([entry], (), results)
            ],
        )
    return [dict(row) for row in known[key][1]]


def _entries(results: Path, history: History) -> Iterator[Entry]:
    """Find pairs and variants by the files that are there; a pair without any has none yet."""
    plan = RESULT_OF["ingestion"]
    plans = plan, f"*/{plan}"  # in a sweep of channels one of each variant
    directories = {path for path in results.glob("*/*") if any(any(path.glob(p)) for p in plans)}
    last = history.last
    pairs, groups = (last.run.fields.get(k) if last else None for k in ("pairs", "groups"))
    groups_of = {}
    for names, own in zip_longest(pairs if isinstance(pairs, list) else (), groups or ()):
        if isinstance(names, list) and len(names) == 2:
            directories.add(results.joinpath(*map(str, names)))
            groups_of[results.joinpath(*map(str, names))] = own
    for pair in sorted(directories):
        if pair.relative_to(results).parts[0] not in RECORDS:
            yield from _variants(results, pair, groups_of.get(pair) or {})


def _slides(results: Path, history: History) -> Iterator[SlideEntry]:
    """Find slides by the header of the last run, and by the files that are there."""
    last = history.last
    header = last.run.fields.get("slides") if last else None
    slides = dict(header) if isinstance(header, dict) else {}
    for path in results.glob("*/slide.json"):
        if path.parent.name not in slides:
            with suppress(UnglowError, OSError):
                slides[path.parent.name] = SlideRecord.load(path).slide.subtracted
    for name, markers in sorted(slides.items()):
        yield SlideEntry(name, markers, f"logs/{name}")


def _variants(results: Path, pair: Path, groups: dict[str, str]) -> Iterator[Entry]:
    sample, dye = pair.relative_to(results).parts
    found = [*variants_in(pair)]
    shared = {place.parent for place, names in found if names}
    for place, names in found:
        if place in shared:  # of several variants, which are rows themselves
            continue
        row = dict.fromkeys(LEVELS, "") | {"sample": sample, "dye": dye} | names
        yield Entry(row, f"logs/{sample}/{dye}", groups=groups)


LIMIT = 3.5
FEWEST = 6
"""Of fewer pairs, none is called unlike the others."""
_MAD, _NORMAL = 1.4826, 1.96
_COMPARED = ("ok", "suspect")
_GROUP_COLUMNS = ("dye", "control", *VARIANT)


@dataclass(frozen=True, slots=True)
class Number:
    """A number of pairs: how it is compared.

    Attributes
    ----------
    key
        Its column.
    scale
        Makes its spread equal at every value.
    least
        Standard deviation, on that scale, that is at least assumed.
    both
        Whether little is unusual as well as much.
    high
        Column of the upper end of its 95 % interval.
    """

    key: str
    scale: Callable[[float], float]
    least: float
    both: bool = False
    high: str = ""


def _log(value: float) -> float:
    return math.log(max(value, 1e-9))


def _stabilise_count(value: float) -> float:
    """Scale a count so that its Poisson scatter is about 1 for all counts (Anscombe 1948)."""
    return 2 * math.sqrt(max(value, 0.0) + 0.375)


NUMBERS = (
    Number("residual_median_px", _log, 0.1),
    Number("error_median_px", _log, 0.1),
    Number("gain", _log, 0.01, both=True, high="gain_high95"),
    Number("background", abs, 0.05),
    Number("candidates", _stabilise_count, 1.0, both=True),
    Number("candidates_fdr", float, 0.01),
    Number("density_per_mm2", math.sqrt, 0.0, both=True, high="density_high95"),
    Number("seconds", _log, 0.5),  # other programs want the machine as well
    Number("peak_mb", _log, 0.1),
)
_COLUMNS = (
    *(key for n in NUMBERS for key in (n.key, n.high) if key),
    *("difference_median", "difference_mad"),
)


def numbers_of(row: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a row of the summary that are known, by their columns.

    ``background`` is what the difference has left of it, in units of the difference's noise.
    """
    found = {}
    for key in _COLUMNS:
        try:
            found[key] = float(row[key])
        except (KeyError, TypeError, ValueError):
            continue
    left, noise = found.pop("difference_median", None), found.pop("difference_mad", None)
    if left is not None and noise:
        found["background"] = left / noise
    return {key: value for key, value in found.items() if math.isfinite(value)}


def outliers(rows: Sequence[Mapping[str, Any]]) -> list[list[tuple[str, float]]]:
    """Return for each row its unusual numbers, the most unusual first: key and robust z.

    Pairs that failed or are not done are compared with nothing.
    Candidates are compared by their density where that is known, as images differ in size.

    Parameters
    ----------
    rows
        Of the summary, where known with ``seconds`` and ``peak_mb``.
    """
    groups: dict[tuple[str, ...], list[int]] = {}
    for n, row in enumerate(rows):
        if row.get("status") in _COMPARED:
            groups.setdefault(
                tuple(str(row.get(name) or "") for name in _GROUP_COLUMNS), []
            ).append(n)
    found: list[list[tuple[str, float]]] = [[] for _ in rows]
    values = [numbers_of(row) for row in rows]
    for own in values:
        if "density_per_mm2" in own:
            own.pop("candidates", None)
    for members in groups.values():
        for number in NUMBERS:
            known = [n for n in members if number.key in values[n]]
            for n, z in zip(known, _scores([values[n] for n in known], number), strict=True):
                if z > LIMIT or (number.both and z < -LIMIT):
                    found[n].append((number.key, round(z, 1)))
    return [sorted(unusual, key=lambda one: -abs(one[1])) for unusual in found]


def _scores(rows: Sequence[Mapping[str, float]], number: Number) -> list[float]:
    """Return the robust z of each row's number; 0 if there are too few."""
    if len(rows) < FEWEST:
        return [0.0] * len(rows)
    scaled = [number.scale(row[number.key]) for row in rows]
    middle = median(scaled)
    spread = max(_MAD * median(abs(value - middle) for value in scaled), number.least)
    errors = [
        (number.scale(row[number.high]) - value) / _NORMAL if number.high in row else 0.0
        for row, value in zip(rows, scaled, strict=True)
    ]
    scales = [max(spread, error) or 1.0 for error in errors]
    return [(value - middle) / scale for value, scale in zip(scaled, scales, strict=True)]
