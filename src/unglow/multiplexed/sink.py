"""Where the channels of a corrected slide go: files that are written window by window."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any, Protocol

from unglow.core.files import write_text
from unglow.core.printable import escape_formula, harmless

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.core.windows import Window
    from unglow.multiplexed.slide import Channel, Slide

_NUCLEI = (0, 0, 255)
_COLOURS = (
    *((0, 255, 0), (255, 0, 0), (0, 255, 255), (255, 0, 255)),
    *((255, 255, 0), (255, 128, 0), (128, 255, 128), (160, 96, 255)),
)


class PlaneSink(Protocol):
    """Takes every window of every channel once, from any thread."""

    @property
    def window(self) -> int:
        """Side of the windows it takes, px; they begin at multiples of it."""
        ...

    def write(self, channel: int, window: Window, pixels: NDArray[Any]) -> None:
        """Take level 0 of a window of a channel, (rows, cols) of the final dtype."""
        ...


class Sinks:
    """Several sinks as one; their windows are of one size."""

    def __init__(self, sinks: Sequence[PlaneSink]) -> None:
        self._sinks = sinks
        (self.window,) = {sink.window for sink in sinks}

    def write(self, channel: int, window: Window, pixels: NDArray[Any]) -> None:
        """Hand a window to each of them."""
        for sink in self._sinks:
            sink.write(channel, window, pixels)


def colours(slide: Slide) -> list[tuple[int, int, int]]:
    """Return a colour for each kept channel: blue for what cycles are registered on."""
    nuclei = set(slide.registered_on.values())
    others = iter(range(len(slide.kept)))
    return [
        _NUCLEI if one.name in nuclei else _COLOURS[next(others) % len(_COLOURS)]
        for one in slide.kept
    ]


def write_markers_corrected(
    path: Path,
    channels: Sequence[Channel],
    shares: Mapping[str, Mapping[str, Any]],
    own: Mapping[str, Mapping[str, str]] | None = None,
) -> None:
    """Write the table of the corrected slide's channels, one row each, in their order.

    Parameters
    ----------
    path
        File to write or replace.
    channels
        Those that have a row each.
    shares
        By name of those that something was subtracted from: ``gain``, ``offset``, ``method``, and
        ``clipped``, the share of pixels that was below 0 or above the type's range.
    own
        By name, the cells of other columns of the slide's table, all in one order; they go between
        the columns of ours as they are, but for those that are called like one of ours.
    """
    own = own or {}
    stream = io.StringIO()
    columns = ("channel_number", "cycle_number", "marker_name", "background", "exposure")
    added = ("gain", "offset", "method", "clipped")
    others = dict.fromkeys(name for cells in own.values() for name in cells)
    free = [name for name in others if name.lower() not in (*columns, *added)]
    table = csv.writer(stream, lineterminator="\n")
    table.writerow((*columns, *map(_cell, free), *added))
    for number, one in enumerate(channels, 1):
        about, cells = shares.get(one.name, {}), own.get(one.name, {})
        row = (number, one.cycle, _cell(one.name), _cell(";".join(one.backgrounds)), one.exposure)
        kept = (_cell(cells.get(name, "")) for name in free)
        table.writerow((*row, *kept, *(about.get(name) for name in added)))
    write_text(path, stream.getvalue())


def _cell(text: str) -> str:
    return escape_formula(harmless(text))
