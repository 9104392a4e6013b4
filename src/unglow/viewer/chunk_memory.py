"""Chunks that were computed last, and the thread in which others are computed."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    Waiting: TypeAlias = Future[bytes]
    Work: TypeAlias = SimpleQueue[Callable[[], None] | None]

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
        self._room = kept_bytes
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
            content = _if_wanted(make, wanted)
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
        self._room -= len(content)
        while self._room < 0:
            _, dropped = self._chunks.popitem(last=False)
            self._room += len(dropped)


def _if_wanted(make: Callable[[], bytes], wanted: Callable[[], bool]) -> bytes:
    if not wanted():
        raise UnwantedError
    return make()


def _work_off(work: Work) -> None:
    while (task := work.get()) is not None:
        task()
