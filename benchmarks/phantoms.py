"""Phantom pairs of any size and file layout, made quickly, with the same kind of content.

`unglow phantom` evaluates a scene at every pixel, which takes minutes where an image has many of
them. Here a small phantom is magnified, textured with a mirrored piece of another, and turned and
scaled for pre: sections of one size look like those of another, compress equally, and register.
There is no exact truth, so that accuracy is measured elsewhere.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import zipfile
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cv2
import imagecodecs
import numcodecs
import numpy as np
import tifffile
import zarr
from phantom_layouts import write_layout
from zarr.codecs import BloscCodec, ZstdCodec

from unglow.core.windows import Window, grid, map_bounded
from unglow.images.tiff import read_header
from unglow.phantom.pair import Raster
from unglow.phantom.render import Renderer
from unglow.phantom.spec import PhantomSpec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    Image = NDArray[Any]

MB = 1e6
LAYOUTS = ("tiles", "strips", "deflate-strip", "zstd-strip", "jpeg-tiles")
#: OME-Zarr as other programs write it: format, chunk, shard (0: none), codec; in a ZIP file.
ZARR_LAYOUTS = {
    "zarr-256": (2, 256, 0, numcodecs.Blosc("lz4"), None),
    "zarr-1024": (3, 1024, 0, ZstdCodec(), None),
    "zarr-4096": (2, 4096, 0, numcodecs.Zlib(1), None),
    "zarr-plain": (3, 2048, 0, None, None),
    "zarr-shards": (3, 512, 4096, BloscCodec(cname="zstd"), None),
    "zarr-stored": (3, 512, 4096, ZstdCodec(), zipfile.ZIP_STORED),
    "zarr-packed": (3, 512, 4096, ZstdCodec(), zipfile.ZIP_DEFLATED),
}
DTYPES = ("uint8", "uint16")
MAKER = 1
"""Raised when pairs come out differently, so that old ones in a cache are not taken for new."""
_BLOCK = 1024
_OUTLINE_PX = 1024
_TEXTURE_PX = 2048
_NOISE_PX = 2503
_PIXEL_SIZE_UM = 0.5
# pre against post, as `unglow phantom` has it when nothing is set
_ROTATION_DEG, _SCALE, _SHIFT = 3.0, 1.02, (100.0, 60.0)
_TALLER, _WIDER = 1.02, 1.03
_GAIN, _OFFSET = 1.3, 2.0


@dataclass(frozen=True, slots=True)
class Case:
    """One pair to measure: rows and columns of the post image, layout and pixel type of its files.

    ``uint8`` is RGB with the signal in green, ``uint16`` has one channel.
    """

    rows: int
    cols: int
    layout: str
    dtype: str

    @property
    def size(self) -> str:
        """Rows x columns, or one number for a square."""
        return str(self.rows) if self.rows == self.cols else f"{self.rows}x{self.cols}"

    @property
    def name(self) -> str:
        """Name of its directories."""
        return f"{self.size}-{self.layout}-{self.dtype}"

    @property
    def possible(self) -> bool:
        """Whether there are such files: JPEG holds 8 bits."""
        return self.layout != "jpeg-tiles" or self.dtype == "uint8"


@dataclass(frozen=True, slots=True)
class Pair:
    """What a raw pair holds: pixels of both images, MB of them decoded, MB of the files."""

    pixels: int
    decoded_mb: float
    file_mb: float


def size_of(text: str) -> tuple[int, int]:
    """Return (rows, columns) of ``8192`` or ``30000x25000``.

    Raises
    ------
    ValueError
        If it is neither.
    """
    match = re.fullmatch(r"(\d+)(?:x(\d+))?", text)
    if match is None:
        raise ValueError(text)
    return int(match[1]), int(match[2] or match[1])


def look_at(raw: Path) -> Pair:
    """Return what the images of a raw directory hold, from their headers."""
    headers = [read_header(path) for path in sorted(raw.rglob("*.tif"))]
    pixels = [h.shape[0] * h.shape[1] for h in headers]
    decoded = sum(
        n * len(h.channels) * np.dtype(h.dtype).itemsize
        for n, h in zip(pixels, headers, strict=True)
    )
    return Pair(sum(pixels), decoded / MB, sum(h.file_bytes for h in headers) / MB)


def phantom(case: Case, cache: Path, workers: int) -> Path:
    """Return the raw directory of a case, made if it is not in the cache yet.

    Memory does not depend on the size, except for ``zstd-strip``, whose one strip is encoded whole.
    """
    target = cache / f"{case.name}-{MAKER}"
    if target.is_dir():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".making-", dir=cache) as making:
        raw = Path(making) / "raw"
        (raw / "phantom").mkdir(parents=True)
        for role in ("pre", "post"):
            canvas = _canvas(case, role, cache, workers)
            write = _write_zarr if case.layout in ZARR_LAYOUTS else _write
            write(raw / "phantom" / f"phantom_{role}_SYTO9.tif", canvas, case, workers)
        raw.replace(target)
    return target


def link_pairs(place: Path, source: Path, samples: Iterable[str]) -> None:
    """Make raw/ with links to the images of one pair below ``source``, for each sample."""
    images = {role: next(source.rglob(f"*_{role}_*.tif")) for role in ("pre", "post")}
    for sample in samples:
        folder = place / "raw" / sample
        folder.mkdir(parents=True)
        for role, image in images.items():
            os.link(image, folder / f"{sample}_{role}_SYTO9.tif")


def forget_canvases(cache: Path) -> None:
    """Delete what pairs of one size are made from; it takes as many bytes as they have pixels."""
    for path in cache.glob("*.signal"):
        path.unlink()


def _canvas(case: Case, role: str, cache: Path, workers: int) -> Image:
    """Return the signal of one image, (rows, cols) uint8, in a file next to the pairs."""
    shape = (case.rows, case.cols)
    if role == "pre":
        shape = round(case.rows * _TALLER), round(case.cols * _WIDER)
    path = cache / f"{case.size}-{role}-{MAKER}.signal"
    if not path.is_file():
        part = path.with_suffix(".partial")
        canvas = np.memmap(part, np.uint8, "w+", shape=shape)
        section = Section((case.rows, case.cols), shape)

        def fill(window: Window) -> None:
            canvas[window.slices] = getattr(section, role)(window)

        for _ in map_bounded(fill, grid(shape, (_BLOCK, _BLOCK)), workers):
            pass
        canvas.flush()
        part.replace(path)
    return np.memmap(path, np.uint8, "r", shape=shape)


def _write(path: Path, canvas: Image, case: Case, workers: int) -> None:
    rgb = case.dtype == "uint8"
    shape = (int(canvas.shape[0]), int(canvas.shape[1]))
    pixels = partial(_colours if rgb else _counts, canvas)
    raster = Raster(shape, np.dtype(case.dtype), rgb, pixels, _PIXEL_SIZE_UM)
    if case.layout == "zstd-strip":
        _write_zstd_strip(path, raster, workers)
        return
    layout = {"deflate-strip": "single strip", "jpeg-tiles": "jpeg tiles"}.get(case.layout)
    write_layout(path, raster, layout or case.layout, workers)


def _write_zarr(path: Path, canvas: Image, case: Case, _: int) -> None:
    """Write an OME-Zarr image; chunks of RGB hold all channels."""
    form, side, shard, codec, zipped = ZARR_LAYOUTS[case.layout]
    rgb = case.dtype == "uint8"
    first = (3,) if rgb else ()
    folder = path.with_suffix(".ome.zarr")
    group: Any = zarr.open_group(str(folder), mode="w", zarr_format=3 if form == 3 else 2)
    array = group.create_array(
        "0",
        shape=(*first, *canvas.shape),
        chunks=(*first, side, side),
        shards=(*first, shard, shard) if shard else None,
        dtype=case.dtype,
        compressors=codec,
    )
    step = shard or side
    for window in grid((int(canvas.shape[0]), int(canvas.shape[1])), (step, int(canvas.shape[1]))):
        pixels = np.moveaxis(_colours(canvas, window), -1, 0) if rgb else _counts(canvas, window)
        array[..., window.slices[0], window.slices[1]] = pixels
    datasets = [{"path": "0", "coordinateTransformations": []}]
    image = {"axes": [{"name": name} for name in "cyx"[not rgb :]], "datasets": datasets}
    group.attrs.update({"multiscales": [image]} if form == 2 else {"ome": {"multiscales": [image]}})
    if zipped is not None:
        with zipfile.ZipFile(path.with_suffix(".ozx"), "w", zipped) as archive:
            for file in sorted(f for f in folder.rglob("*") if f.is_file()):
                archive.write(file, file.relative_to(folder))
        shutil.rmtree(folder)


def _write_zstd_strip(path: Path, raster: Raster, workers: int) -> None:
    """Write one strip of Zstd; tifffile takes a segment only as a whole."""
    whole = np.empty(raster.full_shape, raster.dtype)

    def fill(window: Window) -> None:
        whole[window.slices] = raster.pixels(window)

    for _ in map_bounded(fill, grid(raster.shape, (_BLOCK, raster.shape[1])), workers):
        pass
    strip: Any = whole.reshape(-1).view(np.uint8).data  # not copied
    encoded = bytes(imagecodecs.zstd_encode(strip, level=1))
    per_cm = 1e4 / raster.pixel_size_um
    with tifffile.TiffWriter(path, bigtiff=len(encoded) > 4e9) as tif:
        tif.write(
            iter([encoded]),
            shape=whole.shape,
            dtype=whole.dtype,
            photometric="rgb" if raster.rgb else "minisblack",
            planarconfig="contig" if raster.rgb else None,
            compression="zstd",
            rowsperstrip=raster.shape[0],
            resolution=(per_cm, per_cm),
            resolutionunit="CENTIMETER",
            metadata=None,
        )


def _colours(canvas: Image, window: Window) -> Image:
    """Return RGB with the signal in green and little in the others."""
    green = canvas[window.slices]
    out = np.zeros((*green.shape, 3), np.uint8)
    out[..., 1] = green
    out[..., 0] = green >> 4
    return out


def _counts(canvas: Image, window: Window) -> Image:
    """Return 64 counts for each grey level, the last six bits being noise, as a camera has it."""
    out = canvas[window.slices].astype(np.uint16)
    out <<= 6
    out += _tiled(_bits(), window)
    return out


class Section:
    """The scene that both images show, and how each shows it.

    Parameters
    ----------
    shape, pre_shape
        (rows, columns) of post and of pre.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        pre_shape: tuple[int, int],
    ) -> None:
        self.shape = shape
        self.pre_shape = pre_shape

    def post(self, window: Window) -> Image:
        """Return the pixels of a window of post, (rows, cols) uint8."""
        return _recorded(self._scene(window), _GAIN, window, shift=0)

    def pre(self, window: Window) -> Image:
        """Return the pixels of a window of pre, (rows, cols) uint8."""
        seen = self._turned(window)
        return _recorded(seen, 1.0, window, shift=997)

    def _turned(self, window: Window) -> NDArray[np.float32]:
        """Return the scene at a window of a pre that is turned and scaled alone."""
        corners = np.array([[x, y] for x in (window.x0, window.x1) for y in (window.y0, window.y1)])
        there = corners @ self._to_post[:, :2].T + self._to_post[:, 2]
        x0, y0 = np.floor(there.min(axis=0)).astype(int) - 2
        x1, y1 = np.ceil(there.max(axis=0)).astype(int) + 3
        matrix = self._to_post.copy()
        matrix[:, 2] += matrix[:, :2] @ (window.x0, window.y0) - (x0, y0)
        rows, cols = window.shape
        seen: Any = cv2.warpAffine(
            self._scene(Window(int(y0), int(y1), int(x0), int(x1))),
            matrix,
            (cols, rows),
            flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
            borderMode=cv2.BORDER_REPLICATE,
        )
        return np.asarray(seen)

    @cached_property
    def _to_post(self) -> NDArray[np.float64]:
        """The map from pre to post, 2 x 3 in (x, y)."""
        angle = np.deg2rad(_ROTATION_DEG)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        back = np.linalg.inv(turn) / _SCALE
        centre, pre = ((np.array(s[::-1]) - 1) / 2 for s in (self.shape, self.pre_shape))
        return np.column_stack([back, centre - back @ (pre + _SHIFT)])

    def _scene(self, window: Window) -> NDArray[np.float32]:
        """Return grey levels of the section; outside the post frame it goes on."""
        outline, texture = _outline(), _texture()
        rows, cols = window.shape
        step = outline.shape[0] / np.array(self.shape[::-1])
        matrix = np.array(
            [
                [step[0], 0, (window.x0 + 0.5) * step[0] - 0.5],
                [0, step[1], (window.y0 + 0.5) * step[1] - 0.5],
            ]
        )
        large: Any = cv2.warpAffine(
            outline,
            matrix,
            (cols, rows),
            flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
            borderMode=cv2.BORDER_REPLICATE,
        )
        large *= _tiled(texture, window)
        return np.asarray(large)


