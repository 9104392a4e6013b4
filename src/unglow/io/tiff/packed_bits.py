"""Samples that share bytes (1, 4, 12 ... bits): no more of them is unpacked than belongs there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import imagecodecs
import numpy as np
import tifffile

from unglow.io.tiff.segments import row_bytes
from unglow.io.tiff.stream_decoders import DEFLATE, LZMA, LZW, PACKBITS, ZSTD

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.io.tiff.segments import Geometry

# Codecs that give bytes, whatever the samples.
BYTES = frozenset((1, *DEFLATE, LZW, PACKBITS, LZMA, *ZSTD))


def is_packed(page: tifffile.TiffPage) -> bool:
    """Whether a page holds integers that are not whole bytes, in a codec that gives bytes."""
    whole = page.bitspersample in (8, 16, 32, 64)
    integers = page.dtype is not None and np.dtype(page.dtype).kind in "bui"
    return not whole and integers and page.predictor in (1, 2) and page.compression in BYTES


def unpacked(
    page: tifffile.TiffPage, geometry: Geometry, data: bytes, rows: int
) -> NDArray[np.integer[Any] | np.bool_]:
    """Decode a tile or strip of packed integers.

    Bytes beyond those of its pixels (a damaged header says 1 bit where there were 8) are dropped
    before they are unpacked: each would take up to eight times its size.

    Parameters
    ----------
    page, geometry
        `is_packed`.
    data
        As the file holds it.
    rows
        That the segment stores.

    Returns
    -------
    (rows, cols, samples) of ``page.dtype``.

    Raises
    ------
    ValueError
        There are fewer bytes than pixels need.
    RuntimeError
        The codec found damage.
    """
    samples = geometry.unit[1] * geometry.samples
    dtype = np.dtype(page.dtype).newbyteorder("=")
    if page.fillorder == 2:
        data = bytes(imagecodecs.bitorder_decode(data))
    if page.compression != 1:
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
