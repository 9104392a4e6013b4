"""Regions that people draw on post: GeoJSON as QuPath exports and imports it.

Polygons and multipolygons, holes included, in px of post that count from the corner of the first
one as QuPath does; in `Region` they count from its centre, as everywhere else.
"""

from __future__ import annotations

import json
import os
import uuid
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.errors import InputError
from unglow.core.files import lock_file, open_file, read_file, replace_file, write_text
from unglow.core.printable import shorten
from unglow.core.windows import Window
from unglow.review.polygons import Polygon, Region, Regions

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path
    from typing import TypeAlias

    from numpy.typing import NDArray

    Ring: TypeAlias = NDArray[np.float64]

MOST_BYTES = 8 << 20
"""Of a file; 100 000 vertices take half of that."""
MOST_POINTS = 300_000
"""Lists and objects in a file, so that it takes no more memory than a job has declared."""
MOST_VERTICES = 100_000
"""In a file; an outline drawn by hand has some hundred."""
EXCLUDE, ANALYSE = "exclude", "analyse"
_CLASSES = {
    **dict.fromkeys(("exclude", "ignore", "ignore*"), EXCLUDE),
    **dict.fromkeys(("analyse", "analyze", "region", "region*"), ANALYSE),
}
"""Names of classes in lower case; those with a star are QuPath's own."""
_CORNER_PX = 0.5
_FEW = 10
_LARGEST = 1e7
"""px; nothing can be further away."""
_KINDS = ("Polygon", "MultiPolygon")
_REMEDY = "correct it, or export the regions again."


def read_features(path: Path) -> list[dict[str, Any]]:
    """Read the features of a collection, of a list, or the only one.

    Raises
    ------
    InputError
        It cannot be read, or is not a GeoJSON of features.
    """
    try:
        with open_file(path) as stream:
            data = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror}): put the regions there, or do not name it."
        ) from error
    if len(data) > MOST_BYTES:
        raise InputError(
            f"{path} is larger than {MOST_BYTES >> 20} MB, too large for regions drawn by hand: "
            "export annotations only, without detections."
        )
    if data.count(b"[") + data.count(b"{") > MOST_POINTS:
        raise InputError(
            f"{path} has more than {MOST_POINTS} points, too many for regions drawn by hand: "
            "simplify the outlines, and export annotations only, without detections."
        )
    return _list_features(path, _parse(path, data))


def _parse(path: Path, data: bytes) -> Any:
    try:
        return json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text, as GeoJSON is; {_REMEDY}") from error
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}, line {error.lineno}: it is not JSON ({error.msg}); {_REMEDY}"
        ) from error
    except (RecursionError, ValueError) as error:
        raise InputError(f"{path} holds what no GeoJSON needs ({error}); {_REMEDY}") from error


def _list_features(path: Path, content: Any) -> list[dict[str, Any]]:
    listed = content
    if isinstance(content, dict):
        kind = content.get("type")
        listed = [content] if kind == "Feature" else content.get("features")
        if kind not in ("Feature", "FeatureCollection"):
            raise InputError(
                f"{path} holds a GeoJSON object of type {shorten(repr(kind), 40)}, and not a "
                "Feature or a FeatureCollection; export the regions as objects."
            )
    if not isinstance(listed, list):
        raise InputError(f"{path} holds no list of features; {_REMEDY}")
    for number, feature in enumerate(listed, 1):
        check_feature(f"{path}, feature {number}", feature)
    return listed


def check_feature(where: str, feature: Any) -> None:
    """Raise `InputError` for what is not a feature; its geometry is not checked."""
    if not isinstance(feature, dict) or feature.get("type") != "Feature":
        raise InputError(f"{where} is not a GeoJSON Feature; {_REMEDY}")
    if not isinstance(feature.get("properties") or {}, dict):
        raise InputError(f"{where} has properties that are not an object; {_REMEDY}")
    if not isinstance(feature.get("geometry"), dict):
        raise InputError(f"{where} has no geometry; {_REMEDY}")


def polygons_of(where: str, feature: Mapping[str, Any]) -> list[list[Ring]]:
    """Return the polygons of a feature, each as its outline and its holes.

    These are (N, 2) float64, x and y as they are in the file, closed or not.

    Raises
    ------
    InputError
        It is not a polygon or multipolygon, or a coordinate is not a number.
    """
    geometry = feature["geometry"]
    kind, given = geometry.get("type"), geometry.get("coordinates")
    if kind not in _KINDS:
        raise InputError(
            f"{where} is a {shorten(str(kind), 40)}, and a region is a Polygon or MultiPolygon: "
            "draw it with the rectangle, polygon or brush tool."
        )
    polygons = [given] if kind == _KINDS[0] else given
    if not isinstance(polygons, list) or not polygons:
        raise InputError(f"{where} has no coordinates; {_REMEDY}")
    found = []
    for polygon in polygons:
        if not isinstance(polygon, list) or not polygon:
            raise InputError(f"{where} has a polygon without an outline; {_REMEDY}")
        found.append([_read_ring(where, ring) for ring in polygon])
    return found


