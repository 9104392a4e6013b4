"""The table of a slide's markers, as MCMICRO and Backsub have it: ``markers.csv``.

Each row is a channel, in the order of the image. ``marker_name`` is needed; ``background`` names
the channel that is subtracted, or several, separated by semicolons. In the older form
``background`` is TRUE for a background, which belongs to all channels of the same ``Filter``. Other
columns are carried through as they are.
"""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from unglow.core.errors import InputError
from unglow.core.files import number_lines, parse_whole, read_text, split
from unglow.core.printable import clean, compose, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import NoReturn

_COLUMNS = (
    *("marker_name", "background", "exposure", "remove"),
    *("cycle_number", "channel_number", "filter"),
)
# What the table of a corrected slide says again, or does not need; and columns without a name.
_REWRITTEN = {"", *_COLUMNS} - {"filter"}
_TRUTHS = {"true": True, "1": True, "false": False, "0": False}
# What Backsub's reader of tables takes for an empty cell.
_EMPTY = {"", "na", "n/a", "nan", "none", "null", "<na>"}
# Above this likeness an unknown column is a slip of the pen; others are somebody's own.
_CLOSE = 0.8
_LONGEST = 500
"""Characters of a sentence about a cell."""


@dataclass(frozen=True, slots=True)
class Marker:
    """A row: what is known of one channel.

    ``number`` is what the row says of its place in the image. ``cells`` are all cells as they
    stand there, by column.
    """

    name: str
    cycle: int | None = None
    number: int | None = None
    background: str | tuple[str, ...] | None = None
    exposure: float | None = None
    removed: bool = False
    cells: Mapping[str, str] = field(default_factory=dict)

    @property
    def own_cells(self) -> dict[str, str]:
        """The cells that the corrected slide's table takes as they are, by column."""
        return {
            name: cell for name, cell in self.cells.items() if plain_column(name) not in _REWRITTEN
        }


@dataclass(frozen=True, slots=True)
class _Row:
    """Where a row stands, and its cells by plain column names."""

    path: Path
    line: int
    cells: dict[str, str]
    as_written: dict[str, str]

    def text(self, column: str) -> str | None:
        value = self.cells.get(column, "")
        return None if value.lower() in _EMPTY else value

    def refuse(self, column: str, why: str) -> NoReturn:
        why = shorten(clean(why), _LONGEST)  # a cell may hold line breaks, and be of any length
        end = "" if why.endswith("?") else "."
        raise InputError(f"{self.path}, line {self.line}, column {column}: {why}{end}")

    def whole(self, column: str) -> int | None:
        value = self.text(column)
        if value is None:
            return None
        number = parse_whole(value)
        if not number:
            self.refuse(column, f"'{value}' is no whole number from 1; give one")
        return number

    def truth(self, column: str) -> bool:
        value = self.text(column) or "false"
        if value.lower() not in _TRUTHS:
            self.refuse(
                column, f"'{value}' is neither TRUE nor FALSE; write one of them, or nothing"
            )
        return _TRUTHS[value.lower()]

    def exposure(self) -> float | None:
        value = self.text("exposure")
        if value is None:
            return None
        try:
            seconds = float(value.replace(",", "."))
        except ValueError:
            seconds = math.nan
        if not 0 < seconds < math.inf:
            self.refuse(
                "exposure",
                f"'{value}' is no time above 0; give the exposure time, or leave the cell empty "
                "if it is not known",
            )
        return seconds


def read_markers(path: Path) -> list[Marker]:
    """Read the rows of a table, one for each channel in the order of the images.

    Raises
    ------
    InputError
        The table cannot be used; the sentence names line and column.
    """
    rows = _rows(path)
    by_filter = _backgrounds_by_filter(rows)
    names = {row.cells["marker_name"] for row in rows}
    markers = []
    for row in rows:
        background = _read_backgrounds(row, names)
        if by_filter is not None:
            own = by_filter.get(row.cells["filter"].lower())
            background = None if own == row.cells["marker_name"] else own
        markers.append(
            Marker(
                name=row.cells["marker_name"],
                cycle=row.whole("cycle_number"),
                number=row.whole("channel_number"),
                background=background,
                exposure=row.exposure(),
                removed=row.truth("remove"),
                cells=row.as_written,
            )
        )
    _check_names(rows)
    _check_backgrounds(rows, markers)
    _check_order(rows, markers)
    return markers


