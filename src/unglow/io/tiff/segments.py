"""Tiles and strips of a page: their grid in the image, and their places in the file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.errors import InputError
from unglow.io.tiff.codecs import NONE, codec_of

if TYPE_CHECKING:
    import tifffile
    from numpy.typing import NDArray

    from unglow.io.tiff.header import Layout


@dataclass(frozen=True)
class Geometry:
    """The grid of tiles or strips of a page; segments are numbered row by row, samples apart.

    ``unit`` is (rows, cols) of one segment, ``samples`` the number of samples that lie together
    in it, ``apart`` the number of samples that are stored in segments of their own.
    """

    shape: tuple[int, int]
    unit: tuple[int, int]
    samples: int
    apart: int
    tiled: bool

    @property
    def across(self) -> int:
        """Segments side by side."""
        return math.ceil(self.shape[1] / self.unit[1])

    @property
    def down(self) -> int:
        """Segments from top to bottom."""
        return math.ceil(self.shape[0] / self.unit[0])

    @property
    def count(self) -> int:
        """Segments of a page."""
        return self.across * self.down * self.apart

    @property
    def row_samples(self) -> int:
        """Samples of one row of a segment."""
        return self.unit[1] * self.samples

    @property
    def layout(self) -> Layout:
        """Name of the grid, as in `TiffHeader`."""
        if self.tiled:
            return "tiles"
        return "strips" if self.down > 1 else "single strip"

    def index(self, sample: int, row: int, col: int) -> int:
        """Return the number of the segment at (row, col) of the grid, for a sample apart."""
        return (sample * self.down + row) * self.across + col

    def place(self, index: int) -> tuple[int, int]:
        """First (row, column) of a segment, in px."""
        rest = index % (self.across * self.down)
        return rest // self.across * self.unit[0], rest % self.across * self.unit[1]

    def rows_of(self, index: int) -> int:
        """Rows that a segment stores: tiles are complete, the last strip may be lower."""
        return (
            self.unit[0] if self.tiled else min(self.unit[0], self.shape[0] - self.place(index)[0])
        )

    def describe(self, index: int) -> str:
        """``strip 3 (rows 48 to 63)``, for messages."""
        top, left = self.place(index)
        bottom = min(top + self.unit[0], self.shape[0]) - 1
        text = f"{'tile' if self.tiled else 'strip'} {index} (rows {top} to {bottom}"
        if self.across > 1:
            text += f", columns {left} to {min(left + self.unit[1], self.shape[1]) - 1}"
        return text + ")"


def make_geometry(page: tifffile.TiffPage) -> Geometry:
    """Return the grid of a page.

    Raises
    ------
    ValueError
        The header gives no such grid.
    """
    shape = int(page.imagelength), int(page.imagewidth)
    samples = int(page.samplesperpixel)
    planar = page.planarconfig == 2 and samples > 1
    tiled = bool(page.is_tiled)
    unit = (
        (int(page.tilelength), int(page.tilewidth)) if tiled else (int(page.rowsperstrip), shape[1])
    )
    if min(*shape, *unit, samples) < 1:
        raise ValueError(
            f"an image of {shape[0]} x {shape[1]} px in units of {unit[0]} x {unit[1]}"
        )
    return Geometry(shape, unit, 1 if planar else samples, samples if planar else 1, tiled)


@dataclass(frozen=True, eq=False)
class StoredPage:
    """One page in one file: offsets and byte counts of its segments, and its decoder."""

    path: str
    page: tifffile.TiffPage
    offsets: NDArray[np.int64]
    counts: NDArray[np.int64]
    jpegtables: bytes | None


def is_raw(page: tifffile.TiffPage, geometry: Geometry) -> bool:
    """Whether rows can be read on their own: strips without a codec, samples of full bytes."""
    plain = page.compression == NONE and page.predictor in (1, 2, 3)
    return plain and not geometry.tiled and whole_bytes(page)


def whole_bytes(page: tifffile.TiffPage) -> bool:
    """Whether samples take full bytes, which need no unpacking."""
    return page.bitspersample in (8, 16, 32, 64)


def row_bytes(page: tifffile.TiffPage, geometry: Geometry) -> int:
    """Bytes of one decoded row of a segment, as the file packs it."""
    return (geometry.row_samples * int(page.bitspersample) + 7) // 8


def check_segments(stored: StoredPage, geometry: Geometry, file_bytes: int) -> int:
    """Check that all segments are inside the file and can hold what the header says.

    Returns
    -------
    Number of segments that are not stored: neither offset nor bytes.

    Raises
    ------
    InputError
        The file is cut short or its table is wrong.
    """
    path, offsets, counts, page = stored.path, stored.offsets, stored.counts, stored.page
    if len(offsets) != geometry.count or len(counts) != geometry.count:
        raise InputError(
            f"'{path}' has a broken header: {len(offsets)} offsets and {len(counts)} byte counts "
            f"for {geometry.count} {'tiles' if geometry.tiled else 'strips'}; copy it again from "
            "its source or write it again."
        )
    sparse = counts == 0
    if sparse.all():
        raise InputError(
            f"'{path}' holds no pixel data (every offset or byte count is 0): writing it was "
            "probably interrupted; write it again."
        )
    expected = _compute_sizes(page, geometry)
    needed = np.minimum(counts, expected) if page.compression == NONE else counts
    missing = int((offsets + needed)[~sparse].max()) - file_bytes
    if missing > 0:
        raise InputError(
            f"'{path}' is cut short: {missing} bytes are missing at its end (it has {file_bytes}); "
            "copy it again from its source."
        )
    ratio = codec_of(page.compression).max_ratio
    short = ~sparse & ((counts * ratio < expected) | (offsets <= 0))
    if short.any():
        index = int(np.argmax(short))
        raise InputError(
            f"'{path}' is damaged: {geometry.describe(index)} has {int(counts[index])} bytes at "
            f"offset {int(offsets[index])} for {int(expected[index])} bytes of pixels; copy it "
            "again from its source or write it again."
        )
    return int(sparse.sum())


def _compute_sizes(page: tifffile.TiffPage, geometry: Geometry) -> NDArray[np.int64]:
    """Return the decoded bytes of every segment."""
    per_row = row_bytes(page, geometry)
    rows = np.full((geometry.apart, geometry.down, geometry.across), geometry.unit[0], np.int64)
    if not geometry.tiled:
        rows[:, -1] = geometry.shape[0] - (geometry.down - 1) * geometry.unit[0]
    return np.asarray(rows.reshape(-1) * per_row, dtype=np.int64)


def convert_table(values: Any) -> NDArray[np.int64]:
    """Offsets or byte counts of a tag as int64.

    Raises
    ------
    ValueError, OverflowError, TypeError
        The tag does not hold numbers that can be positions in a file.
    """
    table = np.asarray(values, dtype=np.int64).reshape(-1)
    if (table < 0).any():
        raise ValueError("a negative offset or byte count")
    return table