def _read_ring(where: str, ring: Any) -> Ring:
    points = ring if isinstance(ring, list) else []
    for point in points:
        if not isinstance(point, list) or len(point) < 2 or not all(map(_is_place, point[:2])):
            text = shorten(json.dumps(point), 40)
            raise InputError(f"{where} has a point {text}, which is not [x, y] in px; {_REMEDY}")
    numbers = np.fromiter((n for point in points for n in point[:2]), np.float64, 2 * len(points))
    made = numbers.reshape(-1, 2)
    if _count_distinct(made[:_FEW]) < 3 and _count_distinct(made) < 3:
        raise InputError(f"{where} has an outline or a hole of fewer than three points; {_REMEDY}")
    return made


def _count_distinct(points: Ring) -> int:
    return len(np.unique(points, axis=0))


def _is_place(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) <= _LARGEST  # NaN is not


def read_collection(path: Path, first: Path | None = None) -> dict[str, Any]:
    """Return the features of a file as a collection, each with an ``id`` of its own.

    If there is no file it is that of ``first``, and if there is none either it is empty. Raises
    `InputError` as `read_features`.
    """
    there = next((p for p in (path, first) if p is not None and os.path.lexists(p)), None)
    features: dict[str, dict[str, Any]] = {}
    for number, feature in enumerate([] if there is None else read_features(there), 1):
        given = feature.get("id")
        name = str(given) if isinstance(given, str | int) and given != "" else f"feature-{number}"
        while name in features:
            name += "-again"
        features[name] = {**feature, "id": name}
    return {"type": "FeatureCollection", "features": [*features.values()]}


def write_collection(path: Path, collection: Mapping[str, Any]) -> None:
    """Write features, one a line, completely or not at all.

    Raises `InputError` if they take more than `MOST_BYTES`.
    """
    lines = [json.dumps(f, allow_nan=False, ensure_ascii=False) for f in collection["features"]]
    text = '{"type": "FeatureCollection", "features": [\n' + ",\n".join(lines) + "\n]}\n"
    if len(text.encode(errors="backslashreplace")) > MOST_BYTES:
        raise InputError(f"{path} would be larger than {MOST_BYTES >> 20} MB: draw simpler shapes.")
    write_text(path, text)


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
        It cannot be read, or something in it is not a region; the sentence names the feature.
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
            Polygon.from_rings([ring - _CORNER_PX for ring in rings])
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
    notes = []
    for name, count in others.items():
        those = f"{count} feature{'' if count == 1 else 's'}"
        class_ = f"of class '{name}'" if name else "without a class"
        notes.append(
            f"{path}: {those} {class_} left aside; regions are of class 'exclude' or 'analyse'."
        )
    return Regions(tuple(found[EXCLUDE]), tuple(found[ANALYSE]), tuple(notes))


def change_regions(
    path: Path,
    put: Sequence[Mapping[str, Any]],
    delete: Collection[str] = (),
    *,
    first: Path | None = None,
    shape: tuple[int, int] | None = None,
) -> dict[str, Any]:
    """Put regions into a file and delete others: what others have changed meanwhile stays.

    Parameters
    ----------
    path
        A file of regions, made if there is none.
    put
        Features, each in the place of that with its ``id``; without one it gets one.
    delete
        ``id`` of features.
    first
        Start content where there is no such file yet.
    shape
        Rows and columns of post: each region to put has to touch it.

    Returns
    -------
    The collection as it is now.

    Raises
    ------
    InputError
        A feature is not a region, or the file is damaged; then nothing is changed.
    UnglowError
        It cannot be written.
    """
    for number, feature in enumerate(put, 1):
        check_feature(f"feature {number}", feature)
        if kind_of(feature) is None:
            raise InputError(
                f"feature {number} is of class '{class_of(feature)}'; a region is of class "
                f"'{EXCLUDE}' or '{ANALYSE}'."
            )
    regions_of(path, put, shape)
    new = [_name_new(number, feature) for number, feature in enumerate(put, 1)]
    with lock_file(path):
        before = read_collection(path, first)
        features = {feature["id"]: feature for feature in before["features"]}
        features |= {feature["id"]: feature for feature in new}
        for name in delete:
            features.pop(name, None)
        collection = {**before, "features": [*features.values()]}
        if collection != before:
            write_collection(path, collection)
    return collection


def _name_new(number: int, feature: Mapping[str, Any]) -> dict[str, Any]:
    """Return a feature with an ``id``; InputError for numbers that JSON has not."""
    try:
        json.dumps(feature, allow_nan=False)
    except (RecursionError, ValueError) as error:
        raise InputError(f"feature {number} holds numbers that JSON has not; {_REMEDY}") from error
    given = feature.get("id")
    name = given if isinstance(given, str) and given else str(uuid.uuid4())
    return {**feature, "id": name}


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
            if not _has_features(used, collection):
                kept = keep_previous(used, before)
        write_collection(used, collection)
    return kept


def keep_previous(path: Path, content: bytes) -> Path:
    """Keep what was in a file before it is written, next to it, and return where."""
    kept = path.with_name(f"{path.name}.before")
    with replace_file(kept) as temporary:
        temporary.write_bytes(content)
    return kept


def _has_features(path: Path, collection: Mapping[str, Any]) -> bool:
    try:
        return read_collection(path) == collection
    except InputError:
        return False


def _check_place(where: str, region: Region, shape: tuple[int, int] | None) -> None:
    if shape is not None and not region.box.common(Window.from_shape(shape)).size:
        box = region.box
        raise InputError(
            f"{where} is at x {box.x0} to {box.x1}, y {box.y0} to {box.y1}, and so outside of "
            f"the post-stain image of {shape[1]} x {shape[0]} px; was it drawn on another image, "
            "or is it in µm?"
        )
