"""The sample sheet: pairs named one per row, for images elsewhere or of other names."""

from __future__ import annotations

import csv
import difflib
import io
import math
import os
import re
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from unglow.core.errors import ConfigError, InputError
from unglow.core.files import number_lines, read_file, read_text, split
from unglow.core.printable import compose, one_line
from unglow.core.workflow_files import workflow_directory
from unglow.io.raw_header import is_ome_zarr
from unglow.reporting.groups import is_in_summary
from unglow.workflow.samples.naming import RESERVED, explain_unsafe
from unglow.workflow.samples.pair import (
    INITIAL,
    LANDMARKS,
    REGIONS,
    Discovery,
    Pair,
    Problem,
    file_problem,
    hint_files,
    hint_problem,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

_TYPES = {"string": str, "integer": int, "number": float, "boolean": bool}
_LIMITS = {
    "minimum": "ge",
    "exclusiveMinimum": "gt",
    "minLength": "min_length",
    "maxLength": "max_length",
    "pattern": "pattern",
}
_NUMBERS = {"series": int, "manual_scale": float, "order": float}
_LONGEST_CELL, _MOST_LINES = 1000, 20
"""Characters of a cell, and lines that a sentence names."""
_REMEDY = "write it with `unglow init RAW`, or leave it out to use the files in raw/"
_FIRST = ("sample", "dye", "pre", "post")
_TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_COMMON = {"sample_name": "sample", "id": "sample", "stain": "dye", "marker": "dye",
           "before": "pre", "pre_stain": "pre", "after": "post", "post_stain": "post",
           "scale": "manual_scale", "gain": "manual_scale",
           "blank": "control", "unstained": "control", "condition": "treatment",
           "day": "date", "imaged": "date", "number": "order"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Row:
    """One data row: where it stands, and its cells by column name (empty cells left out)."""

    line: int
    cells: dict[str, str]


def read_sheet(path: Path, *, base: Path) -> Discovery:
    """Read a sample sheet (config/schemas/samples.schema.yaml says which columns it may have).

    It is tab-separated, or comma-separated (semicolons work too) if it ends in .csv; UTF-8, or
    UTF-16 as Excel's Unicode text. Blank lines and lines that start with # are skipped. Paths in it
    start from the working directory ``base``, as everywhere in unglow. A row with a bad cell, a
    missing image or the sample and dye of another row is a problem of that pair.

    Raises
    ------
    InputError
        The sheet as a whole cannot be used: it is absent, not text, or its header is wrong.
    """
    rows = _rows(path)
    kinds = _choose_kinds(rows)
    pairs: list[Pair] = []
    problems: list[Problem] = []
    first: dict[tuple[str, str], int] = {}
    repeated: dict[tuple[str, str], list[int]] = {}
    for row in rows:
        key = compose(row.cells.get("sample", "")), compose(row.cells.get("dye", ""))
        if all(key) and key in first:
            repeated.setdefault(key, [first[key]]).append(row.line)
            continue
        first[key] = row.line
        pair = _pair(path, row, kinds, base)
        if isinstance(pair, Pair):
            pairs.append(pair)
        else:
            problems.append(pair)
    for key, lines in repeated.items():
        problems = [p for p in problems if (p.sample, p.dye) != key]
        problems.append(_repeated(path, key, lines))
    if not first:
        problems.append(
            Problem(
                f"{path} has a header but no rows; add one row per sample and dye, or write it "
                "again with `unglow init RAW`.",
                "empty-sheet",
                paths=(path,),
            )
        )
    unique = [pair for pair in pairs if pair.key not in repeated]
    return Discovery(
        pairs=tuple(sorted(unique, key=lambda p: p.key)),
        problems=tuple(problems),
        layout=f"{path}: sample sheet with {len(rows)} row{'' if len(rows) == 1 else 's'}",
    )


def sheet_text(pairs: Iterable[Pair], base: Path) -> str:
    """Return a tab-separated sample sheet that `read_sheet` reads back as the same pairs.

    Paths below ``base`` are written relative to it.

    Raises
    ------
    InputError
        A name or path would not be read back, see `find_unwritable`.
    """
    pairs = list(pairs)
    if problems := find_unwritable(pairs, base):
        raise InputError(" ".join(problem.message for problem in problems))
    return _write_rows([_cells(pair, base) for pair in pairs])


def find_unwritable(pairs: Iterable[Pair], base: Path) -> list[Problem]:
    """Return a problem for each pair that no sheet can name, as for line breaks in file names."""
    return [
        Problem(
            f"A sample sheet cannot name '{pair.pre}' and '{pair.post}': rename them without line "
            "breaks, unusual blanks and bytes that are no text.",
            "unwritable",
            pair.sample,
            pair.dye,
            (pair.pre, pair.post),
        )
        for pair in pairs
        if not _is_read_back(_cells(pair, base))
    ]


def _write_rows(rows: list[dict[str, str]]) -> str:
    out = io.StringIO()
    there = {column for row in rows for column in row}
    known = [*_FIRST, *(c for c in _schema()["properties"] if c in there and c not in _FIRST)]
    writer = csv.DictWriter(
        out, [*known, *sorted(there - {*known})], "", delimiter="\t", lineterminator="\n"
    )
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _is_read_back(cells: dict[str, str]) -> bool:
    text = _write_rows([cells]).encode(errors="backslashreplace").decode()
    try:
        return [row.cells for row in _parse(Path("samples.tsv"), text)] == [cells]
    except InputError:
        return False


def _cells(pair: Pair, base: Path) -> dict[str, str]:
    images = [_relative(image, base) for image in (pair.pre, pair.post)]
    needed = zip(_FIRST, (pair.sample, pair.dye, *images), strict=True)
    return {**dict(needed), **_optional(pair, base)}


def _optional(pair: Pair, base: Path) -> dict[str, str]:
    """Return the cells of a pair's optional columns, those without a value left out."""
    values = {c: getattr(pair, c) for c in ("channel", "series", "manual_scale", "register_from")}
    columns = LANDMARKS[:1] if len(pair.landmarks) == 1 else LANDMARKS[1:]
    files = dict(zip(columns, pair.landmarks, strict=False))
    if pair.initial_transform is not None:
        files[INITIAL] = pair.initial_transform
    if pair.regions is not None:
        files[REGIONS] = pair.regions
    values |= {column: _relative(file, base) for column, file in files.items()}
    values["control"] = "true" if pair.control else None
    values |= pair.groups
    return {column: str(value) for column, value in values.items() if value is not None}


def _relative(image: Path, base: Path) -> str:
    absolute = Path(os.path.abspath(image))  # noqa: PTH100 - resolve() would follow links
    top = Path(os.path.abspath(base))  # noqa: PTH100
    path = str(absolute.relative_to(top) if absolute.is_relative_to(top) else absolute)
    # ~ would be a user, and blanks at an end of a cell do not count
    return f"./{path}" if path[:1].isspace() or path.startswith("~") else path


def _rows(path: Path) -> list[_Row]:
    """Return the data rows of a sheet; every error names line and column."""
    return _parse(path, read_text(path, what="the sample sheet", remedy=_REMEDY))


def _parse(path: Path, content: str) -> list[_Row]:
    lines = list(number_lines(content))
    if not lines:
        raise InputError(
            f"{path} is empty; its first line has to name the columns: sample, dye, pre, post."
        )
    separator = _separator(path, lines[0][1])
    header_line, header_text = lines[0]
    columns = _columns(path, header_line, split(path, header_line, header_text, separator))
    rows = []
    for line, text in lines[1:]:
        cells = [cell.strip() for cell in split(path, line, text, separator)]
        if not any(cells):
            continue
        for place, cell in enumerate(cells[len(columns) :], len(columns) + 1):
            if cell:
                raise InputError(
                    f"{path}, line {line}, column {place}: '{cell[:_LONGEST_CELL]}' stands beyond "
                    f"the last named column ({columns[-1]}); is there a separator too many?"
                )
        for place, cell in enumerate(cells, 1):
            if len(cell) > _LONGEST_CELL:
                raise InputError(
                    f"{path}, line {line}, column {place}: the cell has {len(cell)} characters; "
                    f"use {_LONGEST_CELL} at most."
                )
        named = zip(columns, cells, strict=False)
        rows.append(_Row(line, {column: cell for column, cell in named if cell and column}))
    return rows


def _separator(path: Path, header: str) -> str:
    """Return what separates cells, from the file's ending; a header that disagrees is an error."""
    if path.suffix.lower() == ".csv":
        return ";" if header.count(";") > header.count(",") else ","
    if "\t" not in header and any(c in header for c in ",;"):
        raise InputError(
            f"{path}, line 1 is separated by commas, not tabs; save the sheet with tabs, or name "
            f"it {path.with_suffix('.csv').name}."
        )
    return "\t"


def _columns(path: Path, line: int, header: list[str]) -> list[str]:
    """Check the header; return the column names, '' for unnamed ones in between."""
    allowed = list(_schema()["properties"])
    names = [name.strip().lower() for name in header]
    while names and not names[-1]:
        names.pop()
    for place, name in enumerate(names, 1):
        if name in names[: place - 1] and name:
            raise InputError(
                f"{path}, line {line}, column {place}: '{name}' is there twice; remove one."
            )
        if name not in allowed and not _further(name):
            raise InputError(
                f"{path}, line {line}, column {place}: "
                f"{_suggest_column(header[place - 1].strip(), allowed, names)}"
            )
    missing = [name for name in _FIRST if name not in names]
    if missing:
        raise InputError(
            f"{path}, line {line}: the header lacks {' and '.join(missing)}; it has to name "
            f"sample, dye, pre and post, and may name {', '.join(allowed[4:])}."
        )
    return names


def _suggest_column(name: str, allowed: list[str], present: list[str]) -> str:
    """Say which column was probably meant."""
    if not name:
        return "the column has no name; name or remove it."
    free = [column for column in allowed if column not in present]
    plain = name.lower().replace(" ", "_").replace("-", "_")
    near = difflib.get_close_matches(plain, free, n=1, cutoff=0.6)
    meant = near[0] if near else _COMMON.get(plain)
    name = one_line(name)
    if meant in free:
        return f"there is no column '{name}'; did you mean '{meant}'?"
    group = f"group_{re.sub('[^a-z0-9]+', '_', plain)[:40]}"
    return (
        f"there is no column '{name}'; remove it, or name it {group} if it says which pairs belong "
        f"together (the columns are {', '.join(allowed)})."
    )


def _further(name: str) -> Mapping[str, Any]:
    """Return the rule of a column that the schema does not know by its whole name, {} if none."""
    rules: Mapping[str, Mapping[str, Any]] = _schema()["patternProperties"]
    return next((rule for pattern, rule in rules.items() if re.search(pattern, name)), {})


def _repeated(path: Path, key: tuple[str, str], lines: list[int]) -> Problem:
    shown = [*map(str, lines)] if len(lines) <= _MOST_LINES else [*map(str, lines[:3]), "others"]
    numbers = ", ".join(shown[:-1]) + f" and {shown[-1]}"
    return Problem(
        f"{path}, lines {numbers}: sample {key[0]}, dye {key[1]} is there {len(lines)} times; keep "
        "one row, or give the others another dye name.",
        "duplicate",
        *key,
        (path,),
    )


def _pair(
    path: Path, row: _Row, kinds: tuple[Mapping[str, Any], type], base: Path
) -> Pair | Problem:
    """Turn a row into a pair, or into the first problem that it has."""
    values = {column: _value(column, cell) for column, cell in row.cells.items()}
    at_fault = _cell_problem(values, row.cells, *kinds)
    if at_fault is not None:
        column, why = at_fault
        where = f"{path}, line {row.line}, column '{column}'"
        sample, dye = (_usable_name(values.get(name)) for name in ("sample", "dye"))
        return Problem(f"{where}: {why}.", "sheet-cell", sample, dye, (path,))
    sample, dye = values["sample"], values["dye"]
    images = {role: base / os.path.expanduser(row.cells[role]) for role in ("pre", "post")}
    for role, image in images.items():
        is_image = is_ome_zarr(image) and os.path.isdir(image)
        wrong = None if is_image else file_problem(image, path, row.cells[role])
        if wrong is not None:
            where = f"{path}, line {row.line}, column '{role}'"
            return Problem(f"{where}: {wrong}.", "missing-file", sample, dye, (image,))
    if images["pre"] == images["post"]:
        return Problem(
            f"{path}, line {row.line}: pre and post name the same file, {row.cells['pre']}; name "
            "the image before and the one after staining.",
            "same-file",
            sample,
            dye,
            (images["pre"],),
        )
    hints = hint_files(row.cells, base)
    wrong = hint_problem(row.cells, hints, path)
    if wrong is not None:
        sentence = f"{path}, line {row.line}{wrong}."
        return Problem(sentence, "missing-file", sample, dye, tuple(hints.values()))
    series, scale = values.get("series"), values.get("manual_scale")
    return Pair(
        sample,
        dye,
        pre=images["pre"],
        post=images["post"],
        channel=row.cells.get("channel"),
        series=None if series is None else int(series),
        manual_scale=None if scale is None else float(scale),
        rule=f"line {row.line} of {path.name}",
        landmarks=tuple(hints[column] for column in LANDMARKS if column in hints),
        initial_transform=hints.get(INITIAL),
        register_from=row.cells.get("register_from"),
        regions=hints.get(REGIONS),
        control=values.get("control") is True,
        groups={column: cell for column, cell in row.cells.items() if is_in_summary(column)},
    )


def _usable_name(value: Any) -> str | None:
    """Return a sample or dye name if it may stand in the summary."""
    return value if isinstance(value, str) and explain_unsafe(value) is None else None


def _value(column: str, cell: str) -> Any:
    """Convert a cell to the type of its column; what cannot be stays text, which is refused."""
    if column in ("sample", "dye"):
        return compose(cell)
    if column == "control":
        return _TRUTHS.get(cell.lower(), cell)
    try:
        number: float = _NUMBERS[column](cell)
    except (KeyError, ValueError):
        return cell
    return number if math.isfinite(number) else cell


def _cell_problem(
    values: Mapping[str, Any], cells: Mapping[str, str], kinds: Mapping[str, Any], row: Any
) -> tuple[str, str] | None:
    """Return the first column at fault of a row, and what is wrong with it; None if nothing."""
    rules = _schema()["properties"]
    is_reserved = any(values.get(name) in _reserved(rules[name]) for name in ("sample", "dye"))
    if not is_reserved and _fits(values, row):
        if not _is_date(cells.get("date", "")):
            about = _about(rules["date"])
            return "date", f"'{cells['date']}' is not a date of the calendar; {about}"
        names = ((c, explain_unsafe(values[c])) for c in ("sample", "dye"))
        return next(((c, f"'{cells[c]}' {why}") for c, why in names if why), None)
    for column, kind in kinds.items():
        rule = rules.get(column) or _further(column)
        if column in _FIRST and column not in values:
            return column, f"the cell is empty; {_about(rule)}"
        value = values.get(column)
        if value is not None and (not _fits(value, kind) or value in _reserved(rule)):
            return column, f"{_wrong(column, cells[column])}; {_about(rule)}"
    return None


def _fits(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except (msgspec.ValidationError, UnicodeEncodeError):
        return False
    return True


def _reserved(rule: Mapping[str, Any]) -> Collection[str]:
    names: Collection[str] = rule.get("not", {}).get("enum", ())
    return names


def _choose_kinds(rows: Iterable[_Row]) -> tuple[dict[str, Any], type]:
    """Return the type of each column of a sheet, from the schema, and that of its rows."""
    rules = dict(_schema()["properties"])
    rules |= {column: _further(column) for row in rows for column in row.cells.keys() - rules}
    kinds = {}
    for column, rule in rules.items():
        limits = {ours: rule[name] for name, ours in _LIMITS.items() if name in rule}
        kinds[column] = Annotated[_TYPES[rule["type"]], Meta(**limits)]
    fields = [
        (column, kind) if column in _FIRST else (column, kind, None)
        for column, kind in kinds.items()
    ]
    return kinds, msgspec.defstruct("Row", fields)


def _is_date(cell: str) -> bool:
    """Whether a cell of the schema's form is a day, and a time, of the calendar; or empty."""
    try:
        return not cell or bool(datetime.fromisoformat(cell))
    except ValueError:
        return False


def _wrong(column: str, cell: str) -> str:
    if column in ("sample", "dye"):
        why = explain_unsafe(compose(cell))
        if why is None and cell in RESERVED:
            why = "is the name of something that unglow itself writes into the results"
        return f"'{cell}' {why}"
    if column == "series":
        return f"'{cell}' is not a whole number from 0; give one or leave the cell empty"
    if column == "manual_scale":
        comma = " (write decimals with a point)" if "," in cell else ""
        return f"'{cell}' is not a number above 0{comma}; give one or leave the cell empty"
    if column == "order":
        return f"'{cell}' is not a number; give one or leave the cell empty"
    if column == "control":
        return f"'{cell}' is neither true nor false; write one of them or leave the cell empty"
    return f"'{cell}' cannot be used"


def _about(rule: Mapping[str, Any]) -> str:
    """Return the first sentence of a column's description, as the end of a sentence."""
    text = " ".join(str(rule["description"]).split()).split("; ")[0].rstrip(".")
    return text[0].lower() + text[1:] if not text[:2].isupper() else text


@cache
def _schema() -> Mapping[str, Any]:
    """Return the schema of the columns, ``config/schemas/samples.schema.yaml``."""
    import yaml  # noqa: PLC0415 - which jobs can do without

    source = workflow_directory() / "config" / "schemas" / "samples.schema.yaml"
    if not os.path.isfile(source):
        raise ConfigError(f"{source} is missing from this copy of unglow; install it again.")
    loaded: Mapping[str, Any] = yaml.safe_load(read_file(source))
    return loaded
