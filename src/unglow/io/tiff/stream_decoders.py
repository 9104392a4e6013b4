"""Decoders of strips that are too large to be decoded complete: their rows one after the other.

The writer of Zstandard and LZMA chose the window of its decoder, up to 2 GB, and says it in the
header of the stream.
"""

from __future__ import annotations

import lzma
import os
import sys
import zlib
from typing import TYPE_CHECKING, Any, Protocol

import imagecodecs

from unglow.io.tiff.header import DEFLATE, LZMA, LZW, PACKBITS, ZSTD
from unglow.io.tiff.lzw import LzwStream
from unglow.io.tiff.opening import open_raw
from unglow.io.tiff.segments import row_bytes, whole_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from unglow.io.tiff.segments import Geometry, StoredPage

    Fetch = Callable[[int, int], bytes]


ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
XZ_MAGIC = b"\xfd7zXZ\x00"
# Windows above this are refused by decoders that nobody configured otherwise (``zstd --long`` asks
# for this much, ``--ultra --long=31`` for 2 GB); such a strip is decoded complete.
WINDOW_LIMIT = 1 << 27
# Enough of a strip to hold the header of its stream.
HEADER_BYTES = 64
_LZMA2 = 0x21


def zstd_window(head: bytes) -> int | None:
    """Return the window of a Zstandard frame in bytes.

    Parameters
    ----------
    head
        The first `HEADER_BYTES` of a strip, or all of a smaller one.

    Returns
    -------
    None if no frame starts there, or its header is cut short.

    References
    ----------
    RFC 8878, section 3.1.1.1.
    """
    if len(head) < 6 or head[:4] != ZSTD_MAGIC:
        return None
    descriptor = head[4]
    if not descriptor & 0x20:
        log, eighths = 10 + (head[5] >> 3), head[5] & 7
        return (1 << log) + (1 << log) // 8 * eighths
    # A single segment: no window but the frame itself, whose size follows the dictionary's number.
    at = 5 + (0, 1, 2, 4)[descriptor & 3]
    width = 1 << (descriptor >> 6)
    size = head[at : at + width]
    if len(size) < width:
        return None
    return int.from_bytes(size, "little") + (256 if width == 2 else 0)


def lzma_window(head: bytes) -> int | None:
    """Return the dictionary size of the first block of an .xz stream in bytes.

    Parameters
    ----------
    head
        The first `HEADER_BYTES` of a strip, or all of a smaller one.

    Returns
    -------
    None if no such stream starts there, or its block header is not understood.

    References
    ----------
    The .xz file format 1.2.1, sections 3.1 and 5.3.1.
    """
    try:
        if not head.startswith(XZ_MAGIC):
            return None
        flags = head[13]
        at = 14
        for bit in (0x40, 0x80):  # compressed and uncompressed size, where they are given
            if flags & bit:
                _, at = _number(head, at)
        for _ in range((flags & 3) + 1):
            kind, at = _number(head, at)
            size, at = _number(head, at)
            if kind == _LZMA2:
                code = head[at]
                return (2 | (code & 1)) << (code // 2 + 11) if code < 40 else (1 << 32) - 1
            at += size
    except IndexError:
        pass
    return None


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of 7 bits per byte, and where the next one starts."""
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at += 1
        if not data[at - 1] & 0x80:
            return value, at
        shift += 7


STREAM_BYTES = 8_000_000
"""Strips that decode to more than this are streamed."""
PIECE_BYTES = 4_000_000
"""Rows are handed on in pieces of about this many bytes."""
CHUNK_BYTES = 1_000_000
"""Encoded bytes are read from the file in runs of this many."""
USUAL_WINDOW = 1 << 23
"""A window of this many bytes is allowed even if a strip is smaller: LZMA's default has it."""
DEFLATE_WINDOW = 1 << 15
"""Bytes that Deflate looks back at most (RFC 1951)."""


class Decompressor(Protocol):
    """A codec that takes encoded bytes and gives decoded ones as they come."""

    @property
    def hungry(self) -> bool:
        """Nothing more comes without new data."""
        ...

    @property
    def done(self) -> bool:
        """The stream has come to its end, and to its checksum if it has one."""
        ...

    def feed(self, data: bytes, most: int, *, last: bool) -> bytes:
        """Decode about ``most`` bytes; ``last`` says that no data will come after this."""
        ...


class _Inflate:
    """Deflate with bounded output per call; the checksum is verified at the end of the stream."""

    def __init__(self) -> None:
        self._decoder = zlib.decompressobj()

    def feed(self, data: bytes, most: int, *, last: bool) -> bytes:
        decoder = self._decoder
        if decoder.eof:
            return b""
        rest = decoder.unconsumed_tail
        out = decoder.decompress(rest + data if rest else data, most)
        _check_end(out, last=last, done=decoder.eof)
        return out

    @property
    def hungry(self) -> bool:
        return not self._decoder.unconsumed_tail

    @property
    def done(self) -> bool:
        return self._decoder.eof


class _Frames:
    """LZMA or Zstandard with bounded output per call.

    Parameters
    ----------
    start
        Makes a decoder of `lzma` or `zstd`, which have the same methods.
    several
        A strip may hold several frames in a row.
    """

    def __init__(self, start: Callable[[], Any], *, several: bool) -> None:
        self._start = start
        self._several = several
        self._decoder = start()

    def feed(self, data: bytes, most: int, *, last: bool) -> bytes:
        if self._decoder.eof:
            if not self._several:
                return b""
            data = self._decoder.unused_data + data
            if not data:
                return b""
            self._decoder = self._start()
        out = self._decoder.decompress(data, most)
        _check_end(out, last=last, done=self._decoder.eof)
        return bytes(out)

    @property
    def hungry(self) -> bool:
        decoder = self._decoder
        if decoder.eof:
            return not (self._several and decoder.unused_data)
        return bool(decoder.needs_input)

    @property
    def done(self) -> bool:
        return bool(self._decoder.eof)


def _lzma(window: int) -> _Frames:
    # The probabilities and the rest of the decoder take well below 1 MB.
    limit = window + (1 << 20)
    return _Frames(lambda: lzma.LZMADecompressor(memlimit=limit), several=False)


def _zstd(window: int) -> _Frames:
    if sys.version_info >= (3, 14):
        from compression import zstd  # noqa: PLC0415 (only where a file needs it)
    else:
        from backports import zstd  # noqa: PLC0415
    limit = max(10, (window - 1).bit_length())
    options = {int(zstd.DecompressionParameter.window_log_max): limit}
    return _Frames(lambda: zstd.ZstdDecompressor(options=options), several=True)


def _check_end(out: bytes, *, last: bool, done: bool) -> None:
    if last and not out and not done:
        raise ValueError("the compressed stream ends early")


class _PackBits:
    """PackBits, cut between runs; a run of 2 bytes decodes to at most 128."""

    hungry = True
    done = True

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes, most: int, *, last: bool) -> bytes:
        del most
        data = self._rest + data
        end, total = 0, len(data)
        while end < total:
            head = data[end]
            step = head + 2 if head < 128 else (2 if head > 128 else 1)
            if end + step > total:
                break
            end += step
        # Some writers pad a strip; what is missing in it is noticed by counting bytes.
        self._rest = b"" if last else data[end:]
        return bytes(imagecodecs.packbits_decode(data[:end])) if end else b""


