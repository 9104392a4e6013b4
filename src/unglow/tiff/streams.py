"""Rows of a large compressed strip, one after the other, without decoding the strip whole."""

from __future__ import annotations

import lzma
import zlib
from typing import TYPE_CHECKING, Protocol

import imagecodecs

from unglow.tiff.lzw import LzwStream

if TYPE_CHECKING:
    from collections.abc import Callable

    import tifffile

    from unglow.tiff.segments import Geometry, StoredPage

    # (offset in the strip, number of bytes) -> bytes
    Fetch = Callable[[int, int], bytes]

# Strips that decode to more than this are streamed.
STREAM_BYTES = 8_000_000
# Rows are handed on in pieces of about this many bytes.
PIECE_BYTES = 4_000_000
# Encoded bytes are read from the file in runs of this many.
CHUNK_BYTES = 1_000_000
DEFLATE, LZW, PACKBITS, LZMA = (8, 32946), 5, 32773, 34925


class Decompressor(Protocol):
    """A codec that takes encoded bytes and gives decoded ones as they come."""

    @property
    def hungry(self) -> bool:
        """Nothing more comes without new data."""
        ...

    def feed(self, data: bytes, *, last: bool) -> bytes:
        """Decode more; ``last`` says that no more will come; may keep a rest for later."""
        ...


class _Inflate:
    """Deflate with bounded output per call; the checksum is verified at the end of the stream."""

    def __init__(self) -> None:
        self._decoder = zlib.decompressobj()

    def feed(self, data: bytes, *, last: bool) -> bytes:
        decoder = self._decoder
        if decoder.eof:
            return b""
        out = decoder.decompress(decoder.unconsumed_tail + data, PIECE_BYTES)
        if last and not out and not decoder.eof:
            raise ValueError("the compressed stream ends early")
        return out

    @property
    def hungry(self) -> bool:
        return not self._decoder.unconsumed_tail

    @property
    def done(self) -> bool:
        return self._decoder.eof


class _Lzma:
    """LZMA with bounded output per call."""

    def __init__(self) -> None:
        self._decoder = lzma.LZMADecompressor()

    def feed(self, data: bytes, *, last: bool) -> bytes:
        if self._decoder.eof:
            return b""
        out = self._decoder.decompress(data, PIECE_BYTES)
        if last and not out and not self._decoder.eof:
            raise ValueError("the compressed stream ends early")
        return out

    @property
    def hungry(self) -> bool:
        return self._decoder.needs_input

    @property
    def done(self) -> bool:
        return self._decoder.eof


class _PackBits:
    """PackBits, cut between runs; a run of 2 bytes decodes to at most 128."""

    hungry = True

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes, *, last: bool) -> bytes:
        data = self._rest + data
        end, total = 0, len(data)
        while end < total:
            head = data[end]
            step = head + 2 if head < 128 else (2 if head > 128 else 1)
            if end + step > total:
                break
            end += step
        self._rest = data[end:]
        if last and self._rest:
            # Some writers pad a strip; what is missing in it is noticed by counting bytes.
            self._rest = b""
        return bytes(imagecodecs.packbits_decode(data[:end])) if end else b""


def _decompressor(compression: int) -> Decompressor:
    if compression in DEFLATE:
        return _Inflate()
    if compression == LZMA:
        return _Lzma()
    return _PackBits() if compression == PACKBITS else LzwStream(PIECE_BYTES)


def can_stream(path: str, page: tifffile.TiffPage, geometry: Geometry, stored: StoredPage) -> bool:
    """Say whether the strips of a page are large and need not be decoded whole."""
    if geometry.tiled or page.bitspersample not in (8, 16, 32, 64):
        return False
    itemsize = int(page.bitspersample) // 8
    if geometry.unit[0] * geometry.unit[1] * geometry.samples * itemsize <= STREAM_BYTES:
        return False
    if page.predictor not in (1, 2, 3):
        return False
    if page.compression == LZW:
        # Only the usual bit order that begins with a Clear code can be cut.
        with open(path, "rb") as file:  # noqa: PTH123
            file.seek(int(stored.offsets[0]))
            first = file.read(2)
        return len(first) == 2 and page.fillorder == 1 and first[0] == 0x80 and first[1] < 0x80
    return page.compression in (*DEFLATE, LZMA, PACKBITS)


class RowStream:
    """Rows of one strip in order.

    Parameters
    ----------
    fetch
        Reads encoded bytes: (offset in the strip, number) -> bytes.
    encoded_bytes
        Of the strip.
    compression
        TIFF number of the codec.
    row_bytes
        Of one decoded row.
    """

    def __init__(self, fetch: Fetch, encoded_bytes: int, compression: int, row_bytes: int) -> None:
        self._fetch = fetch
        self._encoded_bytes = encoded_bytes
        self._row_bytes = row_bytes
        self._codec = _decompressor(compression)
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
        zlib.error, lzma.LZMAError, RuntimeError
            The codec found damage.
        """
        wanted = rows * self._row_bytes
        while len(self._pending) < wanted:
            self._more()
        out = self._pending[:wanted]
        del self._pending[:wanted]
        self.row += rows
        return out

    def finish(self) -> None:
        """Run the codec to the end of the strip after its last row, so that it can check it."""
        if isinstance(self._codec, _Inflate | _Lzma):
            while not self._codec.done:
                self._decode()

    def _more(self) -> None:
        before = self._at
        out = self._decode()
        if not out and self._at == before:
            raise ValueError("the compressed data ends early")
        self._pending += out

    def _decode(self) -> bytes:
        data = b""
        if self._codec.hungry and self._at < self._encoded_bytes:
            size = CHUNK_BYTES
            if self._codec.__class__ is _PackBits:
                size //= 8
            size = min(size, self._encoded_bytes - self._at)
            data = self._fetch(self._at, size)
            self._at += size
        return self._codec.feed(data, last=self._at >= self._encoded_bytes)
