"""Copying stores into a SpatialData store, block by block, and candidates as points."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.errors import ConfigError, StoreError, UnglowError
from unglow.export.images import whole_directory
from unglow.images.detection_results import read_candidates
from unglow.photometry.arrays import as_arrays
from unglow.photometry.difference import open_image

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from unglow.images.detection_results import Candidates
    from unglow.photometry.difference import Image

BLOCK = 1024
"""Side of the blocks that are read and written, and of the chunks of the copy, px."""


def export_spatialdata(
    stores: Mapping[str, Path], target: Path, candidates: Mapping[str, Path] | None = None
) -> None:
    """Write a SpatialData store that holds a copy of each image with its pyramid.

    Each image has the axes c, y, x, one channel named after the store, and a scale to micrometres
    (where the pixel size is known) as its transformation to the coordinate system ``global``.
    SpatialData measures from the corner of the first pixel, half a pixel before its centre, so
    candidates, which are points with all columns of their table, x and y in px as they stand there,
    are moved by half a pixel before they are scaled.

    One block of `BLOCK` x `BLOCK` px is in memory at a time.

    Parameters
    ----------
    stores
        Name of the image in the result to the path of an unglow store.
    target
        Directory to create. It appears only when it is complete.
    candidates
        Name of the points in the result to the path of a candidates.csv. Images of the frame of
        post must be among the stores: their pixel size is that of the candidates.

    Raises
    ------
    UnglowError
        If the package spatialdata is not installed.
    ConfigError
        If a name cannot be used in SpatialData, or the pixel size of candidates is not clear.
    InputError
        If a table of candidates cannot be used.
    StoreError
        If a store is not finished, damaged or without pixels.
    """
    target = Path(target)
    tables = {name: read_candidates(path) for name, path in (candidates or {}).items()}
    _check_names([*stores, *tables])
    opened = {name: open_image(path) for name, path in stores.items()}
    for store in opened.values():
        if store.empty is not None:
            raise StoreError(f"{store.path} holds no pixels to export: {store.empty}")
    size = _size_of_post(opened.values()) if tables else None
    try:
        dask, spatialdata = import_module("dask"), import_module("spatialdata")
    except ImportError as error:
        raise UnglowError(
            "the SpatialData export needs the package spatialdata, which is not installed here; "
            "install it with: pip install spatialdata"
        ) from error
    # One block at a time: the memory of the copy is that of a block, whatever the machine.
    with whole_directory(target) as partial, dask.config.set(scheduler="single-threaded"):
        images = {name: _image(store) for name, store in opened.items()}
        points = {name: _points(table, size) for name, table in tables.items()}
        spatialdata.SpatialData(images=images, points=points).write(partial)


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


def _size_of_post(stores: Iterable[Image]) -> tuple[float, float] | None:
    """Return the pixel size of the stores in the frame of post; None if it is unknown."""
    sizes = {s.pixel_size_um for s in stores if s.attributes.get("role") != "pre"}
    if len(sizes) != 1:
        raise ConfigError(
            "candidates are px of post: export them together with post.ome.zarr, aligned_pre or a "
            "difference of the same pair, and of no other pair."
        )
    return sizes.pop()


def _points(table: Candidates, size: tuple[float, float] | None) -> object:
    """Return candidates as points, as SpatialData's model wants them."""
    pandas, models = import_module("pandas"), import_module("spatialdata.models")
    transformations = import_module("spatialdata.transformations")
    corner = transformations.Translation([0.5, 0.5], ("x", "y"))
    scale = transformations.Scale(list(size or (1.0, 1.0)), ("x", "y"))
    columns = {**table.numbers, "id": table.numbers["id"].astype(np.int64)}
    return models.PointsModel.parse(
        pandas.DataFrame({**columns, "flags": list(table.flags), "counted": table.is_counted}),
        coordinates={"x": "x", "y": "y"},
        transformations={"global": transformations.Sequence([corner, scale])},
    )


def _image(store: Image) -> object:
    """Return the lazy multiscale image of a store, as SpatialData's model wants it."""
    models = import_module("spatialdata.models")
    transformations = import_module("spatialdata.transformations")
    if store.pixel_size_um:
        to_global = transformations.Scale(list(store.pixel_size_um), ("x", "y"))
    else:
        to_global = transformations.Identity()
    levels = {}
    for level, array in enumerate(as_arrays(store)):
        image = models.Image2DModel.parse(
            import_module("dask.array").from_zarr(array, chunks=(BLOCK, BLOCK))[np.newaxis],
            dims=("c", "y", "x"),
            c_coords=[store.name],
            transformations={"global": to_global},
        )
        levels[f"scale{level}"] = image.to_dataset(name="image")
    return import_module("xarray").DataTree.from_dict(levels)
