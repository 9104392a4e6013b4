"""TIFF files: undamaged ones of every kind with the pixels that they hold, damaged and read."""

from __future__ import annotations

import io
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tifffile

from fuzz.images import read_image
from fuzz.mutations import UNTOUCHED
from fuzz.tiff_mutations import DAMAGES, mutate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from fuzz.trial import Outcome
    from unglow.images.tiff import TiffHeader

__all__ = ["DAMAGES", "damage", "is_harmless", "lay_out", "read"]
REAL = Path(__file__).resolve().parents[3] / "shared" / "data"
# Largest image, px, that is compared with what tifffile reads.
_COMPARED_PX = 50_000_000
SHAPE = (71, 93)  # divides by no strip or tile
LAYOUTS: dict[str, dict[str, Any]] = {
    "strips": {"rowsperstrip": 16},
    "single strip": {"rowsperstrip": SHAPE[0]},
    "tiles": {"tile": (32, 48)},
}
_DTYPES = ("uint8", "uint16", "int16", "uint32", "float32", "float64")
# Type, codec and predictor.
_CODECS = (
    ("uint8", "lzw", None),
    ("uint8", "packbits", None),
    ("uint8", "jpeg", None),
    ("uint16", "jpeg2000", None),
    ("uint16", "lzw", True),
    ("uint16", "zlib", True),
    ("uint16", "zstd", None),
    ("uint16", "lzma", None),
    ("float32", "zlib", 3),
    ("uint8", "webp", None),
    ("uint8", "jpegxl", None),
)
# Sides of images whose only strip is decoded as a stream.
_STREAMED = (2900, 2900)
# Of real files only those are damaged that are read in no time.
_MOST_BYTES = 800_000


@dataclass(frozen=True, slots=True)
class Seed:
    """An undamaged file.

    Attributes
    ----------
    name
        What it is called in tables.
    suffix
        Of its file name.
    data
        All of it.
    pixels
        (channels, rows, cols) that its first plane holds; None where the reading of the undamaged
        file is taken as right.
    """

    name: str
    suffix: str
    data: bytes
    pixels: NDArray[Any] | None


def picture(dtype: str, samples: int = 1, shape: tuple[int, int] = SHAPE) -> NDArray[Any]:
    """Return (samples, rows, cols) with structure and noise over most of the range of integers."""
    rng = np.random.default_rng(7)
    y, x = np.mgrid[: shape[0], : shape[1]]
    base = np.sin(x / 9) * np.cos(y / 7)
    planes = np.stack([base * (s + 1) / samples for s in range(samples)])
    planes += rng.normal(0, 0.02, planes.shape)
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return (planes * 1000).astype(kind)
    info = np.iinfo(kind)
    unit = (planes - planes.min()) / np.ptp(planes)
    span = float(info.max) * 0.999 - float(info.min)
    return np.asarray((float(info.min) + unit * span).astype(kind))


def written(pixels: NDArray[Any], **options: Any) -> bytes:
    """Return a TIFF file of an array, as tifffile writes it."""
    stream = io.BytesIO()
    tifffile.imwrite(stream, pixels, **options)
    return stream.getvalue()


def read_back(data: bytes) -> NDArray[Any]:
    """(channels, rows, cols) of the first page of a file, as tifffile reads it."""
    with tifffile.TiffFile(io.BytesIO(data)) as tif:
        page: Any = tif.pages.first
        array = np.asarray(page.asarray())
        if page.samplesperpixel > 1 and page.planarconfig == 1:
            array = np.moveaxis(array, -1, 0)
    return array.reshape(-1, *array.shape[-2:])


def _made() -> Iterator[tuple[str, NDArray[Any], dict[str, Any]]]:
    """Name, array and options of every file that is made."""
    for dtype, order, layout in product(_DTYPES, "<>", LAYOUTS):
        yield (
            f"{dtype} {order} {layout}",
            picture(dtype)[0],
            {"byteorder": order, **LAYOUTS[layout]},
        )
    for (dtype, codec, predictor), layout in product(_CODECS, LAYOUTS):
        for planar in ("contig", "separate"):
            if planar == "separate" and codec in ("webp", "jpegxl"):
                continue
            rgb = picture(dtype, 3)
            data = np.moveaxis(rgb, 0, -1) if planar == "contig" else rgb
            yield (
                f"{dtype} {codec} {planar} {layout}",
                data,
                {
                    "compression": codec,
                    "predictor": predictor,
                    "photometric": "rgb",
                    "planarconfig": planar,
                    **LAYOUTS[layout],
                },
            )
    rgba = np.moveaxis(picture("uint8", 4), 0, -1)
    yield "rgba bigtiff", rgba, {"bigtiff": True, "photometric": "rgb", "tile": (16, 16)}
    big = {"bigtiff": True, "byteorder": ">", "compression": "zlib", "rowsperstrip": 8}
    yield "bigtiff > deflate", picture("uint16")[0], big
    ycbcr = {"compression": "jpeg", "photometric": "ycbcr", "subsampling": (2, 2)}
    rgb = np.moveaxis(picture("uint8", 3), 0, -1)
    yield "jpeg ycbcr", rgb, {**ycbcr, "tile": (32, 32)}
    levels = (np.arange(SHAPE[0] * SHAPE[1]).reshape(SHAPE) % 256).astype(np.uint8)
    yield "1 bit", levels > 100, {"photometric": "minisblack"}


