"""Tiles and strips of a page: their grid, their places in the file, and rows of large strips."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.errors import InputError
from unglow.images.tiff.codecs import NONE, codec_of
from unglow.images.tiff.opening import open_raw
from unglow.images.tiff.stream_decoders import CHUNK_BYTES, HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import tifffile

    from unglow.core.arrays import Ints
    from unglow.images.raw_header import Layout

    Fetch = Callable[[int, int], bytes]


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
    offsets: Ints
    counts: Ints
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


def _compute_sizes(page: tifffile.TiffPage, geometry: Geometry) -> Ints:
    """Return the decoded bytes of every segment."""
    per_row = row_bytes(page, geometry)
    rows = np.full((geometry.apart, geometry.down, geometry.across), geometry.unit[0], np.int64)
    if not geometry.tiled:
        rows[:, -1] = geometry.shape[0] - (geometry.down - 1) * geometry.unit[0]
    return np.asarray(rows.reshape(-1) * per_row, dtype=np.int64)


def convert_table(values: Any) -> Ints:
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


# Windows above this are refused by decoders by default (``zstd --long`` asks for
# this much, ``--ultra --long=31`` for 2 GB); such a strip is decoded at once.
WINDOW_LIMIT = 1 << 27
STREAM_BYTES = 8_000_000
"""Strips that decode to more than this are streamed."""
PIECE_BYTES = 4_000_000
"""Rows are handed on in pieces of about this many bytes."""
USUAL_WINDOW = 1 << 23
"""A window of this many bytes is allowed even if a strip is smaller: LZMA's default has it."""


def stream_window(pages: Iterable[StoredPage], geometry: Geometry) -> int | None:
    """Return how far back decoders look in strips that are large and can be decoded in pieces.

    Parameters
    ----------
    pages
        All that are read, of one kind.
    geometry
        How they are cut.

    Returns
    -------
    Bytes that a decoder keeps, the largest of all strips; None if strips are decoded at once: they
    are tiles, small, or in a codec that gives nothing before it has everything.
    """
    window = 0
    for stored in pages:
        page = stored.page
        if geometry.tiled or not whole_bytes(page):
            return None
        whole = geometry.unit[0] * row_bytes(page, geometry)
        if whole <= STREAM_BYTES or page.predictor not in (1, 2, 3):
            return None
        streaming = codec_of(page.compression).streaming
        if streaming is None:
            return None
        if isinstance(streaming.window, int):
            window = max(window, streaming.window)
            continue
        for head in _read_heads(stored):
            size = streaming.window(head)
            if size is None or size > (WINDOW_LIMIT if size < whole else USUAL_WINDOW):
                return None
            window = max(window, size)
    return window


def _read_heads(stored: StoredPage) -> Iterable[bytes]:
    """Yield the first bytes of every strip that is stored."""
    with os.fdopen(open_raw(stored.path), "rb") as file:
        for offset, count in zip(stored.offsets.tolist(), stored.counts.tolist(), strict=True):
            if count:
                file.seek(offset)
                yield file.read(min(count, HEADER_BYTES))


class RowStream:
    """Rows of one strip in order.

    Parameters
    ----------
    fetch
        Reads encoded bytes: (offset in the strip, number) -> bytes.
    encoded_bytes
        Of the strip.
    compression
        Value of the tag Compression, of a codec that streams.
    row_bytes
        Of one decoded row.
    window
        What `stream_window` says; a stream that asks for more is refused by its codec.
    """

    def __init__(
        self, fetch: Fetch, encoded_bytes: int, compression: int, row_bytes: int, window: int
    ) -> None:
        self._fetch = fetch
        self._encoded_bytes = encoded_bytes
        self._row_bytes = row_bytes
        streaming = codec_of(compression).streaming
        if streaming is None:
            raise ValueError("its codec cannot be decoded piece by piece")
        self._codec = streaming.start(window)
        self._at = 0
        self._pending = bytearray()
        self.row = 0

    def skip(self, rows: int) -> None:
        """Decode rows and drop them."""
        while rows > 0:
            step = min(rows, max(1, PIECE_BYTES // self._row_bytes))
            self.read(step)
            rows -= step

    def read(self, rows: int) -> bytearray:
        """Return the next rows as bytes.

        Raises
        ------
        ValueError
            The strip ends before that.
        zlib.error, lzma.LZMAError, backports.zstd.ZstdError
            The codec found damage.
        """
        wanted = rows * self._row_bytes
        out = self._pending
        while len(out) < wanted:
            starved = self._codec.needs_data and self._at == self._encoded_bytes
            more = self._decode(wanted - len(out))
            if starved and not more:
                raise ValueError("the compressed data ends early")
            out += more
        # Most codecs stop at the size that is asked for, so that nothing is left.
        self._pending = out[wanted:]
        del out[wanted:]
        self.row += rows
        return out

    def finish(self) -> None:
        """Run the codec to the end of the strip after its last row, so that it can check it."""
        while not self._codec.done:
            self._decode(PIECE_BYTES)

    def _decode(self, most: int) -> bytes:
        data = b""
        if self._codec.needs_data and self._at < self._encoded_bytes:
            size = min(CHUNK_BYTES, self._encoded_bytes - self._at)
            data = self._fetch(self._at, size)
            self._at += size
        return self._codec.feed(data, most, last=self._at >= self._encoded_bytes)
