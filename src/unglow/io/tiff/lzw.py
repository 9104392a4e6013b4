"""Cutting a TIFF LZW stream at its Clear codes, so that it can be decoded piece by piece.

Between two Clear codes the width of the k-th code depends on k alone (9 bits for the first 254,
10 up to 766, 11 up to 1790, then 12: TIFF 6.0, section 13, with the switch one code early). So the
positions of all codes after a Clear are known without decoding, the next Clear is found by looking
there, and each stretch is decoded on its own by imagecodecs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import imagecodecs
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

CLEAR, END = 256, 257
NONE = -1
# Codes looked at in one go; a full table is cleared after about 3837.
RUN = 4096
_WIDTHS = np.full(RUN, 12, dtype=np.int64)
_WIDTHS[:1790] = 11
_WIDTHS[:766] = 10
_WIDTHS[:254] = 9
_FULL = np.full(RUN, 12, dtype=np.int64)
_STARTS = np.concatenate([[0], np.cumsum(_WIDTHS)[:-1]])


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
            if code == NONE and not last:
                break
            out.append(_decode(padded, self._bit, at, width))
            size += len(out[-1])
            self._bit = at + width
            self._ended = code != CLEAR
        self._data = buffer.tobytes()
        return out[0] if len(out) == 1 else b"".join(out)


def _next_mark(padded: NDArray[np.uint8], bits: int, start: int) -> tuple[int, int, int]:
    """(bit, width, code) of the next Clear or End code of a stretch that starts at ``start``.

    ``NONE`` represents a mark that does not come within ``bits``: it would be there.
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
        marks = np.flatnonzero((codes == CLEAR) | (codes == END))
        if marks.size:
            k = int(marks[0])
            return int(whole[k]), int(width[k]), int(codes[k])
        if inside < RUN:
            return int(at[inside]), int(widths[inside]), NONE
        # A writer that continues with a full table stays at 12 bits.
        start = int(at[-1]) + int(widths[-1])
        widths = _FULL
        starts = np.arange(RUN, dtype=np.int64) * 12


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
        if (END >> (width - 1 - i)) & 1:
            moved[(at + i) // 8] |= mask
        else:
            moved[(at + i) // 8] &= ~mask & 255
    return bytes(imagecodecs.lzw_decode(moved.tobytes()))
