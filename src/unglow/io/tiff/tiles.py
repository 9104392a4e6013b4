"""Tiles as they are stored, and BigTIFF files of many planes that are written tile by tile.

Tiles of all planes and levels are appended as they come; the directories that say where they are
stand at the end. (tifffile writes one plane after the other, level by level.)

Source: https://www.awaresystems.be/imaging/tiff/bigtiff.html
"""

from __future__ import annotations

import os
import struct
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import imagecodecs
import numpy as np

from unglow.core.files import open_file, replace_file
from unglow.core.progress import count_transfer, step
from unglow.core.windows import Window, grid, halve_stored, map_bounded
from unglow.io.tiff.metadata import ome_xml
from unglow.io.zarr.layout import plan_layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.io.tiff.metadata import OmeChannel


TILE = 512
"""Side of the tiles of all levels, px."""
_DEFLATE_LEVEL = 1
"""Level 6 takes four times as long for files that are at most 8 % smaller."""
HORIZONTAL = 2
"""The predictor of integers: horizontal differences. Floats have none: the one for floats (3)
saves a few per cent and Bio-Formats, so QuPath and Fiji, cannot read it."""

_ASCII, _SHORT, _LONG, _RATIONAL, _LONG8, _IFD8 = 2, 3, 4, 5, 16, 18
_FORMS = {_SHORT: "<u2", _LONG: "<u4", _RATIONAL: "<u4", _LONG8: "<u8", _IFD8: "<u8"}
_SAMPLE_FORMATS = {"u": 1, "i": 2, "f": 3}
_HEADER, _COPIED = 16, 1 << 23
"""Bytes before the first tile, and how many of another file are copied at a time."""
_ADOBE_DEFLATE, _CENTIMETRE, _MIN_IS_BLACK, _REDUCED = 8, 3, 1, 1


def encode_tile(pixels: NDArray[Any]) -> bytes:
    """Return a tile as it is stored; what is beyond the image, (rows, cols) of it, is zero."""
    tile = np.zeros((TILE, TILE), pixels.dtype.newbyteorder("<"))
    tile[: pixels.shape[0], : pixels.shape[1]] = pixels
    if tile.dtype.kind in "iu":
        bits = tile.view(f"<u{tile.itemsize}")
        bits[:, 1:] -= bits[:, :-1].copy()
    return bytes(imagecodecs.deflate_encode(tile.tobytes(), level=_DEFLATE_LEVEL))


