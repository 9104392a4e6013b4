"""Decoders that take encoded bytes piece by piece, and the windows that they need.

The writer of Zstandard and LZMA chose the window of its decoder, up to 2 GB, and says it in the
header of the stream.
"""

from __future__ import annotations

import lzma
import sys
import zlib
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable


ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
XZ_MAGIC = b"\xfd7zXZ\x00"
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


CHUNK_BYTES = 1_000_000
"""Encoded bytes are read from the file in runs of this many."""
DEFLATE_WINDOW = 1 << 15
"""Bytes that Deflate looks back at most (RFC 1951)."""


class _Inflate:
    """Deflate with bounded output per call; the checksum is verified at the end of the stream.

    As `_Frames`, it takes encoded bytes and gives decoded ones as they come: `feed` decodes about
    ``most`` bytes, and ``last`` says that no data will come after this.
    """

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
    def needs_data(self) -> bool:
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
    def needs_data(self) -> bool:
        decoder = self._decoder
        if decoder.eof:
            return not (self._several and decoder.unused_data)
        return bool(decoder.needs_input)

    @property
    def done(self) -> bool:
        return bool(self._decoder.eof)


Decompressor: TypeAlias = _Inflate | _Frames


def deflate_decoder(_window: int) -> _Inflate:
    """Return a decoder of Deflate."""
    return _Inflate()


def lzma_decoder(window: int) -> _Frames:
    """Return a decoder of LZMA that refuses a longer window."""
    # The probabilities and the rest of the decoder take well below 1 MB.
    limit = window + (1 << 20)
    return _Frames(lambda: lzma.LZMADecompressor(memlimit=limit), several=False)


def _load_zstd() -> Any:
    """Import what decodes Zstandard: few images need it."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def zstd_decoder(window: int) -> _Frames:
    """Return a decoder of Zstandard that refuses a longer window."""
    zstd = _load_zstd()
    limit = max(10, (window - 1).bit_length())
    options = {int(zstd.DecompressionParameter.window_log_max): limit}
    return _Frames(lambda: zstd.ZstdDecompressor(options=options), several=True)


def _check_end(out: bytes, *, last: bool, done: bool) -> None:
    if last and not out and not done:
        raise ValueError("the compressed stream ends early")
