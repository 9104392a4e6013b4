"""The residual shift of a marker: what its own pixels say against the map of its cycle."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ResidualShift:
    """How far a marker lies from its background as the map brings it.

    Attributes
    ----------
    x, y, error
        Px; the error is a standard deviation of the length. NaN where too few blocks say anything.
    blocks
        Blocks that it was measured on.
    """

    x: float = math.nan
    y: float = math.nan
    error: float = math.nan
    blocks: int = 0
