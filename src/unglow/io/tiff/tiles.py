"""Tiles as they are stored, and BigTIFF files of many planes that are written tile by tile.

Tiles of all planes and levels are appended as they come; the directories that say where they are
stand at the end. (tifffile writes one plane after the other, level by level.)

Source: https://www.awaresystems.be/imaging/tiff/bigtiff.html
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, BinaryIO

import imagecodecs
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

TILE = 512
"""Side of the tiles of all levels, px."""
_DEFLATE_LEVEL = 1
"""Level 6 takes four times as long for files that are at most 8 % smaller."""
HORIZONTAL = 2
"""The predictor of whole numbers: horizontal differences. Floats have none: the one for floats (3)
saves a few per cent and Bio-Formats, so QuPath and Fiji, cannot read it."""

_ASCII, _SHORT, _LONG, _RATIONAL, _LONG8, _IFD8 = 2, 3, 4, 5, 16, 18
_FORMS = {_SHORT: "<u2", _LONG: "<u4", _RATIONAL: "<u4", _LONG8: "<u8", _IFD8: "<u8"}
_SAMPLE_FORMATS = {"u": 1, "i": 2, "f": 3}
_ADOBE_DEFLATE, _CENTIMETRE, _MIN_IS_BLACK, _REDUCED = 8, 3, 1, 1


def encode_tile(pixels: NDArray[Any]) -> bytes:
    """Return a tile as it is stored; what lies beyond the image, (rows, cols) of it, is zero."""
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

    def append(self, table: TileTable, row: int, col: int, stored: bytes) -> None:
        """Write a tile, and note in the table of its level where it is."""
        table.offsets[row, col] = self._end
        table.sizes[row, col] = len(stored)
        self._put(stored)

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
            UTF-8, of the whole file.
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
        """Return the entry of a tag; a value that has no room in it is written before."""
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
