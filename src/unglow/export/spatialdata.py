"""Copying stores into a SpatialData store, block by block."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.blocks import Window
from unglow.errors import ConfigError, StoreError, UnglowError
from unglow.export.targets import refuse_existing, whole_directory
from unglow.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from unglow.store import Store

BLOCK = 1024
"""Side of the blocks that are read and written, and of the chunks of the copy, px."""


class _Level:
    """One pyramid level with the few attributes that dask asks of an array: (1, rows, cols)."""

    ndim = 3

    def __init__(self, store: Store, level: int) -> None:
        self._store = store
        self._level = level
        self.shape = (1, *store.level_shape(level))
        self.dtype = store.dtype

    def __getitem__(self, index: tuple[slice, slice, slice]) -> NDArray[Any]:
        channel, rows, cols = (s.indices(n) for s, n in zip(index, self.shape, strict=True))
        window = Window(rows[0], rows[1], cols[0], cols[1])
        return self._store.read(window, self._level)[np.newaxis][: channel[1] - channel[0]]


def export_spatialdata(stores: Mapping[str, Path], target: Path) -> None:
    """Write a SpatialData store that holds a copy of each image with its pyramid.

    Each image has the axes c, y, x, one channel named after the store, and a scale to micrometres
    (where the pixel size is known) as its transformation to the coordinate system ``global``.
    SpatialData measures from the corner of the first pixel, half a pixel before its centre.

    One block of `BLOCK` x `BLOCK` px is in memory at a time.

    Parameters
    ----------
    stores
        Name of the image in the result to the path of an unglow store.
    target
        Directory to create. It appears only when it is whole.

    Raises
    ------
    UnglowError
        If the package spatialdata is not installed.
    ConfigError
        If a name cannot be used in SpatialData, or ``target`` exists.
    StoreError
        If a store is not finished, damaged or without pixels.
    """
    target = Path(target)
    _check_names(stores)
    refuse_existing(target)
    opened = {name: open_store(path) for name, path in stores.items()}
    for store in opened.values():
        if store.empty is not None:
            raise StoreError(f"{store.path} holds no pixels to export: {store.empty}")
    try:
        dask, spatialdata = import_module("dask"), import_module("spatialdata")
    except ImportError as error:
        raise UnglowError(
            "the SpatialData export needs the package spatialdata, which is not installed here; "
            'install it with: pip install "unglow[spatialdata]"'
        ) from error
    # One block at a time: the memory of the copy is that of a block, whatever the machine.
    with whole_directory(target) as partial, dask.config.set(scheduler="single-threaded"):
        images = {name: _image(store) for name, store in opened.items()}
        spatialdata.SpatialData(images=images).write(partial)


def _check_names(names: Iterable[str]) -> None:
    """Apply SpatialData's own rules before anything is copied."""
    seen: dict[str, str] = {}
    for name in names:
        allowed = all(c.isalnum() or c in "_-." for c in name)
        if not allowed or name in {"", ".", ".."} or name.startswith("__"):
            raise ConfigError(
                f"{name!r} cannot name an image in SpatialData; use letters, digits, '_', '-' and "
                "'.' only"
            )
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise ConfigError(
                f"{other!r} and {name!r} differ only in case, which SpatialData refuses; rename one"
            )


def _image(store: Store) -> object:
    """Return the lazy multiscale image of a store, as SpatialData's model wants it."""
    models = import_module("spatialdata.models")
    transformations = import_module("spatialdata.transformations")
    if store.pixel_size_um:
        to_global = transformations.Scale(list(store.pixel_size_um), ("x", "y"))
    else:
        to_global = transformations.Identity()
    levels = {}
    for level in range(store.levels):
        image = models.Image2DModel.parse(
            _lazy(store, level),
            dims=("c", "y", "x"),
            c_coords=[store.name],
            transformations={"global": to_global},
        )
        levels[f"scale{level}"] = image.to_dataset(name="image")
    return import_module("xarray").DataTree.from_dict(levels)


def _lazy(store: Store, level: int) -> object:
    image = _Level(store, level)
    # With a name and an empty sample given, dask need not read the image to make them itself.
    return import_module("dask.array").from_array(
        image,
        chunks=tuple(min(n, BLOCK) for n in image.shape),
        name=f"{store.path}-{level}-{store.digest}",
        meta=np.empty((0, 0, 0), dtype=image.dtype),
    )
