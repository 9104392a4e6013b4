"""Features in GeoJSON files: read and checked, put and deleted."""

from __future__ import annotations

import json
import os
import uuid
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.errors import InputError
from unglow.core.files import lock_file, open_file, write_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path
    from typing import TypeAlias

    from numpy.typing import NDArray

    Ring: TypeAlias = NDArray[np.float64]

MOST_BYTES = 8 << 20
"""Of a file; 100 000 vertices take half of that."""
MOST_POINTS = 300_000
"""Lists and objects in a file, so that it takes no more memory than a job has declared."""
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
    return _features(path, _parsed(path, data))


def _parsed(path: Path, data: bytes) -> Any:
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


def _features(path: Path, content: Any) -> list[dict[str, Any]]:
    listed = content
    if isinstance(content, dict):
        kind = content.get("type")
        listed = [content] if kind == "Feature" else content.get("features")
        if kind not in ("Feature", "FeatureCollection"):
            raise InputError(
                f"{path} holds a GeoJSON object of type {kind!r}, and not a Feature or a "
                "FeatureCollection; export the regions as objects."
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
            f"{where} is a {kind}, and a region is a Polygon or MultiPolygon: draw it with the "
            "rectangle, polygon or brush tool."
        )
    polygons = [given] if kind == _KINDS[0] else given
    if not isinstance(polygons, list) or not polygons:
        raise InputError(f"{where} has no coordinates; {_REMEDY}")
    return [_rings(where, polygon) for polygon in polygons]


def _rings(where: str, polygon: Any) -> list[Ring]:
    if not isinstance(polygon, list) or not polygon:
        raise InputError(f"{where} has a polygon without an outline; {_REMEDY}")
    return [_ring(where, ring) for ring in polygon]


def _ring(where: str, ring: Any) -> Ring:
    points = ring if isinstance(ring, list) else []
    for point in points:
        if not isinstance(point, list) or len(point) < 2 or not all(map(_is_place, point[:2])):
            raise InputError(
                f"{where} has a point {_shown(point)}, which is not [x, y] in px; {_REMEDY}"
            )
    numbers = np.fromiter((n for point in points for n in point[:2]), np.float64, 2 * len(points))
    made = numbers.reshape(-1, 2)
    if _distinct(made[:_FEW]) < 3 and _distinct(made) < 3:
        raise InputError(f"{where} has an outline or a hole of fewer than three points; {_REMEDY}")
    return made


def _distinct(points: Ring) -> int:
    return len(np.unique(points, axis=0))


def _is_place(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) <= _LARGEST  # NaN is not


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:40]}…"


def change_features(
    path: Path,
    put: Iterable[Mapping[str, Any]],
    delete: Collection[str] = (),
    *,
    first: Path | None = None,
) -> dict[str, Any]:
    """Put features into a file and delete others: what others have changed meanwhile stays.

    Parameters
    ----------
    path
        A file of polygons, made if there is none.
    put
        Features, each in the place of that with its ``id``; without one it gets one.
    delete
        ``id`` of features.
    first
        Start content where there is no such file yet.

    Returns
    -------
    The collection as it is now.

    Raises
    ------
    InputError
        A feature is none, or the file is damaged; then nothing is changed.
    UnglowError
        It cannot be written.
    """
    new = [_put(number, feature) for number, feature in enumerate(put, 1)]
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


def _put(number: int, feature: Any) -> dict[str, Any]:
    where = f"feature {number}"
    check_feature(where, feature)
    polygons_of(where, feature)
    try:
        json.dumps(feature, allow_nan=False)
    except (RecursionError, ValueError) as error:
        raise InputError(f"{where} holds numbers that JSON has not; {_REMEDY}") from error
    given = feature.get("id")
    name = given if isinstance(given, str) and given else str(uuid.uuid4())
    return {**feature, "id": name}
