"""Channels of a corrected slide as images with levels, read from the image that unglow wrote."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.archive import make_damage_error
from unglow.core.errors import InputError
from unglow.core.files import open_file
from unglow.core.windows import Window, cells
from unglow.images.tiff.opening import open_checked
from unglow.images.tiff.tiles import TILE, decode_tile
from unglow.images.zarr_array import Node, ZarrArray, open_array

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import tifffile
    from numpy.typing import NDArray


STACKS = ("corrected.ome.tif", "corrected.ome.zarr")


@dataclass(frozen=True, eq=False, slots=True)
class _Tiles:
    """Where the tiles of a level of a channel are in a TIFF, (down, across) each."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @classmethod
    def from_page(cls, level: tifffile.TiffPageSeries, number: int) -> _Tiles:
        page, (rows, cols) = level.pages[number], level.keyframe.shape
        if page is None:
            raise InputError("a channel is missing")
        tables = (
            np.array(one, np.int64).reshape(-(-rows // TILE), -(-cols // TILE))
            for one in (page.dataoffsets, page.databytecounts)
        )
        return cls((rows, cols), np.dtype(level.dtype), *tables)


class StackImage:
    """A channel of ``corrected.ome.tif`` or ``corrected.ome.zarr``, see `open_stack`; thread-safe.

    Parameters
    ----------
    path
        The file or folder.
    number
        Of the channel, from 0.
    levels
        Of all channels: arrays of a folder, or where the tiles of this one are in a file.
    """

    def __init__(
        self, path: Path, number: int, levels: Sequence[ZarrArray] | Sequence[_Tiles]
    ) -> None:
        self._path, self._number, self._levels = path, number, levels
        self.shape: tuple[int, int] = _find_shape(levels[0])
        self.levels = len(levels)
        found = [_find_shape(one) for one in levels]
        if found != [(self.shape[0] >> k, self.shape[1] >> k) for k in range(self.levels)]:
            raise InputError(f"{path} has not the levels that unglow writes: run it again.")

    def level_shape(self, level: int) -> tuple[int, int]:
        """Rows and columns of a level."""
        return _find_shape(self._levels[level])

    def read(self, window: Window, level: int = 0) -> NDArray[np.float32]:
        """Pixels of a window of a level; StoreError if a tile is missing or damaged."""
        out = np.empty(window.shape, np.float32)
        stored = self._levels[level]
        high, wide = stored.chunks[1:] if isinstance(stored, ZarrArray) else (TILE, TILE)
        for (row, col), part in cells(window, (high, wide)):
            out[part.shift(-window.y0, -window.x0).slices] = self._tile(stored, row, col, part)
        return out

    def _tile(self, level: ZarrArray | _Tiles, row: int, col: int, part: Window) -> NDArray[Any]:
        """Return the part of a level that lies in a tile."""
        try:
            if isinstance(level, ZarrArray):
                return level.read_part([self._number, *part.slices])
            with open_file(self._path) as file:
                size, offset = int(level.sizes[row, col]), int(level.offsets[row, col])
                tile = decode_tile(os.pread(file.fileno(), size, offset), level.dtype)
            return tile[part.shift(-row * TILE, -col * TILE).slices]
        except MemoryError:
            raise
        except Exception as error:  # codecs raise nearly anything
            raise make_damage_error(self._path) from error


def _find_shape(level: ZarrArray | _Tiles) -> tuple[int, int]:
    return level.shape[-2], level.shape[-1]


def open_stack(path: Path) -> list[StackImage]:
    """Return the channels of a corrected slide, which unglow wrote.

    InputError or StoreError if it is damaged.
    """
    if path.is_dir():
        names = itertools.takewhile(lambda n: (path / n).is_dir(), map(str, itertools.count()))
        try:
            arrays = [open_array(Node(path).child(name), fills=False) for name in names]
        except (LookupError, TypeError, ValueError) as error:
            raise make_damage_error(path) from error
        if not arrays or any(len(one.shape) != len("cyx") for one in arrays):
            raise InputError(f"{path} is not a corrected slide.")
        return [StackImage(path, n, arrays) for n in range(arrays[0].shape[0])]
    with open_checked(str(path)) as tif:
        series = tif.series[0]
        return [
            StackImage(path, n, [_Tiles.from_page(level, n) for level in series.levels])
            for n in range(len(series.pages))
        ]


def find_stack(place: Path) -> Path | None:
    """Return the corrected image in a slide's directory; None if there is none."""
    return next((path for name in STACKS if (path := place / name).exists()), None)
