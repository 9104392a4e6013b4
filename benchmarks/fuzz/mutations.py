"""Ways to damage files: their bytes, or what they hold (nested values, tables, archives).

`BYTES` suit any file. `EDITS` have the same names for each of the other three: other values, other
types, keys that are missing, renamed or exchanged; ``extremes`` are deep, long or huge.
"""

from __future__ import annotations

import copy
import io
import json
import re
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Rng = np.random.Generator
    Rows = list[list[str]]
    Arrays = dict[str, NDArray[Any]]
    Mutation = Callable[[bytearray, Rng], bytearray]

UNTOUCHED, EXTREMES = "untouched", "extremes"


def pick(rng: Rng, options: Any) -> Any:
    """Return one of a sequence; arrays of numpy would change its types."""
    return options[int(rng.integers(0, len(options)))]


# ------------------------------------------------------------------------------------------ bytes


def append_bytes(data: bytearray, rng: Rng) -> bytearray:
    """Put bytes behind the end, as an interrupted copy over a longer file leaves them."""
    return data + bytearray(rng.bytes(int(rng.integers(1, 5000))))


def cut_short(data: bytearray, rng: Rng) -> bytearray:
    """Cut the file, often near its end or inside its header."""
    n = len(data)
    cuts = (rng.integers(1, n), n - rng.integers(1, min(n, 64)), rng.integers(1, min(n, 600)))
    return data[: int(pick(rng, cuts))]


def zero_block(data: bytearray, rng: Rng) -> bytearray:
    """Overwrite a block with zeros, as a disk that was full leaves it."""
    at = int(rng.integers(0, len(data)))
    size = min(int(2 ** rng.integers(4, 13)), len(data) - at)
    data[at : at + size] = bytes(size)
    return data


def change_bytes(data: bytearray, rng: Rng) -> bytearray:
    """Change a few bytes anywhere."""
    for at in rng.integers(0, len(data), rng.integers(1, 4)):
        data[at] = int(rng.choice([0, 1, 255, 128, int(rng.integers(0, 256))]))
    return data


def overwrite_run(data: bytearray, rng: Rng) -> bytearray:
    """Overwrite 16 bytes anywhere."""
    at = int(rng.integers(0, len(data)))
    size = min(16, len(data) - at)
    data[at : at + size] = rng.bytes(size)
    return data


def shift_bytes(data: bytearray, rng: Rng) -> bytearray:
    """Insert or drop some bytes, so that all behind them is elsewhere (a transfer as text)."""
    at, size = int(rng.integers(8, len(data))), int(rng.integers(1, 9))
    if rng.random() < 0.5:
        data[at:at] = rng.bytes(size)
    else:
        del data[at : at + size]
    return data


BYTES: dict[str, Mutation] = {
    "bytes appended": append_bytes,
    "cut short": cut_short,
    "block of zeros": zero_block,
    "bytes anywhere": change_bytes,
    "16 bytes anywhere": overwrite_run,
    "bytes inserted or lost": shift_bytes,
}

# ---------------------------------------------------------------------------------- nested values

# Written as a string first: Python has no such number.
_BEYOND = "number beyond all"
_DEEP, _LONG = 20_000, 200_000
_ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 0.5, -0.0, 255, 2**31, 2**53 + 1, 2**63, 2**64, 10**9, 10**30,
    10**400, 1e-320, 1e300, float("nan"), float("inf"), -float("inf"), _BEYOND,
    "", " ", "0", "nan", "ok", "failed", "../../x", "/dev/zero", "a\0b", "\ud800", "é\n\x1b[31m",
    [], {}, [[]], [None], {"": None}, [0, 0], [1, "2"],
)  # fmt: skip
_TYPES: tuple[Callable[[Any], Any], ...] = (
    str, repr, lambda v: [v], lambda v: {"value": v}, lambda _: None, lambda v: not v,
    lambda v: list(v) if isinstance(v, dict | str) else [v, v], lambda v: -1 if v else 10**12,
)  # fmt: skip


def edit_values(content: Any, rng: Rng) -> Any:
    """Give some values others, often limits of a type."""
    for _ in range(int(rng.integers(1, 3))):
        holder, key = _place(content, rng)
        near = holder[key]
        if isinstance(near, int | float) and not isinstance(near, bool) and rng.random() < 0.3:
            holder[key] = pick(rng, (near + 1, near - 1, -near, near * 2, near * 1e6, near / 3))
        else:
            holder[key] = pick(rng, _ODD)
    return content


