"""``artefacts.geojson``: spoilt places of a pair or slide, read back to be shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from unglow.core.archive import make_damage_error
from unglow.core.files import open_file
from unglow.core.records import RecordError, parse, to_record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from unglow.core.arrays import Floats

    Ring = Floats

ARTEFACTS = "artefacts.geojson"
"""Name of the file, next to candidates.csv."""
_LONGEST_LINE = 32 << 20
"""Bytes; a feature is a line, and the outline of a large place is long."""
_HEAD, _END = b'{"type": "FeatureCollection", "features": [', b"]}"
_Polygon = list[list[tuple[float, float]]]


class _Single(msgspec.Struct, tag_field="type", tag="Polygon"):
    coordinates: _Polygon

    @property
    def polygons(self) -> list[_Polygon]:
        return [self.coordinates]


class _Several(msgspec.Struct, tag_field="type", tag="MultiPolygon"):
    coordinates: list[_Polygon]

    @property
    def polygons(self) -> list[_Polygon]:
        return self.coordinates


class _About(msgspec.Struct):
    reason: str
    strength: float
    area_px: int
    cycle: int | None = None


class _Feature(msgspec.Struct):
    """What is read of a feature."""

    type: str
    geometry: _Single | _Several
    properties: _About


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
    return [place for _, place in _read_features(path)]


def artefacts_json(path: Path) -> bytes:
    """Return a file, checked, as JSON; a collection without features if there is no file.

    StoreError if it is damaged.
    """
    return _HEAD + b",".join(line for line, _ in _read_features(path)) + _END


def _read_features(path: Path) -> Iterator[tuple[bytes, SavedPlace]]:
    """Yield the lines of a file with their places, one by one: as lists they take ten times it."""
    if not path.is_file():
        return
    try:
        with open_file(path) as stream:
            if stream.readline(len(_HEAD) + 2).strip() != _HEAD:
                raise make_damage_error(path)
            while (line := stream.readline(_LONGEST_LINE)).strip() != _END:
                if not line:  # the end is missing
                    raise make_damage_error(path)
                if text := line.strip().removesuffix(b","):
                    feature = to_record(parse(text), _Feature)
                    own, polygons = feature.properties, feature.geometry.polygons
                    rings = tuple(tuple(np.array(r, np.float64) for r in one) for one in polygons)
                    yield text, SavedPlace(own.reason, own.strength, own.area_px, rings, own.cycle)
    except RecordError as error:
        raise make_damage_error(path, error) from error
