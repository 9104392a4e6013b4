"""Text of others (names of files above all) as it is shown: nothing in it can act."""

from __future__ import annotations

import contextlib
import logging
import re
import sys
import textwrap
from typing import TYPE_CHECKING, Any
from unicodedata import category as _category
from unicodedata import normalize

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

WEB = "UNGLOW_WEB"
"""Variable by which `unglow run --web` asks for a live page of the run."""
PREFLIGHT = "UNGLOW_PREFLIGHT"
"""Variable that makes a dry run that of `unglow preflight`: ``text``, ``settings`` or ``json``."""


_FORMULA = ("=", "+", "-", "@")


def escape_controls(text: str) -> str:
    r"""Return text without what acts on a terminal, lines as they are.

    Controls and marks of direction (Unicode's categories Cc and Cf) are written out, as ``\x1b``;
    tabs become blanks. Halves of surrogates, which represent bytes that are not UTF-8, stay:
    whoever writes them escapes them.
    """
    return "".join(
        c.encode("unicode_escape").decode() if _category(c) in ("Cc", "Cf") and c != "\n" else c
        for c in text.replace("\t", " ")
    )


def printable(text: str) -> str:
    r"""Return text as `escape_controls`, bytes that are not UTF-8 written out, as ``\xe9``.

    Terminals and logs of other programs refuse them otherwise.
    """
    return escape_controls(
        text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    )


_LONG = re.compile(r"\S{300,}")


def one_line(text: str) -> str:
    """Return a `printable` sentence on one line; of words of 300 characters and more, the ends."""
    line = printable(" ".join(text.splitlines()))
    return _LONG.sub(lambda m: f"{m[0][:150]}…{m[0][-100:]}", line)


def clean(text: str) -> str:
    """Return text on one line for places with little space: nothing of Unicode's categories C."""
    return "".join(c for c in " ".join(text.split()) if _category(c)[0] != "C")


class PlainFormatter(logging.Formatter):
    """Lines of a log that are `escape_controls`, whatever names they hold."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a record."""
        return escape_controls(super().format(record))


LOGGER = "unglow"
"""Logger of the package."""


def begin_log(path: Path | None) -> int | None:
    """Start the log of a job, a file of its own, started again by each attempt.

    Returns its descriptor; without a file, it goes to standard error.
    """
    logging.raiseExceptions = False  # a log that cannot be written must not hide an error
    handler: logging.StreamHandler[Any] = logging.StreamHandler()
    descriptor = None
    if path is not None:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            stream = path.open("a", encoding="utf-8", errors="backslashreplace")
            handler, descriptor = logging.StreamHandler(stream), stream.fileno()
    handler.setFormatter(PlainFormatter("%(asctime)s %(levelname)s %(message)s"))
    log = logging.getLogger(LOGGER)
    log.handlers[:] = [handler]
    log.setLevel(logging.INFO)
    return descriptor


def compose(name: str) -> str:
    """Return a name with letters and accents composed (NFC), whatever the file system did."""
    return normalize("NFC", name)


def shorten(text: str, longest: int) -> str:
    """Return a name of at most ``longest`` characters, without its middle."""
    if len(text) <= longest:
        return text
    end = (longest - 1) // 2
    return f"{text[: longest - 1 - end]}…{text[-end:]}"


def wrap_text(text: str, width: int, start: str = "", indent: str = "  ") -> list[str]:
    """Return text as lines of at most ``width`` characters; paths and options are not broken."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=start,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def cell(text: str) -> str:
    """Return text on one line for a table, a quotation mark before what would be a formula.

    Spreadsheets run what starts with =, +, - or @; numbers stay as they are.
    """
    line = escape_controls(" ".join(text.split()))
    return f"'{line}" if _is_formula(line) else line


def escape_formula(text: str) -> str:
    """Return text for a table that is read back: a formula has a quotation mark before it.

    So has text that would look like an escaped formula. `unescape_formula` gives the text again.
    """
    return f"'{text}" if _is_formula(text.lstrip("'")) else text


def unescape_formula(text: str) -> str:
    """Return the text that `escape_formula` was given; text that nobody escaped as it is."""
    return text[1:] if text.startswith("'") and _is_formula(text.lstrip("'")) else text


def _is_formula(text: str) -> bool:
    return text.lstrip().startswith(_FORMULA) and not _is_number(text)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def table(rows: Sequence[Sequence[str]], sides: str) -> str:
    """Align cells in columns, two blanks apart and two in front; numbers to the right.

    Parameters
    ----------
    rows
        The first is the header.
    sides
        One letter per column: ``l`` or ``r``.
    """
    widths = [max(len(row[i]) for row in rows) for i in range(len(sides))]
    lines = []
    for row in rows:
        cells = [cell.rjust(w) if side == "r" else cell.ljust(w)
                 for cell, w, side in zip(row, widths, sides, strict=True)]  # fmt: skip
        lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join(lines)


SHOWN = "UNGLOW_SHOWN"
"""Variable that is set for jobs whose failures are shown by the run that has started them."""


def say(text: object) -> None:
    """Print a line, or several, to standard output."""
    print(printable(str(text)), flush=True)


def warn(text: object) -> None:
    """Print a line, or several, to standard error."""
    print(printable(str(text)), file=sys.stderr, flush=True)


def show_progress(text: str) -> None:
    """Write text over the last line of a terminal on standard error; elsewhere do nothing."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{clean(text)}", end="", file=sys.stderr, flush=True)
