"""Rules for samples and channels: palettes, WhiteIsZero, alpha, and what cannot be read."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import imagecodecs
import numpy as np
import tifffile

from unglow.core.errors import InputError
from unglow.io.tiff.header import BYTES, COMMON, JPEG, JPEG_2000, NONE, OLD_JPEG, ChannelInfo
from unglow.io.tiff.opening import quiet
from unglow.io.tiff.segments import row_bytes, whole_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.io.tiff.segments import Geometry, StoredPage


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
    palette: NDArray[Any] | None = None

    @property
    def extra_bytes(self) -> int:
        """Bytes per sample that `apply` needs for its result."""
        if self.palette is not None:
            return int(self.palette.shape[1] * self.dtype.itemsize)
        return int(self.dtype.itemsize) if self.invert is not None else 0

    def apply(self, block: NDArray[Any]) -> NDArray[Any]:
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
            f"({_name(page.compression)}: {' '.join(str(reason).split())[:100]}): save it with "
            "LZW, Deflate, Zstd or JPEG compression, or with none."
        ) from reason


def _no_intensities(page: tifffile.TiffPage) -> str | None:
    """Return what a page holds that is not intensities, or how; None if all is well."""
    bits: Any = page.bitspersample  # a tuple if the samples differ
    problem: str | None = None
    if page.compression == OLD_JPEG:
        problem = "is compressed with old-style JPEG, which no current tool reads reliably"
    elif page.photometric == CMYK:
        problem = "holds ink (CMYK) values, not light"
    elif page.photometric not in READABLE:
        problem = f"holds {_name(page.photometric)} values, which are not intensities"
    elif page.photometric == YCBCR and page.compression not in JPEG:
        problem = "holds YCbCr colours that are not JPEG-compressed"
    elif not isinstance(bits, int):
        problem = f"has samples of differing size ({bits} bits)"
    elif page.dtype is None:
        problem = f"has samples of {bits} bits and format {_name(page.sampleformat)}"
    elif np.dtype(page.dtype).kind not in "buif":
        problem = "holds complex numbers"
    elif page.imagedepth != 1:
        problem = "holds a volume in one page"
    return problem


def _undecodable(page: tifffile.TiffPage) -> Exception | None:
    """Return why tifffile with the imagecodecs at hand cannot decode a page; None if it can."""
    try:
        page.decode(None, 0)
    except (ValueError, NotImplementedError, ImportError) as error:
        return error
    if page.compression in COMMON:
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
        if int(kind) in (1, 2) and 0 < colour + i < count:
            channels[colour + i] = ChannelInfo("A", alpha=True)
    return channels


# SOF0 to SOF15 without DHT (C4), JPG (C8) and DAC (CC): frame headers with the image size.
FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
# A strip's last rows or a tile's edge may be padded to complete blocks.
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
        return _unpack(page, geometry, data, rows)
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


def _check_jpeg(data: bytes, unit: tuple[int, int]) -> None:
    """Check that a JPEG stream starts, ends and has the size that its segment may have.

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
        raise ValueError("no JPEG 2000 stream starts there")
    right, bottom, left, top = struct.unpack_from(">4I", data, at + 8)
    rows, cols = bottom - top, right - left
    if rows > unit[0] + SLACK_PX or cols > unit[1] + SLACK_PX:
        raise ValueError(f"its JPEG 2000 stream says {rows} x {cols} px")
