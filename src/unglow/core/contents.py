"""What files from outside hold, checked before anything computes with it.

JSON has a declared shape. Tables that people write have text of any common coding, comments,
separators and quotation marks.
"""

# ruff: noqa: TRY004 - a value of a file that does not fit is a ValueError, whatever it is

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

from unglow.core.errors import InputError
from unglow.core.files import read_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


Shape: TypeAlias = Any
"""A type (`float` is any finite number, None is null), a tuple of shapes of which one has to fit, a
list (``[float, float]`` has two numbers, ``[float, ...]`` any number of them), or a dictionary of
shapes by key. Keys that end in ``?`` may be absent, others have to be there, and more are ignored;
``{...: shape}`` has any keys."""

_LARGEST = 1e30
"""Nothing in a result file is larger."""
_NAMES = {
    float: "a finite number", int: "an integer", str: "a text", bool: "true or false",
    None: "null",
}  # fmt: skip


def check_shape(value: Any, shape: Shape, where: str = "its content") -> None:
    """Raise `ValueError`, which says where, if a value does not have a shape."""
    if isinstance(shape, dict):
        _check_mapping(value, shape, where)
    elif isinstance(shape, list):
        _check_list(value, shape, where)
    elif isinstance(shape, tuple):
        if not any(_has_shape(value, one) for one in shape):
            # the last one says most
            check_shape(value, shape[-1], where)
    elif not _is_plain(value, shape):
        raise ValueError(f"{where} is not {_NAMES[shape]}")


def _has_shape(value: Any, shape: Shape) -> bool:
    try:
        check_shape(value, shape)
    except ValueError:
        return False
    return True


def _check_mapping(value: Any, shape: dict[Any, Shape], where: str) -> None:
    if not isinstance(value, dict):
        raise ValueError(f"{where} is not an object")
    for key, inner in shape.items():
        if key is ...:
            for name, one in value.items():
                check_shape(one, inner, f"'{name}'")
            continue
        name = key.removesuffix("?")
        if name in value:
            check_shape(value[name], inner, f"'{name}'")
        elif name == key:
            raise ValueError(f"'{name}' is missing")


def _check_list(value: Any, shape: list[Shape], where: str) -> None:
    if not isinstance(value, list):
        raise ValueError(f"{where} is not a list")
    if shape[-1] is ...:
        shape = shape[:1] * len(value)
    if len(value) != len(shape):
        raise ValueError(f"{where} has {len(value)} items and not {len(shape)}")
    for one, inner in zip(value, shape, strict=True):
        check_shape(one, inner, f"an item of {where}")


def _is_plain(value: Any, shape: type | None) -> bool:
    if shape is None or shape is bool or shape is str:
        return value is None if shape is None else isinstance(value, shape)
    if isinstance(value, bool) or not isinstance(value, int | (float if shape is float else int)):
        return False
    return abs(value) <= _LARGEST  # NaN is not


# A sheet of a million pairs is smaller.
_MOST_BYTES = 100_000_000
_LONGEST_LINE = 1_000_000
"""Characters; rows of tables of results have some hundred."""


def read_text(path: Path, *, what: str, remedy: str) -> str:
    """Return the text of a table, in UTF-8, or in UTF-16 as Excel writes it.

    Raises
    ------
    InputError
        The file cannot be read; the sentence says ``what`` it is and ends in ``remedy``.
    """
    try:
        data = read_file(path, _MOST_BYTES)
    except OSError as error:
        raise InputError(f"{what} {path} cannot be read ({error.strerror}); {remedy}.") from error
    coding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return data.decode(coding)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(
            f"{path}, line {line}: this is not UTF-8 text; save the sheet as UTF-8 "
            "(in Excel: 'CSV UTF-8')."
        ) from error


def number_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines that are neither blank nor comments, with their numbers from 1."""
    for number, line in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        if line.strip() and not line.lstrip().lstrip('"').startswith("#"):
            yield number, line


def split(path: Path, line: int, text: str, separator: str) -> list[str]:
    """Return the cells of a line; raises `InputError` where quotation marks do not match."""
    try:
        return next(csv.reader([text], delimiter=separator, strict=True))
    except csv.Error as error:
        raise InputError(
            f"{path}, line {line}: the quotation marks do not match; close or remove them."
        ) from error


def limit_lines(stream: TextIO) -> Iterator[str]:
    """Yield the lines of a table for `csv.reader`; raises `csv.Error` for one of a million or more.

    So a file without lines, as a damaged disk leaves it, is not read completely.
    """
    while line := stream.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE:
            raise csv.Error("a line is too long")
        yield line
