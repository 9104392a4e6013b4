"""Tiles as they are stored, and OME-TIFF files of many planes that are written window by window.

tifffile writes one plane after the other, level by level. Compressed tiles that come in another
order wait for that in a file without a name, in the directory of the image.
"""

from __future__ import annotations

import os
import tempfile
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import imagecodecs
import numpy as np
import tifffile

from unglow.core.files import open_file, replace_file
from unglow.core.progress import count_transfer, step
from unglow.core.windows import Window, grid, halve_stored, map_bounded
from unglow.images.tiff.metadata import ome_xml
from unglow.images.zarr.layout import plan_layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.core.arrays import Array
    from unglow.images.tiff.metadata import OmeChannel


TILE = 512
"""Side of the tiles of all levels, px."""
_DEFLATE_LEVEL = 1
"""Level 6 takes four times as long for files that are at most 8 % smaller."""
HORIZONTAL = 2
"""The predictor of integers: horizontal differences. Floats have none: the one for floats (3)
saves a few per cent and Bio-Formats, so QuPath and Fiji, cannot read it."""


def encode_tile(pixels: Array) -> bytes:
    """Return a tile as it is stored; what is beyond the image, (rows, cols) of it, is zero."""
    tile = np.zeros((TILE, TILE), pixels.dtype.newbyteorder("<"))
    tile[: pixels.shape[0], : pixels.shape[1]] = pixels
    if tile.dtype.kind in "iu":
        tile = imagecodecs.delta_encode(tile, axis=-1)
    return bytes(imagecodecs.deflate_encode(tile.tobytes(), level=_DEFLATE_LEVEL))


def decode_tile(stored: bytes, dtype: np.dtype[Any]) -> Array:
    """Return the pixels that `encode_tile` stored, (TILE, TILE)."""
    size = TILE * TILE * dtype.itemsize
    content = imagecodecs.deflate_decode(stored, out=size)
    tile = np.frombuffer(content, dtype.newbyteorder("<")).reshape(TILE, TILE)
    return imagecodecs.delta_decode(tile, axis=-1) if dtype.kind in "iu" else tile


