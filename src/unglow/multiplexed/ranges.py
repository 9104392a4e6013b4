"""The first pass over a slide: the exact range of every channel that something is asked of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.progress import step
from unglow.core.windows import Window, bounded_map, grid
from unglow.multiplexed.sizes import WINDOW

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from unglow.multiplexed.images import SlideReader
    from unglow.multiplexed.slide import Channel


@dataclass(frozen=True, slots=True)
class Range:
    """Exact smallest and largest value of a channel, and whether they are whole grey levels."""

    low: float
    high: float
    integer: bool


@step("ranges")
def find_ranges(
    reader: SlideReader, channels: Sequence[Channel], *, workers: int, at_a_time: int
) -> dict[str, Range]:
    """Return the range of each channel by name, NaN left out; 0 to 0 where all is NaN."""
    found: dict[str, Range] = {}
    for first in range(0, len(channels), at_a_time):
        some = channels[first : first + at_a_time]

        def limits(window: Window, some: Sequence[Channel] = some) -> NDArray[np.float64]:
            return np.array([_limits(block) for block in reader.read(window, some)])

        all_limits = np.array(
            list(bounded_map(limits, grid(reader.shape, (WINDOW, WINDOW)), workers))
        )
        for i, channel in enumerate(some):
            low, high = np.nanmin(all_limits[:, i, 0]), np.nanmax(all_limits[:, i, 1])
            whole = np.dtype(reader.headers[channel.image].dtype).kind in "iu"
            found[channel.name] = Range(float(low), float(high), whole)
    return found


def _limits(block: NDArray[Any]) -> tuple[float, float]:
    return float(np.nanmin(block)), float(np.nanmax(block))