def read_cells(path: Path) -> list[dict[str, str]]:
    """Read the cells of each row by the names of columns as written, whatever is in them.

    Raises
    ------
    InputError
        The file is not a table with a column marker_name.
    """
    return [row.as_written for row in _rows(path)]


def _rows(path: Path) -> list[_Row]:
    text = read_text(path, what="the table of markers", remedy="give yourself the right to read it")
    lines = list(number_lines(compose(text)))  # macOS writes accents apart
    if not lines:
        raise InputError(f"{path} is empty; its first line has to name the columns: {_name_all()}.")
    line, header = lines[0]
    separator = max(",;\t", key=header.count)
    written = [name.strip() for name in split(path, line, header, separator)]
    names = _columns(path, line, written)
    rows = []
    for number, content in lines[1:]:
        cells = [cell.strip() for cell in split(path, number, content, separator)]
        if not any(cells):
            continue
        if len(cells) > len(names) and any(cells[len(names) :]):
            raise InputError(
                f"{path}, line {number} has {len(cells)} cells for {len(names)} columns; is there "
                "a separator too many? Put a name that holds one into quotation marks."
            )
        cells += [""] * (len(names) - len(cells))
        rows.append(
            _Row(
                path,
                number,
                dict(zip(names, cells, strict=False)),
                dict(zip(written, cells, strict=False)),
            )
        )
    if not rows:
        raise InputError(
            f"{path} has no rows: give one for each channel of the image, in its order."
        )
    return rows


def _columns(path: Path, line: int, written: Sequence[str]) -> list[str]:
    """Return the names of the columns, those that are known in small letters."""
    names = [plain_column(name) for name in written]
    for place, name in enumerate(names, 1):
        if name and name in names[: place - 1]:
            raise InputError(
                f"{path}, line {line}, column {place}: '{shorten(clean(name), 80)}' is there "
                "twice; remove one."
            )
        free = [column for column in _COLUMNS if column not in names]
        near = difflib.get_close_matches(name, free, n=1, cutoff=_CLOSE)
        if name not in _COLUMNS and near:
            raise InputError(
                f"{path}, line {line}, column {place}: there is no column "
                f"'{shorten(clean(written[place - 1]), 80)}'; "
                f"did you mean '{near[0]}'?"
            )
    if "marker_name" not in names:
        raise InputError(
            f"{path}, line {line}: no column marker_name; the first line has to name the columns: "
            f"{_name_all()}."
        )
    return names


def plain_column(column: str) -> str:
    """Return the name of a column by which it is known: in small letters, without spaces."""
    return column.lower().replace(" ", "_")


def is_empty(cell: str) -> bool:
    """Return whether a cell means nothing, as Backsub reads it."""
    return cell.lower() in _EMPTY


def _name_all() -> str:
    return f"marker_name, and where they are known {', '.join(_COLUMNS[1:-1])}"


def _backgrounds_by_filter(rows: Sequence[_Row]) -> dict[str, str] | None:
    """Return the background of each filter, for a table of the older form; None for others."""
    marks = {row.cells.get("background", "").lower() for row in rows} - _EMPTY
    if not marks or not marks <= set(_TRUTHS):
        return None
    by_filter: dict[str, str] = {}
    for row in rows:
        if not row.truth("background"):
            continue
        kind = row.text("filter")
        if kind is None:
            row.refuse(
                "background",
                "TRUE says that this channel is a background, but not of what; give the column "
                "Filter for all rows, or name the background of each marker in this column",
            )
        if kind.lower() in by_filter:
            row.refuse(
                "background",
                f"{by_filter[kind.lower()]} is a background of the filter {kind} already; write "
                "names of backgrounds into this column instead of TRUE",
            )
        by_filter[kind.lower()] = row.cells["marker_name"]
    return by_filter


def _read_backgrounds(row: _Row, names: set[str]) -> str | tuple[str, ...] | None:
    """Return what a cell of the column background names: nothing, one channel, or several."""
    cell = row.text("background")
    if cell is None or cell in names or ";" not in cell:
        return cell
    several = tuple(name.strip() for name in cell.split(";") if name.strip())
    twice = next((name for n, name in enumerate(several) if name in several[:n]), None)
    if twice is not None:
        row.refuse("background", f"'{twice}' is named twice; name each background once")
    return several[0] if len(several) == 1 else several or None


