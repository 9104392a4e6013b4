"""Tables of markers that unglow writes: drafts from metadata, and that of a corrected slide.

A rule that names backgrounds is applied where the user asks for it by name, and never guesses: a
marker for which it finds no background, or more than one, keeps an empty cell.
"""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING, Any

from unglow.core.files import write_text
from unglow.core.printable import escape_controls, escape_formula
from unglow.slides.channels import is_nuclear_stain
from unglow.slides.markers import is_empty, number_repeated, plain_column

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from unglow.images.slide_plan import Channel
    from unglow.images.tiff.metadata import AcquiredChannel

RULES = {
    "nearest-earlier": "nearest earlier blank of the same filter",
    "same-cycle": "blank of the same cycle",
    "first-and-last": "first and last blank of the same filter, fitted together",
}
"""Names of the rules, and which background each takes."""
_COLUMNS = (
    *("channel_number", "cycle_number", "marker_name", "Filter"),
    *("background", "exposure", "remove"),
)
# AF only at the start: AF488 at the end of a name is the fluorophore Alexa Fluor 488.
_BLANK = re.compile(
    r"^(?:af|bg)(?![a-z])|(?<![a-z])(?:blank|empty|background|bkgnd|bleach(?:ed)?|autofluorescence)"
    r"(?![a-z])",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"_\d+$")

Rows = list[dict[str, str]]
"""The cells of a table by the names of its columns, a row for each channel."""


def draft_rows(channels: Sequence[AcquiredChannel]) -> Rows:
    """Return the table of channels, in the order of the images; what is unknown stays empty.

    Repeated names get a number. Cycles that are counted from 0 are counted from 1.
    """
    first = min((one.cycle for one in channels if one.cycle is not None), default=1)
    names = number_repeated(
        f"{one.name}_background" if one.is_blank and not is_blank(one.name) else one.name
        for one in channels
    )
    rows = []
    for number, (name, one) in enumerate(zip(names, channels, strict=True), 1):
        cycle = "" if one.cycle is None else str(one.cycle + (first == 0))
        time = "" if one.exposure is None else f"{one.exposure:.10g}"
        cells = (str(number), cycle, name, one.filter, "", time, "")
        rows.append(dict(zip(_COLUMNS, cells, strict=True)))
    return rows


def list_gaps(rows: Rows) -> list[str]:
    """Return what the metadata did not say, as ``exposure``, or ``exposure of CD3, CD8``."""
    gaps = []
    for column in ("marker_name", "exposure", "cycle_number", "Filter"):
        places = [
            row["marker_name"] or f"channel {row['channel_number']}"
            for row in rows
            if not row[column]
        ]
        if places:
            gaps.append(column + (f" of {', '.join(places)}" if len(places) < len(rows) else ""))
    return gaps


def write_rows(path: Path, rows: Rows) -> None:
    """Write a table; its columns are those of the first row."""
    stream = io.StringIO()
    table = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    write_text(path, stream.getvalue())


def names_background(rows: Rows) -> bool:
    """Return whether a table names a background for any channel."""
    return any(_Cells(row, n).background for n, row in enumerate(rows))


def is_blank(name: str, filter_name: str = "") -> bool:
    """Return whether a channel is called as one that was imaged without stain.

    COMET names blanks after their filters (``TRITC``, ``TRITC_1``).
    """
    if is_nuclear_stain(name):
        return False
    plain = _NUMBER.sub("", name).casefold()
    return _BLANK.search(name) is not None or (plain != "" and plain == filter_name.casefold())