def _decompressor(compression: int, window: int) -> Decompressor:
    if compression in DEFLATE:
        return _Inflate()
    if compression in ZSTD:
        return _zstd(window)
    if compression == LZMA:
        return _lzma(window)
    return _PackBits() if compression == PACKBITS else LzwStream()


def stream_window(pages: Iterable[StoredPage], geometry: Geometry) -> int | None:
    """Return how far back a decoder has to look if large strips can be decoded in parts.

    Parameters
    ----------
    pages
        All that are read, of one kind.
    geometry
        How they are cut.

    Returns
    -------
    Bytes that a decoder keeps, the largest of all strips; None if strips are decoded complete: they
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
        codec = int(page.compression)
        if codec in DEFLATE or codec == PACKBITS:
            window = DEFLATE_WINDOW
            continue
        if codec not in (LZW, LZMA, *ZSTD):
            return None
        for head in _heads(stored):
            size = _window_of(codec, head, int(page.fillorder))
            if size is None or size > (WINDOW_LIMIT if size < whole else USUAL_WINDOW):
                return None
            window = max(window, size)
    return window


def _window_of(codec: int, head: bytes, fillorder: int) -> int | None:
    if codec == LZW:
        # Only the usual bit order that starts with a Clear code can be cut.
        usual = len(head) > 1 and fillorder == 1 and head[0] == 0x80 and head[1] < 0x80
        return 0 if usual else None
    return lzma_window(head) if codec == LZMA else zstd_window(head)


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
        TIFF number of the codec.
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
        self._codec = _decompressor(compression, window)
        # A byte of PackBits may decode to 64.
        self._chunk = CHUNK_BYTES // 16 if compression == PACKBITS else CHUNK_BYTES
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
            starved = self._codec.hungry and self._at == self._encoded_bytes
            more = self._decode(wanted - len(out))
            if starved and not more:
                raise ValueError("the compressed data ends early")
            out += more
        # Most codecs stop where they are asked to, so that nothing is left over.
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
        if self._codec.hungry and self._at < self._encoded_bytes:
            size = min(self._chunk, self._encoded_bytes - self._at)
            data = self._fetch(self._at, size)
            self._at += size
        return self._codec.feed(data, most, last=self._at >= self._encoded_bytes)
