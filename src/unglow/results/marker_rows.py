"""Columns of the summary that pairs and markers share, and the rows of the markers of a slide.

In a marker's row, ``sample`` is the slide and ``dye`` the marker.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unglow.core.errors import UnglowError, describe
from unglow.core.levels import LEVELS
from unglow.core.reasons import DETAILS, list_details
from unglow.core.rounding import Measured, ends, share
from unglow.results.slide import SLIDE_FILES, SlideResults

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from unglow.photometry.difference_histogram import DifferenceHistogram
    from unglow.photometry.gain.scale import Scale
    from unglow.results.slide_files import MarkerScale
    from unglow.transform import Transform


def registration_columns(transform: Transform) -> dict[str, Any]:
    """Return what the map of a pair is, and how well it fits."""
    return {
        "model": transform.model_name,
        "rotation_deg": Measured(transform.rotation_deg, math.degrees(transform.turn_error)),
        "scale": Measured(transform.scale, transform.turn_error),
        "shift_x_px": Measured(transform.shift_px[0], transform.error_px.median),
        "shift_y_px": Measured(transform.shift_px[1], transform.error_px.median),
        "residual_median_px": transform.residual_px.median,
        "residual_p95_px": transform.residual_px.p95,
        "error_median_px": transform.error_px.median,
        "error_p95_px": transform.error_px.p95,
        "inliers": transform.inliers,
        "blocks": transform.blocks,
        "overlap": transform.overlap,
    }


def scale_columns(
    scale: Scale, histogram: DifferenceHistogram | None, method: str
) -> dict[str, Any]:
    """Return gain and offset of a scale method, and what its difference has left."""
    chosen = scale.methods.get(method)
    if chosen is None or chosen.gain is None:
        return {"method": method}
    others = {
        m: (*ends(r.gain, r.gain_ci95), "failed")[0]
        for m, r in scale.methods.items()
        if m != method
    }
    return {
        "method": method,
        **interval_columns(("gain", "gain_low95", "gain_high95"), chosen.gain, chosen.gain_ci95),
        "offset": Measured.from_value(chosen.offset, half_width(chosen.offset_ci95)),
        "difference_median": histogram.median() if histogram else None,
        "difference_mad": histogram.mad() if histogram else None,
        "other_gains": ", ".join(f"{m} {gain}" for m, gain in others.items()),
    }


def spoilt_columns(detection: Mapping[str, Any]) -> dict[str, Any]:
    """Return what share of the section is spoilt and why, the largest part first.

    Nothing where spoilt places were not looked for, as in results of older versions. ``detection``
    is the content of detection.json.
    """
    spoilt = detection.get("spoilt")
    if spoilt is None or detection.get("settings", {}).get("spoilt") == "never":
        return {}
    parts = sorted(
        ((float(part["share"]), reason) for reason, part in spoilt["by_reason"].items()),
        key=lambda part: -part[0],
    )
    return {
        "spoilt_share": float(spoilt["share"]),
        "spoilt_reasons": ", ".join(f"{reason} {share(part)}" for part, reason in parts),
    }


def interval_columns(
    columns: Sequence[str], value: float | None, interval: Sequence[float] | None
) -> dict[str, float | None]:
    """Return a value and the ends of its 95 % interval, half of which is the error of all three."""
    numbers = (value, *(interval or (None, None)))
    error = half_width(interval)
    return {c: Measured.from_value(v, error) for c, v in zip(columns, numbers, strict=True)}


def half_width(interval: Sequence[float] | None) -> float | None:
    """Return half of the width of an interval; None without one."""
    return None if interval is None else abs(interval[1] - interval[0]) / 2


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
    outdated
        What it would be made with now, if that is something else, in words.
    """

    sample: str
    markers: Mapping[str, str]
    logs: str
    outdated: str = ""


