"""Summary of a run: one row for each pair and variant, from the small files of its results.

It needs no output of a failed pair: what is missing is named, with the log that tells why.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from unglow import transform as transforms
from unglow.core import digests
from unglow.core.archive import make_damage_error
from unglow.core.delimited import limit_lines
from unglow.core.errors import UnglowError, describe
from unglow.core.files import open_text, read_json, write_changed_text
from unglow.core.json_shape import check_shape
from unglow.core.levels import LEVELS, VARIANT, name_of
from unglow.core.printable import cell, harmless
from unglow.core.rounding import Measured, decimals, ends, number, plain, share, uncertainty
from unglow.io.candidates_csv import check_report
from unglow.photometry.difference_histogram import load_method
from unglow.photometry.gain.bright_field import check_roles
from unglow.photometry.gain.scale import Scale
from unglow.reporting import groups, multiqc
from unglow.reporting.columns import (
    interval_columns,
    registration_columns,
    scale_columns,
    spoilt_columns,
)
from unglow.reporting.marker_rows import SlideEntry, marker_rows
from unglow.review import REVIEW
from unglow.telemetry.reading.rejections import first_reasons

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from unglow.transform import Transform

_DENSITY = ("density_per_mm2", "density_low95", "density_high95")
_FDR = ("candidates_fdr", "fdr_low95", "fdr_high95")
_FDR_CONTROL = ("fdr_control", "fdr_control_low95", "fdr_control_high95")
_RESIDUALS = ("residual_median_px", "residual_p95_px", "error_median_px", "error_p95_px")
_PLAN = {"status": str, "reason": (None, str), "choice": {"names?": [str, ...]}}
"""What is read of plan.json; see `unglow.core.json_shape`."""
_PURITY = ("purity", "purity_low95", "purity_high95")
_AGREEMENT = ("in_first", "of_first")
"""What share of a variant's candidates the first one has, and of that one's it has."""
_MARKER = ("background_channel", "expected_gain", "residual_shift_px", "clipped")
"""Columns of the markers of a slide."""
_SPOILT = ("spoilt_share", "spoilt_reasons")
"""Share of the section that is spoilt and left out, and its parts by reason."""
_REVIEW = ("reviewed", "accepted", "rejected", *_PURITY)
COLUMNS = (
    *(*LEVELS, "status", "reasons", "notes", "channels"),
    *("model", "rotation_deg", "scale", "shift_x_px", "shift_y_px"),
    *(*_RESIDUALS, "inliers", "blocks", "overlap"),
    *("method", "gain", "gain_low95", "gain_high95", "offset"),
    *("difference_median", "difference_mad", "other_gains"),
    *("candidates", *_FDR, *_DENSITY, "control", *_FDR_CONTROL),
    *_SPOILT,
    *_REVIEW,
    *_AGREEMENT,
    *_MARKER,
)
_SHARES = ("overlap", "candidates_fdr", "clipped", "spoilt_share", *_AGREEMENT)
_ERRORS = (*_RESIDUALS, "difference_mad")
"""Columns of numbers that are errors themselves."""
_OPTIONAL = (*VARIANT, "notes", "control", *_FDR_CONTROL, *_MARKER[:-1])
"""Columns that are left out where no pair has them."""
_SHOWN_WITH = {
    **dict.fromkeys(_REVIEW, "reviewed"),
    **dict.fromkeys(_AGREEMENT, "in_first"),
    "clipped": "background_channel",
}
"""Columns that are left out where no pair has another one."""
SKIPPED = "skipped"
"""Status of a pair or file that was not started because of its input."""
STATUSES = ("ok", "suspect", "failed", SKIPPED, "incomplete")


@dataclass(frozen=True, slots=True)
class Entry:
    """One row to be: a pair and variant, with the files that tell about it.

    Attributes
    ----------
    names
        Of the pair and its variant, by level; '' on levels that are not swept.
    plan, transform, scale, detection
        Paths relative to the results directory.
    histograms
        The same for what the difference of each scale method left; one file may serve several.
    logs
        Directory of the pair's logs, for the sentence about a job that did not finish.
    control
        Whether the pair is an unstained control.
    groups
        What the sample sheet says about groups and order, by column.
    """

    names: dict[str, str]
    plan: str
    transform: str
    scale: str
    detection: str
    histograms: dict[str, str]
    logs: str
    control: bool = False
    groups: dict[str, str] = field(default_factory=dict)


def entries_from(records: Iterable[Mapping[str, Any]]) -> list[Entry | SlideEntry]:
    """Rebuild entries from plain mappings, as ``params`` of a rule holds them."""
    return [SlideEntry(**one) if "markers" in one else Entry(**one) for one in records]


def rows(
    entries: Iterable[Entry | SlideEntry], problems: Iterable[Mapping[str, Any]], results: Path
) -> list[dict[str, Any]]:
    """Return the rows of the summary, skipped pairs first.

    Parameters
    ----------
    entries
        Pairs and variants, and slides, that were run.
    problems
        Pairs (or files) that were skipped, each with ``sample``, ``dye`` and ``message``.
    results
        The results directory.
    """
    made = [
        {key: p[key] or "" for key in ("sample", "dye")}
        | {"status": SKIPPED, "reasons": p["message"]}
        for p in problems
    ]
    for entry in entries:
        if isinstance(entry, SlideEntry):
            made += marker_rows(entry, results)
        else:
            made.append(_row(entry, results))
    groups.note_repeated_images(made)
    return made


def comparison(entries: Iterable[Entry], results: Path) -> list[dict[str, Any]]:
    """Return a row like those of the summary for each variant and each scale method."""
    return [_row(entry, results, method) for entry in entries for method in entry.histograms]


def table(summary: Iterable[Mapping[str, Any]]) -> str:
    """Return the summary as tab-separated text, without columns that no pair needs.

    What the sample sheet says about groups and order comes last.
    """
    filled = list(summary)
    more = [c for c in dict.fromkeys(c for row in filled for c in row) if groups.is_told(c)]
    return _separated([*COLUMNS, *more], {**{c: c for c in _OPTIONAL}, **_SHOWN_WITH}, filled)


def _separated(
    names: Sequence[str], deciding: Mapping[str, str], filled: Sequence[Mapping[str, Any]]
) -> str:
    """Return a table as text; ``deciding`` is the column without which another one is left out."""
    columns = [c for c in names if c not in deciding or any(row.get(deciding[c]) for row in filled)]
    stream = io.StringIO()
    writer = csv.DictWriter(
        stream, columns, delimiter="\t", extrasaction="ignore", lineterminator="\n", restval=""
    )
    writer.writeheader()
    for row in filled:
        cells = texts(row)
        writer.writerow({k: cell(cells.get(k, "")) for k in columns})
    return stream.getvalue()


def texts(row: Mapping[str, Any]) -> dict[str, str]:
    """Return a row as it is written: numbers in as many digits as their errors leave."""
    return {column: _text(column, value) for column, value in row.items()}


def write_summary(
    entries: Iterable[Entry | SlideEntry],
    problems: Iterable[Mapping[str, Any]],
    results: Path,
    target: Path,
) -> list[dict[str, Any]]:
    """Write summary.tsv, groups.tsv beside it if pairs have groups, and what MultiQC reads.

    Returns the rows. A file that would not change keeps its time. Digests are written last.
    """
    summary = rows(entries, problems, results)
    write_changed_text(target, table(summary))
    pools, beside = groups.pooled(summary), target.with_name(groups.NAME)
    if pools:
        write_changed_text(beside, _separated(groups.COLUMNS, groups.OPTIONAL, pools))
    else:
        beside.unlink(missing_ok=True)
    for_multiqc = multiqc.write([texts(row) for row in summary], results)
    tables = [target, *([beside] if pools else []), *for_multiqc]
    digests.write(digests.list_of(target.parent, "summary"), tables)
    return summary


def verdict(summary: Iterable[Mapping[str, Any]]) -> str:
    """Return counts by status and a line for each pair that is not ok."""
    pairs = list(summary)
    counts = [(s, sum(row["status"] == s for row in pairs)) for s in STATUSES]
    lines = [", ".join(f"{n} {s}" for s, n in counts if n) or "no pairs"]
    for row in pairs:
        if row["status"] != "ok":
            parts = [part for part in (row["status"], name_of(row), row["reasons"]) if part]
            lines.append(harmless(" ".join(": ".join(parts).split())))
    return "\n".join(lines) + "\n"


def read_summary(path: Path) -> list[dict[str, str]]:
    """Read summary.tsv or groups.tsv back, every value as text; StoreError if it is damaged."""
    try:
        with open_text(path) as stream:
            lines = limit_lines(stream)
            found = csv.DictReader(lines, delimiter="\t", restkey="", restval="")
            return [{name: text for name, text in row.items() if name} for row in found]
    except (ValueError, csv.Error) as error:
        raise make_damage_error(path) from error


def _row(entry: Entry, results: Path, method: str | None = None) -> dict[str, Any]:
    row: dict[str, Any] = dict(entry.names)
    if entry.control:
        row["control"] = "true"
    row |= entry.groups
    paths = (
        *(entry.plan, entry.transform, entry.scale),
        *dict.fromkeys(entry.histograms.values()),
        entry.detection,
    )
    missing = [path for path in paths if not (results / path).is_file()]
    stages = (results / path for path in (entry.plan, entry.transform, entry.scale))
    refused = first_reasons(stages) if missing else None
    if refused is not None:  # what is missing would say no more
        row |= {"status": "failed", "reasons": refused}
        return row
    if missing:
        row |= {
            "status": "incomplete",
            "reasons": f"{missing[0]} has not been made; {entry.logs} holds the logs of its jobs.",
        }
        return row
    try:
        row |= _finished(entry, results, method)
    except Exception as error:  # noqa: BLE001 (a damaged file costs one row, not the table)
        reasons = f"a result file cannot be read: {describe(error)}"
        row |= {"status": "failed", "reasons": reasons}
    return row


def _finished(entry: Entry, results: Path, method: str | None) -> dict[str, Any]:
    """Return the columns of a variant that has all its files, for a method or the default one."""
    plan = _read_plan(results / entry.plan)
    transform = transforms.load(results / entry.transform)
    scale = Scale.load(results / entry.scale)
    if scale.default not in scale.methods:
        raise make_damage_error(results / entry.scale)
    shown = method or scale.default
    histogram = load_method((results / path for path in entry.histograms.values()), shown)
    detection = _read_detection(results / entry.detection)
    # of bright-field pairs, a note says why nothing is searched
    warnings = [] if scale.bright_field else _warnings(detection)
    status, reasons = status_of(plan, transform, scale, warnings)
    reviewed = _review_columns((results / entry.detection).parent)
    return {
        "status": status,
        "reasons": reasons,
        "notes": " ".join([*scale.notes, *reviewed.pop("notes", ())]),
        "channels": "+".join(plan["choice"].get("names", ())),
        "images": plan["read"],
        **registration_columns(transform),
        **scale_columns(scale, histogram, shown),
        **_detection_columns(results / entry.detection, detection, shown),
        **(reviewed if shown == detection.get("method") else {}),
    }


def _read_plan(path: Path) -> dict[str, Any]:
    """Read plan.json as it is; the module that writes it would import this one in turn."""
    try:
        plan: dict[str, Any] = read_json(path)
        check_shape(plan, _PLAN)
        read = [
            (image["fingerprint"], str(image["header"]["plane"]), str(plan["channels"][role]))
            for role, image in plan.get("images", {}).items()
        ]
        return {**{key: plan[key] for key in ("status", "reason", "choice")}, "read": tuple(read)}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise make_damage_error(path) from error


def _read_detection(path: Path) -> dict[str, Any]:
    """Read detection.json; ``reason`` is None if candidates were looked for."""
    try:
        detection: dict[str, Any] = read_json(path)
        refused = detection["status"] == "failed"
        check_report(detection)
        used = [control["reason"] is None for control in detection.get("controls") or ()]
        return {**detection, "reason": str(detection["reason"]) if refused else None, "used": used}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise make_damage_error(path) from error


def _warnings(detection: Mapping[str, Any]) -> list[str]:
    """Return what makes the search doubtful."""
    if detection["reason"] is not None:
        return [f"Candidates were not looked for: {detection['reason']}"]
    sentences = list(detection.get("reasons", ()))
    if detection["used"] and not any(detection["used"]):
        sentences.append(
            "No unstained control of this dye could be searched, so what share of the candidates "
            "is false rests on the negated difference alone."
        )
    return sentences


def status_of(
    plan: Mapping[str, Any], transform: Transform, scale: Scale, warnings: Sequence[str] = ()
) -> tuple[str, str]:
    """Return the status of a pair and its reasons: the first stage that failed speaks.

    ``warnings`` are what makes the search for candidates doubtful.
    """
    if plan["status"] == "failed":
        return "failed", str(plan["reason"])
    if transform.status == "failed":
        return "failed", " ".join([*transform.reasons, *check_roles(scale.bright_field)])
    if scale.status == "failed":
        return "failed", " ".join(scale.reasons)
    reasons = " ".join([*transform.reasons, *scale.reasons, *warnings])
    suspect = transform.status == "suspect" or scale.reasons or warnings
    return ("suspect", reasons) if suspect else ("ok", "")


def _detection_columns(path: Path, detection: Mapping[str, Any], method: str) -> dict[str, Any]:
    """Return what was found on the difference of a method; nothing for all but the default one."""
    try:
        if detection["method"] != method or detection["status"] != "ok":
            return {}
        density, control = detection["density_per_mm2"], detection.get("fdr_control")
        return {
            "candidates": detection["candidates"],
            "searched": (detection.get("searched_px"), detection.get("area_mm2")),
            **interval_columns(_FDR, detection["fdr"], detection.get("fdr_ci95")),
            **interval_columns(_DENSITY, density, detection["density_ci95_per_mm2"]),
            **interval_columns(_FDR_CONTROL, control, detection.get("fdr_control_ci95")),
            **spoilt_columns(detection),
        }
    except (KeyError, TypeError, ValueError) as error:
        raise make_damage_error(path) from error


def _review_columns(place: Path) -> dict[str, Any]:
    """Return what people decided on the candidates in a directory; ``notes`` if it is damaged."""
    path = place / REVIEW
    if not path.is_file():
        return {}
    from unglow.review.counts import ReviewCounts  # noqa: PLC0415 - most pairs have no review
    from unglow.review.decisions import Review  # noqa: PLC0415

    try:
        counts = ReviewCounts.of(Review.read(path, place / "candidates.csv"))
    except UnglowError as error:
        return {"notes": [str(error)]}
    if not counts.reviewed:
        return {}
    numbers = {name: getattr(counts, name) for name in ("reviewed", "accepted", "rejected")}
    return {**numbers, **interval_columns(_PURITY, counts.purity, counts.purity_ci95)}


def _text(column: str, value: Any) -> str:
    """Numbers in as many digits as their error leaves, nothing for None and NaN."""
    if value is None or value != value:  # noqa: PLR0124 - NaN is the value that differs from itself
        return ""
    if not isinstance(value, float):
        return str(value)
    if column in _SHARES:
        return share(value)
    if isinstance(value, Measured):
        if value.error > 0:
            return plain(value, decimals(value.error))
        return ends(value, None)[0]
    text = uncertainty(value) if column in _ERRORS else number(value)
    return text.replace(",", "")