@dataclass(slots=True)
class TileTable:
    """Where the tiles of one level of one plane are, in row order.

    Attributes
    ----------
    shape
        Rows and columns of the level, px.
    offsets, sizes
        Of each tile, bytes; [row, col].
    """

    shape: tuple[int, int]
    offsets: NDArray[np.uint64] = field(init=False)
    sizes: NDArray[np.uint32] = field(init=False)

    def __post_init__(self) -> None:
        down, across = (-(-n // TILE) for n in self.shape)
        self.offsets = np.zeros((down, across), np.uint64)
        self.sizes = np.zeros((down, across), np.uint32)


def write_levels(
    tiff: tifffile.TiffWriter,
    levels: Sequence[tuple[tuple[int, int], Iterable[bytes]]],
    dtype: np.dtype[Any],
    pixel_size_um: tuple[float, float] | None,
    description: bytes | None,
) -> None:
    """Write a plane with its pyramid.

    Parameters
    ----------
    tiff
        A BigTIFF that is being written.
    levels
        (rows, cols) of each, level 0 first, and its encoded tiles, row by row.
    dtype
        Of the pixels.
    pixel_size_um
        (x, y), or None if unknown.
    description
        OME-XML of the complete file, UTF-8, for its first plane.
    """
    for level, (shape, tiles) in enumerate(levels):
        tags: dict[str, Any] = {"subfiletype": 1, "software": False}
        if level == 0:
            tags = {"software": False if description is None else "unglow"}
            tags |= {"description": description, "subifds": len(levels) - 1}
            if pixel_size_um is not None:
                per_cm = [1e4 / size for size in pixel_size_um]
                tags |= {"resolution": tuple(per_cm), "resolutionunit": "CENTIMETER"}
        tiff.write(
            iter(tiles),
            shape=shape,
            dtype=dtype,
            tile=(TILE, TILE),
            photometric="minisblack",
            compression="adobe_deflate",
            predictor=HORIZONTAL if dtype.kind in "iu" else None,
            metadata=None,
            **tags,
        )


WINDOW = 2048
"""Side of the windows that are written, px."""
_FINE_LEVELS = 2
"""Levels made of each window alone: there it is a complete tile still."""

_FILE_BITS = 44
"""An offset has the number of its file above these bits: of a part, or 0 for what is written."""


class OmeTiffSink:
    """Writer of an OME-TIFF (BigTIFF, Deflate) that appears only when it is complete.

    Use as a context manager and `write` each window of each channel once, in any order and from
    any thread; no pixels are held. Until the block ends, compressed tiles are on disk twice. If it
    ends early, nothing is left behind.

    Parameters
    ----------
    path
        File to write or replace.
    shape, dtype
        Rows and columns, and the type of the pixels.
    channels
        In their order.
    name
        Of the image, shown by viewers.
    pixel_size_um
        (x, y), or None if unknown.
    workers
        Tiles of coarse levels that are made at a time.
    band
        Rows, from one multiple of `WINDOW` to another: only windows that begin in it are written,
        and the file is no TIFF but a part of one, for `add_part`. None for the entire image.
    """

    window = WINDOW

    def __init__(
        self,
        path: Path,
        shape: tuple[int, int],
        dtype: np.dtype[Any] | str,
        channels: Sequence[OmeChannel],
        *,
        name: str,
        pixel_size_um: tuple[float, float] | None = None,
        workers: int = 1,
        band: range | None = None,
    ) -> None:
        self._path, self._shape, self._dtype = path, shape, np.dtype(dtype)
        self._channels, self._pixel_size_um, self._name = channels, pixel_size_um, name
        self._workers = workers
        shapes = self.shapes_of(shape, self._dtype.name, 1)
        self._tables = [[TileTable(one) for one in shapes] for _ in channels]
        rows = range(shape[0]) if band is None else band
        self._missing, self._is_part = self._count_windows(rows), band is not None
        self._end = 0
        self._lock = threading.Lock()
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._partial = self._open.enter_context(replace_file(self._path))
        spool: BinaryIO = self._open.enter_context(
            self._partial.open("w+b")
            if self._is_part
            else tempfile.TemporaryFile(dir=self._path.parent)
        )
        self._files = [spool]
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> bool | None:
        if kind is not None:
            return self._open.__exit__(kind, *rest)  # type: ignore[arg-type]
        with self._open:
            self._finish()
        return None

    @staticmethod
    def shapes_of(shape: tuple[int, int], dtype: str, planes: int) -> list[tuple[int, int]]:
        """Return (rows, columns) of the levels that `tables` are of."""
        levels = range(plan_layout(shape, dtype).levels)
        return [(shape[0] >> level, shape[1] >> level) for _ in range(planes) for level in levels]

    @property
    def tables(self) -> list[TileTable]:
        """Where tiles are: all levels of the first plane, then those of the next."""
        return [table for levels in self._tables for table in levels]

    def add_part(self, path: Path, tables: Sequence[TileTable], band: range) -> None:
        """Take in a part that another sink of the same image wrote, with its tables."""
        base = np.uint64(len(self._files) << _FILE_BITS)
        self._files.append(self._open.enter_context(open_file(path)))
        for there, here in zip(tables, self.tables, strict=True):
            stored = there.sizes > 0
            here.offsets[stored] = there.offsets[stored] + base
            here.sizes[stored] = there.sizes[stored]
        self._missing -= self._count_windows(band)

    def write(self, channel: int, window: Window, pixels: Array) -> None:
        """Write level 0 of a window of a channel, and what follows from it alone; thread-safe.

        Parameters
        ----------
        channel
            From 0.
        window
            One of the grid of `window` px, cut at the edges of the image.
        pixels
            (rows, cols) of the file's dtype; not changed.

        Raises
        ------
        ValueError
            The window is none of the grid, or was written before, or the pixels do not fit it.
        OSError
            The file system refuses; leaving the block makes a sentence of it.
        """
        corner = Window(window.y0, window.y0 + WINDOW, window.x0, window.x0 + WINDOW)
        aligned = window.y0 % WINDOW == window.x0 % WINDOW == 0
        if not window.size or not aligned or window != corner.clip(self._shape):
            raise ValueError(f"{window} is none of the windows of {self._path}")
        if pixels.shape != window.shape or pixels.dtype != self._dtype:
            raise ValueError(f"{pixels.dtype} px of {pixels.shape} do not fit {window}")
        for level, table in enumerate(self._tables[channel][: _FINE_LEVELS + 1]):
            if level:
                pixels = halve_stored(pixels)
            row, col = (start // (TILE << level) for start in (window.y0, window.x0))
            for part in grid((pixels.shape[0], pixels.shape[1]), (TILE, TILE)):
                tile = pixels[part.slices]
                stored = encode_tile(tile)
                self._append(table, row + part.y0 // TILE, col + part.x0 // TILE, stored)
                count_transfer(self._path, encoded=tile.nbytes)
        with self._lock:
            self._missing -= 1

    def _count_windows(self, rows: range) -> int:
        down = -(-rows.stop // WINDOW) - rows.start // WINDOW
        return down * -(-self._shape[1] // WINDOW) * len(self._tables)

    def _append(self, table: TileTable, row: int, col: int, stored: bytes) -> None:
        """Keep a tile, and note in the table of its level where it is."""
        with self._lock:
            if table.sizes[row, col]:
                raise ValueError(f"a window of {self._path} was written before")
            table.offsets[row, col], table.sizes[row, col] = self._end, len(stored)
            self._files[0].write(stored)
            self._end += len(stored)
        count_transfer(self._path, written=len(stored))

    def _read(self, table: TileTable, row: int, col: int) -> bytes:
        """Return a tile as it is stored."""
        number, offset = divmod(int(table.offsets[row, col]), 1 << _FILE_BITS)
        return os.pread(self._files[number].fileno(), int(table.sizes[row, col]), offset)

    def _finish(self) -> None:
        """Make the coarse levels, each of the one before, and write the file."""
        if self._missing:
            raise ValueError(f"{self._path}: {self._missing} windows were not written")
        self._files[0].flush()
        if self._is_part:
            return
        with step("pyramid"):
            for level in range(_FINE_LEVELS + 1, len(self._tables[0])):
                self._build_level(level)
                self._files[0].flush()
        with step("write"), tifffile.TiffWriter(self._partial, bigtiff=True, ome=False) as tiff:
            xml: bytes | None = ome_xml(
                self._name,
                self._shape,
                self._dtype,
                self._channels,
                pixel_size_um=self._pixel_size_um,
            )
            for tables in self._tables:
                levels = [(t.shape, self._encode_tiles(t)) for t in tables]
                write_levels(tiff, levels, self._dtype, self._pixel_size_um, xml)
                xml = None

    def _encode_tiles(self, table: TileTable) -> Iterator[bytes]:
        """Yield tiles row by row."""
        for row, col in np.ndindex(table.sizes.shape):
            stored = self._read(table, row, col)
            count_transfer(self._path, written=len(stored))
            yield stored

    def _build_level(self, level: int) -> None:
        tables = [(levels[level - 1], levels[level]) for levels in self._tables]
        parts = grid(tables[0][1].shape, (TILE, TILE))
        each = ((above, table, part) for part in parts for above, table in tables)

        def make(one: tuple[TileTable, TileTable, Window]) -> tuple[TileTable, Window, bytes]:
            above, table, part = one
            return table, part, self._halve(above, part)

        for table, part, stored in map_bounded(make, each, self._workers):
            self._append(table, part.y0 // TILE, part.x0 // TILE, stored)

    def _halve(self, above: TileTable, part: Window) -> bytes:
        """Return a tile of a level, made of those of the one above it."""
        rows, cols = part.shape
        source = np.empty((2 * TILE, 2 * TILE), self._dtype)
        for row in range(2):
            for col in range(2):
                at = 2 * part.y0 // TILE + row, 2 * part.x0 // TILE + col
                if at[0] < above.offsets.shape[0] and at[1] < above.offsets.shape[1]:
                    target = source[row * TILE : (row + 1) * TILE, col * TILE : (col + 1) * TILE]
                    target[:] = decode_tile(self._read(above, *at), self._dtype)
        return encode_tile(halve_stored(source[: 2 * rows, : 2 * cols]))