def _check_names(rows: Sequence[_Row]) -> None:
    lines: dict[str, int] = {}
    for row in rows:
        name = row.cells["marker_name"]
        if not name:
            row.refuse("marker_name", "the cell is empty; give the channel a name")
        if name in lines:
            row.refuse(
                "marker_name",
                f"'{name}' is already the name in line {lines[name]}; give each channel its own",
            )
        lines[name] = row.line


def _check_backgrounds(rows: Sequence[_Row], markers: Sequence[Marker]) -> None:
    names = [marker.name for marker in markers]
    empty = {name.lower(): name for name in names if name.lower() in _EMPTY}
    for row, marker in zip(rows, markers, strict=True):
        if (cell := row.cells.get("background", "").lower()) in empty:
            row.refuse(
                "background",
                f"'{empty[cell]}' means that there is none (Backsub reads it so), but a channel is "
                "called so; rename the channel",
            )
        one = marker.background
        for background in (one,) if isinstance(one, str) else one or ():
            if background == marker.name:
                row.refuse(
                    "background", f"{marker.name} is named as its own background; name another one"
                )
            if background not in names:
                row.refuse(
                    "background",
                    f"no channel is called '{background}'; {suggestion(background, names)}",
                )
    if not any(marker.background for marker in markers):
        raise InputError(
            f"{rows[0].path} names no background, so there is nothing to subtract; name that of "
            "each marker in a column background."
        )


def _check_order(rows: Sequence[_Row], markers: Sequence[Marker]) -> None:
    """Refuse rows that say themselves that they are not in the order of the image."""
    last: dict[int | None, int] = {}
    for row, marker in zip(rows, markers, strict=True):
        if marker.number is None:
            continue
        before = last.get(marker.cycle, 0)
        if marker.number <= before:
            row.refuse(
                "channel_number",
                f"{marker.number} follows {before}; rows stand for the channels of the image one "
                "by one (so Backsub takes them); sort them by channel_number, each there once",
            )
        last[marker.cycle] = marker.number


def number_repeated(names: Iterable[str]) -> list[str]:
    """Return names of which those that are there again have a number (``DAPI``, ``DAPI_1``).

    So Backsub numbers them. Empty names stay empty.
    """
    seen: dict[str, int] = {}
    numbered = []
    for name in map(compose, names):
        count = seen.get(name, 0)
        seen[name] = count + 1
        numbered.append(f"{name}_{count}" if count and name else name)
    return numbered


def suggestion(name: str, names: Sequence[str]) -> str:
    """Return what was probably meant, as the end of a sentence."""
    folded = {other.lower(): other for other in reversed(names)}
    near = difflib.get_close_matches(name.lower(), list(folded), n=1)
    return f"did you mean '{folded[near[0]]}'?" if near else f"the names are {', '.join(names)}"


def set_backgrounds(
    markers: Sequence[Marker], backgrounds: Mapping[str, Sequence[str] | str]
) -> list[Marker]:
    """Return channels with the backgrounds that a configuration gives them.

    ``backgrounds`` maps names of backgrounds to the names of their markers, or to ``all``: those
    that have no other, and are no background themselves.

    Raises
    ------
    ValueError
        A name is not there, or a marker has two backgrounds; as the end of a sentence.
    """
    names = [marker.name for marker in markers]
    chosen: dict[str, str] = {}
    composed = {
        compose(k): of if of == "all" else [*map(compose, of)] for k, of in backgrounds.items()
    }
    for background, of in composed.items():
        for name in (background, *(() if of == "all" else of)):
            if name not in names:
                raise ValueError(f"names '{name}', which is no channel; {suggestion(name, names)}")
        for name in () if of == "all" else of:
            if name in chosen or name == background:
                raise ValueError(f"gives {name} two backgrounds, or itself; leave one out")
            chosen[name] = background
    rest = [background for background, of in composed.items() if of == "all"]
    if len(rest) > 1:
        raise ValueError(f"gives all to {' and '.join(rest)}; give names to all but one of them")
    for name in names if rest else ():
        if name not in composed:
            chosen.setdefault(name, rest[0])
    return [replace(marker, background=chosen.get(marker.name)) for marker in markers]
