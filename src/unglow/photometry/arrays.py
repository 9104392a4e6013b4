"""Images of results as zarr arrays: those of stores, and differences that are computed as read."""

from __future__ import annotations

import json
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.errors import StoreError
from unglow.core.windows import Window
from unglow.images.zarr import Store
from unglow.images.zarr.layout import DOCUMENT, check_level, make_unsharded_document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zarr import Array
    from zarr.abc.buffer import Buffer

    from unglow.photometry.difference import Difference, Image


def as_arrays(image: Image) -> list[Array[Any]]:
    """Return the levels of an image as zarr arrays (rows, columns), the full resolution first.

    StoreError if it has no pixels, or a document is damaged.
    """
    import zarr  # heavy, and of no use to jobs
    from zarr.storage import MemoryStore

    if image.empty is not None:
        raise StoreError(f"{image.path} holds no pixels: {image.empty}")
    arrays = []
    for level in range(image.levels):
        if isinstance(image, Store):
            check_level(image.path, image.layout, level)
            source: Any = image.path / str(level)
        else:
            source = MemoryStore(_ComputedFiles(image, level), read_only=True)
        arrays.append(zarr.open_array(source, mode="r"))
    return arrays


class _ComputedFiles(MutableMapping[str, "Buffer"]):
    """Files of a level of a difference, chunks without compression: what zarr reads in memory."""

    def __init__(self, image: Difference, level: int) -> None:
        self._image, self._level = image, level
        document = make_unsharded_document(image.layout, level)
        little = {"name": "bytes", "configuration": {"endian": "little"}}
        self._document = json.dumps({**document, "codecs": [little]}).encode()

    def __getitem__(self, key: str) -> Buffer:
        from zarr.buffer.cpu import Buffer

        if key == DOCUMENT:
            return Buffer.from_bytes(self._document)
        if not key.startswith("c/"):
            raise KeyError(key)
        (row, col), (rows, cols) = map(int, key.split("/")[1:]), self._image.layout.chunks
        chunk = np.full((rows, cols), np.nan, "<f4")
        window = Window(row * rows, (row + 1) * rows, col * cols, (col + 1) * cols)
        inside = window.clip(self._image.level_shape(self._level))
        chunk[: inside.shape[0], : inside.shape[1]] = self._image.read(inside, self._level)
        return Buffer.from_bytes(chunk.tobytes())

    def __setitem__(self, key: str, _: Buffer) -> None:
        raise TypeError(f"{key} is computed")

    __delitem__ = __setitem__  # type: ignore[assignment]

    def __iter__(self) -> Iterator[str]:
        return iter([DOCUMENT])

    def __len__(self) -> int:
        return 1
