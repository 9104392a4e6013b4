"""Numbers and tables as text, the same in all benchmarks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

RIGHT_RATIO = 1.0, 1.3
"""Predicted / measured memory that is right."""


def number(value: float) -> str:
    """Return a positive number in three digits, or whole from 100 up; a dash for NaN."""
    if math.isnan(value):
        return "-"
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> str:
    """Align columns, the first ``left`` of them to the left, with two blanks between."""
    lines = [header, *rows]
    widths = [max(len(line[n]) for line in lines) for n in range(len(header))]
    widths[left:] = [max(width, 6) for width in widths[left:]]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if n < left else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def ratio_text(ratio: float) -> str:
    """Return a predicted/measured ratio with its mark."""
    low, high = RIGHT_RATIO
    return f"{ratio:.2f}" + ("!" if ratio < low else "+" if ratio > high else " ")
