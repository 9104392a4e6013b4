"""Decoding of whole tiles and strips, and of plain rows of samples."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import imagecodecs
import numpy as np
import tifffile

from unglow.io.tiff.header import BYTES, JPEG, JPEG_2000, NONE
from unglow.io.tiff.opening import quiet
from unglow.io.tiff.segments import row_bytes, whole_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.io.tiff.segments import Geometry, StoredPage

# SOF0 to SOF15 without DHT (C4), JPG (C8) and DAC (CC): frame headers with the image size.
FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
# A strip's last rows or a tile's edge may be padded to whole blocks.
SLACK_PX = 64
# Start of a codestream, and of the segment that holds its size.
START_2000 = b"\xff\x4f\xff\x51"


def decode_segment(stored: StoredPage, geometry: Geometry, index: int, data: bytes) -> NDArray[Any]:
    """Decode a tile or strip.

    Parameters
    ----------
    stored, geometry
        Its page.
    index
        Its number.
    data
        All of it, as the file holds it.

    Returns
    -------
    (rows, cols, samples) as stored; the last strip may have fewer rows.

    Raises
    ------
    Exception
        Of any kind, if it is damaged: decoders raise nearly anything.
    """
    page, rows = stored.page, geometry.rows_of(index)
    if _is_packed(page):
        return _unpacked(page, geometry, data, rows)
    options: dict[str, Any] = {}
    if page.compression in JPEG:
        options = {"jpegtables": stored.jpegtables, "jpegheader": page.jpegheader}
        if page.jpegheader is None:
            _check_jpeg(data, geometry.unit)
    elif page.compression in JPEG_2000:
        _check_jpeg2000(data, geometry.unit)
    with quiet():
        decoded, _, _ = page.decode(data, index, _fullsize=geometry.tiled, **options)
    block = np.asarray(decoded)[0]
    if block.dtype != page.dtype:
        raise ValueError(f"samples of {block.dtype} where the header says {page.dtype}")
    if block.shape != (rows, geometry.unit[1], geometry.samples):
        raise ValueError(f"it holds {' x '.join(map(str, block.shape))} samples")
    return np.asarray(block)


def decode_rows(
    page: tifffile.TiffPage, geometry: Geometry, data: bytes | bytearray, rows: int
) -> NDArray[Any]:
    """Plain rows of samples to (rows, cols, samples), in native byte order, predictor undone."""
    if page.fillorder == 2:
        data = imagecodecs.bitorder_decode(bytes(data))
    native = np.dtype(page.dtype).newbyteorder("=")
    # The floating-point predictor orders bytes itself.
    order = "=" if page.predictor == 3 else page.parent.byteorder
    block = np.frombuffer(data, dtype=native.newbyteorder(order))
    block = block.reshape(rows, geometry.unit[1], geometry.samples).astype(native, copy=False)
    if page.predictor == 2:
        return np.asarray(imagecodecs.delta_decode(block, axis=-2))
    if page.predictor == 3:
        return np.asarray(imagecodecs.floatpred_decode(block, axis=-2))
    return block


def _is_packed(page: tifffile.TiffPage) -> bool:
    """Whether a page holds integers that share bytes (1, 4, 12 ... bits), in a codec of bytes."""
    integers = page.dtype is not None and np.dtype(page.dtype).kind in "bui"
    return (
        not whole_bytes(page)
        and integers
        and page.predictor in (1, 2)
        and page.compression in BYTES
    )


def _unpacked(
    page: tifffile.TiffPage, geometry: Geometry, data: bytes, rows: int
) -> NDArray[np.integer[Any] | np.bool_]:
    """Decode a tile or strip of ``rows`` rows of integers that share bytes.

    Bytes beyond those of its pixels (a damaged header says 1 bit where there were 8) are dropped
    before they are unpacked: each would take up to eight times its size.
    """
    samples = geometry.row_samples
    dtype = np.dtype(page.dtype).newbyteorder("=")
    if page.fillorder == 2:
        data = bytes(imagecodecs.bitorder_decode(data))
    if page.compression != NONE:
        decompress = tifffile.TIFF.DECOMPRESSORS[page.compression]
        data = bytes(decompress(data, out=rows * samples * dtype.itemsize))
    wanted = rows * row_bytes(page, geometry)
    if len(data) < wanted:
        raise ValueError(f"{wanted - len(data)} of its decoded bytes are missing")
    data = data[:wanted]  # under this name, so that the rest goes first
    bits = int(page.bitspersample)
    block = imagecodecs.packints_decode(data, dtype, bits, runlen=samples)
    block = block.reshape(rows, geometry.unit[1], geometry.samples)
    return np.asarray(imagecodecs.delta_decode(block, axis=-2) if page.predictor == 2 else block)


def _check_jpeg(data: bytes, unit: tuple[int, int]) -> None:
    """Check that a JPEG stream begins, ends and has the size that its segment may have.

    libjpeg fills the rest of a stream that ends early with grey, and allocates what a frame header
    asks for; neither is an error to it. ``unit`` is (rows, cols) of a tile or strip.
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


def _check_jpeg2000(data: bytes, unit: tuple[int, int]) -> None:
    """Check that a JPEG 2000 stream has the size that its segment may have.

    The decoder allocates what the stream asks for. ``data`` is a codestream, bare or in the boxes
    of a JP2 file, ``unit`` (rows, cols) of a tile or strip.

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
