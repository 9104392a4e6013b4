"""The levels of a store as Zarr arrays: creating, writing and reading them through zarr-python.

Importing this module imports zarr, which takes 0.2 s: the rest of the package does so only when
pixels or documents are read or written.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import zarr
from zarr.abc.store import RangeByteRequest, SuffixByteRequest
from zarr.codecs import BloscCodec, Crc32cCodec
from zarr.storage import LocalStore, WrapperStore

from unglow.errors import StoreError
from unglow.store.metadata import AXES, broken, shard_position
from unglow.store.threads import configure_threads

if TYPE_CHECKING:
    from pathlib import Path

    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import Buffer, BufferPrototype

    from unglow.store.layout import StoreLayout

Array: TypeAlias = "zarr.Array[Any]"

# Zarr would otherwise start a thread for each processor and four more.
configure_threads(zarr.config.get("threading.max_workers") or 1)

NOT_WRITTEN = 2**64 - 1
"""Offset, in a shard's index, of a chunk that was not written."""


class HashingStore(WrapperStore[LocalStore]):
    """A directory that remembers the SHA-256 and the size of every shard written to it."""

    def __init__(self, store: LocalStore) -> None:
        super().__init__(store)
        self.digests: dict[str, str] = {}
        """Shard key to the SHA-256 of its file, hexadecimal."""
        self.sizes: dict[str, int] = {}
        """Shard key to the size of its file, bytes."""

    async def set(self, key: str, value: Buffer) -> None:
        """Write one file (the records need no lock: zarr runs this in one thread only)."""
        await super().set(key, value)
        if shard_position(key) is not None:
            self.digests[key] = hashlib.sha256(value.as_buffer_like()).hexdigest()
            self.sizes[key] = len(value)


class CheckedStore(WrapperStore[LocalStore]):
    """One level of a store in which a shard or chunk that is not there is an error.

    Zarr itself reads fill values in its place. Checksums are left to zarr.
    """

    def __init__(self, store: LocalStore, layout: StoreLayout, level: int) -> None:
        super().__init__(store)
        self._shape = layout.level_shape(level)
        self._shard = layout.level_shards(level)
        self._chunk = layout.level_chunks(level)

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Read a file or a part of it.

        Raises
        ------
        StoreError
            If it is a shard that is missing, cut short, or lacks a chunk inside the image.
        """
        value = await super().get(key, prototype, byte_range)
        position = shard_position(key)
        if position is not None:
            fault = self._fault(position, value, byte_range)
            if fault:
                raise StoreError(broken(self._store.root, key, fault))
        return value

    def _fault(
        self, position: tuple[int, int], value: Buffer | None, byte_range: ByteRequest | None
    ) -> str | None:
        """Return what is wrong with the bytes of a shard, or None."""
        if value is None:
            return "is missing"
        if not len(value):
            return "is empty"
        if isinstance(byte_range, RangeByteRequest):
            short = len(value) != byte_range.end - byte_range.start
            return "is cut short" if short else None
        if isinstance(byte_range, SuffixByteRequest) or byte_range is None:
            return self._index_fault(position, value)
        return None

    def _index_fault(self, position: tuple[int, int], value: Buffer) -> str | None:
        """Look at the index that ends a shard: (offset, length) of each chunk, and a CRC-32C.

        Source: https://zarr-specs.readthedocs.io/en/latest/v3/codecs/sharding-indexed/index.html
        """
        rows, cols = (s // c for s, c in zip(self._shard, self._chunk, strict=True))
        size = rows * cols * 16 + 4
        if len(value) < size:
            return f"has only {len(value)} bytes"
        tail = value[len(value) - size :].to_bytes()
        offsets = np.frombuffer(tail, dtype="<u8", count=rows * cols * 2).reshape(rows, cols, 2)
        inside = tuple(
            slice(0, -(-(n - p * s) // c))  # it may end beyond the shard: a slice does not mind
            for n, p, s, c in zip(self._shape, position, self._shard, self._chunk, strict=True)
        )
        return "lacks a chunk" if (offsets[inside] == NOT_WRITTEN).any() else None


def create_levels(
    root: Path, layout: StoreLayout, fill: float
) -> tuple[HashingStore, zarr.Group, list[Array]]:
    """Create a store's documents in an empty directory.

    Chunks are compressed by Blosc (zstd 1, bit shuffle, blocks of 512 kB): the fastest of the
    settings measured within 4 % of the best ratio, integers and floats alike. With byte shuffle and
    automatic blocks uint16 fluorescence took twice as long and 5 % more space.

    Parameters
    ----------
    root
        The directory.
    layout
        Geometry and dtype.
    fill
        Value outside the image, of the layout's dtype.

    Returns
    -------
    What records the shards, the root group, and the array of each level.

    Raises
    ------
    OSError
        If the file system refuses.
    """
    store = HashingStore(LocalStore(root))
    group = zarr.create_group(store)
    blosc = BloscCodec(
        cname="zstd",
        clevel=1,
        shuffle="bitshuffle",
        blocksize=2**19,
        typesize=layout.itemsize,
    )
    arrays = [
        group.create_array(
            str(level),
            shape=layout.level_shape(level),
            dtype=layout.dtype,
            chunks=layout.level_chunks(level),
            shards=layout.level_shards(level),
            compressors=(blosc, Crc32cCodec()),
            fill_value=fill,
            dimension_names=AXES,
            config={"write_empty_chunks": True},
        )
        for level in range(layout.levels)
    ]
    return store, group, arrays


def open_level(root: Path, layout: StoreLayout, level: int) -> Array:
    """Open one level of a store for reading.

    Raises
    ------
    StoreError
        If its document is missing, damaged or not what the layout says.
    """
    store = CheckedStore(LocalStore(root, read_only=True), layout, level)
    try:
        array = zarr.open_array(store, path=str(level), mode="r", zarr_format=3)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(broken(root, f"{level}/zarr.json", "cannot be read", "file")) from error
    wanted = [f(level) for f in (layout.level_shape, layout.level_shards, layout.level_chunks)]
    if array.dtype != layout.dtype or [array.shape, array.shards, array.chunks] != wanted:
        reason = "does not fit the layout in the root's zarr.json"
        raise StoreError(broken(root, f"{level}/zarr.json", reason, "file"))
    return array
