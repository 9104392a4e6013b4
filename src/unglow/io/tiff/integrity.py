"""Damage that decoders pass over in silence."""

from __future__ import annotations

import struct

# SOF0 to SOF15 without DHT (C4), JPG (C8) and DAC (CC): frame headers with the image size.
FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
# A strip's last rows or a tile's edge may be padded to whole blocks.
SLACK_PX = 64
# Start of a codestream, and of the segment that holds its size.
START_2000 = b"\xff\x4f\xff\x51"


def check_jpeg(data: bytes, unit: tuple[int, int]) -> None:
    """Check that a JPEG stream begins, ends and has the size that its segment may have.

    libjpeg fills the rest of a stream that ends early with grey, and allocates what a frame header
    asks for; neither is an error to it.

    Parameters
    ----------
    data
        One tile or strip.
    unit
        (rows, cols) of a tile or strip.

    Raises
    ------
    ValueError
        With what is wrong.
    """
    if not data.startswith(b"\xff\xd8"):
        raise ValueError("no JPEG stream begins there")
    if data.rfind(b"\xff\xd9", -256) < 0 and data.rstrip(b"\0")[-2:] != b"\xff\xd9":
        raise ValueError("its JPEG stream ends early")
    at = 2
    while at + 9 <= len(data):
        if data[at] != 0xFF:
            raise ValueError("its JPEG stream has no frame")
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        if marker in FRAMES:
            rows = int.from_bytes(data[at + 5 : at + 7], "big")
            cols = int.from_bytes(data[at + 7 : at + 9], "big")
            if rows > unit[0] + SLACK_PX or cols > unit[1] + SLACK_PX:
                raise ValueError(f"its JPEG stream says {rows} x {cols} px")
            return
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    raise ValueError("its JPEG stream has no frame")


def check_jpeg2000(data: bytes, unit: tuple[int, int]) -> None:
    """Check that a JPEG 2000 stream has the size that its segment may have.

    The decoder allocates what the stream asks for.

    Parameters
    ----------
    data
        One tile or strip: a codestream, bare or in the boxes of a JP2 file.
    unit
        (rows, cols) of a tile or strip.

    Raises
    ------
    ValueError
        With what is wrong.

    References
    ----------
    ITU-T T.800, section A.5.1: the SIZ marker segment follows the start of the codestream.
    """
    at = data.find(START_2000)
    if at < 0 or at + 24 > len(data):
        raise ValueError("no JPEG 2000 stream begins there")
    right, bottom, left, top = struct.unpack_from(">4I", data, at + 8)
    rows, cols = bottom - top, right - left
    if rows > unit[0] + SLACK_PX or cols > unit[1] + SLACK_PX:
        raise ValueError(f"its JPEG 2000 stream says {rows} x {cols} px")
