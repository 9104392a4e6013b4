"""Shards, and the chunks in them: of Zarr's formats just the one of `unglow.images.zarr.layout`.

Zarr-python takes 0.2 s to import and 2.5 ms for each read on top of decoding, which takes 0.5 ms
for a chunk; and it reads fill values in place of shards and chunks that are not there. Here they
are errors. What is written, zarr-python reads.

Source: https://zarr-specs.readthedocs.io/en/latest/v3/codecs/sharding-indexed/index.html
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.errors import StoreError
from unglow.core.files import open_file
from unglow.core.progress import count_transfer
from unglow.core.windows import Window, cells
from unglow.images.zarr.layout import COMPRESSOR, describe_broken, shard_key

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

    from numpy.typing import NDArray

    from unglow.core.arrays import Array
    from unglow.images.zarr.layout import StoreLayout


_NOT_WRITTEN = 2**64 - 1
_CRC_BYTES = 4
_BLOSC_SIZE = slice(4, 8)
"""Where Blosc says how many bytes there were: a 32-bit number in its header."""


class _ShardError(Exception):
    """A shard that cannot be used; the text follows its name in a sentence."""


def read_window(
    root: Path,
    layout: StoreLayout,
    level: int,
    window: Window,
    out: Array | None = None,
) -> Array:
    """Return the pixels of a window of a level in the stored dtype; thread-safe.

    Parameters
    ----------
    root
        Directory of the store (a finished one, or one that is being built).
    layout, level, window
        Layout of the store, number of the level, and what to read of it.
    out
        Where the pixels are put, cast if necessary; None for a new array.

    Raises
    ------
    ValueError
        If the window leaves the level.
    StoreError
        If a shard is missing, empty or damaged.
    MemoryError
        If there is too little to decompress a chunk.
    """
    shape = layout.level_shape(level)
    if window.clip(shape) != window:
        raise ValueError(f"{window} leaves level {level} of shape {shape}")
    if out is None:
        out = np.empty(window.shape, layout.dtype)
    shards = layout.level_shards(level)
    for (row, col), part in cells(window, shards):
        key = shard_key(level, row, col)
        target = out[part.shift(-window.y0, -window.x0).slices]
        try:
            with open_file(root / key) as file:
                stored = _read_shard(file, layout, level, part, target)
        except FileNotFoundError as error:
            raise StoreError(describe_broken(root, key, "is missing")) from error
        except OSError as error:
            raise StoreError(
                describe_broken(root, key, f"cannot be read ({error.strerror})")
            ) from error
        except _ShardError as fault:
            raise StoreError(describe_broken(root, key, str(fault))) from fault
        count_transfer(root, read=stored[0], decoded=stored[1])
    return out


def _read_shard(
    file: BinaryIO, layout: StoreLayout, level: int, part: Window, out: Array
) -> tuple[int, int]:
    """Fill ``out`` with the part of an image that is in a shard.

    Returns
    -------
    Bytes of the chunks that were read, as stored and decoded.
    """
    rows, cols = layout.level_chunks(level)
    height, width = layout.level_shards(level)
    down, across = height // rows, width // cols
    index, end = _index(file, (down, across)), file.seek(0, os.SEEK_END)
    dtype, stored, decoded = np.dtype(layout.dtype).newbyteorder("<"), 0, 0
    for (row, col), section in cells(part, (rows, cols)):
        offset, length = index[row % down, col % across].tolist()
        if offset == _NOT_WRITTEN:
            raise _ShardError("lacks a chunk")
        if offset + length > end:
            raise _ShardError("is cut short")
        chunk = np.frombuffer(_decode(file, offset, length, rows * cols * dtype.itemsize), dtype)
        stored, decoded = stored + length, decoded + chunk.nbytes
        within = section.shift(-row * rows, -col * cols)
        out[section.shift(-part.y0, -part.x0).slices] = chunk.reshape(rows, cols)[within.slices]
    return stored, decoded


def _index(file: BinaryIO, chunks: tuple[int, int]) -> NDArray[np.uint64]:
    """Read what ends a shard: (offset, length) of each chunk, and a CRC-32C."""
    size = chunks[0] * chunks[1] * 16 + _CRC_BYTES
    end = file.seek(0, os.SEEK_END)
    if end < size:
        raise _ShardError(f"has only {end} bytes" if end else "is empty")
    file.seek(end - size)
    return np.frombuffer(_check(file.read(size)), "<u8").reshape(*chunks, 2)


def _decode(file: BinaryIO, offset: int, length: int, size: int) -> bytes:
    """Read and decompress a chunk, which has to have ``size`` bytes then."""
    import imagecodecs  # not needed where nothing is read

    file.seek(offset)
    stored = file.read(length)
    if len(stored) != length:
        raise _ShardError("is cut short")
    checked = _check(stored)
    declared = int.from_bytes(checked[_BLOSC_SIZE], "little")
    if declared != size:  # before space is made for it
        raise _ShardError(f"is damaged (a chunk of {declared} bytes where there should be {size})")
    decode: Any = imagecodecs.blosc_decode  # its type leaves out views
    try:
        chunk: bytes = decode(checked, numthreads=1)
    except RuntimeError as error:
        # The bytes are those that were written: what Blosc lacks is memory to work in, for which
        # it has no error of its own.
        raise MemoryError(f"a chunk with the right checksum: {error}") from error
    return chunk


def _check(stored: bytes) -> memoryview:
    """Return what comes before a CRC-32C, if that is right."""
    import google_crc32c  # not needed where nothing is read

    content = stored[:-_CRC_BYTES]
    if google_crc32c.value(content) != int.from_bytes(stored[-_CRC_BYTES:], "little"):
        raise _ShardError("is damaged (Stored and computed checksum do not match)")
    return memoryview(content)


def encode_shard(block: Array, layout: StoreLayout, level: int) -> bytearray:
    """Return the file of a shard.

    Parameters
    ----------
    block
        Its px inside the image, (rows, cols).
    layout, level
        Where it is from.
    """
    rows, cols = layout.level_chunks(level)
    height, width = layout.level_shards(level)
    index = np.full((height // rows, width // cols, 2), _NOT_WRITTEN, "<u8")
    out = bytearray()
    window = Window.from_shape((block.shape[0], block.shape[1]))
    inside = {at: block[section.slices] for at, section in cells(window, (rows, cols))}
    for at in sorted(inside, key=_morton):
        chunk = encode_chunk(inside[at], (rows, cols), layout.fill)
        index[at] = len(out), len(chunk)
        out += chunk
    out += _append_checksum(index.tobytes())
    return out


def encode_chunk(part: Array, shape: tuple[int, int], fill: float) -> bytes:
    """Return a stored chunk of ``shape``, of its px inside the image; ``fill`` is put beyond."""
    if part.shape != shape:
        whole = np.full(shape, fill, part.dtype)
        whole[: part.shape[0], : part.shape[1]] = part
        part = whole
    return _append_checksum(_compress(part))


def _compress(chunk: Array) -> bytes:
    import imagecodecs  # not needed where nothing is written

    ordered = np.ascontiguousarray(chunk, chunk.dtype.newbyteorder("<"))
    about = {key: COMPRESSOR[key] for key in ("shuffle", "blocksize")}
    about |= {"compressor": COMPRESSOR["cname"], "level": COMPRESSOR["clevel"]}
    encode: Any = imagecodecs.blosc_encode  # its type leaves out arrays
    try:
        packed: bytes = encode(ordered, typesize=chunk.itemsize, numthreads=1, **about)
    except RuntimeError as error:  # nothing else can fail
        raise MemoryError(f"a chunk of {chunk.nbytes} bytes: {error}") from error
    return packed


def _append_checksum(content: bytes) -> bytes:
    import google_crc32c  # not needed where nothing is written

    checksum: int = google_crc32c.value(content)
    return content + checksum.to_bytes(_CRC_BYTES, "little")


def _morton(position: tuple[int, int]) -> int:
    """Return the number of a chunk in zarr's order: bits of row and column alternate."""
    row, col = position
    return sum(
        ((row >> bit & 1) << 2 * bit) | ((col >> bit & 1) << (2 * bit + 1)) for bit in range(16)
    )
