"""Making one phantom pair in the layout of raw images, as scanners write them.

Images are streamed into their TIFF files, window by window.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import imagecodecs
import numpy as np
import tifffile

from unglow.core.files import replace_file
from unglow.core.windows import Window, grid, map_bounded
from unglow.phantom.render import Image, Renderer
from unglow.phantom.spec import check_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from unglow.core.arrays import Array
    from unglow.phantom.spec import PhantomSpec
    from unglow.phantom.truth import Truth

_log = logging.getLogger(__name__)
_IMAGES: tuple[Image, ...] = ("pre", "post")
# A worker renders a tile at a time, and needs about 200 bytes for each of its pixels.
TILE = 512

# Noise does not compress better at higher levels, only slower.
_LEVEL = 2


def make_pair(spec: PhantomSpec, raw: Path, sample: str, dye: str, *, workers: int = 1) -> Truth:
    """Write a pair of images and its truth, which follow from ``spec`` alone (see `write_pair`)."""
    return write_pair(Renderer(spec), raw, sample, dye, workers=workers)


def write_pair(renderer: Renderer, raw: Path, sample: str, dye: str, *, workers: int = 1) -> Truth:
    """Write a pair of images and its truth.

    Files are ``<raw>/<sample>/<sample>_pre_<dye>.tif``, ``..._post_<dye>.tif`` and
    ``<sample>_<dye>_truth.json`` next to them, in this order; each appears only when it is
    complete.

    Parameters
    ----------
    renderer
        Makes their pixels.
    raw
        Directory of raw images; made if it does not exist.
    sample, dye
        Names; letters, digits, ``.``, ``-`` (and ``_`` in the sample).
    workers
        Threads.

    Returns
    -------
    The truth, as written.

    Raises
    ------
    ConfigError
        If a name is not usable.
    """
    check_names(sample, dye)
    folder = raw / sample
    folder.mkdir(parents=True, exist_ok=True)
    for image in _IMAGES:
        path = folder / f"{sample}_{image}_{dye}.tif"
        write_tiff(path, make_raster(renderer, image), workers)
        _log.info("wrote %s", path)
    truth = renderer.make_truth(sample, dye)
    truth.save(folder / f"{sample}_{dye}_truth.json")
    return truth


def make_raster(renderer: Renderer, image: Image) -> Raster:
    """Return one image of a renderer."""
    spec = renderer.spec
    pixels = partial(renderer.pixels, image)
    size_um = spec.pixel_sizes_um[image]
    return Raster(renderer.shape(image), np.dtype(spec.dtype), spec.rgb, pixels, size_um)


@dataclass(frozen=True)
class Raster:
    """An image that is made window by window.

    Attributes
    ----------
    shape
        (rows, columns).
    dtype
        Type of its pixels.
    rgb
        Whether a window has a third axis of three channels.
    pixels
        Function that makes the pixels of a window; called from several threads.
    pixel_size_um
        For the resolution tags.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    rgb: bool
    pixels: Callable[[Window], Array]
    pixel_size_um: float

    @property
    def full_shape(self) -> tuple[int, ...]:
        """Shape with the channel axis, if there is one."""
        return (*self.shape, 3) if self.rgb else self.shape

    @property
    def row_bytes(self) -> int:
        """Bytes of one row, uncompressed."""
        return self.shape[1] * (3 if self.rgb else 1) * self.dtype.itemsize


def write_tiff(path: Path, raster: Raster, workers: int) -> None:
    """Write an image that never is in memory as a whole, in tiles of 512 x 512 px.

    The file appears under its name only when it is complete. It is BigTIFF only if it might not
    fit into 4 GiB. Its bytes do not depend on ``workers``, threads that render and compress.
    """
    windows = grid(raster.shape, (TILE, TILE))
    with replace_file(path) as part:
        segments = map_bounded(lambda window: deflate(read_tile(raster, window)), windows, workers)
        write_segments(part, raster, segments, compression="adobe_deflate", tile=(TILE, TILE))


def read_tile(raster: Raster, window: Window) -> Array:
    """Return the pixels of a window, filled up with 0 to a tile."""
    pixels = raster.pixels(window)
    if window.shape != (TILE, TILE):
        full = np.zeros((TILE, TILE, *pixels.shape[2:]), pixels.dtype)
        full[: pixels.shape[0], : pixels.shape[1]] = pixels
        pixels = full
    return np.ascontiguousarray(pixels)


def deflate(pixels: Array) -> bytes:
    """Compress a segment."""
    return bytes(imagecodecs.deflate_encode(pixels.tobytes(), level=_LEVEL))


def write_segments(part: Path, raster: Raster, segments: Iterator[Any], **layout: Any) -> None:
    """Hand encoded segments to tifffile.

    Keywords (``tile`` or ``rowsperstrip``, ``compression``, ``photometric``) are those of
    `tifffile.TiffWriter.write`.
    """
    per_cm = 1e4 / raster.pixel_size_um
    # Compression can make noise slightly larger, and the tables of offsets need space.
    largest = raster.row_bytes * (raster.shape[0] + TILE) * 1.02 + 1e7
    options = {"photometric": "rgb" if raster.rgb else "minisblack"} | layout
    with tifffile.TiffWriter(part, bigtiff=largest >= 2**32) as tif:
        tif.write(
            segments,
            shape=raster.full_shape,
            dtype=raster.dtype,
            planarconfig="contig" if raster.rgb else None,
            resolution=(per_cm, per_cm),
            resolutionunit="CENTIMETER",
            software="unglow phantom",
            metadata=None,
            **options,
        )
