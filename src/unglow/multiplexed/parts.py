"""Parts of a large corrected slide: bands of rows, each made by a job of its own, then joined."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.archive import load_arrays, make_damage_error, save_arrays, select_arrays
from unglow.core.files import open_file
from unglow.core.windows import grid, map_bounded
from unglow.io.tiff.tiles import TILE, TileTable, decode_tile
from unglow.photometry.difference_histogram import DifferenceHistogram

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.core.windows import Window
    from unglow.multiplexed.sink import PlaneSink
    from unglow.multiplexed.subtract import Subtracted

_VIEWS = ("before", "background", "after")
_MOST_BYTES = 2e9


def save_part(
    path: Path, left: Mapping[str, Subtracted], tables: Sequence[TileTable], band: range
) -> None:
    """Write what a part leaves next to its tiles."""
    arrays: dict[str, NDArray[Any]] = {}
    for n, one in enumerate(left.values()):
        rows = slice(band.start // one.step, -(-band.stop // one.step))
        arrays |= {f"v{n}_{view}": getattr(one, view)[rows] for view in _VIEWS}
        arrays[f"n{n}"] = np.array([one.below_px, one.above_px])
    for n, table in enumerate(tables):
        arrays[f"o{n}"], arrays[f"s{n}"] = table.offsets, table.sizes
    histograms = {f"m{n}": one.histogram.content() for n, one in enumerate(left.values())}
    save_arrays(path, arrays, histograms, level=1)


def load_part(
    path: Path, left: Mapping[str, Subtracted], shapes: Iterable[tuple[int, int]], band: range
) -> list[TileTable]:
    """Add what a part left to that of others; return its tables, of levels of these shapes.

    StoreError if the file is damaged.
    """
    arrays = load_arrays(path, _MOST_BYTES)
    try:
        for n, one in enumerate(left.values()):
            rows = slice(band.start // one.step, -(-band.stop // one.step))
            for view in _VIEWS:
                getattr(one, view)[rows] = arrays[f"v{n}_{view}"]
            one.histogram.merge(DifferenceHistogram.read(select_arrays(arrays, f"m{n}"), path))
            below, above = arrays[f"n{n}"].tolist()
            one.below_px += below
            one.above_px += above
        tables = [TileTable(shape) for shape in shapes]
        for n, table in enumerate(tables):
            table.offsets[:], table.sizes[:] = arrays[f"o{n}"], arrays[f"s{n}"]
    except (KeyError, ValueError) as error:
        raise make_damage_error(path) from error
    return tables


class PartPixels:
    """The pixels of a part, window by window, read back from its tiles."""

    def __init__(self, path: Path, tables: Sequence[TileTable], dtype: str, channels: int) -> None:
        self._path, self._dtype = path, np.dtype(dtype)
        step = len(tables) // channels
        self._tables = tables[::step]

    def hand_over(self, sink: PlaneSink, shape: tuple[int, int], band: range, workers: int) -> None:
        """Write all windows of a band of all channels into a sink."""
        rows = (w for w in grid(shape, (sink.window, sink.window)) if w.y0 in band)
        items = ((window, n) for window in rows for n in range(len(self._tables)))
        with open_file(self._path) as file:

            def write(item: tuple[Window, int]) -> None:
                window, channel = item
                sink.write(channel, window, self._window(file.fileno(), window, channel))

            for _ in map_bounded(write, items, workers):
                pass

    def _window(self, file: int, window: Window, channel: int) -> NDArray[Any]:
        table, out = self._tables[channel], np.empty(window.shape, self._dtype)
        for part in grid(window.shape, (TILE, TILE)):
            at = (window.y0 + part.y0) // TILE, (window.x0 + part.x0) // TILE
            stored = os.pread(file, int(table.sizes[at]), int(table.offsets[at]))
            rows, cols = part.shape
            out[part.slices] = decode_tile(stored, self._dtype)[:rows, :cols]
        return out
