"""Lines of commands at the terminal: whatever names they hold, nothing in them acts on it."""

from __future__ import annotations

import sys

from unglow.core.printable import clean, printable

SHOWN = "UNGLOW_SHOWN"
"""Variable that is set for jobs whose failures are shown by the run that has started them."""
WEB = "UNGLOW_WEB"
"""Variable by which `unglow run --web` asks for a live page of the run."""


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
