"""Writer of one band of a store; jobs of all bands write to one directory beside the store.

It is hidden and named by a digest of all that the shards follow from: a job of another state of the
inputs, which may still run somewhere, writes elsewhere, and one of the same state writes the same
bytes. A shard is moved there when it is whole.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Self

from unglow.core.digests import of_file
from unglow.core.windows import bounded_map
from unglow.io.zarr.shard_writer import ShardWriter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from unglow.core.windows import Window
    from unglow.io.zarr.bands import Band
    from unglow.io.zarr.layout import StoreLayout
    from unglow.io.zarr.shard_writer import Shards

_KEY = 16
"""Hexadecimal digits of a state key (64 bits): no two states of one store will share it."""


def state_key(*parts: Any) -> str:
    """Return a digest of JSON types (equal mappings in any order), `_KEY` hexadecimal digits."""
    text = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_KEY]


def band_store(path: Path, key: str) -> Path:
    """Return the directory of the shards of all bands until the store is published."""
    return path.with_name(f".{path.name}.{key}.bands")


def leftovers(path: Path, bands: int) -> Iterator[Path]:
    """Yield what bands of interrupted runs have left beside a file or store that is finished.

    That is the shards of other states, and results of runs with another number of bands than
    ``bands``; those of this number are removed by Snakemake.
    """
    yield from path.parent.glob(f".{path.name}.*.bands")
    for result in path.parent.glob(f".{path.name}.*-of-*.band.npz"):
        if not result.name.endswith(f"-of-{bands}.band.npz"):
            yield result


class BandWriter(ShardWriter):
    """Writer of the shards of one band to where those of the others are as well.

    Use as a context manager: `write` every window of `windows` once, then take `shards`.

    Parameters
    ----------
    path, layout
        As for `unglow.io.zarr.StoreWriter`: of the whole store.
    band
        Part of it that is written.
    key
        Digest of what the pixels follow from (`state_key`).
    """

    def __init__(self, path: Path | str, layout: StoreLayout, *, band: Band, key: str) -> None:
        super().__init__(path, layout)
        self._band = band
        self._root = band_store(self.path, key)

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            self._root.mkdir(exist_ok=True)
        except OSError as error:
            self._remove(self._partial)
            raise self._failure(error) from error
        return self

    def windows(self) -> Iterator[Window]:
        """Yield the level-0 shards of the band in row order, cut at the edges of the image."""
        return self._band.windows(self.layout)


def first_fault(root: Path, shards: Shards, workers: int) -> str | None:
    """Return what is wrong with the first shard that is not what was written; None if all are.

    Parameters
    ----------
    root
        Directory of the store, or of its bands.
    shards
        What was written.
    workers
        Files that are read at a time.
    """

    def fault(name: str) -> str | None:
        try:
            digest = of_file(root / name)
        except FileNotFoundError:
            return f"shard {name} is missing"
        except OSError as error:
            return f"shard {name} cannot be read ({error.strerror})"
        return None if digest == shards[name][0] else f"shard {name} is not what was written"

    return next(filter(None, bounded_map(fault, sorted(shards), workers)), None)
