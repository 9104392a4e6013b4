"""Lines at the bottom of a terminal that stay where they are while all other output scrolls.

The terminal itself is told to scroll only what is above them (DECSTBM, which everything since the
VT100 knows; package managers do the same). So whatever else writes to it, be it Snakemake or a job
that it started, comes out whole.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# Fewer lines than this have to stay for what scrolls.
_LEAST_ABOVE = 8
_SAVE, _RESTORE, _DOWN = "\x1b7", "\x1b8", "\x1bD"
_WHOLE, _ERASE_BELOW, _ERASE_LINE = "\x1b[r", "\x1b[J", "\x1b[2K"


class Region:
    """The last lines of a terminal.

    Parameters
    ----------
    terminal
        File descriptor of the terminal.
    rows
        How many lines; none are taken of a terminal that is too low for them.
    """

    def __init__(self, terminal: int, rows: int) -> None:
        self._terminal, self._rows = terminal, rows
        self._size: os.terminal_size | None = None

    @property
    def columns(self) -> int:
        """Columns that a line may have."""
        return os.get_terminal_size(self._terminal).columns - 1

    def draw(self, lines: Sequence[str]) -> None:
        """Put lines there, without line breaks and no wider than `columns`; escapes may be in them.

        All of it is one write, which the output of no other process can come between.
        """
        size = os.get_terminal_size(self._terminal)
        if size != self._size:
            self.close()
            if size.lines - self._rows < _LEAST_ABOVE:
                return
            self._take(size)
        top = size.lines - self._rows + 1
        padded = [*lines, *[""] * self._rows][: self._rows]
        places = (f"\x1b[{top + n};1H{_ERASE_LINE}{line}" for n, line in enumerate(padded))
        self._write(f"{_SAVE}{''.join(places)}{_RESTORE}")

    def close(self) -> None:
        """Give the lines back, empty."""
        if self._size is not None:
            self._size = None
            self._write(f"{_SAVE}{_WHOLE}{_RESTORE}{_ERASE_BELOW}")

    def _take(self, size: os.terminal_size) -> None:
        """Make room below the cursor, then let only what is above that scroll."""
        room = _DOWN * self._rows + f"\x1b[{self._rows}A"
        limit = f"\x1b[1;{size.lines - self._rows}r"  # this moves the cursor
        self._write(f"{room}{_SAVE}{limit}{_RESTORE}")
        self._size = size

    def _write(self, text: str) -> None:
        os.write(self._terminal, text.encode("utf-8", "replace"))
