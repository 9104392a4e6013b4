"""Windows of Zstandard and LZMA decoders: how much they keep of what they decoded.

The writer chose the size, up to 2 GB, and says it in the header of the stream.
"""

from __future__ import annotations

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
XZ_MAGIC = b"\xfd7zXZ\x00"
# Windows above this are refused by decoders that nobody told otherwise (``zstd --long`` asks for
# this much, ``--ultra --long=31`` for 2 GB); such a strip is decoded whole.
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
    None if no frame begins there, or its header is cut short.

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
    None if no such stream begins there, or its block header is not understood.

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
    """Return a number of 7 bits per byte, and where the next one begins."""
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at += 1
        if not data[at - 1] & 0x80:
            return value, at
        shift += 7
