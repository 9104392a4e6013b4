"""Shards, and the chunks in them: of Zarr's formats just the one of `unglow.io.zarr.layout`.

Zarr-python takes 0.2 s to import and 2.5 ms for each read on top of decoding, which takes 0.5 ms
for a chunk; and it reads fill values in place of shards and chunks that are not there. Here they
are errors. What is written are the bytes that zarr-python 3.1 writes.

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
from unglow.io.zarr.chunks import (
    CRC_BYTES,
    DamagedError,
    append_checksum,
    append_chunk,
    decode_chunk,
    strip_checksum,
)
from unglow.io.zarr.layout import describe_broken, shard_key

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

    from numpy.typing import NDArray

    from unglow.io.zarr.layout import StoreLayout


_NOT_WRITTEN = 2**64 - 1


def read_window(
    root: Path,
    layout: StoreLayout,
    level: int,
    window: Window,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
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
        except DamagedError as fault:
            raise StoreError(describe_broken(root, key, str(fault))) from fault
        count_transfer(root, read=stored[0], decoded=stored[1])
    return out


def _read_shard(
    file: BinaryIO, layout: StoreLayout, level: int, part: Window, out: NDArray[Any]
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
    stored, decoded = 0, 0
    dtype = np.dtype(layout.dtype)
    empty = np.empty((0, 0), dtype)
    for (row, col), section in cells(part, (rows, cols)):
        offset, length = index[row % down, col % across].tolist()
        if offset == _NOT_WRITTEN:
            raise DamagedError("lacks a chunk")
        if offset + length > end:
            raise DamagedError("is cut short")
        file.seek(offset)
        packed = file.read(length)
        if len(packed) != length:
            raise DamagedError("is cut short")
        within = section.shift(-row * rows, -col * cols)
        target = out[section.shift(-part.y0, -part.x0).slices]
        into = target if target.dtype == dtype else empty
        chunk = decode_chunk(packed, (rows, cols), into)
        stored, decoded = stored + length, decoded + chunk.nbytes
        if chunk is not target:
            target[...] = chunk[within.slices]
    return stored, decoded


def _index(file: BinaryIO, chunks: tuple[int, int]) -> NDArray[np.uint64]:
    """Read what ends a shard: (offset, length) of each chunk, and a CRC-32C."""
    size = chunks[0] * chunks[1] * 16 + CRC_BYTES
    end = file.seek(0, os.SEEK_END)
    if end < size:
        raise DamagedError(f"has only {end} bytes" if end else "is empty")
    file.seek(end - size)
    return np.frombuffer(strip_checksum(file.read(size)), "<u8").reshape(*chunks, 2)


def encode_shard(block: NDArray[Any], layout: StoreLayout, level: int) -> bytearray:
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
        begin = len(out)
        append_chunk(out, inside[at], (rows, cols), layout.fill)
        index[at] = begin, len(out) - begin
    out += append_checksum(index.tobytes())
    return out


def _morton(position: tuple[int, int]) -> int:
    """Return the number of a chunk in zarr's order: bits of row and column alternate."""
    row, col = position
    return sum(
        ((row >> bit & 1) << 2 * bit) | ((col >> bit & 1) << (2 * bit + 1)) for bit in range(16)
    )