def _recorded(light: NDArray[np.float32], gain: float, window: Window, shift: int) -> Image:
    """Return grey levels with offset and the camera's noise."""
    light *= np.float32(gain)
    light += np.float32(_OFFSET)
    light += _tiled(_noise(), window.shift(shift, 2 * shift))
    np.clip(light, 0, 255, out=light)
    return light.astype(np.uint8)


def _tiled(tile: Image, window: Window) -> Image:
    """Return a window of a plane that is paved with a tile."""
    rows = np.arange(window.y0, window.y1) % tile.shape[0]
    cols = np.arange(window.x0, window.x1) % tile.shape[1]
    return np.asarray(tile[rows[:, None], cols[None, :]])


@cache
def _outline() -> Image:
    """Return a whole small phantom: the section with its dark surroundings, grey levels."""
    spec = PhantomSpec(shape=(_OUTLINE_PX, _OUTLINE_PX), rgb=False)
    frame = Window.from_shape(spec.shape)
    return Renderer(spec).background("post", frame).astype(np.float32)


@cache
def _texture() -> Image:
    """Return a piece of the middle of a large phantom, of mean 1, mirrored so that it can pave."""
    side = 4 * _TEXTURE_PX
    start = (side - _TEXTURE_PX) // 2
    end = start + _TEXTURE_PX
    renderer = Renderer(PhantomSpec(shape=(side, side), rgb=False, seed=1))
    piece = renderer.background("post", Window(start, end, start, end)).astype(np.float32)
    piece = np.clip(piece / piece.mean(), 0.3, 3.0)
    piece = np.concatenate([piece, piece[::-1]])
    return np.concatenate([piece, piece[:, ::-1]], axis=1)


@cache
def _noise() -> Image:
    noise = np.random.default_rng(0).normal(0.5, 1.5, (_NOISE_PX, _NOISE_PX))
    return noise.astype(np.float32)


@cache
def _bits() -> Image:
    return np.random.default_rng(1).integers(0, 64, (_NOISE_PX, _NOISE_PX), np.uint16)
