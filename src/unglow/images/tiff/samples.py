"""Decoding of samples: rules for them and for channels, what cannot be read, and its memory."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import imagecodecs
import numpy as np
import tifffile

from unglow.core.errors import InputError
from unglow.images.raw_header import ChannelInfo, is_ome_zarr
from unglow.images.tiff.codecs import LERC, NONE, SLACK_PX, STREAM_STATE, codec_of
from unglow.images.tiff.opening import quiet, shorten_reason
from unglow.images.tiff.segments import PIECE_BYTES, row_bytes, whole_bytes
from unglow.images.tiff.stream_decoders import CHUNK_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.core.arrays import Array
    from unglow.images.raw_header import TiffHeader
    from unglow.images.tiff.segments import Geometry, StoredPage


# Values of the tag PhotometricInterpretation.
WHITE_IS_ZERO, BLACK_IS_ZERO, RGB, PALETTE, CMYK, YCBCR = 0, 1, 2, 3, 5, 6
READABLE = (WHITE_IS_ZERO, BLACK_IS_ZERO, RGB, PALETTE, YCBCR)
CONVERT = "export it as grey or RGB of 8, 16 or 32 bits"


@dataclass(frozen=True)
class SampleRule:
    """How one stored sample becomes the value that is read.

    Attributes
    ----------
    dtype
        Of the values read.
    invert
        Subtract integers from this (WhiteIsZero); None to leave them.
    palette
        (entries, colours) of the values' own dtype; None without a palette.
    """

    dtype: np.dtype[Any]
    invert: int | None = None
    palette: Array | None = None

    @property
    def extra_bytes(self) -> int:
        """Bytes per sample that `apply` needs for its result."""
        if self.palette is not None:
            return int(self.palette.shape[1] * self.dtype.itemsize)
        return int(self.dtype.itemsize) if self.invert is not None else 0

    def apply(self, block: Array) -> Array:
        """(rows, cols, samples) as stored to (rows, cols, channels) as read."""
        if self.palette is not None:
            return np.asarray(self.palette[np.minimum(block[:, :, 0], len(self.palette) - 1)])
        if self.invert is not None:
            return np.asarray(self.invert - block.astype(self.dtype, copy=False), dtype=self.dtype)
        return block.astype(self.dtype, copy=False)


def sample_rule(path: str, page: tifffile.TiffPage) -> tuple[SampleRule, list[str]]:
    """Return the rule for a page, and notes on what it does.

    Raises
    ------
    InputError
        The page holds something that unglow does not read as intensities.
    """
    _check_readable(path, page)
    stored = np.dtype(page.dtype)
    dtype = np.dtype(np.uint8) if stored == np.bool_ else stored.newbyteorder("=")
    if page.photometric == PALETTE and page.samplesperpixel == 1:
        return _palette_rule(path, page)
    if page.photometric != WHITE_IS_ZERO:
        return SampleRule(dtype), []
    if dtype.kind == "f":
        return SampleRule(dtype), ["WhiteIsZero floating-point values are kept as stored"]
    top = 2 ** int(page.bitspersample) - 1 if dtype.kind == "u" else -1
    return SampleRule(dtype, invert=top), ["WhiteIsZero values are inverted: bright is high"]


def _palette_rule(path: str, page: tifffile.TiffPage) -> tuple[SampleRule, list[str]]:
    tag = page.tags.get(320)
    entries = 2 ** int(page.bitspersample)
    if tag is None or np.size(tag.value) != 3 * entries:
        raise InputError(f"'{path}' has palette colours without a usable palette: {CONVERT}.")
    colours = np.asarray(tag.value, dtype=np.uint16).reshape(3, entries).T
    # TIFF palettes have 16 bits; most were made from 8, either shifted or times 257.
    low, high = colours & 255, colours >> 8
    if not low.any() or np.array_equal(low, high):
        colours = high.astype(np.uint8)
    if (colours == colours[:, :1]).all():
        rule = SampleRule(colours.dtype, palette=np.ascontiguousarray(colours[:, :1]))
        return rule, ["the palette is grey: read as one channel"]
    rule = SampleRule(colours.dtype, palette=np.ascontiguousarray(colours))
    return rule, ["palette colours are decoded to RGB"]


def _check_readable(path: str, page: tifffile.TiffPage) -> None:
    """Refuse pages whose samples unglow or imagecodecs cannot turn into intensities.

    Raises
    ------
    InputError
        One sentence with the reason and the remedy.
    """
    problem = _no_intensities(page)
    if problem is not None:
        raise InputError(f"'{path}' {problem}: {CONVERT}.")
    if page.samplesperpixel > 1 and page.planarconfig not in (1, 2):
        raise InputError(
            f"'{path}' has a broken header: samples are arranged in a way that does not exist "
            f"(PlanarConfiguration {int(page.planarconfig)}); copy it again from its source or "
            "write it again."
        )
    reason = _undecodable(page)
    if reason is not None:
        raise InputError(
            f"'{path}' is compressed in a way that cannot be decoded here "
            f"({_name(page.compression)}: {shorten_reason(reason)}): save it with "
            "LZW, Deflate, Zstd or JPEG compression, or with none."
        ) from reason


def _no_intensities(page: tifffile.TiffPage) -> str | None:
    """Return what a page holds that is not intensities, or how; None if all is well."""
    bits: Any = page.bitspersample  # a tuple if the samples differ
    problem: str | None = None
    codec = codec_of(page.compression)
    if codec.refused:
        problem = codec.refused
    elif page.photometric == CMYK:
        problem = "holds ink (CMYK) values, not light"
    elif page.photometric not in READABLE:
        problem = f"holds {_name(page.photometric)} values, which are not intensities"
    elif page.photometric == YCBCR and not codec.is_jpeg:
        problem = "holds YCbCr colours that are not JPEG-compressed"
    elif not isinstance(bits, int):
        problem = f"has samples of differing size ({bits} bits)"
    elif page.dtype is None:
        problem = f"has samples of {bits} bits and format {_name(page.sampleformat)}"
    elif np.dtype(page.dtype).kind not in "buif":
        problem = "holds complex numbers"
    elif page.imagedepth != 1 or page.tiledepth != 1:
        problem = "holds a volume in one page"
    return problem


def _undecodable(page: tifffile.TiffPage) -> Exception | None:
    """Return why tifffile with the imagecodecs at hand cannot decode a page; None if it can."""
    try:
        page.decode(None, 0)
    except (ValueError, NotImplementedError, ImportError) as error:
        return error
    if codec_of(page.compression).always_there:
        return None
    try:
        tifffile.TIFF.DECOMPRESSORS[page.compression](b"")
    except (ImportError, NotImplementedError, KeyError) as error:
        return error
    except Exception:  # noqa: BLE001, S110 - a codec that is there refuses the empty trial
        pass
    return None


def _name(value: Any) -> str:
    return str(getattr(value, "name", value))


def sample_channels(page: tifffile.TiffPage, rule: SampleRule) -> list[ChannelInfo]:
    """Channels that the samples of one page give, in order."""
    if rule.palette is not None:
        colours = rule.palette.shape[1]
        return [ChannelInfo(name) for name in ("RGB" if colours == 3 else "0")]
    count = int(page.samplesperpixel)
    extra = tuple(page.extrasamples or ())
    colour = count - len(extra)
    names = list("RGB") if page.photometric in (RGB, YCBCR) and count >= 3 else []
    names += [str(i) for i in range(len(names), count)]
    channels = [ChannelInfo(name) for name in names]
    # ExtraSamples 1 and 2 are associated and unassociated alpha; 0 may be any measurement.
    for i, kind in enumerate(extra):
        if int(kind) in (1, 2) and colour + i > 0:
            channels[colour + i] = ChannelInfo("A", alpha=True)
    return channels


def decode_segment(stored: StoredPage, geometry: Geometry, index: int, data: bytes) -> Array:
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
        return _unpack(page, geometry, data, rows)
    options: dict[str, Any] = {}
    codec = codec_of(page.compression)
    if codec.is_jpeg:
        options = {"jpegtables": stored.jpegtables, "jpegheader": page.jpegheader}
    if codec.check is not None and page.jpegheader is None:
        codec.check(data, geometry.unit)
    elif page.compression in (*tifffile.TIFF.IMAGE_COMPRESSIONS, LERC) and not codec.is_jpeg:
        _check_stream(page, geometry, data)
    with quiet():
        decoded, _, _ = page.decode(data, index, _fullsize=geometry.tiled, **options)
    block = np.asarray(decoded)[0]
    if block.dtype != page.dtype:
        raise ValueError(f"samples of {block.dtype} where the header says {page.dtype}")
    if block.shape != (rows, geometry.unit[1], geometry.samples):
        raise ValueError(f"it holds {' x '.join(map(str, block.shape))} samples")
    return np.asarray(block)


def _check_stream(page: tifffile.TiffPage, geometry: Geometry, data: bytes) -> None:
    """Check that a stream that says its size has that of its segment, about.

    Decoders take memory for what a stream says, and compare that with an array to decode into
    before they decode: this one has no pixels, so that none does.
    """
    nothing = np.empty(0, np.dtype(page.dtype).newbyteorder("="))
    try:
        tifffile.TIFF.DECOMPRESSORS[page.compression](data, out=nothing)
    except TypeError:  # it needs the size
        return
    except ValueError as error:
        shape = re.search(r" shape=\(([\d, ]+)\)$", str(error))
        if shape is None:
            raise
        sides = re.findall(r"\d+", shape[1])
    rows, cols = geometry.unit
    if math.prod(map(int, sides)) > (rows + SLACK_PX) * (cols + SLACK_PX) * geometry.samples:
        raise ValueError(f"its {_name(page.compression)} stream says {' x '.join(sides)} samples")


def decode_rows(
    page: tifffile.TiffPage, geometry: Geometry, data: bytes | bytearray, rows: int
) -> Array:
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
        and codec_of(page.compression).gives_bytes
    )


def _unpack(
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


REMEDY_MB = 50.0
"""Reading that takes less is not a reason to write a file again, MB."""
REWRITE = (
    "write it again in tiles, for example with "
    "'bfconvert -noflat -bigtiff -tilex 512 -tiley 512 -compression zlib OLD.tif NEW.ome.tif'"
)


def rows_at_once(page: tifffile.TiffPage, geometry: Geometry) -> int:
    """Rows of a segment that make a piece of about ``PIECE_BYTES``, at least one."""
    return int(min(geometry.unit[0], max(1, PIECE_BYTES // _count_row_bytes(page, geometry))))


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
    samples, stored = geometry.row_samples, _count_row_bytes(page, geometry)
    piece_rows = rows_at_once(page, geometry)
    converted = piece_rows * samples * rule.extra_bytes
    # Bytes are swapped into a copy; the floating-point predictor does that on its own.
    swapped = page.parent.byteorder == ">" and stored > samples and page.predictor != 3
    if raw or window is not None:
        piece, stream = piece_rows * stored, 0
        if window is not None:
            # The codec gives its output in blocks and then as one.
            stream = window + STREAM_STATE + CHUNK_BYTES + 2 * piece
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
        return window + STREAM_STATE
    if raw or geometry.across > 1 or projected:
        return 0
    return geometry.unit[0] * _count_row_bytes(page, geometry)


def _count_row_bytes(page: tifffile.TiffPage, geometry: Geometry) -> int:
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
            "stores its channels or planes apart in large strips, each with a decoder that stays "
            f"open, which takes {whole + kept:.0f} MB"
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
