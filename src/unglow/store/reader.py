"""Opening and reading stores; what is missing or damaged is an error, never a fill value."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.errors import StoreError
from unglow.store.layout import StoreLayout
from unglow.store.metadata import DOCUMENT, shard_key, store_digest
from unglow.store.shard import DamageError, pieces, read_chunk, read_index

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from unglow.blocks import Window


class LevelReader:
    """Windows of one pyramid level; thread-safe. Keeps the index of each shard it has touched.

    Parameters
    ----------
    root
        Directory of the store (a finished one, or one that is being built).
    layout
        Of the store.
    level
        Number of the level.
    """

    def __init__(self, root: Path, layout: StoreLayout, level: int) -> None:
        self.root = root
        self.level = level
        self.shape = layout.level_shape(level)
        self.shard = layout.level_shards(level)
        self.chunk = layout.level_chunks(level)
        self.dtype = np.dtype(layout.dtype)
        self._indexes: dict[tuple[int, int], NDArray[Any]] = {}

    def read(self, window: Window) -> NDArray[Any]:
        """Return the pixels of ``window``, which lies inside the level, in the stored dtype.

        Raises
        ------
        ValueError
            If the window leaves the level.
        StoreError
            If a shard is missing, empty or damaged.
        """
        if window.clip(self.shape) != window:
            raise ValueError(f"{window} leaves level {self.level} of shape {self.shape}")
        out = np.empty(window.shape, dtype=self.dtype)
        for position, part in pieces(window, self.shard):
            self._read_shard(position, part, out[part.shift(-window.y0, -window.x0).slices])
        return out

    def check(self, position: tuple[int, int], window: Window) -> None:
        """Decode the chunks of one shard and drop them; raises like `read`."""
        for _ in self._chunks(position, window):
            pass

    def _read_shard(self, position: tuple[int, int], part: Window, out: NDArray[Any]) -> None:
        for piece, inner, pixels in self._chunks(position, part):
            out[piece.shift(-part.y0, -part.x0).slices] = pixels[inner.slices]

    def _chunks(
        self, position: tuple[int, int], part: Window
    ) -> Iterator[tuple[Window, Window, NDArray[Any]]]:
        """Yield (overlap in the level, overlap in the chunk, chunk) of the part of one shard."""
        key = shard_key(self.level, *position)
        try:
            descriptor = os.open(self.root / key, os.O_RDONLY)
        except OSError as error:
            raise StoreError(broken(self.root, key, _reason(error))) from error
        try:
            index = self._indexes.get(position)
            if index is None:
                index = read_index(descriptor, self.shard, self.chunk)
                self._indexes[position] = index
            for (row, col), piece in pieces(part, self.chunk):
                within = row % index.shape[0], col % index.shape[1]
                pixels = read_chunk(descriptor, index[within], self.chunk, self.dtype)
                yield piece, piece.shift(-row * self.chunk[0], -col * self.chunk[1]), pixels
        except (DamageError, OSError) as error:
            raise StoreError(broken(self.root, key, _reason(error))) from error
        finally:
            os.close(descriptor)


class Store:
    """A finished store, read window by window; implements `unglow.blocks.Pixels`.

    Made by `open_store`. Thread-safe.
    """

    def __init__(self, path: Path, document: dict[str, Any]) -> None:
        self.path = path
        self.attributes: dict[str, Any] = document["attributes"]["unglow"]
        """What was written along: parameters, fingerprints, ``layout``, ``digest``."""
        self.layout = StoreLayout.from_dict(self.attributes["layout"])
        self.digest: str = self.attributes["digest"]
        """SHA-256 over all shards."""
        self.empty: str | None = self.attributes.get("empty")
        """Why the store has no pixels; None if it has."""
        multiscale = document["attributes"]["ome"]["multiscales"][0]
        self.name: str = multiscale["name"]
        size_y, size_x = multiscale["datasets"][0]["coordinateTransformations"][0]["scale"]
        known = "unit" in multiscale["axes"][0]
        self.pixel_size_um: tuple[float, float] | None = (size_x, size_y) if known else None
        """(x, y) in micrometres; None if unknown."""
        self._readers = [LevelReader(path, self.layout, k) for k in range(self.layout.levels)]

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

    def read(self, window: Window, level: int = 0) -> NDArray[Any]:
        """Return the pixels of a window that lies inside the level, in the stored dtype.

        Raises
        ------
        StoreError
            If the store is marked empty, or a shard of it is missing, empty or damaged.
        ValueError
            If the window leaves the level.
        """
        if self.empty is not None:
            raise StoreError(f"{self.path} holds no pixels: {self.empty}")
        return self._readers[level].read(window)


def open_store(path: Path | str) -> Store:
    """Open a finished store and check that each of its shard files is there and not empty.

    Raises
    ------
    StoreError
        If there is no finished store, if it is not unglow's, or if a shard is missing or empty.
    """
    path = Path(path)
    store = _open_document(path)
    if store.empty is None:
        for level in range(store.levels):
            sizes = _shard_sizes(path, level)
            for key, _ in _shards(store.layout, level):
                if not sizes.get(key):
                    reason = "is empty" if key in sizes else "is missing"
                    raise StoreError(broken(path, key, reason))
    return store


def _open_document(path: Path) -> Store:
    try:
        document = json.loads((path / DOCUMENT).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise StoreError(
            f"{path} is not a finished store: {DOCUMENT} is missing; rerun the workflow to make it"
        ) from error
    except (OSError, ValueError) as error:
        raise StoreError(f"{path / DOCUMENT} cannot be read ({error}); {_remedy(path)}") from error
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
        message = f"{path}: its shards cannot be listed ({error.strerror}); {_remedy(path)}"
        raise StoreError(message) from error
    return sizes


def verify(path: Path | str) -> list[str]:
    """Read a whole store and compare it with its digest.

    Returns
    -------
    One sentence for each shard that is missing or damaged, and one if the pixels are not those that
    were published; empty if all is well.

    Raises
    ------
    StoreError
        If there is no finished store of unglow's at ``path``.
    """
    path = Path(path)
    store = _open_document(path)
    problems: list[str] = []
    digests: dict[str, str] = {}
    for level in range(store.levels if store.empty is None else 0):
        rows, cols = store.layout.level_shards(level)
        reader = LevelReader(path, store.layout, level)
        for key, window in _shards(store.layout, level):
            try:
                reader.check((window.y0 // rows, window.x0 // cols), window)
                with (path / key).open("rb") as file:
                    digests[key] = hashlib.file_digest(file, "sha256").hexdigest()
            except StoreError as error:
                problems.append(str(error))
    if not problems and store_digest(digests) != store.digest:
        problems.append(
            f"{path}: every shard is sound but they are not the ones that were published "
            f"(the digest differs); {_remedy(path)}"
        )
    return problems


def broken(path: Path, key: str, reason: str) -> str:
    """Return the sentence for a shard that cannot be used."""
    return f"{path}: shard {key} {reason}; {_remedy(path)}"


def _remedy(path: Path) -> str:
    return f"delete {path / DOCUMENT} and rerun the workflow to make the store again"


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "is missing"
    if isinstance(error, OSError):
        return f"cannot be read ({error.strerror})"
    return str(error)