def write_pyramid(target: Any, pixels: NDArray[Any], **options: Any) -> None:
    """Write (rows, cols) with two levels in SubIFDs; ``options`` are those of tifffile."""
    with tifffile.TiffWriter(target, **options) as tif:
        layout: dict[str, Any] = {"tile": (16, 16), "compression": "zlib"}
        tif.write(pixels, subifds=2, metadata={"axes": "YX"}, **layout)
        for step in (2, 4):
            tif.write(pixels[::step, ::step], subfiletype=1, **layout)


def _several() -> Iterator[Seed]:
    """Files of several pages."""
    stack = picture("uint8", 3)
    for axes in ("CYX", "ZYX", "TYX"):
        options: dict[str, Any] = {"metadata": {"axes": axes}}
        pixels = stack if axes == "CYX" else stack[:1]
        data = written(stack, ome=True, tile=(32, 32), **options)
        yield Seed(f"ome {axes}", ".ome.tif", data, pixels)
        yield Seed(f"imagej {axes}", ".tif", written(stack, imagej=True, **options), pixels)
    stream = io.BytesIO()
    write_pyramid(stream, stack[0], ome=True)
    yield Seed("ome pyramid", ".ome.tif", stream.getvalue(), stack[:1])


def _streamed() -> Iterator[Seed]:
    """Files of one strip that is too large to be decoded whole."""
    rows, cols = _STREAMED
    pixels = ((np.arange(rows)[:, None] // 5 + np.arange(cols) // 7) % 251).astype(np.uint8)
    for codec in ("zlib", "zstd", "lzma"):
        data = written(pixels, compression=codec, rowsperstrip=rows)
        yield Seed(f"{codec} streamed", ".tif", data, pixels[None])


def make_seeds() -> list[Seed]:
    """Return all files that can be made, the same every time."""
    seeds = []
    for name, array, options in _made():
        data = written(array, **options)
        # Lossy codecs give back what tifffile decodes.
        seeds.append(Seed(name, ".tif", data, read_back(data)))
    palette = picture("uint16", 3, (16, 16)).reshape(3, 256)
    data = written(picture("uint8")[0], photometric="palette", colormap=palette)
    seeds.append(Seed("palette", ".tif", data, palette[:, picture("uint8")[0]]))
    white = picture("uint16")[0]
    data = written(white, photometric="miniswhite", rowsperstrip=9)
    seeds.append(Seed("white is zero", ".tif", data, (65535 - white)[None]))
    return [*seeds, *_several(), *_streamed()]


def real_seeds(folder: Path) -> list[Seed]:
    """Return the small real files below a folder."""
    found = [p for p in sorted(folder.rglob("*")) if p.suffix.lower() in (".tif", ".tiff", ".svs")]
    small = [p for p in found if p.stat().st_size <= _MOST_BYTES]
    return [Seed(p.name, "".join(p.suffixes[-2:]), p.read_bytes(), None) for p in small]


def lay_out(folder: Path, *, made: bool) -> list[tuple[str, Path]]:
    """Write undamaged files and their pixels into a folder; return names and files.

    ``made``: whether the real files in ../shared/data are left out.
    """
    seeds = make_seeds()
    if REAL.is_dir() and not made:
        seeds += real_seeds(REAL)
    found = []
    for number, one in enumerate(seeds):
        path = folder / f"{number}{one.suffix}"
        path.write_bytes(one.data)
        if one.pixels is not None:
            np.save(pixels_file(path), one.pixels)
        found.append((one.name, path))
    return found


def damage(whole: Path, how: str, rng: np.random.Generator, room: Path) -> Path:
    """Write a damaged copy of a file into a folder, and return it."""
    path = room / f"case{''.join(whole.suffixes)}"
    path.write_bytes(mutate(whole.read_bytes(), how, rng))
    return path


def read(path: Path, whole: Path, how: str, room: Path) -> Outcome:  # noqa: ARG001 - as all kinds
    """Read a damaged file and judge what came of it."""
    pixels = pixels_file(whole)
    return read_image(path, room, pixels if pixels.exists() else None, _as_tifffile)


def is_harmless(whole: Path, how: str) -> bool:
    """Return whether a damaged file must be read as the whole one, whose pixels are known."""
    return how in (UNTOUCHED, "bytes appended") and pixels_file(whole).exists()


def pixels_file(whole: Path) -> Path:
    """Return the file with the pixels of an undamaged one."""
    return whole.with_name(f"{whole.name}.npy")


def _as_tifffile(path: Path, header: TiffHeader) -> NDArray[Any] | None:
    """(channels, rows, cols) as tifffile reads them; None where unglow means to differ."""
    if header.shape[0] * header.shape[1] * len(header.channels) > _COMPARED_PX:
        return None
    with tifffile.TiffFile(path) as tif:
        series = tif.series[int(header.plane["series"] or 0)]
        page: Any = series.keyframe
        # It puts the tiles behind one that is not stored in wrong places, and undoes a predictor
        # without a codec across samples.
        plain = page.photometric not in (0, 3) and 0 not in page.databytecounts
        plain &= page.predictor == 1 or page.compression != 1
        if len(series) > 1 or header.axes or not plain:
            return None
        array = np.asarray(page.asarray())
    if page.samplesperpixel == 1 or page.planarconfig == 2:
        array = array.reshape(-1, *header.shape)
    else:
        array = np.moveaxis(array.reshape(*header.shape, page.samplesperpixel), -1, 0)
    return array.astype(header.dtype, copy=False)
