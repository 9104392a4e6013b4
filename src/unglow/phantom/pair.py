"""Making one phantom pair in the layout of raw images, as scanners write them.

Images are streamed into their TIFF files, window by window.
"""

from __future__ import annotations

import logging
import zlib
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import imagecodecs
import numpy as np
import tifffile

from unglow.core.errors import ConfigError
from unglow.core.files import replace_file
from unglow.core.windows import Window, grid, map_bounded
from unglow.phantom.damage import describe_damage
from unglow.phantom.render import Image, Renderer
from unglow.phantom.spec import check_names
from unglow.phantom.truth import Truth

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.phantom.spec import PhantomSpec

_log = logging.getLogger(__name__)
_IMAGES: tuple[Image, ...] = ("pre", "post")
LAYOUTS = ("tiles", "strips", "single strip", "jpeg tiles")
COMPRESSIONS = ("zlib", "lzw", "zstd", None)
_TILE = 512

# Pixels rendered at a time by one worker, which needs about 200 bytes for each.
_BLOCK_PIXELS = _TILE * _TILE
_JPEG_QUALITY = 95

# Noise does not compress better at higher levels, only slower.
_LEVEL = 2


def make_pair(
    spec: PhantomSpec,
    raw: Path,
    sample: str,
    dye: str,
    *,
    layout: str = "tiles",
    compression: str | None = "zlib",
    workers: int = 1,
) -> Truth:
    """Write a pair of images and its truth.

    Files are ``<raw>/<sample>/<sample>_pre_<dye>.tif``, ``..._post_<dye>.tif`` and
    ``<sample>_<dye>_truth.json`` next to them, in this order; each appears only when it is
    complete. The pixels follow from ``spec`` alone, the bytes of the files also from ``layout`` and
    ``compression``. With the damage ``swap`` each file holds the other image.

    Parameters
    ----------
    spec
        What to make.
    raw
        Directory of raw images; made if it does not exist.
    sample, dye
        Names; letters, digits, ``.``, ``-`` (and ``_`` in the sample).
    layout
        ``tiles``, ``strips``, ``single strip`` or ``jpeg tiles`` (lossy).
    compression
        ``zlib``, ``lzw``, ``zstd`` or None.
    workers
        Threads.

    Returns
    -------
    The truth, as written.

    Raises
    ------
    ConfigError
        If a name or the layout is not usable, or the damage does not fit on the section.
    """
    check_names(sample, dye)
    check_layout(layout, compression, np.dtype(spec.dtype))
    renderer = Renderer(spec)
    folder = raw / sample
    folder.mkdir(parents=True, exist_ok=True)
    swapped = any(one.kind == "swap" for one in spec.damages)
    for name, image in zip(_IMAGES, _IMAGES[::-1] if swapped else _IMAGES, strict=True):
        path = folder / f"{sample}_{name}_{dye}.tif"
        raster = Raster(
            renderer.shape(image),
            np.dtype(spec.dtype),
            spec.rgb,
            partial(renderer.pixels, image),
            spec.pixel_sizes_um[image],
        )
        write_tiff(path, raster, layout=layout, compression=compression, workers=workers)
        _log.info("wrote %s", path)
    truth = make_truth(renderer, sample, dye)
    truth.save(folder / f"{sample}_{dye}_truth.json")
    return truth


def make_truth(renderer: Renderer, sample: str, dye: str) -> Truth:
    """Return the truth of what a renderer renders."""
    scale = float(renderer.spec.counts_per_level)
    return Truth(
        sample=sample,
        dye=dye,
        spec=renderer.spec,
        geometry=renderer.map,
        microbes=renderer.microbes.scale(scale),
        grains=renderer.grains.scale(scale),
        shading={image: shading.to_json() for image, shading in renderer.shading.items()},
        damage=tuple(describe_damage(renderer.spec, renderer.places, renderer.map)),
    )


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
    pixels: Callable[[Window], NDArray[Any]]
    pixel_size_um: float

    @property
    def full_shape(self) -> tuple[int, ...]:
        """Shape with the channel axis, if there is one."""
        return (*self.shape, 3) if self.rgb else self.shape

    @property
    def row_bytes(self) -> int:
        """Bytes of one row, uncompressed."""
        return self.shape[1] * (3 if self.rgb else 1) * self.dtype.itemsize


def check_layout(layout: str, compression: str | None, dtype: np.dtype[Any]) -> None:
    """Raise ConfigError unless such a file can be streamed."""
    if layout not in LAYOUTS:
        raise ConfigError(f"layout is {layout!r}, but must be one of {list(LAYOUTS)}.")
    if compression not in COMPRESSIONS:
        raise ConfigError(
            f"compression is {compression!r}, but must be one of {list(COMPRESSIONS)}."
        )
    if layout == "single strip" and compression not in ("zlib", None):
        raise ConfigError(
            f"a single strip cannot be streamed through {compression}; use zlib or none."
        )
    if layout == "jpeg tiles" and dtype != np.uint8:
        raise ConfigError(f"jpeg tiles hold uint8, not {dtype}; choose another layout.")


