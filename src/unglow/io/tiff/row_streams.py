"""Rows of strips that are too large to be decoded at once, one after the other."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from unglow.io.tiff.codecs import codec_of
from unglow.io.tiff.opening import open_raw
from unglow.io.tiff.segments import row_bytes, whole_bytes
from unglow.io.tiff.stream_decoders import CHUNK_BYTES, HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from unglow.io.tiff.segments import Geometry, StoredPage

    Fetch = Callable[[int, int], bytes]

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
        for head in _heads(stored):
            size = streaming.window(head, int(page.fillorder))
            if size is None or size > (WINDOW_LIMIT if size < whole else USUAL_WINDOW):
                return None
            window = max(window, size)
    return window


def _heads(stored: StoredPage) -> Iterable[bytes]:
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
        self._read_bytes = CHUNK_BYTES // streaming.shorter_runs
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
        zlib.error, lzma.LZMAError, backports.zstd.ZstdError, RuntimeError
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
            size = min(self._read_bytes, self._encoded_bytes - self._at)
            data = self._fetch(self._at, size)
            self._at += size
        return self._codec.feed(data, most, last=self._at >= self._encoded_bytes)
