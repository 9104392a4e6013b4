"""Summary of a run: one row for each pair and variant, from the small files of its results.

It needs no output of a failed pair: what is missing is named, with the log that says why.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unglow.core import digests
from unglow.core.archive import make_damage_error
from unglow.core.errors import UnglowError
from unglow.core.files import read_file, write_changed_text
from unglow.core.levels import LEVELS, PAIR, RESULT_OF, VARIANT, place_of
from unglow.core.printable import cell
from unglow.core.reasons import DETAILS, list_details
from unglow.core.rounding import Measured, decimals, ends, number, plain, share, uncertainty
from unglow.photometry.difference_histogram import HISTOGRAM, DifferenceHistogram
from unglow.photometry.gain.scale import Scale
from unglow.results import SKIPPED, groups, multiqc
from unglow.results.marker_rows import (
    SlideEntry,
    interval_columns,
    marker_rows,
    registration_columns,
    scale_columns,
    spoilt_columns,
    unreadable_columns,
)
from unglow.results.pair import PairResults, judge
from unglow.review import REVIEW
from unglow.telemetry.reading.pairs import first_reasons

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


_DENSITY = ("density_per_mm2", "density_low95", "density_high95")
_FDR = ("candidates_fdr", "fdr_low95", "fdr_high95")
_FDR_CONTROL = ("fdr_control", "fdr_control_low95", "fdr_control_high95")
_RESIDUALS = ("residual_median_px", "residual_p95_px", "error_median_px", "error_p95_px")
_PURITY = ("purity", "purity_low95", "purity_high95")
_MARKER = ("background_channel", "expected_gain", "residual_shift_px", "clipped")
"""Columns of the markers of a slide."""
_WIDTHS = ("spot_width_px", "searched_width_px")
"""Width of the spots, FWHM, and the one that was searched (detect.fwhm_px)."""
_SPOILT = ("spoilt_share", "spoilt_reasons")
"""Share of the section that is spoilt and excluded, and its parts by reason."""
_REVIEW = ("reviewed", "accepted", "rejected", *_PURITY)
COLUMNS = (
    *(*LEVELS, "status", "reasons", "notes", "outdated", "channels"),
    *("model", "rotation_deg", "scale", "shift_x_px", "shift_y_px"),
    *(*_RESIDUALS, "inliers", "blocks", "overlap"),
    *("method", "gain", "gain_low95", "gain_high95", "offset"),
    *("difference_median", "difference_mad", "other_gains"),
    *("candidates", *_FDR, *_DENSITY, "area_mm2", "control", *_FDR_CONTROL),
    *_WIDTHS,
    *_SPOILT,
    *_REVIEW,
    *_MARKER,
)
_SHARES = ("overlap", "candidates_fdr", "clipped", "spoilt_share")
_ERRORS = (*_RESIDUALS, "difference_mad")
"""Columns of numbers that are errors themselves."""
_OPTIONAL = (
    *(*VARIANT, "notes", "outdated", "control"),
    *(*_FDR_CONTROL, "spot_width_px", *_MARKER[:-1]),
)
"""Columns that are omitted where no pair has them."""
_SHOWN_WITH = {
    **dict.fromkeys(_REVIEW, "reviewed"),
    "clipped": "background_channel",
    "searched_width_px": "spot_width_px",
}
"""Columns that are omitted where no pair has another one."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A pair and variant that becomes a row, with its files.

    Attributes
    ----------
    names
        Of the pair and its variant, by level; '' on levels that are not swept.
    logs
        Directory of the pair's logs, for the sentence about a job that did not finish.
    control
        Whether the pair is an unstained control.
    groups
        What the sample sheet says about groups and order, by column.
    outdated
        What it would be made with now, if that is something else, in words.
    """

    names: dict[str, str]
    logs: str
    control: bool = False
    groups: dict[str, str] = field(default_factory=dict)
    outdated: str = ""

    @property
    def files(self) -> tuple[str, ...]:
        """plan.json, transform.json, scale.json, detection.json, relative to the results."""
        return tuple(self._path(level, name) for level, name in RESULT_OF.items())

    @property
    def histogram(self) -> str:
        """What the differences of all methods left, relative to the results."""
        return self._path("subtraction", HISTOGRAM)

    def _path(self, level: str, name: str) -> str:
        return (place_of(Path(), self.names, level) / name).as_posix()


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


def table(summary: Iterable[Mapping[str, Any]]) -> str:
    """Return the summary as tab-separated text, without columns that no pair needs.

    What the sample sheet says about groups and order comes last.
    """
    filled = list(summary)
    more = [c for c in dict.fromkeys(c for row in filled for c in row) if groups.is_in_summary(c)]
    deciding = {**{c: c for c in _OPTIONAL}, **_SHOWN_WITH}
    columns = [
        c
        for c in (*COLUMNS, *more)
        if c not in deciding or any(row.get(deciding[c]) for row in filled)
    ]
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
    """Write summary.tsv, README.txt, and what MultiQC reads.

    Returns the rows. A file that would not change keeps its time. Digests are written last.
    """
    summary = rows(entries, problems, results)
    write_changed_text(target, table(summary))
    readme = target.with_name("README.txt")
    write_changed_text(readme, read_file(Path(__file__).with_name("results_readme.txt")).decode())
    for_multiqc = multiqc.write([texts(row) for row in summary], results)
    digests.write(digests.list_of(target.parent, "summary"), [target, readme, for_multiqc])
    return summary


def _row(entry: Entry, results: Path) -> dict[str, Any]:
    more = {"control": "true" if entry.control else "", "outdated": entry.outdated}
    names = entry.names | {k: v for k, v in more.items() if v} | entry.groups
    return names | _columns(entry, results)


def _columns(entry: Entry, results: Path) -> dict[str, Any]:
    """Return all columns of a variant but its names: of its files, or what is missing."""
    *stages, detection = entry.files
    paths = (*stages, entry.histogram, detection)
    missing = [path for path in paths if not (results / path).is_file()]
    refused = first_reasons(results / path for path in stages) if missing else None
    if refused is not None:  # what is missing would say no more
        return {"status": "failed", "reasons": refused}
    if missing:
        sentence = f"{missing[0]} has not been made; {entry.logs} holds the logs of its jobs."
        return {"status": "incomplete", "reasons": sentence}
    try:
        return _fill_columns(entry, results)
    except (UnglowError, OSError) as error:  # a damaged file costs one row, not the table
        return unreadable_columns(error)


def _fill_columns(entry: Entry, results: Path) -> dict[str, Any]:
    """Return the columns of a variant that has all its files."""
    directory = place_of(results, entry.names)
    pair = PairResults(directory, place_of(results, entry.names, PAIR[-1]))
    plan, transform, detection = pair.plan, pair.transform, pair.detection
    scale = Scale.load(pair.path("scale.json"))  # whose gain map no column needs
    shown = scale.default
    histogram = DifferenceHistogram.load(results / entry.histogram)
    status, reasons, notes = judge(plan, pair.registration, scale, detection)
    reviewed = _review_columns(directory)
    return {
        "status": status,
        "reasons": " ".join(reasons),
        "notes": " ".join([*notes, *reviewed.pop("notes", ())]),
        DETAILS: list_details([*reasons, *notes]),
        "channels": "+".join(plan.choice.get("names", ())),
        "images": tuple(
            (plan.fingerprints[role], str(header.plane), str(plan.channels[role]))
            for role, header in plan.headers.items()
        ),
        **registration_columns(transform),
        **scale_columns(scale, histogram, shown),
        **_detection_columns(directory / RESULT_OF["detection"], detection, shown),
        **(reviewed if shown == detection.get("method") else {}),
    }


_SEARCHED = ("method", "candidates", "fdr", "density_per_mm2", "density_ci95_per_mm2")


def _detection_columns(path: Path, detection: Mapping[str, Any], method: str) -> dict[str, Any]:
    """Return what was found on the difference of a method; nothing for all but the default one."""
    get = detection.get
    if get("status") != "ok":
        return {}
    if missing := [key for key in _SEARCHED if key not in detection]:
        raise make_damage_error(path, f"{missing[0]}: it is missing")
    if get("method") != method:
        return {}
    return {
        "candidates": get("candidates"),
        "area_mm2": get("area_mm2"),
        **interval_columns(_FDR, get("fdr"), get("fdr_ci95")),
        **interval_columns(_DENSITY, get("density_per_mm2"), get("density_ci95_per_mm2")),
        **interval_columns(_FDR_CONTROL, get("fdr_control"), get("fdr_control_ci95")),
        "spot_width_px": get("spot_width_px"),
        "searched_width_px": get("settings", {}).get("fwhm_px"),
        **spoilt_columns(detection),
    }


def _review_columns(place: Path) -> dict[str, Any]:
    """Return what people decided on the candidates in a directory; ``notes`` if it is damaged."""
    path = place / REVIEW
    if not path.is_file():
        return {}
    from unglow.review.counts import ReviewCounts
    from unglow.review.decisions import Review

    try:
        counts = ReviewCounts.from_review(Review.read(path, place / "candidates.csv"))
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
