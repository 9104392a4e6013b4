"""Landmarks that are clicked on a page: what they fit, and the file that `register` reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.errors import InputError, UnglowError
from unglow.core.files import read_file, replace_file, write_text
from unglow.registration.user_hints import landmark_fits, landmark_problem
from unglow.transform import apply_matrix
from unglow.transform.landmarks import (
    Landmarks,
    check_points,
    format_both,
    format_one,
    read_landmarks,
)
from unglow.viewer.raw_files import LANDMARKS, beside, why_not_writable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.transform.landmarks import Frame
    from unglow.viewer.raw_files import RawFiles

NAME = "landmarks.csv"
"""Of the file in a pair's results, where none can be written beside its raw images."""
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


def target_of(raw: RawFiles, results: Path) -> Target:
    """Return the files of landmarks of a pair, whose results are in a directory."""
    aside = (results / NAME,)
    if raw.of_slide:
        return Target(aside, f"{raw.problem} The file lies with the results alone.")
    if raw.pair is None:
        how = "name it in the column landmarks of a sample sheet once they are found"
        return Target(aside, f"{raw.problem} The file lies with the results: {how}.")
    usual = beside(raw.pair.post, LANDMARKS)
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


def fitted(points: Sequence[Any], post: Frame, pre: Frame, max_scale: float) -> dict[str, Any]:
    """Fit a map to points as `register` does, those with a place in both images.

    Returns
    -------
    ``model``, ``matrix`` (3 x 3, post to pre; None if there is none), ``residuals_px`` of each
    point (None if it has no partner) and ``problem``, a sentence or empty.
    """
    whole = [_is_whole(point) for point in points]
    left: list[float | None] = [None] * len(points)
    nothing = {"model": "", "matrix": None, "residuals_px": left}
    try:
        landmarks = landmarks_of([p for p, is_whole in zip(points, whole, strict=True) if is_whole])
        _check(landmarks, post, pre)
        fits = landmark_fits(landmarks)
    except InputError as error:
        return {**nothing, "problem": str(error)}
    if not fits:
        return {**nothing, "problem": "All landmarks lie on one line: click some beside it."}
    model, matrix = fits[0]
    missed = np.hypot(*(apply_matrix(matrix, landmarks.post) - landmarks.pre).T).tolist()
    for k in np.flatnonzero(whole)[::-1]:
        left[k] = round(missed.pop(), 3)
    problem = landmark_problem(landmarks, matrix, post.shape, max_scale)
    return {"model": model, "matrix": matrix.tolist(), "residuals_px": left, "problem": problem}


def save(points: Sequence[Any], target: Target, post: Frame, pre: Frame) -> list[Path]:
    """Write points in the place of the landmarks of a pair; what was there is kept beside it.

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


def _is_whole(point: Any) -> bool:
    return isinstance(point, dict) and all(point.get(role) is not None for role in _ROLES)


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
    if before == text.encode():
        return []
    kept = file.with_name(f"{file.name}.before")
    with replace_file(kept) as temporary:
        temporary.write_bytes(before)
    return [kept]
