"""Stores that are kept open, so that not every tile has their shards listed."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from unglow.core.errors import StoreError
from unglow.io.zarr import open_store
from unglow.io.zarr.metadata import DOCUMENT

if TYPE_CHECKING:
    from pathlib import Path

    from unglow.io.zarr import Store

_KEPT = 64
# unglow writes chunks of 512 px and shards of 2048; what has far larger ones needs memory for them.
_LARGEST_CHUNK, _LARGEST_SHARD = 2048, 1 << 16


class OpenedStores:
    """Stores by path, opened anew when their root document has changed; thread-safe."""

    def __init__(self) -> None:
        self._opened: OrderedDict[Path, tuple[tuple[int, ...], Store]] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, path: Path) -> Store:
        """Return an opened store; errors are those of `open_store`, or it has huge chunks."""
        state = _state(path / DOCUMENT)
        with self._lock:
            found = self._opened.get(path)
            if found is not None and found[0] == state:
                self._opened.move_to_end(path)
                return found[1]
        store = open_store(path)
        _check_sizes(store)
        with self._lock:
            self._opened[path] = state, store
            self._opened.move_to_end(path)
            while len(self._opened) > _KEPT:
                self._opened.popitem(last=False)
        return store


def _state(document: Path) -> tuple[int, ...]:
    try:
        found = document.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino


def _check_sizes(store: Store) -> None:
    chunks, shards = store.layout.chunks, store.layout.shards
    if max(chunks) > _LARGEST_CHUNK or max(shards) > _LARGEST_SHARD:
        raise StoreError(
            f"{store.path} has chunks of {chunks} px and shards of {shards} px, larger than any "
            "that unglow writes; run the workflow to make the store again"
        )
