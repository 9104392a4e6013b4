"""Layouts of TIFF that scanners write and `unglow phantom` does not: strips, one strip, JPEG tiles.

Images are streamed into their files, window by window.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import imagecodecs
import numpy as np
import tifffile

from unglow.core.files import replace_file
from unglow.core.windows import Window, grid, map_bounded
from unglow.phantom.pair import TILE, Raster, deflate, read_tile, write_segments, write_tiff

if TYPE_CHECKING:
    from pathlib import Path

LAYOUTS = ("tiles", "strips", "single strip", "jpeg tiles")
_JPEG_QUALITY = 95


def write_layout(path: Path, raster: Raster, layout: str, workers: int) -> None:
    """Write an image in one of `LAYOUTS`, deflated or as JPEG (uint8, YCbCr where RGB)."""
    if layout == "tiles":
        write_tiff(path, raster, workers)
        return
    with replace_file(path) as part:
        {"strips": _write_strips, "single strip": _write_strip, "jpeg tiles": _write_jpeg}[layout](
            part, raster, workers
        )


def _write_strips(part: Path, raster: Raster, workers: int) -> None:
    rows = min(raster.shape[0], _rows(raster))
    segments = map_bounded(
        lambda window: deflate(np.ascontiguousarray(raster.pixels(window))),
        grid(raster.shape, (rows, raster.shape[1])),
        workers,
    )
    write_segments(part, raster, segments, compression="adobe_deflate", rowsperstrip=rows)


def _rows(raster: Raster) -> int:
    return max(1, TILE * TILE // raster.shape[1])


def _write_jpeg(part: Path, raster: Raster, workers: int) -> None:
    space: dict[str, Any] = {}
    options: dict[str, Any] = {}
    if raster.rgb:
        space = {"colorspace": "RGB", "outcolorspace": "YCBCR", "subsampling": (1, 1)}
        options = {"photometric": "ycbcr", "subsampling": (1, 1)}

    def encode(window: Window) -> bytes:
        pixels = read_tile(raster, window)
        return bytes(imagecodecs.jpeg8_encode(pixels, level=_JPEG_QUALITY, **space))

    segments = map_bounded(encode, grid(raster.shape, (TILE, TILE)), workers)
    write_segments(part, raster, segments, compression="jpeg", tile=(TILE, TILE), **options)


def _write_strip(part: Path, raster: Raster, workers: int) -> None:
    """Stream one strip that holds the entire image.

    tifffile takes a segment only as a whole, so it writes the header with a placeholder of one
    byte, and the strip follows from here.
    """
    layout = {"compression": "adobe_deflate", "rowsperstrip": raster.shape[0]}
    write_segments(part, raster, iter([b"\0"]), **layout)
    with tifffile.TiffFile(part) as tif:
        start = tif.pages.first.dataoffsets[0]
    windows = grid(raster.shape, (_rows(raster), raster.shape[1]))
    with part.open("r+b") as file:
        file.seek(start)
        encoder = zlib.compressobj(1)
        for band in map_bounded(raster.pixels, windows, workers):
            file.write(encoder.compress(np.ascontiguousarray(band).data))
        file.write(encoder.flush())
        size = file.tell() - start
    with tifffile.TiffFile(part, mode="r+") as tif:
        tif.pages.first.tags["StripByteCounts"].overwrite([size])
