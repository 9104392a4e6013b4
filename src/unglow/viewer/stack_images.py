"""Channels of a slide as images with levels: corrected as they were written, and as imaged."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from unglow.core.archive import make_damage_error
from unglow.core.errors import InputError
from unglow.core.files import open_file
from unglow.core.windows import Window, cells, grid
from unglow.io.tiff.opening import open_checked
from unglow.io.tiff.tiles import TILE, decode_tile
from unglow.io.zarr import plan_layout
from unglow.io.zarr.layout import halve_stored
from unglow.io.zarr_array import ZarrArray, open_array
from unglow.multiplexed.images import Frame, SlideReader
from unglow.viewer.computed_stores import SNR_LEVELS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.io.tiff import TiffHeader
    from unglow.multiplexed.slide import Channel, Maps, Slide

_PART = 1024
"""Side of the parts of level 0 that a coarser level is computed from, px."""


class StackImage:
    """A channel of ``corrected.ome.tif`` or ``corrected.ome.zarr``; thread-safe.

    Parameters
    ----------
    path
        The file or folder, which unglow wrote.
    number
        Of the channel, from 0.

    Raises
    ------
    InputError
        It cannot be read, or has no such channel.
    """

    def __init__(self, path: Path, number: int) -> None:
        self._path, self._number = path, number
        self._arrays: list[ZarrArray] = []
        self._tables: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        shapes = self._open_zarr() if path.is_dir() else self._open_tiff()
        self.shape: tuple[int, int] = shapes[0]
        self.levels = len(shapes)
        if shapes != [(self.shape[0] >> k, self.shape[1] >> k) for k in range(self.levels)]:
            raise InputError(f"{path} has not the levels that unglow writes: run it again.")

    def _open_zarr(self) -> list[tuple[int, int]]:
        while (self._path / str(len(self._arrays))).is_dir():
            self._arrays.append(open_array(self._path, str(len(self._arrays))))
        if not self._arrays or not self._number < self._arrays[0].shape[0]:
            raise InputError(f"{self._path} has no channel {self._number + 1}: run it again.")
        return [(one.shape[1], one.shape[2]) for one in self._arrays]

    def _open_tiff(self) -> list[tuple[int, int]]:
        shapes = []
        with open_checked(str(self._path)) as tif:
            for level in tif.series[0].levels:
                page = level.pages[self._number]
                if page is None:
                    raise InputError(f"{self._path} has no channel {self._number + 1}: run again.")
                rows, cols = level.keyframe.shape
                tiles = -(-rows // TILE), -(-cols // TILE)
                offsets, sizes = (
                    np.array(one, np.int64).reshape(tiles)
                    for one in (page.dataoffsets, page.databytecounts)
                )
                self._tables.append((offsets, sizes))
                shapes.append((rows, cols))
            self._dtype = np.dtype(tif.series[0].dtype)
        return shapes

    def read(self, window: Window, level: int = 0) -> NDArray[np.float32]:
        """Pixels of a window of a level; StoreError if a tile is missing or damaged."""
        out = np.empty(window.shape, np.float32)
        side = self._arrays[level].chunks[1:] if self._arrays else (TILE, TILE)
        for (row, col), part in cells(window, (side[0], side[1])):
            out[part.shift(-window.y0, -window.x0).slices] = self._tile(level, row, col, part)
        return out

    def _tile(self, level: int, row: int, col: int, part: Window) -> NDArray[Any]:
        """Return the part of the level that lies in a tile."""
        try:
            if self._arrays:
                return self._read_chunk(self._arrays[level], part)
            offsets, sizes = self._tables[level]
            with open_file(self._path) as file:
                stored = os.pread(file.fileno(), int(sizes[row, col]), int(offsets[row, col]))
            tile = decode_tile(stored, self._dtype)
            return tile[part.shift(-row * TILE, -col * TILE).slices]
        except MemoryError:
            raise
        except Exception as error:  # codecs raise nearly anything
            raise make_damage_error(self._path) from error

    def _read_chunk(self, array: ZarrArray, part: Window) -> NDArray[Any]:
        """Return a part of a chunk; FileNotFoundError where it would be filled in."""
        high, wide = (array.shards or array.chunks)[1:]
        shard = f"c/{self._number}/{part.y0 // high}/{part.x0 // wide}"
        (array.directory / shard).stat()
        y, x = part.slices
        return array.read_part([self._number, y, x])


class ImagedChannel:
    """A channel as it was imaged, in the frame of the slide; a coarse level takes long."""

    def __init__(self, frame: Frame, channel: Channel) -> None:
        self._frame, self._channel = frame, channel
        self.shape = frame.shape
        self.levels = min(SNR_LEVELS, plan_layout(self.shape, "float32").levels)

    def read(self, window: Window, level: int = 0) -> NDArray[np.float32]:
        """Pixels of a window of a level; NaN where the cycle has no data."""
        out = np.empty(window.shape, np.float32)
        side = _PART >> level
        for part in grid(window.shape, (side, side)):
            whole = part.shift(window.y0, window.x0)
            fine = Window(*(n << level for n in (whole.y0, whole.y1, whole.x0, whole.x1)))
            pixels = self._frame.read(fine, [self._channel])[0].astype(np.float32)
            for _ in range(level):
                pixels = halve_stored(pixels)
            out[part.slices] = pixels
        return out


class OpenFrame(Frame):
    """The images of a slide in its frame, open until this is dropped."""

    @classmethod
    def from_headers(cls, slide: Slide, headers: Sequence[TiffHeader], maps: Maps) -> Self:
        """Open the images; InputError if one cannot be read."""
        with ExitStack() as stack:
            frame = cls(stack.enter_context(SlideReader(headers)), slide, maps)
            frame._stack = stack.pop_all()
        return frame

    _stack: ExitStack

    def __del__(self) -> None:
        """Close the images."""
        if stack := self.__dict__.get("_stack"):
            stack.close()