def marker_rows(entry: SlideEntry, results: Path) -> list[dict[str, Any]]:
    """Return a row for each marker of a slide, from what there is of its results."""
    names = {
        marker: dict.fromkeys(LEVELS, "")
        | {"sample": entry.sample, "dye": marker, "background_channel": background}
        | ({"outdated": entry.outdated} if entry.outdated else {})
        for marker, background in entry.markers.items()
    }
    place = results / entry.sample
    try:
        found = SlideResults.read(place)
        missing = next((name for name in SLIDE_FILES if not (place / name).is_file()), None)
    except (UnglowError, OSError) as error:  # damaged files cost these rows, not the table
        return [{**own, **unreadable_columns(error)} for own in names.values()]

    def row(marker: str) -> dict[str, Any]:
        try:
            return _row(marker, found, entry, missing)
        except (UnglowError, OSError) as error:  # a damaged map costs the rows of its cycle
            return unreadable_columns(error)

    return [{**own, **row(marker)} for marker, own in names.items()]


def unreadable_columns(error: Exception) -> dict[str, Any]:
    """Return the state of what has a damaged file."""
    return {"status": "failed", "reasons": f"a result file cannot be read: {describe(error)}"}


def slide_files(place: Path) -> list[Path]:
    """Return the files that rows are made of: `SLIDE_FILES`, and maps between cycles."""
    return [*(place / name for name in SLIDE_FILES), *place.glob("registration/*/transform.json")]


def read_written_ns(path: Path) -> int:
    """Return when a file was written, Unix time, ns; 0 if it is not there."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _row(
    marker: str, found: SlideResults, entry: SlideEntry, missing: str | None
) -> dict[str, Any]:
    """Return all columns but the names: what failed first speaks, then what is missing."""
    own, subtraction = found.scales.get(marker), found.subtraction
    maps: list[Transform] = []
    doubts: list[str] = []
    spoilt: dict[str, Any] = {}
    if found.record is not None:
        slide = found.record.slide
        channel = slide.channel(marker)
        moves = slide.moves_of(channel)
        maps = [found.maps[move] for move in moves if move in found.maps]
        states = [found.record.cycles[b] for _, b in moves if b in found.record.cycles]
        suspect = (one for one in states if one.status == "suspect")
        doubts = list(dict.fromkeys(r for one in suspect for r in one.reasons))
        known = [spoilt_columns({"spoilt": one.spoilt}) for one in states if one.spoilt]
        spoilt = max(known, key=lambda one: one["spoilt_share"], default={})
    refused = _find_refusal(found, own)
    if refused:
        if subtraction is not None and subtraction.reason is None:
            refused += (
                " The corrected slide lacks it."
                if marker in subtraction.left_out
                else " In the corrected slide it is left as it was imaged."
            )
        return {"status": "failed", "reasons": refused}
    done = {} if subtraction is None else subtraction.markers
    if missing is not None or own is None or subtraction is None or marker not in done:
        made = missing or SLIDE_FILES[2]
        lacks = f"{entry.sample}/{made} " + ("has not been made" if missing else "lacks it")
        return {"status": "incomplete", "reasons": f"{lacks}; {entry.logs} holds the logs."}
    reasons = [*doubts, *own.scale.reasons]
    # of several maps that of the largest error speaks, of cycles the one that is spoilt most
    good = [one for one in maps if not one.has_failed]
    map_ = max(good, key=lambda one: one.error_px.p95, default=None)
    chosen = own.scale.default_result
    return {
        "status": "suspect" if reasons else "ok",
        "reasons": " ".join(reasons),
        "notes": " ".join(own.scale.notes),
        DETAILS: list_details([*reasons, *own.scale.notes]),
        **({} if map_ is None else registration_columns(map_)),
        **scale_columns(own.scale, found.residues[marker], done[marker].method),
        **spoilt,
        "expected_gain": Measured.from_value(own.expected_gain, half_width(chosen.gain_ci95)),
        "residual_shift_px": own.residual_px
        and Measured.from_value(math.hypot(*own.residual_px), own.residual_error_px),
        "clipped": None if subtraction.dtype.startswith("float") else done[marker].clipped,
    }


def _find_refusal(found: SlideResults, own: MarkerScale | None) -> str:
    """Return why a marker failed: by slide or by its scale; empty if it did not."""
    if found.record is not None and found.record.reason is not None:
        return found.record.reason
    if own is not None and own.scale.status == "failed":
        return " ".join(own.scale.reasons)
    return "" if found.subtraction is None else found.subtraction.reason or ""
