"""Landmarks and regions that are drawn on a page, and the files that the workflow reads."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.errors import InputError, UnglowError
from unglow.core.files import read_file, write_text
from unglow.core.windows import Window, strips
from unglow.pages.viewer.raw_files import LANDMARKS, file_next_to, why_not_writable
from unglow.registration.user_hints import landmark_fits, landmark_problem
from unglow.review.counts import describe_region
from unglow.review.regions import keep_previous, read_collection, regions_of
from unglow.transform import apply_matrix
from unglow.transform.landmarks import (
    Landmarks,
    check_points,
    format_both,
    format_one,
    read_landmarks,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from unglow.pages.viewer.layers import Shown
    from unglow.pages.viewer.raw_files import RawFiles
    from unglow.review.decisions import Review
    from unglow.transform.landmarks import Frame


NAME = "landmarks.csv"
"""Of the file in a pair's results, where none can be written next to its raw images."""
MOST = 10_000
_LONGEST_NAME = 200
_ROLES = ("post", "pre")


@dataclass(frozen=True, slots=True)
class Target:
    """Where landmarks are kept.

    Attributes
    ----------
    files
        A table of both images, or that of post and that of pre.
    note
        What is left to do so that `register` reads them; empty if nothing.
    """

    files: tuple[Path, ...]
    note: str = ""


def choose_target(raw: RawFiles, results: Path) -> Target:
    """Return the files of landmarks of a pair, whose results are in a directory."""
    aside = (results / NAME,)
    if raw.of_slide:
        return Target(aside, f"{raw.problem} The file is in the results only.")
    if raw.pair is None:
        how = "name it in the column landmarks of a sample sheet once they are found"
        return Target(aside, f"{raw.problem} The file is in the results: {how}.")
    usual = file_next_to(raw.pair.post, LANDMARKS)
    files = raw.pair.landmarks or (() if raw.sheet is not None else (usual,))
    if not files:
        return Target(aside, f"Name the file in the column landmarks of {raw.sheet}.")
    for file in files:
        if why := why_not_writable(file, raw.places):
            there = " and ".join(map(str, files))
            return Target(
                aside, f"{why} The file is saved in the results: put it in the place of {there}."
            )
    return Target(files)


def read_points(raw: RawFiles, target: Target, post: Frame, pre: Frame) -> list[dict[str, Any]]:
    """Return the landmarks that there are, first those that `register` reads.

    Raises
    ------
    InputError
        A file of them cannot be used.
    """
    given = () if raw.pair is None else raw.pair.landmarks
    files = [file for file in given or target.files if file.is_file()]
    if not files:
        return []
    found = read_landmarks(files, post, pre)
    places = zip(found.names, found.post.tolist(), found.pre.tolist(), strict=True)
    return [{"name": name, "post": here, "pre": there} for name, here, there in places]


def fit(points: Sequence[Any], post: Frame, pre: Frame, max_scale: float) -> dict[str, Any]:
    """Fit a map to points as `register` does, those with a place in both images.

    Returns
    -------
    ``model``, ``matrix`` (3 x 3, post to pre; None if there is none), ``residuals_px`` of each
    point (None if it has no partner) and ``problem``, a sentence or empty.
    """
    complete = [
        isinstance(point, dict) and all(point.get(role) is not None for role in _ROLES)
        for point in points
    ]
    left: list[float | None] = [None] * len(points)
    nothing = {"model": "", "matrix": None, "residuals_px": left}
    try:
        landmarks = landmarks_of([p for p, ok in zip(points, complete, strict=True) if ok])
        _check(landmarks, post, pre)
        fits = landmark_fits(landmarks)
    except InputError as error:
        return {**nothing, "problem": str(error)}
    if not fits:
        return {**nothing, "problem": "All landmarks lie on one line: click some next to it."}
    model, matrix = fits[0]
    missed = np.hypot(*(apply_matrix(matrix, landmarks.post) - landmarks.pre).T).tolist()
    for k in np.flatnonzero(complete)[::-1]:
        left[k] = round(missed.pop(), 3)
    problem = landmark_problem(landmarks, matrix, post.shape, max_scale)
    return {"model": model, "matrix": matrix.tolist(), "residuals_px": left, "problem": problem}


def save(points: Sequence[Any], target: Target, post: Frame, pre: Frame) -> list[Path]:
    """Write points in the place of the landmarks of a pair; what was there is kept next to it.

    Returns
    -------
    Where that is.

    Raises
    ------
    InputError
        The points cannot be landmarks.
    UnglowError
        They cannot be written.
    """
    landmarks = landmarks_of(points)
    _check(landmarks, post, pre)
    texts = [format_both(landmarks)]
    if len(target.files) > 1:
        texts = [format_one(landmarks.names, getattr(landmarks, role)) for role in _ROLES]
    kept = []
    for file, text in zip(target.files, texts, strict=True):
        kept += _kept(file, text)
        write_text(file, text)
    return kept


