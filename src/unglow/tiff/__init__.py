"""Reading TIFF files: headers without pixels, and pixels in blocks of bounded memory."""

from __future__ import annotations

from unglow.tiff.header import ChannelInfo, TiffHeader
from unglow.tiff.memory import remedy
from unglow.tiff.reader import TiffReader, open_reader
from unglow.tiff.resolve import read_header
from unglow.tiff.survey import survey_blocks

__all__ = [
    "ChannelInfo",
    "TiffHeader",
    "TiffReader",
    "open_reader",
    "read_header",
    "remedy",
    "survey_blocks",
]
