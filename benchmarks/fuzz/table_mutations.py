"""Ways to damage tables (CSV, TSV, lists of digests) and other text of lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    Rows = list[list[str]]
    Edit = Callable[[Rows, np.random.Generator], Rows]

_CELLS = (
    "", " ", "0", "-1", "1e999", "nan", "inf", "-inf", "1e308", "1_000", "٣", "0x10", "1,5",
    "9" * 5000, "x" * 140_000, "a\0b", "=1+1", "\x1b[31m", '"', "'", "#", "../../x", "/dev/zero",
    "true", "None", "é", "\ufeff", "\u202e", "{a}", "9223372036854775808",
)  # fmt: skip
_CODINGS = ("utf-16", "latin-1", "utf-8-sig", "utf-32")


def cells(rows: Rows, rng: np.random.Generator) -> Rows:
    """Write something else into some cells, of the first line as well."""
    for _ in range(int(rng.integers(1, 3))):
        row = rows[int(rng.integers(0, len(rows)))]
        row[int(rng.integers(0, len(row)))] = _one(rng, _CELLS)
    return rows


def columns(rows: Rows, rng: np.random.Generator) -> Rows:
    """Drop, repeat or exchange columns, in all rows or in one."""
    chosen = rows if rng.random() < 0.6 else [_one(rng, rows)]
    first, second = (int(k) for k in rng.integers(0, max(map(len, rows)), 2))
    way = int(rng.integers(0, 3))
    for row in chosen:
        if max(first, second) >= len(row):
            continue
        if way == 0:
            del row[first]
        elif way == 1:
            row.insert(first, row[second])
        else:
            row[first], row[second] = row[second], row[first]
    return rows


def lines(rows: Rows, rng: np.random.Generator) -> Rows:
    """Drop, repeat, exchange or blank lines, the first one as well; or leave one alone."""
    first, second = (int(k) for k in rng.integers(0, len(rows), 2))
    way = int(rng.integers(0, 6))
    if way == 0:
        del rows[first]
    elif way == 1:
        rows.insert(first, list(rows[second]))
    elif way == 2:
        rows[first], rows[second] = rows[second], rows[first]
    elif way == 3:
        rows[first] = [""]
    elif way == 4:
        rows += [list(rows[first]) for _ in range(20_000)]
    else:
        rows = rows[:1]
    return rows


EDITS: dict[str, Edit] = {"values": cells, "types": columns, "keys": lines}


def edited_table(data: bytes, damage: str, rng: np.random.Generator) -> bytes:
    """Return a table after one of `EDITS`, or as another program might have written it."""
    text = data.decode()
    separator = "\t" if "\t" in text else "  " if text.startswith("# SHA") else ","
    if damage not in EDITS:
        return _rewritten(text, separator, rng)
    rows = EDITS[damage]([line.split(separator) for line in text.splitlines()], rng)
    return ("\n".join(separator.join(row) for row in rows) + "\n").encode()


def _rewritten(text: str, separator: str, rng: np.random.Generator) -> bytes:
    """Return text with another coding, other ends of lines, separators or quotation marks."""
    options: tuple[Any, ...] = (
        lambda: text.encode(_one(rng, _CODINGS), "replace"),
        lambda: text.replace("\n", _one(rng, ("\r\n", "\r", "\0", "\n\n", "\u2028"))).encode(),
        lambda: text.replace(separator, _one(rng, (";", " ", "\t", ",", "|"))).encode(),
        lambda: text.replace(separator, f'"{separator}"', int(rng.integers(1, 4))).encode(),
        ('"' + text).encode,
        lambda: b"",
        lambda: b"\n" * 3,
        lambda: b"# " + text.encode().replace(b"\n", b"\n# "),
        lambda: text.encode() + text.encode()[:1] * 200_000,
    )
    return _one(rng, options)()  # type: ignore[no-any-return]


def _one(rng: np.random.Generator, options: Any) -> Any:
    return options[int(rng.integers(0, len(options)))]
