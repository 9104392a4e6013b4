"""Stores as OME-TIFF: tiled BigTIFF with the pyramid in SubIFDs, written tile by tile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tifffile

from unglow.core.files import replacing
from unglow.core.progress import step
from unglow.core.windows import Window, bounded_map, grid
from unglow.export.provenance import about, provenance
from unglow.io.tiff.ome_xml import OmeChannel
from unglow.io.tiff.ome_xml import ome_xml as image_xml
from unglow.io.tiff.tiles import HORIZONTAL, TILE, encode_tile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from unglow.photometry.difference import Image


@step("write")
def write_tiff(store: Image, target: Path, *, workers: int = 1) -> None:
    """Write a store with its pyramid as a tiled OME-TIFF (BigTIFF, Deflate).

    One tile for each worker is in memory. Bytes depend on the store alone. Of a store that is
    marked empty, a single px without a value is written, and the reason.

    Parameters
    ----------
    store
        Any store of unglow; NaN stays NaN.
    target
        File to write or replace.
    workers
        Tiles that are read and compressed at a time.

    Raises
    ------
    StoreError
        A shard is missing or damaged.
    UnglowError
        The file could not be written.
    """
    levels = 1 if store.empty is not None else store.levels
    integer = store.dtype.kind in "iu"
    with replacing(target) as partial, tifffile.TiffWriter(partial, bigtiff=True) as tiff:
        for level in range(levels):
            tags: dict[str, Any] = {"subfiletype": 1}
            if level == 0:
                tags = {"description": ome_xml(store), "software": "unglow", **_resolution(store)}
                tags["subifds"] = levels - 1
            tiff.write(
                _tiles(store, level, workers),
                shape=_shape(store, level),
                dtype=store.dtype,
                tile=(TILE, TILE),
                photometric="minisblack",
                compression="adobe_deflate",
                predictor=HORIZONTAL if integer else None,
                metadata=None,
                **tags,
            )


def ome_xml(store: Image) -> bytes:
    """Return the OME-XML (2016-06) of a store: size, physical size, parameters; UTF-8."""
    return image_xml(
        store.name,
        _shape(store, 0),
        store.dtype,
        [OmeChannel(store.name)],
        pixel_size_um=store.pixel_size_um,
        description=about(store),
        annotations=provenance(store),
    )


def _shape(store: Image, level: int) -> tuple[int, int]:
    return store.level_shape(level) if store.empty is None else (1, 1)


def _resolution(store: Image) -> dict[str, Any]:
    """Return the resolution tags, px per cm, if the pixel size is known."""
    if store.pixel_size_um is None:
        return {}
    x, y = store.pixel_size_um
    return {"resolution": (1e4 / x, 1e4 / y), "resolutionunit": "CENTIMETER"}


def _tiles(store: Image, level: int, workers: int) -> Iterator[bytes]:
    """Compressed tiles of a level, row by row."""

    def encoded(window: Window) -> bytes:
        if store.empty is None:
            return encode_tile(store.read(window, level))
        missing = np.nan if store.dtype.kind == "f" else 0
        return encode_tile(np.full((1, 1), missing, store.dtype))

    return bounded_map(encoded, grid(_shape(store, level), (TILE, TILE)), workers)
