"""Reading TIFF files: headers without pixels, and pixels in blocks of bounded memory."""

from __future__ import annotations

from unglow.images.raw_header import ChannelInfo, TiffHeader
from unglow.images.tiff.read_header import read_exposures, read_header
from unglow.images.tiff.reader import TiffReader, open_reader
from unglow.images.tiff.samples import remedy

__all__ = [
    "ChannelInfo",
    "TiffHeader",
    "TiffReader",
    "open_reader",
    "read_exposures",
    "read_header",
    "remedy",
]
