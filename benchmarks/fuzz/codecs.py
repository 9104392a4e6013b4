"""TIFF files of each codec, a strip or tile of which holds a stream of another size or type."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import numpy as np

from fuzz import tiff
from fuzz.mutations import BYTES, pick
from fuzz.tiff_mutations import COUNTS, OFFSETS, TYPE_BYTES, Map

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["DAMAGES", "damage", "is_harmless", "lay_out", "read"]
read, is_harmless = tiff.read, tiff.is_harmless
CODECS = ("lerc", "webp", "png", "jpeg", "jpeg2000", "jpegxl", "jpegxr", "zstd", "lzw", "zlib",
          "packbits", "lzma")  # fmt: skip
_NEAR = {"1 row more": (17, 93), "1 row fewer": (15, 93), "half the columns": (16, 46),
         "1 px": (1, 1), "twice as large": (32, 186), "turned": (93, 16)}  # fmt: skip
_FAR = {"long row": (1, 16000), "80 million px": (9000, 9000)}
_SHAPES = {**_NEAR, **_FAR}
_OTHERS = ("another type", "other samples", "another codec")
DAMAGES = (*_SHAPES, *_OTHERS, "damaged stream")


def _samples(codec: str) -> int:
    return 3 if codec == "webp" else 1


def _write(codec: str, pixels: NDArray[Any], **layout: Any) -> bytes:
    rgb = pixels.shape[-1] == 3
    options = {"compressionargs": {"effort": 1}} if codec == "jpegxl" else {}
    photometric = "rgb" if rgb else "minisblack"
    return tiff.written(pixels, compression=codec, photometric=photometric, **options, **layout)


def _stream(codec: str, pixels: NDArray[Any]) -> bytes:
    """Return what a codec makes of an array, without the rest of the file."""
    data = _write(codec, pixels, rowsperstrip=pixels.shape[0])
    plan = Map(data)
    at, size = plan.table(data, OFFSETS)[0][0], plan.table(data, COUNTS)[0][0]
    return data[at : at + size]


def _streams(codec: str) -> Iterator[tuple[str, bytes]]:
    """Yield the stream of each damage but the last."""
    samples = _samples(codec)
    for name, shape in _SHAPES.items():
        layers = np.zeros((*shape, samples), np.uint8)
        if name in _NEAR and shape != (1, 1):
            layers[:] = tiff.picture("uint8", 1, shape)[0][..., None]
        yield name, _stream(codec, layers.squeeze(-1) if samples == 1 else layers)
    plain = tiff.picture("uint8", 1, (16, 93))[0]
    if codec in ("lerc", "png", "jpeg2000", "jpegxl", "jpegxr", "zstd", "lzw", "zlib"):
        yield _OTHERS[0], _stream(codec, plain.astype(np.uint16))
    else:
        yield _OTHERS[0], bytes(16 * 93 * 2)
    other = np.stack([plain] * 3, -1) if samples == 1 else np.stack([plain] * 3, -1)[::-1]
    yield _OTHERS[1], _stream(codec, other)
    rgb = np.stack([plain] * 3, -1)
    stranger = CODECS[CODECS.index(codec) - 1]
    yield _OTHERS[2], _stream(stranger, rgb if samples == 3 or stranger == "webp" else plain)


def lay_out(folder: Path) -> list[tuple[str, Path]]:
    """Write a file of each codec in strips and in tiles, and the streams for them."""
    found = []
    for codec in CODECS:
        streams = dict(_streams(codec))
        for name, layout in tiff.LAYOUTS.items():
            shape = tiff.SHAPE
            pixels = tiff.picture("uint8", _samples(codec), shape)
            data = _write(codec, np.moveaxis(pixels, 0, -1).squeeze(), **layout)
            path = folder / f"{codec} {name}.tif"
            path.write_bytes(data)
            np.save(tiff.pixels_file(path), tiff.read_back(data))
            for damage_name, stream in streams.items():
                target = path.with_name(f"{path.name}.{damage_name}")
                target.write_bytes(stream)
            found.append((path.stem, path))
    return found


def damage(whole: Path, how: str, rng: np.random.Generator, room: Path) -> Path:
    """Put another stream behind the file, and say that one or all segments are there."""
    path = room / "case.tif"
    if how not in DAMAGES:
        return shutil.copy(whole, path)  # type: ignore[return-value]
    data = bytearray(whole.read_bytes())
    plan = Map(data)
    entries = {e.code: e for e in plan.entries}
    at = next(entries[code] for code in OFFSETS if code in entries)
    size = next(entries[code] for code in COUNTS if code in entries)
    chosen = int(rng.integers(0, at.count))
    if how in DAMAGES[:-1]:
        stream = whole.with_name(f"{whole.name}.{how}").read_bytes()
    else:
        first, length = (plan.table(data, codes)[0][chosen] for codes in (OFFSETS, COUNTS))
        stream = bytes(data[first : first + length])
    if how == DAMAGES[-1] or rng.random() < 0.3:
        stream = bytes(pick(rng, tuple(BYTES.values()))(bytearray(stream[:100_000].ljust(16)), rng))
    for index in range(at.count) if rng.random() < 0.3 else (chosen,):
        for entry, value in ((at, len(data)), (size, len(stream))):
            width = TYPE_BYTES[entry.kind]
            plan.put(data, entry.values + index * width, width, value)
    path.write_bytes(data + stream)
    return path