class _Cells:
    """What rules look at in a row; ``place`` is its number from 0."""

    def __init__(self, row: dict[str, str], place: int) -> None:
        cells = {plain_column(name): cell.strip() for name, cell in row.items()}
        known = {name: "" if is_empty(cell) else cell for name, cell in cells.items()}
        self.place, self.name = place, cells.get("marker_name", "")
        self.filter = known.get("filter", "").casefold()
        self.cycle, self.background = known.get("cycle_number", ""), known.get("background", "")
        self.is_removed = known.get("remove", "").lower() in ("true", "1")
        self.is_blank = is_blank(self.name, self.filter)
        is_nuclear = is_nuclear_stain(self.name) or is_nuclear_stain(self.filter)
        self.is_marker = bool(self.name) and not (self.is_blank or is_nuclear or self.is_removed)


def apply_rule(rows: Rows, rule: str, *, images: int) -> tuple[Rows, list[str], list[str]]:
    """Name the background of each marker by one of `RULES`.

    Parameters
    ----------
    rows
        A table that names none. Channels with the stain of nuclei, blanks, and those that are
        removed are no markers.
    rule
        Its name.
    images
        How many images the slide has. Rows without a cycle are of one cycle if they have one image.

    Returns
    -------
    The table, the names of the blanks in it, and the markers for which the rule found none.
    """
    cells = [_Cells(row, place) for place, row in enumerate(rows)]
    blanks = [one for one in cells if one.is_blank]
    filled, missed = [], []
    column = next((name for name in rows[0] if plain_column(name) == "background"), "background")
    for row, one in zip(rows, cells, strict=True):
        chosen: list[_Cells] = []
        if one.is_marker and rule == "same-cycle":
            chosen = _find_in_cycle(one, blanks, single=images == 1)
        elif one.is_marker:
            same = [blank for blank in blanks if one.filter and blank.filter == one.filter]
            earlier = [blank for blank in same if blank.place < one.place]
            chosen = earlier[-1:] if rule == "nearest-earlier" else [*same[:1], *same[1:][-1:]]
        if one.is_marker and not chosen:
            missed.append(one.name)
        filled.append({**row, column: ";".join(blank.name for blank in chosen)})
    return filled, [one.name for one in blanks], missed


def _find_in_cycle(one: _Cells, blanks: Sequence[_Cells], *, single: bool) -> list[_Cells]:
    """Return the blank of a marker's cycle: that of its filter, or the only one of all filters."""
    if not one.cycle and not single:
        return []
    here = [blank for blank in blanks if blank.cycle == one.cycle]
    if one.filter and all(blank.filter for blank in here):
        here = [blank for blank in here if blank.filter == one.filter]
    return here if len(here) == 1 else []


def write_markers_corrected(
    path: Path,
    channels: Sequence[Channel],
    shares: Mapping[str, Mapping[str, Any]],
    own: Mapping[str, Mapping[str, str]],
) -> None:
    """Write the table of the corrected slide's channels, one row each, in their order.

    Parameters
    ----------
    path
        File to write or replace.
    channels
        Those that have a row each.
    shares
        By name of those that something was subtracted from: ``gain``, ``offset``, ``method``, and
        ``clipped``, the share of pixels that was below 0 or above the type's range.
    own
        By name, the cells of other columns of the slide's table, all in one order; they go between
        the columns of ours as they are, but for those that are called like one of ours.
    """
    stream = io.StringIO()
    columns = ("channel_number", "cycle_number", "marker_name", "background", "exposure")
    added = ("gain", "offset", "method", "clipped")
    others = dict.fromkeys(name for cells in own.values() for name in cells)
    free = [name for name in others if name.lower() not in (*columns, *added)]
    table = csv.writer(stream, lineterminator="\n")
    table.writerow((*columns, *map(_clean, free), *added))
    for number, one in enumerate(channels, 1):
        about, cells = shares.get(one.name, {}), own.get(one.name, {})
        row = (number, one.cycle, _clean(one.name), _clean(";".join(one.backgrounds)), one.exposure)
        kept = (_clean(cells.get(name, "")) for name in free)
        table.writerow((*row, *kept, *(about.get(name) for name in added)))
    write_text(path, stream.getvalue())


def _clean(text: str) -> str:
    return escape_formula(escape_controls(text))
