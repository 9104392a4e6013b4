"""Grey levels: their size, their range, and the rounding of derived images to a part of one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


def quantise(block: NDArray[np.float32], step: float = 1 / 32) -> NDArray[np.float32]:
    """Round to multiples of ``step`` grey levels, in place; NaN stays NaN. Returns ``block``.

    Half a step is far below the noise of integer sources and more than halves the stored size. With
    a power of two for ``step`` the results are exact.
    """
    np.multiply(block, np.float32(1 / step), out=block)
    np.rint(block, out=block)
    np.multiply(block, np.float32(step), out=block)
    return block


def has_grey_levels(attributes: Mapping[str, Any]) -> bool:
    """Say whether a raw store with these attributes holds integer grey levels.

    What is derived from them may be rounded.
    """
    return bool(attributes["grey_levels"] == "integer")


def value_range(attributes: Mapping[str, Any]) -> tuple[float, float]:
    """Return the exact smallest and largest value of a raw store with these attributes."""
    statistics = attributes["statistics"]
    return float(statistics["min"]), float(statistics["max"])


def grey_level(ranges: tuple[tuple[float, float], ...], *, integer: bool) -> float:
    """Return one grey level: 1 for integers, 1/4096 of the wider range for real ones."""
    if integer:
        return 1.0
    widest = max(high - low for low, high in ranges)
    return 2.0 ** math.floor(math.log2(widest / 4096)) if widest > 0 else 1.0
