"""Regions that people draw on post: GeoJSON as QuPath exports and imports it.

Polygons and multipolygons, holes included, in px of post that count from the corner of the first
one as QuPath does; in `Region` they count from its centre, as everywhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unglow.core.errors import InputError
from unglow.core.files import lock_file, read_file, replace_file
from unglow.core.windows import Window
from unglow.review import REGIONS
from unglow.review.geojson import (
    change_features,
    check_feature,
    polygons_of,
    read_collection,
    read_features,
    write_collection,
)
from unglow.review.polygons import Polygon, Region, Regions

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

NAME = REGIONS
SUFFIX = ".regions.geojson"
EXCLUDE, ANALYSE = "exclude", "analyse"
MOST_VERTICES = 100_000
"""In a file; an outline drawn by hand has some hundred."""
_CLASSES = {
    **dict.fromkeys(("exclude", "ignore", "ignore*"), EXCLUDE),
    **dict.fromkeys(("analyse", "analyze", "region", "region*"), ANALYSE),
}
"""Names of classes in lower case; those with a star are QuPath's own."""
_CORNER_PX = 0.5


def kind_of(feature: Mapping[str, Any]) -> str | None:
    """Return `EXCLUDE` or `ANALYSE` by the class of a feature; None for any other."""
    return _CLASSES.get(class_of(feature).strip().lower())


def class_of(feature: Mapping[str, Any]) -> str:
    """Return the name of the class of a feature as QuPath writes it, "" for none."""
    given = (feature.get("properties") or {}).get("classification")
    if isinstance(given, dict):
        names = given.get("names")
        given = ": ".join(map(str, names)) if isinstance(names, list) else given.get("name")
    return given if isinstance(given, str) else ""


def read_regions(path: Path, shape: tuple[int, int] | None = None) -> Regions:
    """Read a file of regions.

    Parameters
    ----------
    path
        GeoJSON: a collection of features, a list of them, or one.
    shape
        Rows and columns of post: each region has to touch it.

    Raises
    ------
    InputError
        It cannot be read, or something in it is no region; the sentence names the feature.
    """
    return regions_of(path, read_features(path), shape)


def regions_of(
    path: Path, features: Sequence[Mapping[str, Any]], shape: tuple[int, int] | None = None
) -> Regions:
    """Return the regions that the features of a file are; as for `read_regions`."""
    found: dict[str, list[Region]] = {EXCLUDE: [], ANALYSE: []}
    others: dict[str, int] = {}
    vertices = 0
    for number, feature in enumerate(features, 1):
        kind = kind_of(feature)
        if kind is None:
            name = class_of(feature)
            others[name] = others.get(name, 0) + 1
            continue
        where = f"{path}, feature {number}"
        polygons = [
            Polygon.of([ring - _CORNER_PX for ring in rings])
            for rings in polygons_of(where, feature)
        ]
        vertices += sum(len(polygon.sides) for polygon in polygons)
        given = (feature.get("properties") or {}).get("name")
        region = Region(kind, str(given) if given else str(number), tuple(polygons))
        _check_place(where, region, shape)
        found[kind].append(region)
    if vertices > MOST_VERTICES:
        raise InputError(
            f"{path} has {vertices} vertices in its regions, and {MOST_VERTICES} are the most: "
            "simplify the outlines (QuPath: Objects, Annotations, Simplify shape)."
        )
    notes = tuple(_other_note(path, name, count) for name, count in others.items())
    return Regions(tuple(found[EXCLUDE]), tuple(found[ANALYSE]), notes)


def change_regions(
    path: Path,
    put: Sequence[Mapping[str, Any]],
    delete: Collection[str] = (),
    *,
    first: Path | None = None,
    shape: tuple[int, int] | None = None,
) -> dict[str, Any]:
    """Change a file of regions as `unglow.review.geojson.change_features` does.

    Raises `InputError` also if something to put is no region of post, of ``shape``.
    """
    for number, feature in enumerate(put, 1):
        check_feature(f"feature {number}", feature)
        if kind_of(feature) is None:
            raise InputError(
                f"feature {number} is of class '{class_of(feature)}'; a region is of class "
                f"'{EXCLUDE}' or '{ANALYSE}'."
            )
    regions_of(path, put, shape)
    return change_features(path, put, delete, first=first)


def use_regions(drawn: Path, used: Path) -> Path | None:
    """Write drawn regions where the workflow reads them; if none ever were, those there stay.

    Returns
    -------
    Where what was there is kept, if it held other features; else None.

    Raises `InputError` if the drawn ones are damaged, `UnglowError` if they cannot be written.
    """
    collection = read_collection(drawn, used)
    regions_of(drawn, collection["features"])
    kept = None
    with lock_file(used):
        if used.is_file():
            before = read_file(used)
            if not _same_features(used, collection):
                kept = used.with_name(f"{used.name}.before")
                with replace_file(kept) as temporary:
                    temporary.write_bytes(before)
        write_collection(used, collection)
    return kept


def _same_features(path: Path, collection: Mapping[str, Any]) -> bool:
    try:
        return read_collection(path) == collection
    except InputError:
        return False


def _check_place(where: str, region: Region, shape: tuple[int, int] | None) -> None:
    if shape is not None and not region.box.common(Window.from_shape(shape)).size:
        box = region.box
        raise InputError(
            f"{where} lies at x {box.x0} to {box.x1}, y {box.y0} to {box.y1}, and so outside of "
            f"the post-stain image of {shape[1]} x {shape[0]} px; was it drawn on another image, "
            "or is it in µm?"
        )


def _other_note(path: Path, name: str, count: int) -> str:
    those = f"{count} feature{'' if count == 1 else 's'}"
    class_ = f"of class '{name}'" if name else "without a class"
    return f"{path}: {those} {class_} left aside; regions are of class 'exclude' or 'analyse'."
