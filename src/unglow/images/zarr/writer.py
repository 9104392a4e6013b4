"""Writer of a store, which is built in a hidden sibling directory and published complete.

`StageStore` is a store that a stage makes, with what is counted while its pixels are written.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import secrets
import shutil
import threading
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from unglow.core.errors import StoreError
from unglow.core.files import name_unwritten, publish, read_file
from unglow.core.progress import count_transfer, progress, step
from unglow.core.records import to_plain
from unglow.core.windows import HALVED_ROWS, Window, halve_stored, map_bounded
from unglow.images.zarr.layout import (
    DOCUMENT,
    display_window,
    make_level_document,
    make_root_document,
    shard_key,
    store_digest,
    write_document,
)
from unglow.images.zarr.shards import encode_shard, read_window

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

    from unglow.core.arrays import Array
    from unglow.images.zarr.layout import StoreLayout


OVERVIEW = 1024
"""Largest side of the part of the coarsest level that sets the display range, px. Only of images
with one short side that level is larger."""


log = logging.getLogger(__name__)


class StoreWriter:
    """Writer of one image as an OME-Zarr 0.5 store that appears only when it is complete.

    It is built in a hidden sibling that no other process uses.

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
    workers
        Coarse shards that `publish` builds at a time.
    whole
        The store that this one becomes a part of: errors name it, and shards are not what the
        progress of the job is counted in. None for a store of its own.

    Raises
    ------
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
        workers: int = 1,
        whole: Path | None = None,
    ) -> None:
        self.path = Path(path)
        self.layout = layout
        self._dtype = np.dtype(layout.dtype)
        self._partial = self._name_sibling("partial")
        self._pending: set[Window] = set()
        self.shards: dict[str, tuple[str, int]] = {}
        """Key of each shard that was written to the SHA-256 of its file and its size, bytes."""
        self._count = self._written = 0
        self._lock = threading.Lock()
        self._whole = whole
        self._name = name
        if pixel_size_um is not None:
            pixel_size_um = float(pixel_size_um[0]), float(pixel_size_um[1])
        self._pixel_size_um = pixel_size_um
        self._attributes = dict(attributes)
        self._workers = workers

    @step("create store")
    def __enter__(self) -> Self:
        try:
            with self._name_unwritten():
                self._partial.mkdir(parents=True)
                for level in range(self.layout.levels):
                    document = make_level_document(self.layout, level)
                    write_document(self._partial / str(level), document)
        except StoreError:
            self._remove(self._partial)
            raise
        self._pending = set(self.windows())
        self._count, self._written = len(self._pending), 0
        return self

    def __exit__(self, *_: object) -> None:
        self._remove(self._partial)

    def windows(self) -> Iterator[Window]:
        """Yield the level-0 shards in row order, cut at the edges of the image."""
        return self.layout.windows()

    def write(self, window: Window, block: Array) -> None:
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
        if self._whole is None:
            progress(done, self._count, "shard")

    def _write_shard(self, level: int, y0: int, x0: int, block: Array) -> None:
        height, width = self.layout.level_shards(level)
        key = shard_key(level, y0 // height, x0 // width)
        content = encode_shard(block, self.layout, level)
        with self._name_unwritten():
            path = self._partial / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        count_transfer(self.path, written=len(content), encoded=block.nbytes)
        self.shards[key] = hashlib.sha256(content).hexdigest(), len(content)

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
            If a later attempt at the same job has started.
        """
        if self._pending:
            raise ValueError(f"{self.path}: {min(self._pending)} was not written")
        with step("pyramid"):
            for level in range(self.layout.fine_levels + 1, self.layout.levels):
                self._build_level(level)
        digest = store_digest({key: sha for key, (sha, _) in self.shards.items()})
        coarsest = self.layout.levels - 1
        (y0, height), (x0, width) = (
            (max(0, n - OVERVIEW) // 2, min(n, OVERVIEW)) for n in self.layout.level_shape(coarsest)
        )
        middle = Window(y0, y0 + height, x0, x0 + width)
        attributes = {
            **self._attributes,
            **(extra_attributes or {}),
            "digest": digest,
            "stored_bytes": sum(size for _, size in self.shards.values()),
        }
        overview = read_window(self._partial, self.layout, coarsest, middle)
        self._put_in_place(attributes, overview)
        return digest

    def publish_empty(self, reason: str) -> None:
        """Put a store without pixels in place, with the reason, a sentence, as ``empty``."""
        for level in range(self.layout.levels):
            self._remove(self._partial / str(level) / "c")
        marks = {"empty": reason, "digest": store_digest({}), "stored_bytes": 0}
        self._put_in_place({**self._attributes, **marks}, None)

    def publish_same(self, other: Path) -> bool:
        """Put a store in place that has the shards of another one, as hard links where it can.

        Returns
        -------
        Whether it is done: False if the other one has no pixels, is not complete, or does not
        follow from the same attributes.

        Raises
        ------
        StoreError
            If the file system refuses.
        SupersededError
            If a later attempt at the same job has started.
        """
        document = read_file(other / DOCUMENT)
        written = json.loads(document)["attributes"]["unglow"]
        wanted = {**self._attributes, "layout": to_plain(self.layout)}
        shards = sorted(other.glob("*/c/*/*"))
        is_complete = sum(path.stat().st_size for path in shards) == written["stored_bytes"]
        if (
            "empty" in written
            or not is_complete
            or any(written.get(k) != v for k, v in wanted.items())
        ):
            return False
        with self._name_unwritten():
            for path in shards:
                target = self._partial / path.relative_to(other)
                target.parent.mkdir(parents=True, exist_ok=True)
                try:
                    target.hardlink_to(path)  # no file of a store is ever changed
                except OSError:  # where there are no links
                    shutil.copyfile(path, target)
            (self._partial / DOCUMENT).write_bytes(document)
        self._rename()
        return True

    def _build_level(self, level: int) -> None:
        """Build a coarse level from the one before, a strip of source rows at a time."""

        def build(window: Window) -> None:
            block = np.empty(window.shape, dtype=self._dtype)
            for top in range(window.y0, window.y1, HALVED_ROWS):
                end = min(top + HALVED_ROWS, window.y1)
                source = Window(2 * top, 2 * end, 2 * window.x0, 2 * window.x1)
                strip = read_window(self._partial, self.layout, level - 1, source)
                block[top - window.y0 : end - window.y0] = halve_stored(strip)
            self._write_shard(level, window.y0, window.x0, block)

        for _ in map_bounded(build, self.layout.windows(level), self._workers):
            pass

    @step("publish")
    def _put_in_place(self, attributes: Mapping[str, Any], overview: Array | None) -> None:
        document = make_root_document(
            self.layout,
            name=self._name,
            pixel_size_um=self._pixel_size_um,
            window=display_window(overview, self.layout.dtype),
            attributes={**attributes, "layout": to_plain(self.layout)},
        )
        with self._name_unwritten():
            write_document(self._partial, document)
        self._rename()

    def _rename(self) -> None:
        """Give the store its final name, whatever has that now."""
        old = self._name_sibling("old")
        with self._name_unwritten():
            publish(self._partial, self.path, old)
        if os.path.lexists(old):
            self._remove(old)

    def _name_sibling(self, kind: str) -> Path:
        """Return a hidden name next to the store that no other process uses."""
        return self.path.with_name(f".{self.path.name}.{secrets.token_hex(6)}.{kind}")

    def _name_unwritten(self) -> AbstractContextManager[None]:
        return name_unwritten(self._whole or self.path, StoreError)

    @staticmethod
    def _remove(path: Path) -> None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()
        if os.path.lexists(path):
            log.warning("%s could not be removed; `unglow verify --clean` removes it later", path)


class StageStore(ABC):
    """One store, with what is counted while its pixels are written; a stage says how (`write`).

    Parameters
    ----------
    path, layout
        Final directory and geometry of the store.
    about
        ``name``, ``pixel_size_um`` and ``attributes`` as for `StoreWriter`.
    """

    def __init__(self, path: Path, layout: StoreLayout, **about: Any) -> None:
        self.path = path
        self.layout = layout
        self._about = about

    @abstractmethod
    def write(self, writer: StoreWriter, workers: int) -> str | None:
        """Write and count all shards, ``workers`` at a time; return as `make`, in sentences."""

    def final_attributes(self) -> dict[str, Any]:
        """Return the attributes that are known only after the last pixel."""
        return {}

    def make(self, *, workers: int) -> str | None:
        """Write the store, ``workers`` shards at a time, and publish it.

        Returns why it has no pixels, and is marked empty; None if it has. StoreError if the file
        system refuses.
        """
        with self.writer(workers) as writer:
            reason = self.write(writer, workers)
            if reason is None:
                writer.publish(self.final_attributes())
            else:
                writer.publish_empty(reason)
        return reason

    def writer(self, workers: int) -> StoreWriter:
        """Return a writer of the store, which builds ``workers`` coarse shards at a time."""
        return StoreWriter(self.path, self.layout, **self._about, workers=workers)
