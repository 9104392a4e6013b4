"""Registration of two stores, one of which may be marked empty because its image was refused."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.windows import Window, cells
from unglow.registration.register import UserHints, register
from unglow.registration.shared_map import SharedMap, take_over
from unglow.registration.user_hints import check_hints
from unglow.registration.verdict import judged, magnified, rejected
from unglow.transform import load
from unglow.transform.initial_matrix import read_initial
from unglow.transform.landmarks import read_landmarks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from unglow.io.zarr import Store
    from unglow.registration.settings import RegisterSettings
    from unglow.registration.verdict import Registration

KEPT_MB = 12.0
"""Decoded chunks that are kept of each store, MB."""


def read_hints(post: Store, pre: Store, files: Mapping[str, Any]) -> UserHints | None:
    """Read what a user says about the map of a pair; None if nothing.

    ``files`` has lists of files: ``landmarks`` (one or two), ``initial`` (one), or neither.

    Raises
    ------
    InputError
        A file cannot be used.
    """
    landmarks, initial = ([Path(p) for p in files.get(k, ())] for k in ("landmarks", "initial"))
    if not landmarks and not initial:
        return None
    return UserHints(
        read_landmarks(landmarks, post, pre) if landmarks else None,
        read_initial(initial[0], post, pre) if initial else None,
    )


def read_shared_map(dye: str | None, files: Mapping[str, Any]) -> SharedMap | None:
    """Read the map of another dye; None if ``dye`` is, since the pair registers itself.

    ``files`` has ``source``: ``transform.json`` first.

    Raises
    ------
    InputError
        The map cannot be read.
    """
    return None if dye is None else SharedMap(dye, load(files["source"][0]))


def register_stores(
    post: Store,
    pre: Store,
    settings: RegisterSettings,
    *,
    workers: int,
    hints: UserHints | None = None,
    shared: SharedMap | None = None,
) -> Registration:
    """Register two stores, or take over a shared map.

    The reason of an empty store becomes the reason of the refusal.
    """
    reasons = list(dict.fromkeys(s.empty for s in (post, pre) if s.empty is not None))
    if reasons:
        return rejected(post.shape, pre.shape, reasons)
    images = KeptChunks(post), KeptChunks(pre)
    if shared is None:
        found = register(*images, settings, workers=workers, hints=hints)
    else:
        found = take_over(*images, shared, settings, workers=workers)
        if hints is not None and not found.transform.failed:
            found = replace(found, transform=check_hints(found.transform, hints, settings))
    sizes = magnified(post.pixel_size_um, pre.pixel_size_um, settings)
    if sizes is None or not found.transform.failed:
        return found
    return replace(found, transform=judged(found.transform, [sizes]))


class KeptChunks:
    """A store as `unglow.core.windows.Pixels` that keeps the chunks that it decoded last.

    Sample blocks are smaller than chunks and overlap several of them: without this each chunk would
    be decoded about five times. Thread-safe.

    Parameters
    ----------
    store
        The store.
    kept_mb
        Chunks to keep, MB.
    """

    def __init__(self, store: Store, kept_mb: float = KEPT_MB) -> None:
        self._store = store
        self._room = int(kept_mb * 1e6)
        self._chunks: OrderedDict[tuple[int, int, int], NDArray[Any]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of level 0."""
        return self._store.shape

    @property
    def levels(self) -> int:
        """Number of pyramid levels."""
        return self._store.levels

    def level_shape(self, level: int) -> tuple[int, int]:
        """Rows and columns of a level."""
        return self._store.level_shape(level)

    def read(self, window: Window, level: int = 0) -> NDArray[Any]:
        """Pixels of a window that lies inside the level; large ones are read directly."""
        height, width = self._store.layout.level_chunks(level)
        if window.size > 4 * height * width:
            return self._store.read(window, level)
        out = np.empty(window.shape, self._store.dtype)
        for (row, col), part in cells(window, (height, width)):
            top, left = row * height, col * width
            chunk = Window(top, top + height, left, left + width).clip(self.level_shape(level))
            target = part.shift(-window.y0, -window.x0).slices
            out[target] = self._chunk(level, row, col, chunk)[part.shift(-top, -left).slices]
        return out

    def _chunk(self, level: int, row: int, col: int, window: Window) -> NDArray[Any]:
        key = level, row, col
        with self._lock:
            found = self._chunks.get(key)
            if found is not None:
                self._chunks.move_to_end(key)
                return found
        chunk = self._store.read(window, level)  # two threads may read the same one: no harm
        with self._lock:
            if key not in self._chunks:
                self._chunks[key] = chunk
                self._bytes += chunk.nbytes
            while self._bytes > self._room and len(self._chunks) > 1:
                self._bytes -= self._chunks.popitem(last=False)[1].nbytes
        return chunk
