"""TIFF codecs: one row for each, with its tag values and everything that depends on the codec."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unglow.images.tiff.stream_decoders import (
    CHUNK_BYTES,
    DEFLATE_WINDOW,
    deflate_decoder,
    lzma_decoder,
    lzma_window,
    zstd_decoder,
    zstd_window,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from unglow.images.tiff.stream_decoders import Decompressor

STREAM_STATE = CHUNK_BYTES + 500_000
"""Bytes that a decoder keeps between two reads at most, without its window: data and tables."""


@dataclass(frozen=True, slots=True)
class Streaming:
    """How strips that are too large to be held are decoded piece by piece.

    Attributes
    ----------
    start
        Makes a decoder from the bytes that it looks back.
    window
        Those bytes; or a function that finds them from the first bytes of a strip, with None where
        the strip has to be decoded at once.
    """

    start: Callable[[int], Decompressor]
    window: int | Callable[[bytes], int | None]


@dataclass(frozen=True, slots=True)
class Codec:
    """A codec of TIFF files.

    Attributes
    ----------
    names
        Values of the tag Compression, with their names in tifffile.
    gives_bytes
        Whether it decodes to bytes, whatever the samples.
    always_there
        Whether every build of imagecodecs has it.
    is_jpeg
        Whether it takes the tables of the tag JPEGTables, and YCbCr colours.
    check
        Raises ValueError for a stream that says another size than its segment, or is cut short;
        takes its bytes and (rows, cols) of the segment.
    refused
        Why files in this codec are not read; '' if they are.
    max_ratio
        Most decoded bytes for each stored one. A header that says more is broken.
    scratch
        Working memory of the decoder where it counts: bytes for each sample, and for each encoded
        byte in addition to those that it is given (measured with segments of 12 to 48 million
        samples).
    is_slow
        Whether decoding takes many times as long as with the others.
    streaming
        How its strips are decoded piece by piece; None if they cannot be.
    """

    names: Mapping[int, str]
    gives_bytes: bool = False
    always_there: bool = False
    is_jpeg: bool = False
    check: Callable[[bytes, tuple[int, int]], None] | None = None
    refused: str = ""
    max_ratio: int = 10**7
    scratch: tuple[float, float] = (0.0, 0.0)
    is_slow: bool = False
    streaming: Streaming | None = None


# SOF0 to SOF15 without DHT (C4), JPG (C8) and DAC (CC): frame headers with the image size.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
SLACK_PX = 64
"""The last rows of a strip or the edge of a tile may be padded to whole blocks, px."""
# Start of a codestream, and of the segment that holds its size.
_START_2000 = b"\xff\x4f\xff\x51"


def check_jpeg(data: bytes, unit: tuple[int, int]) -> None:
    """Check that a JPEG stream is complete and has the size that its segment may have.

    libjpeg fills the rest of a stream that ends early with grey, and allocates what a frame header
    asks for; neither is an error to it. ``unit`` is (rows, cols) of a tile or strip.
    """
    if not data.startswith(b"\xff\xd8"):
        raise ValueError("no JPEG stream starts there")
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
        if marker in _FRAMES:
            rows = int.from_bytes(data[at + 5 : at + 7], "big")
            cols = int.from_bytes(data[at + 7 : at + 9], "big")
            if rows > unit[0] + SLACK_PX or cols > unit[1] + SLACK_PX:
                raise ValueError(f"its JPEG stream says {rows} x {cols} px")
            return
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    raise ValueError("its JPEG stream has no frame")


def check_jpeg2000(data: bytes, unit: tuple[int, int]) -> None:
    """Check that a JPEG 2000 stream has the size that its segment may have.

    The decoder allocates what the stream asks for. ``data`` is a codestream, bare or in the boxes
    of a JP2 file, ``unit`` (rows, cols) of a tile or strip.

    References
    ----------
    ITU-T T.800, section A.5.1: the SIZ marker segment follows the start of the codestream.
    """
    at = data.find(_START_2000)
    if at < 0 or at + 24 > len(data):
        raise ValueError("no JPEG 2000 stream starts there")
    right, bottom, left, top = struct.unpack_from(">4I", data, at + 8)
    rows, cols = bottom - top, right - left
    if rows > unit[0] + SLACK_PX or cols > unit[1] + SLACK_PX:
        raise ValueError(f"its JPEG 2000 stream says {rows} x {cols} px")


NONE, LERC = 1, 34887
"""Values of the tag Compression: of pixels that are stored as they are, and of LERC."""

CODECS = (
    Codec({NONE: "NONE"}, gives_bytes=True, always_there=True, max_ratio=1),
    Codec({5: "LZW"}, gives_bytes=True, always_there=True, max_ratio=3000),
    Codec(
        {8: "ADOBE_DEFLATE", 32946: "DEFLATE"},
        gives_bytes=True,
        always_there=True,
        max_ratio=1100,
        streaming=Streaming(deflate_decoder, DEFLATE_WINDOW),
    ),
    Codec({32773: "PACKBITS"}, gives_bytes=True, always_there=True, max_ratio=65),
    Codec(
        {50000: "ZSTD", 34926: "ZSTD_DEPRECATED"},
        gives_bytes=True,
        always_there=True,
        streaming=Streaming(zstd_decoder, zstd_window),
    ),
    Codec(
        {34925: "LZMA"},
        gives_bytes=True,
        is_slow=True,
        streaming=Streaming(lzma_decoder, lzma_window),
    ),
    Codec(
        {7: "JPEG", 34892: "JPEG_LOSSY", 33007: "ALT_JPEG"},
        always_there=True,
        is_jpeg=True,
        check=check_jpeg,
    ),
    Codec(
        {
            34712: "JPEG2000",
            33003: "APERIO_JP2000_YCBC",
            33004: "JPEG_2000_LOSSY",
            33005: "APERIO_JP2000_RGB",
        },
        always_there=True,
        check=check_jpeg2000,
        scratch=(5.0, 1.0),  # works in 32 bits and copies the stream
        is_slow=True,
    ),
    Codec({22610: "JPEGXR_NDPI", 34934: "JPEGXR"}, scratch=(0.1, 0.0), is_slow=True),
    # reserved; a quarter of it is used at most
    Codec({50002: "JPEGXL", 52546: "JPEGXL_DNG"}, scratch=(4.4, 0.0), is_slow=True),
    Codec({LERC: "LERC"}, scratch=(0.15, 0.0)),
    Codec({50001: "WEBP"}, scratch=(1.5, 0.0)),
    Codec(
        {6: "OJPEG"},
        refused="is compressed with old-style JPEG, which no current tool reads reliably",
    ),
)
_BY_TAG = {tag: codec for codec in CODECS for tag in codec.names}
_SLOW = {name for codec in CODECS if codec.is_slow for name in codec.names.values()}
_OTHER = Codec({})


def codec_of(tag: int) -> Codec:
    """Return the row of a value of the tag Compression; one without properties if it has none."""
    return _BY_TAG.get(int(tag), _OTHER)


def is_slow(name: str) -> bool:
    """Return whether decoding takes long with a codec, by its name in tifffile."""
    return name in _SLOW