def edit_types(content: Any, rng: Rng) -> Any:
    """Give a value another type."""
    holder, key = _place(content, rng)
    holder[key] = pick(rng, _TYPES)(holder[key])
    return content


def edit_keys(content: Any, rng: Rng) -> Any:
    """Drop or rename a key, drop or repeat an item, or exchange two values."""
    holder, key = _place(content, rng)
    way = int(rng.integers(0, 4))
    if way == 0:
        del holder[key]
    elif way == 1 and isinstance(holder, dict):
        holder[f"{key}{pick(rng, ('', 's', ' '))}x"] = holder.pop(key)
    elif way == 1:
        holder.insert(key, copy.deepcopy(holder[key]))
    else:
        other, second = _place(content, rng)
        holder[key], other[second] = copy.deepcopy(other[second]), copy.deepcopy(holder[key])
    return content


def put_extreme(content: Any, rng: Rng) -> Any:
    """Put something very deep, long or of many items in the place of a value, or of everything."""
    deep: Any = 0
    for _ in range(int(rng.integers(2, 900))):
        deep = [deep] if rng.random() < 0.5 else {"a": deep}
    many = {str(k): k for k in range(_LONG // 10)}
    made = pick(rng, (deep, "x" * _LONG, list(range(_LONG)), many, 10**4000))
    if rng.random() < 0.2:
        return made
    holder, key = _place(content, rng)
    holder[key] = made
    return content


def _place(content: Any, rng: Rng) -> tuple[Any, Any]:
    """Return a list or mapping inside, and a key of it."""
    found, waiting = [], [content]
    while waiting:
        holder = waiting.pop()
        if isinstance(holder, dict | list):
            inside = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
            # of long lists some stand for all
            for key in inside[:: max(1, len(inside) // 20)]:
                found.append((holder, key))
                waiting.append(holder[key])
    return pick(rng, found or [([0], 0)])  # type: ignore[no-any-return]


def edit_json(data: bytes, damage: str, rng: Rng) -> bytes:
    """Return JSON after one of `EDITS`."""
    if damage == EXTREMES and rng.random() < 0.2:  # deeper than Python's stack
        return b"[" * _DEEP + (b"]" * _DEEP if rng.random() < 0.5 else b"")
    text = json.dumps(EDITS[damage](json.loads(data), rng))
    return re.sub(f'"{_BEYOND}"', "1e999", text).encode()


EDITS: dict[str, Callable[[Any, Rng], Any]] = {
    "values": edit_values, "types": edit_types, "keys": edit_keys, EXTREMES: put_extreme,
}  # fmt: skip

# ----------------------------------------------------------------------------------------- tables

_CELLS = (
    "", " ", "0", "-1", "1e999", "nan", "inf", "-inf", "1e308", "1_000", "٣", "0x10", "1,5",
    "9" * 5000, "x" * 140_000, "a\0b", "=1+1", "\x1b[31m", '"', "'", "#", "../../x", "/dev/zero",
    "true", "None", "é", "\ufeff", "\u202e", "{a}", "9223372036854775808",
)  # fmt: skip
_CODINGS = ("utf-16", "latin-1", "utf-8-sig", "utf-32")


def edit_cells(rows: Rows, rng: Rng) -> Rows:
    """Write something else into some cells, of the first line as well."""
    for _ in range(int(rng.integers(1, 3))):
        row = rows[int(rng.integers(0, len(rows)))]
        row[int(rng.integers(0, len(row)))] = pick(rng, _CELLS)
    return rows


def edit_columns(rows: Rows, rng: Rng) -> Rows:
    """Drop, repeat or exchange columns, in all rows or in one."""
    chosen = rows if rng.random() < 0.6 else [pick(rng, rows)]
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


def edit_lines(rows: Rows, rng: Rng) -> Rows:
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


TABLE_EDITS = {"values": edit_cells, "types": edit_columns, "keys": edit_lines}


def edit_table(data: bytes, damage: str, rng: Rng) -> bytes:
    """Return a table after one of `TABLE_EDITS`, or as another program might have written it."""
    text = data.decode()
    separator = "\t" if "\t" in text else "  " if text.startswith("# SHA") else ","
    if damage not in TABLE_EDITS:
        return _write_otherwise(text, separator, rng)
    rows = TABLE_EDITS[damage]([line.split(separator) for line in text.splitlines()], rng)
    return ("\n".join(separator.join(row) for row in rows) + "\n").encode()


def _write_otherwise(text: str, separator: str, rng: Rng) -> bytes:
    """Return text with another coding, other ends of lines, separators or quotation marks."""
    options: tuple[Any, ...] = (
        lambda: text.encode(pick(rng, _CODINGS), "replace"),
        lambda: text.replace("\n", pick(rng, ("\r\n", "\r", "\0", "\n\n", "\u2028"))).encode(),
        lambda: text.replace(separator, pick(rng, (";", " ", "\t", ",", "|"))).encode(),
        lambda: text.replace(separator, f'"{separator}"', int(rng.integers(1, 4))).encode(),
        ('"' + text).encode,
        lambda: b"",
        lambda: b"\n" * 3,
        lambda: b"# " + text.encode().replace(b"\n", b"\n# "),
        lambda: text.encode() + text.encode()[:1] * 200_000,
    )
    return pick(rng, options)()  # type: ignore[no-any-return]


# --------------------------------------------------------------------------------------- archives

_NUMBERS = (0, 1, -1, np.nan, np.inf, 1e300, 2**31, 2**62, 0.5)
_DTYPES = ("uint8", "int64", "float32", "float64", "complex128", "bool", "<U8", ">f8", "S3")
# Bytes of a bomb, which are a thousandth in the file.
_BOMB = 400_000_000


def edit_numbers(arrays: Arrays, rng: Rng) -> Arrays:
    """Give some numbers others."""
    name = pick(rng, sorted(arrays))
    flat = arrays[name].copy()
    if flat.size and flat.dtype.kind in "iuf":
        with np.errstate(all="ignore"):
            at = rng.integers(0, flat.size, int(rng.integers(1, 4)))
            flat.ravel()[at] = np.array(rng.choice(_NUMBERS)).astype(flat.dtype)
        return arrays | {name: flat}
    return arrays | {name: np.array(rng.choice(_NUMBERS))}


def edit_dtypes(arrays: Arrays, rng: Rng) -> Arrays:
    """Give an array another type or shape."""
    name = pick(rng, sorted(arrays))
    one = arrays[name]
    if rng.random() < 0.5:
        dtype = np.dtype(str(rng.choice(_DTYPES)))
        # text, which is no number
        made = np.zeros(one.shape, dtype) if one.dtype.kind == "U" else one
        with np.errstate(all="ignore"):
            return arrays | {name: made.astype(dtype)}
    shapes = (one.ravel(), one[None], one[..., None], one.ravel()[:1], one.ravel()[:0],
              np.repeat(one, 2, 0) if one.ndim else one[None, None])  # fmt: skip
    return arrays | {name: pick(rng, shapes)}


def edit_names(arrays: Arrays, rng: Rng) -> Arrays:
    """Drop or rename an array, or exchange two."""
    first, second = (pick(rng, sorted(arrays)) for _ in "12")
    way = int(rng.integers(0, 3))
    if way == 0:
        return {name: one for name, one in arrays.items() if name != first}
    if way == 1:
        return {(f"{name}x" if name == first else name): one for name, one in arrays.items()}
    return arrays | {first: arrays[second], second: arrays[first]}


ARCHIVE_EDITS = {"values": edit_numbers, "types": edit_dtypes, "keys": edit_names}


def edit_archive(data: bytes, damage: str, rng: Rng) -> bytes:
    """Return an archive after one of `ARCHIVE_EDITS`, or with an array that cannot be read."""
    with np.load(io.BytesIO(data)) as archive:
        arrays = {name: archive[name] for name in archive.files} or {"none": np.zeros(2)}
    if damage in ARCHIVE_EDITS:
        entries = {name: _npy(one) for name, one in ARCHIVE_EDITS[damage](arrays, rng).items()}
    else:
        entries = {name: _npy(one) for name, one in arrays.items()}
        entries[pick(rng, sorted(arrays))] = _extreme_npy(rng)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as made:
        for name, content in entries.items():
            made.writestr(f"{name}.npy", content)
    return stream.getvalue()


def _npy(array: NDArray[Any]) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=True)
    return stream.getvalue()


def _extreme_npy(rng: Rng) -> bytes:
    """Return an array of many px that compresses to little, of objects, or that lies."""
    way = int(rng.integers(0, 5))
    if way == 0:
        return _npy(np.zeros(_BOMB // 8))
    if way == 1:
        return _npy(np.array([{}, []], object))
    shape = {2: "(2, 1000000, 1000000)", 3: "(9223372036854775807,)", 4: "(2, -3, 4)"}[way]
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(64)
