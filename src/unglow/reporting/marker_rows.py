"""Rows of the summary for the markers of a slide: ``sample`` is the slide, ``dye`` the marker."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from unglow import transform as transforms
from unglow.core.errors import describe
from unglow.core.levels import LEVELS
from unglow.core.rounding import Measured
from unglow.multiplexed.results import SlideRecord, Subtraction, load_residues, load_scales
from unglow.reporting.columns import half_width, registration_columns, scale_columns

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from unglow.multiplexed.results import MarkerScale
    from unglow.photometry.difference_histogram import DifferenceHistogram
    from unglow.transform import Transform

FILES = ("slide.json", "scale.json", "subtraction.json", "residues.npz")
"""What the rows of a slide are made of, in the order in which it is made."""


@dataclass(frozen=True, slots=True)
class SlideEntry:
    """Rows to be: a slide with its markers.

    Attributes
    ----------
    sample
        The slide, and its directory below the results.
    markers
        The background of each marker that stays in the corrected slide.
    logs
        Directory of the slide's logs, for the sentence about a job that did not finish.
    """

    sample: str
    markers: Mapping[str, str]
    logs: str


@dataclass(frozen=True, slots=True)
class _Found:
    """Results of a slide; None what is not there yet."""

    record: SlideRecord | None
    scales: Mapping[str, MarkerScale]
    maps: Mapping[tuple[int, int], Transform]
    subtraction: Subtraction | None
    residues: Mapping[str, DifferenceHistogram]

    @classmethod
    def read(cls, place: Path) -> _Found:
        paths = [place / name for name in FILES]
        there = [path.is_file() for path in paths]
        record = SlideRecord.load(paths[0]) if there[0] else None
        scales = load_scales(paths[1]) if there[1] else {}
        found = {} if record is None else {move: _map(place, move) for move in record.slide.moves}
        subtraction = Subtraction.load(paths[2]) if there[2] and there[3] else None
        names = () if subtraction is None else tuple(subtraction.markers)
        residues = load_residues(paths[3], names) if names else {}
        maps = {move: one for move, one in found.items() if one is not None}
        return cls(record, scales, maps, subtraction, residues)


def _map(place: Path, move: tuple[int, int]) -> Transform | None:
    path = place / "registration" / "{}-{}".format(*move) / "transform.json"
    return transforms.load(path) if path.is_file() else None


def marker_rows(entry: SlideEntry, results: Path) -> list[dict[str, Any]]:
    """Return a row for each marker of a slide, from what there is of its results."""
    names = {
        marker: dict.fromkeys(LEVELS, "")
        | {"sample": entry.sample, "dye": marker, "background_channel": background}
        for marker, background in entry.markers.items()
    }
    place = results / entry.sample
    try:
        found = _Found.read(place)
        missing = next((name for name in FILES if not (place / name).is_file()), None)
        return [{**own, **_row(marker, found, entry, missing)} for marker, own in names.items()]
    except Exception as error:  # noqa: BLE001 (damaged files cost these rows, not the table)
        reasons = f"a result file cannot be read: {describe(error)}"
        return [{**own, "status": "failed", "reasons": reasons} for own in names.values()]


def failed_markers(results: Path, slides: object) -> list[dict[str, Any]]:
    """Return the row of each marker that has failed so far.

    Parameters
    ----------
    results
        The results directory.
    slides
        The markers of each slide with their backgrounds, as the head of a run tells them.

    Returns
    -------
    Rows as of `marker_rows`; ``wall`` is when the file was written that says so, Unix time, s.
    """
    failed = []
    for name, markers in slides.items() if isinstance(slides, dict) else ():
        states = [written_ns(path) for path in slide_files(results / str(name))]
        if isinstance(markers, dict) and any(states):
            rows = _rows_of_state(results, str(name), tuple(markers.items()), tuple(states))
            failed += [row for row in rows if row["status"] == "failed"]
    return failed


def slide_files(place: Path) -> list[Path]:
    """Return the files that rows are made of, there or not: `FILES`, and maps between cycles."""
    return [*(place / name for name in FILES), *place.glob("registration/*/transform.json")]


def written_ns(path: Path) -> int:
    """Return when a file was written, Unix time, ns; 0 if it is not there."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=1 << 10)
def _rows_of_state(
    results: Path,
    name: str,
    markers: tuple[tuple[str, str], ...],
    states: tuple[int, ...],
) -> list[dict[str, Any]]:
    """Return the rows of a slide whose files were written then: those who look do so often."""
    rows = marker_rows(SlideEntry(name, dict(markers), f"logs/{name}"), results)
    wall_ns = next(filter(None, states[1:]), states[0])
    return [{**row, "wall": wall_ns / 1e9} for row in rows]


def _row(marker: str, found: _Found, entry: SlideEntry, missing: str | None) -> dict[str, Any]:
    """Return all columns but the names: what failed first speaks, then what is missing."""
    own, told = found.scales.get(marker), found.subtraction
    map_ = None
    if found.record is not None:
        move = found.record.slide.move_of(found.record.slide.channel(marker))
        map_ = None if move is None else found.maps.get(move)
    refused = _refused(found, map_, own)
    if refused:
        if told is not None and told.reason is None:
            refused += " In the corrected slide it is left as it was imaged."
        return {"status": "failed", "reasons": refused}
    if missing is not None or own is None or told is None or marker not in told.markers:
        made = missing or FILES[2]
        lacks = f"{entry.sample}/{made} " + ("has not been made" if missing else "lacks it")
        return {"status": "incomplete", "reasons": f"{lacks}; {entry.logs} holds the logs."}
    reasons = [*(() if map_ is None else map_.reasons), *own.scale.reasons]
    chosen = own.scale.default_result
    return {
        "status": "suspect" if reasons else "ok",
        "reasons": " ".join(reasons),
        "notes": " ".join(own.scale.notes),
        **({} if map_ is None else registration_columns(map_)),
        **scale_columns(own.scale, found.residues[marker], told.markers[marker].method),
        "expected_gain": Measured.from_value(own.expected_gain, half_width(chosen.gain_ci95)),
        "residual_shift_px": own.residual_px
        and Measured.from_value(math.hypot(*own.residual_px), own.residual_error_px),
        "clipped": None if told.dtype.startswith("float") else told.markers[marker].clipped,
    }


def _refused(found: _Found, map_: Transform | None, own: MarkerScale | None) -> str:
    """Return why a marker failed: by slide, map or gain; empty if it did not."""
    if found.record is not None and found.record.reason is not None:
        return found.record.reason
    if map_ is not None and map_.status == "failed":
        return " ".join(map_.reasons)
    if own is not None and own.scale.status == "failed":
        return " ".join(own.scale.reasons)
    return "" if found.subtraction is None else found.subtraction.reason or ""
