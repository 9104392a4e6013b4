"""Tables that people write: text of any common coding, comments, separators, quotation marks."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, TextIO

from unglow.core.errors import InputError
from unglow.core.files import read_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
