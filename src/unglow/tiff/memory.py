"""Memory that one read takes beside its result, from the header alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unglow.tiff.streams import CHUNK_BYTES, LZMA, LZW, PACKBITS, PIECE_BYTES

if TYPE_CHECKING:
    import tifffile

    from unglow.tiff.samples import SampleRule
    from unglow.tiff.segments import Geometry

# Working memory of decoders in bytes per sample, where it counts (measured with strips of 36 to
# 48 million samples): JPEG 2000, WebP, LERC, JPEG XR.
SCRATCH = {33003: 5.0, 33004: 5.0, 33005: 5.0, 34712: 5.0, 50001: 1.5, 34887: 0.1, 22610: 0.1}
# The dictionary of LZMA at its usual setting.
LZMA_DICTIONARY = 8_400_000
# A stretch of LZW codes decodes to at most 4096 * 4096 / 2 bytes.
LZW_STRETCH = 8_400_000


def rows_at_once(page: tifffile.TiffPage, geometry: Geometry) -> int:
    """Rows of a segment that make a piece of about ``PIECE_BYTES``, at least one."""
    stored = geometry.unit[1] * geometry.samples * np.dtype(page.dtype).itemsize
    return int(min(geometry.unit[0], max(1, PIECE_BYTES // stored)))


def decode_bytes(
    page: tifffile.TiffPage,
    geometry: Geometry,
    rule: SampleRule,
    encoded: int,
    *,
    raw: bool,
    streams: bool,
) -> int:
    """Bytes that a read of one stored part needs beside its result.

    Parameters
    ----------
    page, geometry, rule
        How samples are stored and converted.
    encoded
        Bytes of the largest tile or strip in the file.
    raw, streams
        Rows are read on their own, or streamed; else tiles and strips are decoded whole.
    """
    samples = geometry.unit[1] * geometry.samples
    stored = samples * np.dtype(page.dtype).itemsize
    piece_rows = rows_at_once(page, geometry)
    converted = piece_rows * samples * rule.extra_bytes
    # Bytes are swapped into a copy; the floating-point predictor does that by itself.
    swapped = page.parent.byteorder == ">" and stored > samples and page.predictor != 3
    if raw or streams:
        copies = 1 + swapped + (page.predictor != 1)
        piece = piece_rows * stored * copies + converted
        return piece + (_stream_bytes(page) if streams else 0)
    copies = int(page.compression != 1) + (swapped or page.predictor == 3)
    if page.bitspersample not in (8, 16, 32, 64):
        copies += 1
    scratch = SCRATCH.get(int(page.compression), 0.0) * samples
    return encoded + int(geometry.unit[0] * (copies * stored + scratch)) + converted


def _stream_bytes(page: tifffile.TiffPage) -> int:
    """Add up encoded bytes, what a codec gives at once, and rows that wait to be handed on."""
    if page.compression == LZW:
        return 3 * CHUNK_BYTES + 2 * LZW_STRETCH
    if page.compression == PACKBITS:
        return 8 * CHUNK_BYTES + 3 * PIECE_BYTES
    dictionary = LZMA_DICTIONARY if page.compression == LZMA else 0
    return 3 * CHUNK_BYTES + 3 * PIECE_BYTES + dictionary
