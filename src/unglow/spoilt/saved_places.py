"""Spoilt places as ``artefacts.geojson`` keeps them, read back to be shown."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.archive import damaged
from unglow.core.files import open_file
from unglow.core.json_shape import check_shape

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Ring = NDArray[np.float64]

ARTEFACTS = "artefacts.geojson"
"""Name of the file, beside candidates.csv."""
_MOST_BYTES = 64 << 20
_RING = [[float, float], ...]
_SHAPE = {
    "features": [
        {
            "geometry": (
                {"type": str, "coordinates": [_RING, ...]},
                {"type": str, "coordinates": [[_RING, ...], ...]},
            ),
            "properties": {"reason": str, "strength": float, "area_px": int},
        },
        ...,
    ],
}
"""What is read of it, see `unglow.core.json_shape`."""
_MULTIPLE = "MultiPolygon"


@dataclass(frozen=True, eq=False, slots=True)
class SavedPlace:
    """A spoilt place of post.

    Attributes
    ----------
    reason
        Why it is spoilt, one of `unglow.spoilt.places.REASONS`.
    strength
        The largest score in it, in units of the scatter over the section.
    area_px
        Px of post in it.
    polygons
        Each as its outline and its holes: (N, 2) float64 corners (x, y), closed, px of post
        counted from the corner of the first px, so that px centres are at 0.5.
    """

    reason: str
    strength: float
    area_px: int
    polygons: tuple[tuple[Ring, ...], ...]


def read_places(path: Path) -> list[SavedPlace]:
    """Return the places of a file, the largest first; none if there is no file.

    StoreError if it is damaged.
    """
    return [_place(feature) for feature in read_artefacts(path)["features"]]


def read_artefacts(path: Path) -> dict[str, Any]:
    """Return the collection of features of a file, checked; an empty one if there is no file.

    Results of versions that did not look for spoilt places have none. StoreError if it is damaged.
    """
    if not path.is_file():
        return {"type": "FeatureCollection", "features": []}
    with open_file(path) as stream:
        data = stream.read(_MOST_BYTES + 1)
    try:
        if len(data) > _MOST_BYTES:
            raise damaged(path)
        collection: dict[str, Any] = json.loads(data)
        check_shape(collection, _SHAPE)
    except (RecursionError, ValueError) as error:
        raise damaged(path) from error
    return collection


def _place(feature: dict[str, Any]) -> SavedPlace:
    geometry, about = feature["geometry"], feature["properties"]
    given = geometry["coordinates"]
    polygons = given if geometry["type"] == _MULTIPLE else [given]
    rings = tuple(tuple(np.array(ring, np.float64) for ring in polygon) for polygon in polygons)
    return SavedPlace(about["reason"], float(about["strength"]), about["area_px"], rings)
