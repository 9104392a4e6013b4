"""Numbers, tables and files of figures, the same in all benchmarks."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

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


def save_json(path: Path | None, values: object) -> None:
    """Write figures for machines, if a file was asked for; NaN becomes null."""
    if path is not None:
        path.write_text(json.dumps(plain(values), indent=1) + "\n", encoding="utf-8")


def plain(values: Any) -> Any:
    """Turn dataclasses, arrays, NumPy numbers and NaN into what JSON knows."""
    if is_dataclass(values) and not isinstance(values, type):
        values = asdict(values)
    if isinstance(values, dict):
        return {str(key): plain(value) for key, value in values.items()}
    if isinstance(values, (list, tuple)):
        return [plain(value) for value in values]
    if isinstance(values, np.ndarray):
        return plain(values.tolist())
    if isinstance(values, np.generic):
        values = values.item()
    if isinstance(values, float) and not np.isfinite(values):
        return None
    return values
