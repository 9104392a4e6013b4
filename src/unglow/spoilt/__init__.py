"""Spoilt places: parts of post that show something else than background, noise and stain.

Here they are as ``artefacts.geojson`` keeps them, read back to be shown.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.archive import make_damage_error
from unglow.core.files import check_shape, open_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    Ring = NDArray[np.float64]

ARTEFACTS = "artefacts.geojson"
"""Name of the file, next to candidates.csv."""
_LONGEST_LINE = 32 << 20
"""Bytes; a feature is a line, and the outline of a large place is long."""
_HEAD, _END = b'{"type": "FeatureCollection", "features": [', b"]}"
_RING = [[float, float], ...]
_FEATURE = {
    "type": str,
    "geometry": (
        {"type": str, "coordinates": [_RING, ...]},
        {"type": str, "coordinates": [[_RING, ...], ...]},
    ),
    "properties": {"reason": str, "strength": float, "area_px": int, "cycle?": int},
}
"""What is read of a feature, see `unglow.core.files`."""
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
    cycle
        Of a slide, in which it is spoilt; None for a pair.
    """

    reason: str
    strength: float
    area_px: int
    polygons: tuple[tuple[Ring, ...], ...]
    cycle: int | None = None


def read_places(path: Path) -> list[SavedPlace]:
    """Return the places of a file, the largest first; none if there is no file.

    StoreError if it is damaged.
    """
    return [_make_place(feature) for feature in _read_features(path)]


def artefacts_json(path: Path) -> bytes:
    """Return a file, checked, as JSON; a collection without features if there is no file.

    Results of versions that did not look for spoilt places have none. StoreError if it is damaged.
    """
    lines = (json.dumps(feature, allow_nan=False).encode() for feature in _read_features(path))
    return _HEAD + b",".join(lines) + _END


def _read_features(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the features of a file, one by one: as objects they take ten times the file."""
    if not path.is_file():
        return
    try:
        with open_file(path) as stream:
            if stream.readline(len(_HEAD) + 2).strip() != _HEAD:
                raise make_damage_error(path)
            while (line := stream.readline(_LONGEST_LINE)).strip() != _END:
                if not line:  # the end is missing
                    raise make_damage_error(path)
                if line.strip():
                    feature = json.loads(line.strip().removesuffix(b","))
                    check_shape(feature, _FEATURE)
                    yield feature
    except (RecursionError, ValueError) as error:
        raise make_damage_error(path) from error


def _make_place(feature: dict[str, Any]) -> SavedPlace:
    geometry, about = feature["geometry"], feature["properties"]
    given = geometry["coordinates"]
    polygons = given if geometry["type"] == _MULTIPLE else [given]
    rings = tuple(tuple(np.array(ring, np.float64) for ring in polygon) for polygon in polygons)
    strength, cycle = float(about["strength"]), about.get("cycle")
    return SavedPlace(about["reason"], strength, about["area_px"], rings, cycle)
