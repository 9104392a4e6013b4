"""Building a store in a hidden sibling directory and publishing it whole."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from unglow import publishing
from unglow.blocks import Window, bounded_map
from unglow.errors import StoreError
from unglow.store.metadata import (
    DOCUMENT,
    display_window,
    group_attributes,
    store_digest,
)
from unglow.store.pyramid import STRIP, halve_stored
from unglow.store.reader import LevelReader
from unglow.telemetry import progress, step

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType

    import zarr
    from numpy.typing import NDArray

    from unglow.store.arrays import Array, HashingStore
    from unglow.store.layout import StoreLayout

log = logging.getLogger(__name__)

OVERVIEW = 1024
"""Largest side of the part of the coarsest level that sets the display range, px."""


class StoreWriter:
    """Write one image as an OME-Zarr 0.5 store that appears only when it is whole.

    Use as a context manager: `write` every window of `windows` once, in any order and from any
    thread, then `publish`. If the block ends in any other way, nothing is left behind and whatever
    had the final name is untouched. The same pixels and arguments give the same bytes.

    Parameters
    ----------
    path
        Final directory. It may exist: an old store, or a directory that Snakemake made.
    layout
        Geometry and dtype.
    name
        Shown by viewers.
    pixel_size_um
        (x, y) in micrometres, or None if unknown.
    attributes
        JSON types, for the ``unglow`` attribute of the root.
    fill_value
        Value outside the image; NaN for images with pixels that have no data.
    workers
        Coarse shards that `publish` builds at a time.

    Raises
    ------
    ValueError
        If the dtype has no such fill value.
    StoreError
        On entering, if the file system refuses.
    """

    def __init__(
        self,
        path: Path | str,
        layout: StoreLayout,
        *,
        name: str,
        pixel_size_um: tuple[float, float] | None,
        attributes: Mapping[str, Any],
        fill_value: float,
        workers: int = 1,
    ) -> None:
        self.path = Path(path)
        self.layout = layout
        self._name = name
        if pixel_size_um is not None:
            pixel_size_um = float(pixel_size_um[0]), float(pixel_size_um[1])
        self._pixel_size_um = pixel_size_um
        self._attributes = dict(attributes)
        self._workers = workers
        self._dtype = np.dtype(layout.dtype)
        with np.errstate(invalid="ignore", over="ignore"):
            cast = np.array(fill_value).astype(self._dtype).item()
        if np.issubdtype(self._dtype, np.integer) and cast != fill_value:
            raise ValueError(f"a {layout.dtype} store cannot hold the fill value {fill_value}")
        self._fill: float = cast
        self._partial = self._sibling("partial")
        self._pending: set[Window] = set()
        self._store: HashingStore
        self._group: zarr.Group
        self._arrays: list[Array]
        self._shards = self._written = 0
        self._lock = threading.Lock()

    @step("create store")
    def __enter__(self) -> Self:
        from unglow.store.arrays import create_levels  # noqa: PLC0415 (imports zarr: 0.2 s)

        try:
            self._partial.mkdir(parents=True)
            created = create_levels(self._partial, self.layout, self._fill)
        except OSError as error:
            self._remove(self._partial)
            raise self._failure(error) from error
        self._store, self._group, self._arrays = created
        self._pending = set(self.layout.windows())
        self._shards, self._written = len(self._pending), 0
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._remove(self._partial)

    def windows(self) -> Iterator[Window]:
        """Yield the level-0 shards in row order, cut at the edges of the image."""
        return self.layout.windows()

    def write(self, window: Window, block: NDArray[Any]) -> None:
        """Write one level-0 shard and the shards of the fine levels below it; thread-safe.

        Parameters
        ----------
        window
            One of `windows`.
        block
            Its pixels, (rows, cols) of the layout's dtype; not changed.

        Raises
        ------
        ValueError
            If the window is not a shard, was written before, or the block does not fit it.
        StoreError
            If the file system refuses.
        """
        if block.shape != window.shape or block.dtype != self._dtype:
            raise ValueError(
                f"a block of shape {block.shape} and dtype {block.dtype} does not fit {window} of "
                f"a {self._dtype} store"
            )
        with self._lock:
            if window not in self._pending:
                raise ValueError(f"{window} is not a shard of {self.path}, or was written before")
            self._pending.remove(window)
        self._write_shard(0, window.y0, window.x0, block)
        for level in range(1, self.layout.fine_levels + 1):
            block = halve_stored(block)
            if not block.size:  # the image ends within one pixel of the next level
                break
            self._write_shard(level, window.y0 >> level, window.x0 >> level, block)
        with self._lock:
            self._written += 1
            done = self._written
        progress(done, self._shards)

    def publish(self, extra_attributes: Mapping[str, Any] | None = None) -> str:
        """Build the coarse levels and put the store in place; returns its digest.

        Parameters
        ----------
        extra_attributes
            Added to the ``unglow`` attributes: what is known only after the last pixel.

        Raises
        ------
        ValueError
            If a shard was not written, or an attribute is not JSON.
        StoreError
            If the file system refuses.
        SupersededError
            If a later attempt at the same job has begun.
        """
        if self._pending:
            raise ValueError(f"{self.path}: {min(self._pending)} was not written")
        with step("pyramid"):
            for level in range(self.layout.fine_levels + 1, self.layout.levels):
                self._build_level(level)
        digest = store_digest(self._store.digests)
        coarsest = self.layout.levels - 1
        reader = LevelReader(self._partial, self.layout, coarsest)
        middle = _middle(self.layout.level_shape(coarsest))
        attributes = {
            **self._attributes,
            **(extra_attributes or {}),
            "digest": digest,
            "stored_bytes": sum(self._store.sizes.values()),
        }
        self._put_in_place(attributes, reader.read(middle))
        return digest

    def publish_empty(self, reason: str) -> None:
        """Put a store without pixels in place, marked by the attribute ``empty``.

        Parameters
        ----------
        reason
            One sentence: why there are no pixels.
        """
        for level in range(self.layout.levels):
            self._remove(self._partial / str(level) / "c")
        marks = {"empty": reason, "digest": store_digest({}), "stored_bytes": 0}
        self._put_in_place({**self._attributes, **marks}, None)

    def _write_shard(self, level: int, y0: int, x0: int, block: NDArray[Any]) -> None:
        rows, cols = block.shape
        try:
            self._arrays[level][y0 : y0 + rows, x0 : x0 + cols] = block
        except OSError as error:
            raise self._failure(error) from error

    def _build_level(self, level: int) -> None:
        """Build a coarse level from the one before, a strip of source rows at a time."""
        source = LevelReader(self._partial, self.layout, level - 1)

        def build(window: Window) -> None:
            block = np.empty(window.shape, dtype=self._dtype)
            for top in range(window.y0, window.y1, STRIP):
                end = min(top + STRIP, window.y1)
                strip = source.read(Window(2 * top, 2 * end, 2 * window.x0, 2 * window.x1))
                block[top - window.y0 : end - window.y0] = halve_stored(strip)
            self._write_shard(level, window.y0, window.x0, block)

        for _ in bounded_map(build, self.layout.windows(level), self._workers):
            pass

    @step("publish")
    def _put_in_place(self, attributes: Mapping[str, Any], overview: NDArray[Any] | None) -> None:
        document = group_attributes(
            self.layout,
            name=self._name,
            pixel_size_um=self._pixel_size_um,
            window=display_window(overview, self.layout.dtype),
            attributes={**attributes, "layout": self.layout.to_dict()},
        )
        old = self._sibling("old")
        try:
            self._group.update_attributes(document)
            for path in (*self._partial.glob(f"*/{DOCUMENT}"), self._partial / DOCUMENT):
                _sync(path)
            publishing.ask()
            replaced = os.path.lexists(self.path)
            if replaced:
                self.path.rename(old)
            try:
                self._partial.rename(self.path)
            except OSError:
                if replaced:
                    old.rename(self.path)
                raise
            _sync(self.path.parent)
        except OSError as error:
            raise self._failure(error) from error
        self._remove(old)

    def _sibling(self, kind: str) -> Path:
        """Return a hidden name beside the store that no other process uses."""
        return self.path.with_name(f".{self.path.name}.{secrets.token_hex(6)}.{kind}")

    def _failure(self, error: OSError) -> StoreError:
        return StoreError(
            f"{self.path} could not be written ({error.strerror or error}); see that its file "
            "system has free space and may be written, then rerun the workflow"
        )

    @staticmethod
    def _remove(path: Path) -> None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()
        if os.path.lexists(path):
            log.warning("%s could not be removed; `unglow clean` removes it later", path)


def _middle(shape: tuple[int, int]) -> Window:
    """Return the middle of a level, at most `OVERVIEW` px per side."""
    (y0, height), (x0, width) = ((max(0, n - OVERVIEW) // 2, min(n, OVERVIEW)) for n in shape)
    return Window(y0, y0 + height, x0, x0 + width)


def _sync(path: Path) -> None:
    """Wait until a file, or the names in a directory, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