def write_tiff(
    path: Path, raster: Raster, *, layout: str, compression: str | None, workers: int
) -> None:
    """Write an image that never is in memory as a whole.

    The file appears under its name only when it is complete. It is BigTIFF only if it might not
    fit into 4 GiB. Its bytes do not depend on ``workers``.

    Parameters
    ----------
    path
        Where to write; the directory must exist.
    raster
        The image.
    layout
        ``tiles`` (512 x 512), ``strips`` (of about 262144 px), ``single strip`` or ``jpeg tiles``
        (YCbCr where RGB, quality 95, ``compression`` is not used).
    compression
        ``zlib``, ``lzw``, ``zstd`` or None.
    workers
        Threads that render and compress.
    """
    check_layout(layout, compression, raster.dtype)
    with replace_file(path) as part:
        if layout == "single strip":
            _write_single_strip(part, raster, compression, workers)
        elif "tiles" in layout:
            codec = "jpeg" if layout == "jpeg tiles" else compression
            windows = grid(raster.shape, (_TILE, _TILE))
            segments = map_bounded(_Encoder(raster, codec, tile=True), windows, workers)
            _write(part, raster, codec, segments, tile=(_TILE, _TILE))
        else:
            rows = min(raster.shape[0], max(1, _BLOCK_PIXELS // raster.shape[1]))
            windows = grid(raster.shape, (rows, raster.shape[1]))
            segments = map_bounded(_Encoder(raster, compression, tile=False), windows, workers)
            _write(part, raster, compression, segments, rowsperstrip=rows)


@dataclass(frozen=True)
class _Encoder:
    """Render a window and encode it as one segment of the file; runs in worker threads."""

    raster: Raster
    codec: str | None
    tile: bool

    def __call__(self, window: Window) -> bytes | NDArray[Any]:
        pixels = self.raster.pixels(window)
        if self.tile and window.shape != (_TILE, _TILE):
            full = np.zeros((_TILE, _TILE, *pixels.shape[2:]), pixels.dtype)
            full[: pixels.shape[0], : pixels.shape[1]] = pixels
            pixels = full
        if self.codec is None:
            return pixels
        return _encode(np.ascontiguousarray(pixels), self.codec)


def _encode(pixels: NDArray[Any], codec: str) -> bytes:
    if codec == "jpeg":
        space: dict[str, Any] = {}
        if pixels.ndim == 3:
            space = {"colorspace": "RGB", "outcolorspace": "YCBCR", "subsampling": (1, 1)}
        return bytes(imagecodecs.jpeg8_encode(pixels, level=_JPEG_QUALITY, **space))
    if codec == "zlib":
        return bytes(imagecodecs.deflate_encode(pixels.tobytes(), level=_LEVEL))
    if codec == "zstd":
        return bytes(imagecodecs.zstd_encode(pixels.tobytes(), level=_LEVEL))
    return bytes(imagecodecs.lzw_encode(pixels.tobytes()))


def _write(
    part: Path, raster: Raster, codec: str | None, segments: Iterator[Any] | None, **layout: Any
) -> None:
    """Hand segments to tifffile; None makes it reserve the space."""
    colour = "rgb" if raster.rgb else "minisblack"
    if codec == "jpeg" and raster.rgb:
        colour = "ycbcr"
        layout["subsampling"] = (1, 1)
    per_cm = 1e4 / raster.pixel_size_um
    # Compression can make noise slightly larger, and the tables of offsets need space.
    largest = raster.row_bytes * (raster.shape[0] + _TILE) * 1.02 + 1e7
    with tifffile.TiffWriter(part, bigtiff=largest >= 2**32) as tif:
        tif.write(
            segments,
            shape=raster.full_shape,
            dtype=raster.dtype,
            photometric=colour,
            planarconfig="contig" if raster.rgb else None,
            compression={"zlib": "adobe_deflate"}.get(codec, codec) if codec else None,
            resolution=(per_cm, per_cm),
            resolutionunit="CENTIMETER",
            software="unglow phantom",
            metadata=None,
            **layout,
        )


def _write_single_strip(part: Path, raster: Raster, compression: str | None, workers: int) -> None:
    """Stream one strip that holds the entire image.

    tifffile takes a segment only as a whole, so it writes the header with a placeholder of one
    byte (or reserves the space), and the strip follows from here.
    """
    _write(
        part,
        raster,
        compression,
        iter([b"\0"]) if compression else None,
        rowsperstrip=raster.shape[0],
    )
    with tifffile.TiffFile(part) as tif:
        start = tif.pages.first.dataoffsets[0]
    rows = max(1, _BLOCK_PIXELS // raster.shape[1])
    bands = map_bounded(raster.pixels, grid(raster.shape, (rows, raster.shape[1])), workers)
    with part.open("r+b") as file:
        file.seek(start)
        if compression is None:
            for band in bands:
                file.write(np.ascontiguousarray(band).data)
            return
        deflate = zlib.compressobj(1)
        for band in bands:
            file.write(deflate.compress(np.ascontiguousarray(band).data))
        file.write(deflate.flush())
        size = file.tell() - start
    with tifffile.TiffFile(part, mode="r+") as tif:
        tif.pages.first.tags["StripByteCounts"].overwrite([size])