def landmarks_of(points: Sequence[Any]) -> Landmarks:
    """Return landmarks of what a page sends, each with ``name``, ``post`` and ``pre``.

    Raises
    ------
    InputError
        Something of it is of another kind, or there are too many.
    """
    if len(points) > MOST:
        raise InputError(f"There are {len(points)} landmarks, and {MOST} are the most.")
    names = tuple(_name(point, k) for k, point in enumerate(points, 1))
    if len(set(names)) < len(names):
        twin = next(name for name in names if names.count(name) > 1)
        raise InputError(f"Two landmarks are called '{twin}': rename one.")
    post, pre = (_places(points, role) for role in _ROLES)
    return Landmarks(post, pre, names)


def _name(point: Any, number: int) -> str:
    given = point.get("name") if isinstance(point, dict) else None
    name = " ".join(str(given if given is not None else "").split())
    return name[:_LONGEST_NAME] or str(number)


def _places(points: Sequence[Any], role: str) -> NDArray[np.float64]:
    try:
        places = np.array([point[role] for point in points], dtype=np.float64).reshape(-1, 2)
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise InputError(f"A landmark needs its place in {role}, [x, y] in px.") from error
    if len(places) != len(points) or not np.isfinite(places).all():
        raise InputError(f"A landmark needs its place in {role}, [x, y] in px.")
    return places


def _check(landmarks: Landmarks, post: Frame, pre: Frame) -> None:
    def where(*points: int) -> str:
        names = " and ".join(f"'{landmarks.names[k]}'" for k in points)
        return f"Landmark{'s' * (len(points) > 1)} {names}" if points else "The list"

    check_points("post", landmarks.post, post, where)
    check_points("pre", landmarks.pre, pre, where)


def _kept(file: Path, text: str) -> list[Path]:
    """Keep what is in the place of a new file, if it is something else, and say where."""
    try:
        before = read_file(file)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UnglowError(f"{file} cannot be read ({error.strerror}): move it away.") from error
    return [] if before == text.encode() else [keep_previous(file, before)]


_PX_AT_ONCE = 1 << 22
# Number of regions whose areas are kept.
_AREAS = 256


def add_state(
    collection: Mapping[str, Any], why: str, raw: RawFiles, counts: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a collection with what a page has to know of it, as its member ``unglow``.

    That is ``writable`` and ``why`` not (empty if it is), the ``file`` that the workflow reads or
    would read, ``in_use``, whether it holds the same features, and ``counts`` of each feature by
    its id.
    """
    used = raw.regions_target
    state = {
        "writable": not why,
        "why": why,
        "file": "" if used is None else str(used),
        "in_use": collection["features"] == ([] if used is None else _features(used)),
        "counts": dict(counts),
    }
    return {**collection, "unglow": state}


def count_regions(
    collection: Mapping[str, Any],
    drawn: Path,
    review: Review,
    counted: NDArray[np.bool_],
    post: Shown,
) -> dict[str, dict[str, Any]]:
    """Return candidates and accepted ones in each region of a collection, by the feature's id.

    ``counted`` (N,) says which of the review's candidates are counted as such. Areas are those of
    the regions within post, whether or not all of it was searched.
    """
    found = {}
    for feature in collection["features"]:
        text = json.dumps(feature, sort_keys=True)
        try:
            area = _area(text, post.shape)
            regions = regions_of(drawn, [feature])
        except InputError:  # the workflow says what is wrong with it
            continue
        for region in (*regions.exclude, *regions.analyse):
            found[feature["id"]] = describe_region(
                region, review, counted, area, post.pixel_size_um
            )
    return found


@lru_cache(_AREAS)
def _area(feature: str, shape: tuple[int, int]) -> int:
    """Return the px of a region, of JSON, that lie within an image of ``shape``."""
    regions = regions_of(Path(), [json.loads(feature)])
    area = 0
    for region in (*regions.exclude, *regions.analyse):
        box = region.box.common(Window.from_shape(shape))
        for strip in strips(box, max(1, _PX_AT_ONCE // max(1, box.shape[1]))):
            area += int(np.count_nonzero(region.to_mask(strip)))
    return area


def _features(path: Path) -> list[Any] | None:
    try:
        features: list[Any] = read_collection(path)["features"]
    except InputError:
        return None
    return features
