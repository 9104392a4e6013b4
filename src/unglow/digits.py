"""Numbers as they are written to files."""

from __future__ import annotations

import math


def rounded(value: float, digits: int = 6) -> float:
    """Round to so many significant digits, beyond which only the processor speaks."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else value
