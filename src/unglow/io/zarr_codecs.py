"""Codecs of Zarr arrays of other programs: a list of them, each decoded to no more than it should.

A header that states another size is refused before anything is decoded; where there is none,
decoding ends one byte behind the size. Codecs that could make objects, or run code, are not here.
"""

from __future__ import annotations

import bz2
import gzip
import io
import math
import sys
import zlib
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    Bytes: TypeAlias = bytes | memoryview
    Decoder: TypeAlias = Callable[[Bytes, int], Bytes]

CRC_BYTES = 4
"""Bytes of a CRC-32C."""


@dataclass(frozen=True, slots=True)
class Codecs:
    """What is done to a chunk before it is stored.

    Attributes
    ----------
    dtype
        With the byte order of the stored numbers.
    orders
        How its axes are transposed, one after the other.
    filters
        Those of format 2 that change numbers.
    packing
        Names of what makes fewer bytes of it, or adds a checksum, in order.
    """

    dtype: np.dtype[Any]
    orders: tuple[tuple[int, ...], ...] = ()
    filters: tuple[dict[str, Any], ...] = ()
    packing: tuple[str, ...] = ()

    def decode(self, stored: bytes, shape: tuple[int, ...]) -> NDArray[Any]:
        """Return the chunk of a shape; ValueError if it is damaged."""
        whole = math.prod(shape) * self.dtype.itemsize
        content: Bytes = stored
        for i, name in reversed([*enumerate(self.packing)]):
            # behind a compressor there are only checksums, which need no size
            size = whole + CRC_BYTES * self.packing[:i].count("crc32c")
            content = DECODERS[name](content, size)
        for one in reversed(self.filters):
            content = _undo_filter(one, content)
        _check_size(len(content), whole)
        for order in self.orders:
            shape = tuple(shape[axis] for axis in order)
        chunk = np.frombuffer(content, self.dtype).reshape(shape)
        for order in reversed(self.orders):
            chunk = chunk.transpose(np.argsort(order))
        return chunk


def _blosc(stored: Bytes, size: int) -> memoryview:
    """Decode Blosc: sizes are in its header (https://github.com/Blosc/c-blosc, README_CHUNK)."""
    whole, length = (int.from_bytes(stored[k : k + 4], "little") for k in (4, 12))
    if len(stored) < max(16, length):  # Blosc would read on behind the end
        raise ValueError("bytes are missing at its end")
    _check_size(whole, size)
    return _decode_into("Blosc", stored, size)


def _lz4(stored: Bytes, size: int) -> memoryview:
    _check_size(int.from_bytes(stored[:4], "little"), size)
    return _decode_into("LZ4", stored, size)


def _gzip(stored: Bytes, size: int) -> bytes:
    with gzip.GzipFile(fileobj=io.BytesIO(stored)) as stream:
        return stream.read(size + 1)


def strip_checksum(stored: Bytes, size: int) -> memoryview:
    """Return what comes before a CRC-32C; ValueError if that is wrong."""
    import google_crc32c  # noqa: PLC0415 (of few images)

    del size  # the file has it
    content = memoryview(stored)[:-CRC_BYTES]
    if google_crc32c.value(bytes(content)) != int.from_bytes(stored[-CRC_BYTES:], "little"):
        raise ValueError("its checksum is wrong")
    return content


def _check_size(declared: int, size: int) -> None:
    if declared != size:
        raise ValueError(f"a chunk of {declared} bytes where there should be {size}")


def _decode_into(name: str, stored: Bytes, size: int) -> memoryview:
    """Decode what states its number of bytes."""
    out = np.empty(size, np.uint8)
    _codec(name).decode(stored, out=out)
    return memoryview(out)  # type: ignore[arg-type]  # an array is a buffer


@cache
def _codec(name: str) -> Any:
    import numcodecs  # noqa: PLC0415 (0.1 s that a parse of the workflow need not spend)

    numcodecs.blosc.use_threads = False  # they are shared by the entire process
    return getattr(numcodecs, name)()


def load_zstd() -> Any:
    """Import what decodes Zstandard: few images need it."""
    if sys.version_info >= (3, 14):
        from compression import zstd  # noqa: PLC0415
    else:
        from backports import zstd  # noqa: PLC0415
    return zstd


def _undo_filter(about: Mapping[str, Any], content: Bytes) -> bytes:
    import numcodecs  # noqa: PLC0415 (of few images)

    values = {key: value for key, value in about.items() if key != "id"}
    decoded = FILTERS[about["id"]](numcodecs)(**values).decode(content)
    return np.ascontiguousarray(decoded).tobytes()


DECODERS: dict[str, Decoder] = {
    "blosc": _blosc,
    "zstd": lambda stored, size: load_zstd().ZstdDecompressor().decompress(stored, size + 1),
    "lz4": _lz4,
    "gzip": _gzip,
    "zlib": lambda stored, size: zlib.decompressobj().decompress(stored, size + 1),
    "bz2": lambda stored, size: bz2.BZ2Decompressor().decompress(stored, size + 1),
    "crc32c": strip_checksum,
}
"""Codecs that make fewer bytes of bytes, or add a checksum: what decodes them to a known size."""
FILTERS: dict[str, Callable[[Any], Any]] = {
    "delta": lambda numcodecs: numcodecs.Delta,
    "shuffle": lambda numcodecs: numcodecs.Shuffle,
}
"""Codecs of format 2 that change numbers: their classes, from the library."""
CLASSES = {
    "blosc": "Blosc",
    "zstd": "Zstd",
    "lz4": "LZ4",
    "gzip": "GZip",
    "zlib": "Zlib",
    "bz2": "BZ2",
}
"""Those of `DECODERS` that numcodecs has, with its names, which headers have as well."""
