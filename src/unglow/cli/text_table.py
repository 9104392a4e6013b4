"""Tables of plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


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
