"""Decoders that take encoded bytes piece by piece, and the windows that they need.

The writer of Zstandard and LZMA chose the window of its decoder, up to 2 GB, and says it in the
header of the stream. LZW is cut at its Clear codes: between two of them the width of the k-th code
depends on k alone (9 bits for the first 254, 10 up to 766, 11 up to 1790, then 12: TIFF 6.0,
section 13, with the switch one code early). So the positions of all codes after a Clear are known
without decoding, the next Clear is found by looking there, and each stretch is decoded on its own
by imagecodecs.
"""

from __future__ import annotations

import lzma
import sys
import zlib
from typing import TYPE_CHECKING, Any, Protocol

import imagecodecs
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
XZ_MAGIC = b"\xfd7zXZ\x00"
# Enough of a strip to hold the header of its stream.
HEADER_BYTES = 64
_LZMA2 = 0x21


_CLEAR, _END = 256, 257
_NO_MARK = -1
# Codes looked at in one go; a full table is cleared after about 3837.
_RUN = 4096
_WIDTHS = np.full(_RUN, 12, dtype=np.int64)
_WIDTHS[:1790] = 11
_WIDTHS[:766] = 10
_WIDTHS[:254] = 9
_FULL = np.full(_RUN, 12, dtype=np.int64)
_STARTS = np.concatenate([[0], np.cumsum(_WIDTHS)[:-1]])


def zstd_window(head: bytes, _fillorder: int = 1) -> int | None:
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


def lzma_window(head: bytes, _fillorder: int = 1) -> int | None:
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


def lzw_window(head: bytes, fillorder: int) -> int | None:
    """Return 0 for the usual order of bits with a Clear code first; None, others cannot be cut."""
    usual = len(head) > 1 and fillorder == 1 and head[0] == 0x80 and head[1] < 0x80
    return 0 if usual else None


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


class Decompressor(Protocol):
    """A codec that takes encoded bytes and gives decoded ones as they come."""

    @property
    def needs_data(self) -> bool:
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


class _PackBits:
    """PackBits, cut between runs; a run of 2 bytes decodes to at most 128."""

    needs_data = True
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


class LzwStream:
    """Decode LZW piece by piece."""

    # Behind the last row nothing is left to check, and not every writer puts an End code there.
    done = True

    def __init__(self) -> None:
        self.needs_data = True
        self._data = b""
        self._bit = 9  # behind the first Clear code
        self._ended = False

    def feed(self, data: bytes, most: int, *, last: bool) -> bytes:
        """Decode complete stretches of what has come so far; with ``last`` the rest as well.

        It returns once it has ``most`` bytes; the last stretch may add 8.4 MB, the most that one
        can hold. If `needs_data` is False afterwards, there is more to be had without new data.
        """
        self.needs_data = True
        if self._ended:
            return b""
        # Keep the two bytes in front of the stretch: its Clear code is put there.
        drop = max(0, self._bit // 8 - 2)
        buffer = np.frombuffer(self._data[drop:] + data, dtype=np.uint8)
        self._bit -= 8 * drop
        padded = np.concatenate([buffer, np.zeros(3, np.uint8)])
        out: list[bytes] = []
        size = 0
        while not self._ended:
            if size >= most:
                self.needs_data = False
                break
            at, width, code = _next_mark(padded, len(buffer) * 8, self._bit)
            if code == _NO_MARK and not last:
                break
            out.append(_decode(padded, self._bit, at, width))
            size += len(out[-1])
            self._bit = at + width
            self._ended = code != _CLEAR
        self._data = buffer.tobytes()
        return out[0] if len(out) == 1 else b"".join(out)


def _next_mark(padded: NDArray[np.uint8], bits: int, start: int) -> tuple[int, int, int]:
    """(bit, width, code) of the next Clear or End code of a stretch that starts at ``start``.

    ``_NO_MARK`` represents a mark that does not come within ``bits``: it would be there.
    """
    starts, widths = _STARTS, _WIDTHS
    while True:
        at = start + starts
        inside = int(np.searchsorted(at + widths, bits, side="right"))
        whole, width = at[:inside], widths[:inside]
        byte = whole >> 3
        word = (
            (padded[byte].astype(np.uint32) << 16)
            | (padded[byte + 1].astype(np.uint32) << 8)
            | padded[byte + 2]
        )
        codes = (word >> (24 - (whole & 7) - width).astype(np.uint32)) & ((1 << width) - 1)
        marks = np.flatnonzero((codes == _CLEAR) | (codes == _END))
        if marks.size:
            k = int(marks[0])
            return int(whole[k]), int(width[k]), int(codes[k])
        if inside < _RUN:
            return int(at[inside]), int(widths[inside]), _NO_MARK
        # A writer that continues with a full table stays at 12 bits.
        start = int(at[-1]) + int(widths[-1])
        widths = _FULL
        starts = np.arange(_RUN, dtype=np.int64) * 12


def _decode(padded: NDArray[np.uint8], start: int, end: int, width: int) -> bytes:
    """Decode the codes in bits ``start`` to ``end``, behind which a mark has ``width`` bits."""
    if end <= start:
        return b""
    first = start - 9
    shift = first % 8
    block = np.zeros((end + width) // 8 - first // 8 + 2, dtype=np.uint16)
    part = padded[first // 8 : first // 8 + len(block)]
    block[: len(part)] = part
    moved = (((block[:-1] << shift) | (block[1:] >> (8 - shift))) & 255).astype(np.uint8)
    moved[0] = 0x80  # Clear, in 9 bits
    moved[1] &= 0x7F
    # Whatever the mark was, the stretch ends there for the decoder.
    at = end - first
    for i in range(width):
        mask = 0x80 >> ((at + i) % 8)
        if (_END >> (width - 1 - i)) & 1:
            moved[(at + i) // 8] |= mask
        else:
            moved[(at + i) // 8] &= ~mask & 255
    return bytes(imagecodecs.lzw_decode(moved.tobytes()))


def deflate_decoder(_window: int) -> Decompressor:
    """Return a decoder of Deflate."""
    return _Inflate()


def lzw_decoder(_window: int) -> Decompressor:
    """Return a decoder of LZW."""
    return LzwStream()


def packbits_decoder(_window: int) -> Decompressor:
    """Return a decoder of PackBits."""
    return _PackBits()


def lzma_decoder(window: int) -> Decompressor:
    """Return a decoder of LZMA that refuses a longer window."""
    # The probabilities and the rest of the decoder take well below 1 MB.
    limit = window + (1 << 20)
    return _Frames(lambda: lzma.LZMADecompressor(memlimit=limit), several=False)


def _load_zstd() -> Any:
    """Import what decodes Zstandard: few images need it."""
    if sys.version_info >= (3, 14):
        from compression import zstd  # noqa: PLC0415
    else:
        from backports import zstd  # noqa: PLC0415
    return zstd


def zstd_decoder(window: int) -> Decompressor:
    """Return a decoder of Zstandard that refuses a longer window."""
    zstd = _load_zstd()
    limit = max(10, (window - 1).bit_length())
    options = {int(zstd.DecompressionParameter.window_log_max): limit}
    return _Frames(lambda: zstd.ZstdDecompressor(options=options), several=True)


def _check_end(out: bytes, *, last: bool, done: bool) -> None:
    if last and not out and not done:
        raise ValueError("the compressed stream ends early")
