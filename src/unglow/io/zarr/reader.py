"""Reader of stores; a missing or damaged chunk is an error, never a fill value."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.digests import hash_file
from unglow.core.errors import StoreError
from unglow.core.files import read_json
from unglow.core.windows import SamePixels, Window, cells
from unglow.io.stored_values import NotStored
from unglow.io.zarr.layout import CHUNK, StoreLayout
from unglow.io.zarr.metadata import DOCUMENT, broken, check_level, remedy, shard_key, store_digest
from unglow.io.zarr.shards import load_blosc, read_window

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from unglow.core.windows import Pixels


class Store:
    """A finished store, read window by window; implements `unglow.core.windows.Pixels`.

    Made by `open_store`. Thread-safe.
    """

    def __init__(self, path: Path, document: dict[str, Any]) -> None:
        self.path = path
        self.attributes: dict[str, Any] = document["attributes"]["unglow"]
        """What was written along: parameters, fingerprints, ``layout``, ``digest``."""
        self.layout = StoreLayout.from_dict(self.attributes["layout"])
        NotStored.from_attributes(self.attributes)  # refused here if it is damaged
        self.digest: str = self.attributes["digest"]
        """SHA-256 over all shards."""
        self.empty: str | None = self.attributes.get("empty")
        """Why the store has no pixels; None if it has."""
        multiscale = document["attributes"]["ome"]["multiscales"][0]
        self.name: str = multiscale["name"]
        size_y, size_x = multiscale["datasets"][0]["coordinateTransformations"][0]["scale"]
        in_um = "unit" in multiscale["axes"][0]
        self.pixel_size_um: tuple[float, float] | None = (size_x, size_y) if in_um else None
        """(x, y) in micrometres; None if unknown."""
        self._checked: set[int] = set()

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of level 0."""
        return self.layout.shape

    @property
    def levels(self) -> int:
        """Number of pyramid levels, level 0 included."""
        return self.layout.levels

    @property
    def dtype(self) -> np.dtype[Any]:
        """Pixel type."""
        return np.dtype(self.layout.dtype)

    def level_shape(self, level: int) -> tuple[int, int]:
        """Rows and columns of a level."""
        return self.layout.level_shape(level)

    def read(self, window: Window, level: int = 0, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return the pixels of a window that is inside the level, in the stored dtype.

        Or put them into ``out``, ``window.shape`` of a dtype that they can be cast to.

        Raises
        ------
        StoreError
            If the store is marked empty, or a shard of it is missing, empty or damaged.
        ValueError
            If the window leaves the level.
        """
        if self.empty is not None:
            raise StoreError(f"{self.path} holds no pixels: {self.empty}")
        if level not in self._checked:
            check_level(self.path, self.layout, level)
            self._checked.add(level)
        return read_window(self.path, self.layout, level, window, out)


def open_store(path: Path | str) -> Store:
    """Open a finished store and check, without reading them, that its shard files are complete.

    Each must be there and not empty, and together they must have the size that was written.

    Raises
    ------
    StoreError
        If there is no finished store, if it is not unglow's, or if a shard is missing, empty or cut
        short.
    """
    path = Path(path)
    store = _open_document(path)
    load_blosc()
    if store.empty is None:
        total = 0
        for level in range(store.levels):
            sizes = _shard_sizes(path, level)
            for key, _ in _shards(store.layout, level):
                if not sizes.get(key):
                    reason = "is empty" if key in sizes else "is missing"
                    raise StoreError(broken(path, key, reason))
                total += sizes[key]
        written = store.attributes.get("stored_bytes", total)
        if total != written:
            _find_cut_shard(store)
            message = f"its shards have {total} bytes in all where {written} were written"
            raise StoreError(f"{path}: {message}; {remedy(path)}")
    return store


def _find_cut_shard(store: Store) -> None:
    """Read one pixel of each shard: what was cut short has lost the index at its end."""
    for level in range(store.levels):
        for _, window in _shards(store.layout, level):
            y, x = window.y0, window.x0
            store.read(Window(y, y + 1, x, x + 1), level)


def _open_document(path: Path) -> Store:
    try:
        document = read_json(path / DOCUMENT)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise StoreError(
            f"{path} is not a finished store: {DOCUMENT} is missing; rerun the workflow to make it"
        ) from error
    except (OSError, ValueError) as error:
        raise StoreError(f"{path / DOCUMENT} cannot be read ({error}); {remedy(path)}") from error
    try:
        return Store(path, document)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise StoreError(
            f"{path} is not a store that unglow wrote, or its {DOCUMENT} was edited; give a store "
            "from unglow's results, or import the image as TIFF"
        ) from error


def _shards(layout: StoreLayout, level: int) -> Iterator[tuple[str, Window]]:
    rows, cols = layout.level_shards(level)
    for window in layout.windows(level):
        yield shard_key(level, window.y0 // rows, window.x0 // cols), window


def _shard_sizes(path: Path, level: int) -> dict[str, int]:
    """Size in bytes of every shard file of a level, from directory listings alone."""
    sizes: dict[str, int] = {}
    try:
        with os.scandir(path / str(level) / "c") as rows:
            for row in (entry for entry in rows if entry.is_dir()):
                with os.scandir(row) as files:
                    for file in files:
                        sizes[f"{level}/c/{row.name}/{file.name}"] = file.stat().st_size
    except FileNotFoundError:
        pass  # the caller names the first shard that is not there
    except OSError as error:
        message = f"{path}: its shards cannot be listed ({error.strerror}); {remedy(path)}"
        raise StoreError(message) from error
    return sizes


def verify(path: Path | str) -> list[str]:
    """Read a complete store and compare it with its digest.

    Returns
    -------
    One sentence for each file that is missing or damaged, or one if the pixels are not those that
    were published; empty if all is well.

    Raises
    ------
    StoreError
        If there is no finished store of unglow's at ``path``.
    """
    path = Path(path)
    store = _open_document(path)
    layout = store.layout
    problems: list[str] = []
    levels = list(range(store.levels if store.empty is None else 0))
    shards = {level: list(_shards(layout, level)) for level in levels}
    for level in levels.copy():
        try:
            check_level(path, layout, level)
        except StoreError as error:
            problems.append(str(error))
            levels.remove(level)
    if _digest(path, [key for level in shards.values() for key, _ in level]) == store.digest:
        return problems
    for level in levels:
        for _, window in shards[level]:
            try:
                store.read(window, level)
            except StoreError as error:
                problems.append(str(error))
    if not problems:
        problems.append(
            f"{path}: every shard is sound but they are not the ones that were published "
            f"(the digest differs); {remedy(path)}"
        )
    return problems


def _digest(path: Path, keys: list[str]) -> str | None:
    """Digest of the shards as they are now; None if one cannot be read."""
    digests: dict[str, str] = {}
    try:
        for key in keys:
            digests[key] = hash_file(path / key)
    except OSError:
        return None
    return store_digest(digests)


_LARGE = 4
"""Windows of more px than this many chunks have are of no use to the windows after them."""


class ChunkCache(SamePixels):
    """An image, as `unglow.core.windows.Pixels`, that keeps the chunks that were read last.

    Windows that are smaller than chunks and overlap several of them, as blocks of registration do,
    would have each chunk decoded about five times. Thread-safe.

    Parameters
    ----------
    image
        The image.
    kept
        Chunks that are kept.
    side
        Of a chunk, px.
    """

    def __init__(self, image: Pixels, kept: int, side: int = CHUNK) -> None:
        super().__init__(image)
        self._side = side
        self._chunk = lru_cache(kept)(image.read)  # two threads may read the same one: no harm

    def read(self, window: Window, level: int = 0) -> NDArray[Any]:
        """Pixels of a window inside the level; large ones are read directly, and not kept."""
        side = self._side
        if window.size > _LARGE * side * side:
            return self._image.read(window, level)
        out: NDArray[Any] | None = None
        for (row, col), part in cells(window, (side, side)):
            top, left = row * side, col * side
            extent = Window(top, top + side, left, left + side).clip(self.level_shape(level))
            chunk = self._chunk(extent, level)
            if out is None:
                out = np.empty(window.shape, chunk.dtype)
            target = part.shift(-window.y0, -window.x0).slices
            out[target] = chunk[part.shift(-top, -left).slices]
        return self._image.read(window, level) if out is None else out
