"""Memory that decoding takes in addition to its result, from the header alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unglow.io.image_paths import is_ome_zarr
from unglow.io.tiff.codecs import NONE, codec_of
from unglow.io.tiff.row_streams import PIECE_BYTES
from unglow.io.tiff.segments import whole_bytes
from unglow.io.tiff.stream_decoders import CHUNK_BYTES

if TYPE_CHECKING:
    import tifffile

    from unglow.io.tiff.header import TiffHeader
    from unglow.io.tiff.samples import SampleRule
    from unglow.io.tiff.segments import Geometry

REMEDY_MB = 50.0
"""Reading that takes less is not a reason to write a file again, MB."""
REWRITE = (
    "write it again in tiles, for example with "
    "'bfconvert -noflat -bigtiff -tilex 512 -tiley 512 -compression zlib OLD.tif NEW.ome.tif'"
)


def rows_at_once(page: tifffile.TiffPage, geometry: Geometry) -> int:
    """Rows of a segment that make a piece of about ``PIECE_BYTES``, at least one."""
    return int(min(geometry.unit[0], max(1, PIECE_BYTES // _row_bytes(page, geometry))))


def decode_bytes(
    page: tifffile.TiffPage,
    geometry: Geometry,
    rule: SampleRule,
    encoded: int,
    *,
    raw: bool,
    window: int | None,
) -> int:
    """Bytes that a read of one stored part needs in addition to its result.

    Parameters
    ----------
    page, geometry, rule
        How samples are stored and converted.
    encoded
        Bytes of the largest tile or strip in the file.
    raw
        Rows are read on their own.
    window
        How far back the decoder of strips that are streamed looks; None if they are not.
    """
    samples, stored = geometry.row_samples, _row_bytes(page, geometry)
    piece_rows = rows_at_once(page, geometry)
    converted = piece_rows * samples * rule.extra_bytes
    # Bytes are swapped into a copy; the floating-point predictor does that on its own.
    swapped = page.parent.byteorder == ">" and stored > samples and page.predictor != 3
    if raw or window is not None:
        piece, stream = piece_rows * stored, 0
        if window is not None:
            # The codec gives its output in blocks and then as one.
            codec = codec_of(page.compression)
            surplus = 0 if codec.streaming is None else codec.streaming.surplus_bytes
            stream = _stream_state(page, window) + CHUNK_BYTES + 2 * piece + surplus
        return piece * (1 + swapped + (page.predictor != 1)) + converted + stream
    copies = int(page.compression != NONE) + (swapped or page.predictor == 3)
    copies += not whole_bytes(page)
    per_sample, per_byte = codec_of(page.compression).scratch
    whole = geometry.unit[0] * (copies * stored + per_sample * samples)
    return int(encoded * (1.0 + per_byte) + whole) + converted


def kept_bytes(
    page: tifffile.TiffPage, geometry: Geometry, *, raw: bool, window: int | None, projected: bool
) -> int:
    """Bytes that a reader keeps of a stored part between two reads; parameters as above.

    ``projected`` says that several planes are read as one.
    """
    if window is not None:
        return _stream_state(page, window)
    if raw or geometry.across > 1 or projected:
        return 0
    return geometry.unit[0] * _row_bytes(page, geometry)


def _stream_state(page: tifffile.TiffPage, window: int) -> int:
    """Bytes that a decoder keeps between two reads of a strip that is streamed."""
    streaming = codec_of(page.compression).streaming
    return window if streaming is None else window + streaming.state_bytes


def _row_bytes(page: tifffile.TiffPage, geometry: Geometry) -> int:
    """Bytes of one row of a segment in memory."""
    return geometry.row_samples * int(np.dtype(page.dtype).itemsize)


def remedy(header: TiffHeader) -> str | None:
    """Say why reading an image takes the memory it takes, and what would change that.

    Parameters
    ----------
    header
        Of the image.

    Returns
    -------
    One sentence without a full stop; None if tiles, strips or pieces of a stream are small, so that
    writing the file again would change little.
    """
    whole, kept = header.decode_bytes / 1e6, header.others_bytes / 1e6
    if header.raw or whole + kept < REMEDY_MB:
        return None
    if kept > whole:
        why = (
            "stores its channels or planes apart, each in strips so large that a decoder has to "
            f"stay open for each of them, which takes {whole + kept:.0f} MB"
        )
    elif header.streams:
        why = f"was compressed with a long window, which takes {whole:.0f} MB to decode"
    else:
        kind = "tile" if header.layout == "tiles" else "strip"
        many, whom = (f"{kind}s", "each") if header.segments > 1 else (f"one {kind}", "it")
        why = (
            f"is stored as {many} of {header.unit[0]} x {header.unit[1]} px in "
            f"{header.compression}, and {whom} has to be decoded whole, which takes {whole:.0f} MB"
        )
    rewrite = "export it in smaller chunks" if is_ome_zarr(header.path) else REWRITE
    return f"'{header.path}' {why}: {rewrite}"
