"""What the viewer keeps: opened stores, and chunks that were computed last."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeAlias

from unglow.core.errors import StoreError
from unglow.io.zarr import open_store
from unglow.io.zarr.layout import DOCUMENT

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from pathlib import Path

    from unglow.io.zarr import Store

    Waiting: TypeAlias = Future[bytes]
    Work: TypeAlias = SimpleQueue[Callable[[], None] | None]


_KEPT = 64
# unglow writes chunks of 512 px and shards of 2048; what has far larger ones needs memory for them.
_LARGEST_CHUNK, _LARGEST_SHARD = 2048, 1 << 16


class OpenedStores:
    """Stores by path, opened again when their root document has changed; thread-safe."""

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


_KEPT_BYTES = 64_000_000


class UnwantedError(Exception):
    """Nobody waits any more for what was to be computed."""


class ChunkMemory:
    """Keeps chunks, and computes each one that is asked for once; thread-safe.

    They are computed one after the other, in a thread of its own: a server takes one core, and what
    the allocator keeps for a thread is kept once and not for every connection.

    Parameters
    ----------
    kept_bytes
        So many bytes are kept at most, of those that were asked for last.
    """

    def __init__(self, kept_bytes: int = _KEPT_BYTES) -> None:
        self._space = kept_bytes
        self._chunks: OrderedDict[Hashable, bytes] = OrderedDict()
        self._waiting: dict[Hashable, Waiting] = {}
        self._lock = threading.Lock()
        self._work: Work = SimpleQueue()
        # a pool of threads would end only when all that waits has been computed
        threading.Thread(target=_work_off, args=(self._work,), daemon=True).start()
        weakref.finalize(self, self._work.put, None)

    def get(self, key: Hashable, make: Callable[[], bytes], wanted: Callable[[], bool]) -> bytes:
        """Return a chunk, computed if it is not kept.

        Parameters
        ----------
        key
            What the chunk follows from.
        make
            Computes it.
        wanted
            Whether somebody still waits for it: it is asked when its turn has come.

        Raises
        ------
        UnwantedError
            Nobody does.
        """
        while True:
            with self._lock:
                if key in self._chunks:
                    self._chunks.move_to_end(key)
                    return self._chunks[key]
                mine = key not in self._waiting
                if mine:
                    self._waiting[key] = Future()
                    self._work.put(partial(self._make, key, make, wanted))
                waiting = self._waiting[key]
            try:
                return waiting.result()
            except UnwantedError:  # by the one who asked first
                if mine:
                    raise

    def _make(self, key: Hashable, make: Callable[[], bytes], wanted: Callable[[], bool]) -> None:
        content, error = b"", None
        try:
            if not wanted():
                raise UnwantedError  # noqa: TRY301 - caught like an error of make
            content = make()
        except Exception as raised:  # noqa: BLE001 (whoever waits gets it)
            error = raised
        with self._lock:
            waiting = self._waiting.pop(key)
            if error is None:
                self._keep(key, content)
        if error is None:
            waiting.set_result(content)
        else:
            waiting.set_exception(error)

    def _keep(self, key: Hashable, content: bytes) -> None:
        self._chunks[key] = content
        self._space -= len(content)
        while self._space < 0:
            _, dropped = self._chunks.popitem(last=False)
            self._space += len(dropped)


def _work_off(work: Work) -> None:
    while (task := work.get()) is not None:
        task()