def decode_tile(stored: bytes, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the pixels that `encode_tile` stored, (TILE, TILE)."""
    size = TILE * TILE * dtype.itemsize
    content = imagecodecs.deflate_decode(stored, out=size)
    tile = np.frombuffer(content, dtype.newbyteorder("<")).reshape(TILE, TILE)
    if dtype.kind not in "iu":
        return tile
    bits = tile.view(f"<u{dtype.itemsize}")
    return np.cumsum(bits, axis=1, dtype=bits.dtype).view(tile.dtype)


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


class BigTiffFile:
    """A BigTIFF file of planes of one shape and dtype.

    `append` tiles, `note` them in tables, then `finish`.

    Parameters
    ----------
    file
        Empty, open for writing.
    dtype
        Of the pixels.
    """

    def __init__(self, file: BinaryIO, dtype: np.dtype[Any]) -> None:
        self._file = file
        self._dtype = dtype
        self._end = 0
        self._put(struct.pack("<2sHHHQ", b"II", 43, 8, 0, 0))

    @property
    def end(self) -> int:
        """Bytes that are written."""
        return self._end

    def append(self, table: TileTable, row: int, col: int, stored: bytes) -> None:
        """Write a tile, and note in the table of its level where it is."""
        table.offsets[row, col] = self._end
        table.sizes[row, col] = len(stored)
        self._put(stored)

    def copy(self, path: Path, tables: Iterable[tuple[TileTable, TileTable]]) -> None:
        """Append all tiles of another file, and note in tables where they are.

        Parameters
        ----------
        path
            A file that tiles were appended to, not finished.
        tables
            Of levels there, with those of the same levels here.
        """
        moved = self._end - _HEADER
        with open_file(path) as other:
            other.seek(_HEADER)
            while block := other.read(_COPIED):
                self._put(block)
        for there, here in tables:
            stored = there.sizes > 0
            here.offsets[stored] = there.offsets[stored] + np.uint64(moved)
            here.sizes[stored] = there.sizes[stored]

    def finish(
        self,
        planes: Sequence[Sequence[TileTable]],
        description: bytes,
        pixel_size_um: tuple[float, float] | None,
    ) -> None:
        """Write the directories.

        Parameters
        ----------
        planes
            The levels of each, level 0 first; two planes may have the same tables.
        description
            UTF-8, of the complete file.
        pixel_size_um
            (x, y), or None if unknown.
        """
        link = 8  # where the file says where the first directory is
        for number, levels in enumerate(planes):
            below = [self._directory(table, reduced=True)[0] for table in levels[1:]]
            extra: list[tuple[int, int, Any]] = _resolution(pixel_size_um)
            if number == 0:
                extra += [(270, _ASCII, description + b"\0"), (305, _ASCII, b"unglow\0")]
            if below:
                extra.append((330, _IFD8, below))
            at, next_link = self._directory(levels[0], extra)
            self._file.seek(link)
            self._file.write(struct.pack("<Q", at))
            self._file.seek(self._end)
            link = next_link
        self._file.flush()

    def _directory(
        self, table: TileTable, extra: Sequence[tuple[int, int, Any]] = (), *, reduced: bool = False
    ) -> tuple[int, int]:
        """Write a directory; returns where it is, and where it says where the next one is."""
        bits = self._dtype.itemsize * 8
        predictor = HORIZONTAL if self._dtype.kind in "iu" else 1
        tags: list[tuple[int, int, Any]] = [
            (254, _LONG, [_REDUCED if reduced else 0]),
            (256, _LONG, [table.shape[1]]),
            (257, _LONG, [table.shape[0]]),
            (258, _SHORT, [bits]),
            (259, _SHORT, [_ADOBE_DEFLATE]),
            (262, _SHORT, [_MIN_IS_BLACK]),
            (277, _SHORT, [1]),
            (317, _SHORT, [predictor]),
            (322, _LONG, [TILE]),
            (323, _LONG, [TILE]),
            (324, _LONG8, table.offsets),
            (325, _LONG, table.sizes),
            (339, _SHORT, [_SAMPLE_FORMATS[self._dtype.kind]]),
            *extra,
        ]
        entries = [self._entry(*tag) for tag in sorted(tags, key=lambda tag: tag[0])]
        self._align()
        at = self._end
        self._put(struct.pack("<Q", len(entries)) + b"".join(entries) + bytes(8))
        return at, self._end - 8

    def _entry(self, tag: int, kind: int, values: Any) -> bytes:
        """Return the entry of a tag; a value that has no space in it is written before."""
        content = values if kind == _ASCII else np.asarray(values, _FORMS[kind]).tobytes()
        count = len(content) if kind == _ASCII else len(content) // np.dtype(_FORMS[kind]).itemsize
        if kind == _RATIONAL:
            count //= 2
        if len(content) > 8:
            self._align()
            at = self._end
            self._put(content)
            content = struct.pack("<Q", at)
        return struct.pack("<HHQ", tag, kind, count) + content.ljust(8, b"\0")

    def _align(self) -> None:
        self._put(bytes(-self._end % 8))

    def _put(self, content: bytes) -> None:
        self._file.write(content)
        self._end += len(content)


def _resolution(pixel_size_um: tuple[float, float] | None) -> list[tuple[int, int, Any]]:
    """Return the resolution tags, px per cm, if the pixel size is known."""
    if pixel_size_um is None:
        return []
    ratios = [Fraction(1e4 / size).limit_denominator(1000) for size in pixel_size_um]
    parts = [[ratio.numerator, ratio.denominator] for ratio in ratios]
    return [(282, _RATIONAL, parts[0]), (283, _RATIONAL, parts[1]), (296, _SHORT, [_CENTIMETRE])]


WINDOW = 2048
"""Side of the windows that are written, px."""
_FINE_LEVELS = 2
"""Levels made of each window alone: there it is a complete tile still."""

_Tiles = list[tuple[int, int, int, bytes]]
"""Level, row and column of tiles, and what is stored of them."""


class OmeTiffSink:
    """Writer of an OME-TIFF (BigTIFF, Deflate) that appears only when it is complete.

    Use as a context manager and `write` each window of each channel once, in any order and from
    any thread. What is out of turn is held, compressed: callers go window by window in row order,
    through all channels of one, in ``order``, before the next. If the block ends early, nothing is
    left behind.

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
    planes
        For each channel the number of the plane that it shows, for files in which channels share
        pixels; None for one each. Planes are what is written then.
    order
        Numbers of all that are written, in the order in which those of a window come; None for
        0, 1, 2, ...
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
        planes: Sequence[int] | None = None,
        order: Sequence[int] | None = None,
        band: range | None = None,
    ) -> None:
        self._path, self._shape, self._dtype = path, shape, np.dtype(dtype)
        self._channels, self._pixel_size_um, self._name = channels, pixel_size_um, name
        self._planes = range(len(channels)) if planes is None else planes
        self._workers = workers
        shapes = self.shapes_of(shape, self._dtype.name, 1)
        self._tables = [[TileTable(one) for one in shapes] for _ in range(max(self._planes) + 1)]
        self._order = range(len(self._tables)) if order is None else order
        self._turns = {channel: turn for turn, channel in enumerate(self._order)}
        self._across = -(-shape[1] // WINDOW)
        rows = range(shape[0]) if band is None else band
        each_row = self._across * len(self._tables)
        self._count, self._is_part = -(-rows.stop // WINDOW) * each_row, band is not None
        self._held: dict[int, _Tiles] = {}
        self._next = rows.start // WINDOW * each_row
        self._lock = threading.Lock()
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._partial = self._open.enter_context(replace_file(self._path))
        self._file = self._open.enter_context(self._partial.open("w+b"))
        self._tiff = BigTiffFile(self._file, self._dtype)
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
        """Append a part that another sink of the same image wrote, with its tables.

        Raises
        ------
        ValueError
            Other windows come next.
        """
        each_row = self._across * len(self._tables)
        if self._next != band.start // WINDOW * each_row:
            raise ValueError(f"rows {band} do not come next in {self._path}")
        before = self._tiff.end
        self._tiff.copy(path, zip(tables, self.tables, strict=True))
        count_transfer(self._path, written=self._tiff.end - before)
        self._next = -(-band.stop // WINDOW) * each_row

    def write(self, channel: int, window: Window, pixels: NDArray[Any]) -> None:
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
        turn = self._turn(channel, window)
        if pixels.shape != window.shape or pixels.dtype != self._dtype:
            raise ValueError(f"{pixels.dtype} px of {pixels.shape} do not fit {window}")
        tiles = self._encode(window, pixels)
        with self._lock:
            if turn < self._next or turn >= self._count or turn in self._held:
                raise ValueError(f"{window} of channel {channel} was written before")
            self._held[turn] = tiles
            while (ready := self._held.pop(self._next, None)) is not None:
                levels = self._tables[self._order[self._next % len(self._order)]]
                for level, row, col, stored in ready:
                    self._tiff.append(levels[level], row, col, stored)
                self._next += 1

    def _turn(self, channel: int, window: Window) -> int:
        row, col = window.y0 // WINDOW, window.x0 // WINDOW
        corner = Window(row * WINDOW, (row + 1) * WINDOW, col * WINDOW, (col + 1) * WINDOW)
        if not window.size or window != corner.clip(self._shape):
            raise ValueError(f"{window} is none of the windows of {self._path}")
        return (row * self._across + col) * len(self._order) + self._turns[channel]

    def _encode(self, window: Window, pixels: NDArray[Any]) -> _Tiles:
        """Return the tiles of the fine levels of a window."""
        tiles: _Tiles = []
        for level in range(min(_FINE_LEVELS + 1, len(self._tables[0]))):
            if level:
                pixels = halve_stored(pixels)
            row, col = (start // (TILE << level) for start in (window.y0, window.x0))
            for part in grid((pixels.shape[0], pixels.shape[1]), (TILE, TILE)):
                at = level, row + part.y0 // TILE, col + part.x0 // TILE
                stored = encode_tile(pixels[part.slices])
                encoded = pixels[part.slices].nbytes
                count_transfer(self._path, written=len(stored), encoded=encoded)
                tiles.append((*at, stored))
        return tiles

    @step("pyramid")
    def _finish(self) -> None:
        """Make the coarse levels, each of the one before as it is in the file, and end the file."""
        if self._next != self._count:
            raise ValueError(f"{self._path}: {self._count - self._next} windows were not written")
        if self._is_part:
            return
        for level in range(_FINE_LEVELS + 1, len(self._tables[0])):
            self._file.flush()
            self._build_level(level)
        xml = ome_xml(
            self._name,
            self._shape,
            self._dtype,
            self._channels,
            pixel_size_um=self._pixel_size_um,
        )
        self._tiff.finish([self._tables[n] for n in self._planes], xml, self._pixel_size_um)

    def _build_level(self, level: int) -> None:
        tables = [(levels[level - 1], levels[level]) for levels in self._tables]
        parts = grid(tables[0][1].shape, (TILE, TILE))
        each = ((above, table, part) for part in parts for above, table in tables)

        def make(one: tuple[TileTable, TileTable, Window]) -> tuple[TileTable, Window, bytes]:
            above, table, part = one
            return table, part, self._halve(above, part)

        for table, part, stored in map_bounded(make, each, self._workers):
            self._tiff.append(table, part.y0 // TILE, part.x0 // TILE, stored)
            count_transfer(self._path, written=len(stored))

    def _halve(self, above: TileTable, part: Window) -> bytes:
        """Return a tile of a level, made of those of the one above it."""
        rows, cols = part.shape
        source = np.empty((2 * TILE, 2 * TILE), self._dtype)
        for row in range(2):
            for col in range(2):
                at = 2 * part.y0 // TILE + row, 2 * part.x0 // TILE + col
                if at[0] < above.offsets.shape[0] and at[1] < above.offsets.shape[1]:
                    size, offset = int(above.sizes[at]), int(above.offsets[at])
                    stored = os.pread(self._file.fileno(), size, offset)
                    target = source[row * TILE : (row + 1) * TILE, col * TILE : (col + 1) * TILE]
                    target[:] = decode_tile(stored, self._dtype)
        return encode_tile(halve_stored(source[: 2 * rows, : 2 * cols]))
