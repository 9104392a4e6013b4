"""Writer of shards: of level 0, and with each those of the fine levels below it."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import secrets
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from unglow.core import transfers
from unglow.core.errors import StoreError
from unglow.core.files import remedy
from unglow.core.progress import progress, step
from unglow.io.zarr.chunks import encode_shard
from unglow.io.zarr.layout import halve_stored
from unglow.io.zarr.metadata import make_level_document, shard_key, write_document

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from numpy.typing import NDArray

    from unglow.core.windows import Window
    from unglow.io.zarr.layout import StoreLayout

    Shards: TypeAlias = dict[str, tuple[str, int]]
    """Shard key to the SHA-256 of its file, hexadecimal, and its size, bytes."""

log = logging.getLogger(__name__)


class ShardWriter:
    """Writer of shards of one image into a hidden sibling of its store that no other process uses.

    Use as a context manager; the directory is removed at its end, whatever has happened.
    """

    reports = True
    """Whether shards are what the progress of the job is counted in."""

    def __init__(self, path: Path | str, layout: StoreLayout) -> None:
        self.path = Path(path)
        self.layout = layout
        self._dtype = np.dtype(layout.dtype)
        self._partial = self._name_sibling("partial")
        self._pending: set[Window] = set()
        self.shards: Shards = {}
        """What was written."""
        self._count = self._written = 0
        self._lock = threading.Lock()

    @step("create store")
    def __enter__(self) -> Self:
        try:
            self._partial.mkdir(parents=True)
            for level in range(self.layout.levels):
                document = make_level_document(self.layout, level)
                write_document(self._partial / str(level), document)
        except OSError as error:
            self._remove(self._partial)
            raise self._failure(error) from error
        self._pending = set(self.windows())
        self._count, self._written = len(self._pending), 0
        return self

    def __exit__(self, *_: object) -> None:
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
        if self.reports:
            progress(done, self._count, "shard")

    def _write_shard(self, level: int, y0: int, x0: int, block: NDArray[Any]) -> None:
        height, width = self.layout.level_shards(level)
        key = shard_key(level, y0 // height, x0 // width)
        content = encode_shard(block, self.layout, level)
        try:
            path = self._partial / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        except OSError as error:
            raise self._failure(error) from error
        transfers.count(self.path, written=len(content), encoded=block.nbytes)
        self.shards[key] = hashlib.sha256(content).hexdigest(), len(content)

    def _name_sibling(self, kind: str) -> Path:
        """Return a hidden name next to the store that no other process uses."""
        return self.path.with_name(f".{self.path.name}.{secrets.token_hex(6)}.{kind}")

    def _failure(self, error: OSError) -> StoreError:
        return make_write_error(self.path, error)

    @staticmethod
    def _remove(path: Path) -> None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()
        if os.path.lexists(path):
            log.warning("%s could not be removed; `unglow clean` removes it later", path)


def make_write_error(path: Path, error: OSError) -> StoreError:
    """Return the error of a store that the file system refuses."""
    return StoreError(
        f"{path} could not be written ({error.strerror or error}); {remedy(error, path)}, then "
        "rerun the workflow"
    )
