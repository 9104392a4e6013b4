"""The sample sheet: pairs named one per row, for images elsewhere or of other names."""

from __future__ import annotations

import csv
import difflib
import io
import math
import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unglow.core.errors import ConfigError, InputError
from unglow.core.files import number_lines, read_file, read_text, split
from unglow.core.printable import compose, one_line
from unglow.core.workflow_files import workflow_directory
from unglow.images.raw_header import is_ome_zarr
from unglow.results.groups import is_in_summary
from unglow.workflow.samples.naming import explain_unsafe
from unglow.workflow.samples.pair import (
    INITIAL,
    LANDMARKS,
    REGIONS,
    Discovery,
    Pair,
    Problem,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_EXPECTED = {"integer": "a whole number from 0", "number": "a number"}
_LONGEST_CELL, _MOST_LINES = 1000, 20
"""Characters of a cell, and lines that a sentence names."""
_REMEDY = "write it with `unglow init RAW`, or leave it out to use the files in raw/"
_FIRST = ("sample", "dye", "pre", "post")
_FILES = ("pre", "post", *LANDMARKS, INITIAL, REGIONS)
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
    rows: dict[object, list[_Row]] = {}
    for row in _parse(path, read_text(path, what="the sample sheet", remedy=_REMEDY)):
        key = tuple(compose(row.cells.get(name, "")) for name in ("sample", "dye"))
        rows.setdefault(key if all(key) else row.line, []).append(row)
    pairs: list[Pair] = []
    problems: list[Problem] = []
    for same in rows.values():
        found = _pair(path, same[0], base) if len(same) == 1 else _repeated(path, same)
        if isinstance(found, Pair):
            pairs.append(found)
        else:
            problems.append(found)
    if not rows:
        sentence = (
            f"{path} has a header but no rows; add one row per sample and dye, or write it again "
            "with `unglow init RAW`."
        )
        problems.append(Problem(sentence, "empty-sheet", paths=(path,)))
    return Discovery(
        pairs=tuple(sorted(pairs, key=lambda pair: pair.key)),
        problems=tuple(problems),
        layout=f"sample sheet {path}: {len(rows)} pairs",
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
    there = {*_FIRST, *(column for row in rows for column in row)}
    known = [column for column in _schema()["properties"] if column in there]
    out = io.StringIO()
    columns = [*known, *sorted(there.difference(known))]
    writer = csv.DictWriter(out, columns, "", delimiter="\t", lineterminator="\n")
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
    names = ("sample", "dye", "channel", "series", "manual_scale", "register_from")
    columns = LANDMARKS[:1] if len(pair.landmarks) == 1 else LANDMARKS[1:]
    files = {name: getattr(pair, name) for name in ("pre", "post", INITIAL, REGIONS)}
    files |= dict(zip(columns, pair.landmarks, strict=False))
    values = {
        **{name: getattr(pair, name) for name in names},
        **{column: file and _relative(file, base) for column, file in files.items()},
        "control": "true" if pair.control else None,
        **pair.groups,
    }
    return {column: str(value) for column, value in values.items() if value is not None}


def _relative(image: Path, base: Path) -> str:
    absolute = Path(os.path.abspath(image))  # noqa: PTH100 - resolve() would follow links
    top = Path(os.path.abspath(base))  # noqa: PTH100
    path = str(absolute.relative_to(top) if absolute.is_relative_to(top) else absolute)
    # ~ would be a user, and blanks at an end of a cell do not count
    return f"./{path}" if path[:1].isspace() or path.startswith("~") else path


def _parse(path: Path, content: str) -> list[_Row]:
    lines = list(number_lines(content))
    if not lines:
        raise InputError(
            f"{path} is empty; its first line has to name the columns: sample, dye, pre, post."
        )
    separator = _separator(path, lines[0][1])
    header, *table = [(line, split(path, line, text, separator)) for line, text in lines]
    columns = _columns(path, *header)
    rows = []
    for line, row in table:
        cells = {place: text for place, cell in enumerate(row, 1) if (text := cell.strip())}
        for place, cell in cells.items():
            if place > len(columns):
                why = f"'{cell[:99]}' stands beyond the last named column ({columns[-1]})"
            elif len(cell) > _LONGEST_CELL:
                why = f"the cell has {len(cell)} characters, more than {_LONGEST_CELL}"
            else:
                continue
            raise InputError(f"{path}, line {line}, column {place}: {why}; correct the row.")
        if cells:
            named = ((columns[place - 1], cell) for place, cell in cells.items())
            rows.append(_Row(line, {column: cell for column, cell in named if column}))
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
    """Check the header; return the column names."""
    allowed = list(_schema()["properties"])
    names = [name.strip().lower() for name in header]
    while names and not names[-1]:
        names.pop()
    for place, name in enumerate(names, 1):
        if name and name in names[: place - 1]:
            wrong = f"'{name}' is there twice; remove one."
        elif name not in allowed and not _further(name):
            wrong = _suggest_column(header[place - 1].strip(), allowed, names)
        else:
            continue
        raise InputError(f"{path}, line {line}, column {place}: {wrong}")
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


def _repeated(path: Path, rows: list[_Row]) -> Problem:
    sample, dye = (compose(rows[0].cells[name]) for name in ("sample", "dye"))
    shown = [str(row.line) for row in rows[:_MOST_LINES]]
    last = "others" if len(rows) > _MOST_LINES else shown.pop()
    return Problem(
        f"{path}, lines {', '.join(shown)} and {last}: sample {sample}, dye {dye} is there "
        f"{len(rows)} times; keep one row, or give the others another dye name.",
        "duplicate",
        sample,
        dye,
        (path,),
    )


def _pair(path: Path, row: _Row, base: Path) -> Pair | Problem:
    """Turn a row into a pair, or into the first problem that it has."""
    cells = row.cells
    rules = {**_schema()["properties"], **{c: _further(c) for c in cells if _further(c)}}
    values = {column: _convert(column, cell, rules[column]) for column, cell in cells.items()}
    files = {c: base / os.path.expanduser(cells[c]) for c in _FILES if c in cells}
    fault = next(chain(_check_cells(cells, values, rules), _check_files(cells, files, path)), None)
    if fault is not None:
        kind, column, why = fault
        where = f"{path}, line {row.line}, column '{column}'"
        names = values.get("sample"), values.get("dye")
        return Problem(f"{where}: {why}.", kind, *names, (files.get(column, path),))
    return Pair(
        *(values["sample"], values["dye"], files["pre"], files["post"]),
        channel=values.get("channel"),
        series=values.get("series"),
        manual_scale=values.get("manual_scale"),
        rule=f"line {row.line} of {path.name}",
        landmarks=tuple(files[column] for column in LANDMARKS if column in files),
        initial_transform=files.get(INITIAL),
        register_from=values.get("register_from"),
        regions=files.get(REGIONS),
        control=values.get("control", False),
        groups={column: cell for column, cell in cells.items() if is_in_summary(column)},
    )


def _convert(column: str, cell: str, rule: Mapping[str, Any]) -> Any:
    """Return the value of a cell; None if its rule in the schema does not allow it."""
    kind = rule["type"]
    if column in ("sample", "dye"):
        name = compose(cell)
        return name if explain_unsafe(name, is_sample=column == "sample") is None else None
    if kind == "boolean":
        return _TRUTHS.get(cell.lower())
    try:
        if kind == "string":
            if column == "date":
                datetime.fromisoformat(cell)
            fits = len(cell) <= rule.get("maxLength", _LONGEST_CELL)
            return cell if fits and re.search(rule.get("pattern", ""), cell) else None
        number = int(cell) if kind == "integer" else float(cell)
    except ValueError:
        return None
    least, above = (rule.get(name, -math.inf) for name in ("minimum", "exclusiveMinimum"))
    return number if least <= number < math.inf and number > above else None


def _check_cells(
    cells: Mapping[str, str], values: Mapping[str, Any], rules: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[str, str, str]]:
    """Yield each column at fault, in the order of the schema, with a kind before and why behind."""
    for column, rule in rules.items():
        cell = cells.get(column, "")
        if not cell and column in _FIRST:
            wrong = "the cell is empty"
        elif not cell or values[column] is not None:
            continue
        elif column in ("sample", "dye"):
            wrong = f"'{cell}' {explain_unsafe(compose(cell), is_sample=column == 'sample')}"
        elif rule["type"] in _EXPECTED:
            above = " above 0" if "exclusiveMinimum" in rule else ""
            comma = " (write decimals with a point)" if "," in cell else ""
            wrong = f"'{cell}' is not {_EXPECTED[rule['type']]}{above}{comma}"
        else:
            wrong = f"'{cell}' cannot be used"
        yield "sheet-cell", column, f"{wrong}; {_about(rule)}"


def _check_files(
    cells: Mapping[str, str], files: Mapping[str, Path], sheet: Path
) -> Iterator[tuple[str, str, str]]:
    """Yield each column whose file cannot be used, and why."""
    for column, file in files.items():
        is_store = column in _FIRST and is_ome_zarr(file) and os.path.isdir(file)
        wrong = None if is_store else _explain_absence(file, sheet, cells[column])
        if wrong is not None:
            yield "missing-file", column, wrong
    if files["pre"] == files["post"]:
        yield "same-file", "post", "it is the file of pre as well; name that after staining"
    both, post, pre = (column in files for column in LANDMARKS)
    if both and (post or pre):
        yield "sheet-cell", LANDMARKS[0], "it holds both images; leave the other two empty"
    elif post != pre:
        empty = LANDMARKS[1 if pre else 2]
        yield "sheet-cell", empty, "the cell is empty, but both images need landmarks; name theirs"


def _explain_absence(file: Path, sheet: Path, cell: str) -> str | None:
    """Return what keeps a file from being opened, as the end of a sentence; None if nothing."""
    try:
        if stat.S_ISDIR(file.stat().st_mode):
            return f"{cell} is a directory; name the file in it"
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return f"there is no {file}; {_find_remedy(file, sheet.parent / cell)}"
    except OSError as error:
        return f"{file} cannot be reached ({error.strerror}); check the links and permissions"
    return None


def _find_remedy(file: Path, above: Path) -> str:
    if os.path.islink(file):
        return f"it is a link to {file.readlink()}, so fix the link"
    if os.path.isfile(above):
        return f"paths start at the working directory, so write {above}"
    with suppress(OSError, ValueError):
        names = [path.name for path in file.parent.iterdir()]
        for near in difflib.get_close_matches(file.name, names, n=1):
            return f"did you mean {file.with_name(near)}?"
    return "correct the path (relative ones start at the working directory)"


def _about(rule: Mapping[str, Any]) -> str:
    """Return the first sentence of a column's description, as the end of a sentence."""
    text = " ".join(str(rule["description"]).split()).split("; ")[0].rstrip(".")
    return text[0].lower() + text[1:] if not text[:2].isupper() else text


@cache
def _schema() -> Mapping[str, Any]:
    """Return the schema of the columns, ``config/schemas/samples.schema.yaml``."""
    import yaml

    source = workflow_directory() / "config" / "schemas" / "samples.schema.yaml"
    if not os.path.isfile(source):
        raise ConfigError(f"{source} is missing from this copy of unglow; install it again.")
    loaded: Mapping[str, Any] = yaml.safe_load(read_file(source))
    return loaded
