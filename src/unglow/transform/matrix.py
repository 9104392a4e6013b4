"""3 x 3 matrices as maps of points (x, y), between pyramid levels, and from a file of the user."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.errors import InputError
from unglow.core.files import read_text

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import ArrayLike

    from unglow.core.arrays import Bools, Floats
    from unglow.transform.landmarks import Frame


def apply_matrix(matrix: Floats, points_xy: ArrayLike) -> Floats:
    """Apply a 3 x 3 matrix to (N, 2) points (x, y); NaN where a point goes beyond the horizon."""
    points = np.asarray(points_xy, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(f"points must be (N, 2), not {points.shape}")
    x, y = points[:, 0], points[:, 1]
    u, v, w = (row[0] * x + row[1] * y + row[2] for row in matrix)
    with np.errstate(invalid="ignore"):
        w = np.where(w > 0, w, np.nan)
    return np.stack([u / w, v / w], axis=1)


def jacobians(matrix: Floats, points_xy: Floats) -> Floats:
    """Return the derivatives of a matrix's map at points (N, 2) (x, y): differences over one px.

    They are exact for an affine map; for a homography with the last row (g, h, 1) they are off by
    up to about (g^2 + h^2) / 4 of themselves.

    Returns
    -------
    (N, 2, 2): [:, i, j] is the change of component i along axis j; NaN beyond the horizon.
    """
    halves = np.eye(2) / 2
    sides = [
        apply_matrix(matrix, points_xy + half) - apply_matrix(matrix, points_xy - half)
        for half in halves
    ]
    return np.stack(sides, axis=2)


def inside_frame(points: Floats, shape: tuple[int, int]) -> Bools:
    """Mark the points (N, 2) (x, y) that are on a pixel of a frame (rows, columns), (N,).

    A pixel reaches half a px beyond its centre; NaN is on none.
    """
    last = np.array(shape)[::-1] - 0.5
    return np.asarray(((points >= -0.5) & (points <= last)).all(axis=1), dtype=np.bool_)


def convert_to_level(matrix: Floats, level: int) -> Floats:
    """Convert a level-0 matrix into the pixels of pyramid ``level`` (of both images)."""
    up = to_level0(level)
    return np.linalg.inv(up) @ matrix @ up


def from_level(matrix: Floats, level: int) -> Floats:
    """Convert a matrix in the pixels of pyramid ``level`` (of both images) into a level-0 one."""
    up = to_level0(level)
    return up @ matrix @ np.linalg.inv(up)


def convert_levels(matrix: Floats, post: int, pre: int) -> Floats:
    """Convert a level-0 matrix into px of a pyramid level of ``post`` and one of ``pre``.

    Negative levels convert back.
    """
    moved = to_level0(-pre) @ matrix @ to_level0(post)
    return np.asarray(moved / moved[2, 2], dtype=np.float64)


def to_level0(level: int) -> Floats:
    """Return the 3 x 3 matrix from pixels of a pyramid level to level-0 pixels.

    That of a negative level leads back.
    """
    factor = 2.0**level
    offset = (factor - 1) / 2
    return np.array([[factor, 0, offset], [0, factor, offset], [0, 0, 1]])


_SAMPLES = 5
"""Points along each axis of post that show whether a matrix leads into pre."""
_LARGEST = 1e12
"""Elements of a matrix that leads into an image are smaller."""
_LEAST_AREA = 1e-6
"""Least change of area of a matrix that maps post onto an area."""
_FORMATS = (
    "an initial transform is a 3 x 3 matrix from post (x, y, 1) to pre in px: a JSON list of "
    "rows, three lines of three numbers, or a transform.json"
)


def read_initial(path: Path, post: Frame, pre: Frame) -> Floats:
    """Read a matrix from post (x, y, 1) to pre (x, y, 1), level-0 px, pixel centres at integers.

    Parameters
    ----------
    path
        A ``transform.json`` of unglow (of which a displacement field is left aside), a JSON list of
        three rows, or text: three lines of three numbers with commas, semicolons or spaces.
    post, pre
        The images.

    Returns
    -------
    (3, 3) float64 with element [2, 2] = 1.

    Raises
    ------
    InputError
        The file cannot be read, or its matrix sends no part of post into pre.
    """
    text = read_text(path, what="the initial transform", remedy=_FORMATS)
    try:
        content = json.loads(text)
    except (RecursionError, ValueError):  # lines of numbers, then, with comments
        lines = [line.partition("#")[0].strip() for line in text.splitlines()]
        content = [re.split(r"[,;\s]+", line.strip(",;")) for line in lines if line]
    if isinstance(content, dict):
        content = _parse_transform(path, content, post, pre)
    matrix = _parse_numbers(path, content)
    _check_reaches_pre(path, matrix, post, pre)
    return matrix


def _parse_transform(path: Path, content: dict[str, Any], post: Frame, pre: Frame) -> Any:
    """Return the matrix of a transform.json that was made for images of the same shapes."""
    if content.get("status") == "failed":
        raise InputError(
            f"{path} is that of a registration that failed, so it holds no map: name another file."
        )
    for role, frame in (("post", post), ("pre", pre)):
        shape = content.get(f"{role}_shape", list(frame.shape))
        if list(frame.shape) != shape:
            raise InputError(
                f"{path} belongs to a {role}-stain image of another size than the one of this pair "
                f"({frame.shape[1]} x {frame.shape[0]} px): name the one that belongs to it."
            )
    return content.get("matrix")


def _parse_numbers(path: Path, content: Any) -> Floats:
    try:
        matrix = np.array(content, dtype=np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        raise InputError(f"{path} contains something other than numbers: {_FORMATS}.") from error
    if matrix.shape != (3, 3) or not np.isfinite(matrix).all():
        raise InputError(f"{path} does not hold 3 x 3 finite numbers: {_FORMATS}.")
    with np.errstate(all="ignore"):
        matrix = np.asarray(matrix / matrix[2, 2], dtype=np.float64)
    if not (np.abs(matrix) < _LARGEST).all() or abs(np.linalg.det(matrix)) < _LEAST_AREA:
        raise InputError(
            f"{path} holds a matrix that maps post onto a line or a point: correct it."
        )
    return matrix


def _check_reaches_pre(path: Path, matrix: Floats, post: Frame, pre: Frame) -> None:
    """Raise for a matrix that sends no point of post into pre."""
    rows, cols = post.shape
    x, y = np.meshgrid(np.linspace(0, cols - 1, _SAMPLES), np.linspace(0, rows - 1, _SAMPLES))
    mapped = apply_matrix(matrix, np.column_stack([x.ravel(), y.ravel()]))
    with np.errstate(invalid="ignore"):
        inside = ((mapped >= 0) & (mapped <= np.array(pre.shape)[::-1] - 1)).all(axis=1)
    if not inside.any():
        raise InputError(
            f"{path} puts the post-stain image wholly outside of the pre-stain image: its matrix "
            "has to take post (x, y, 1) to pre in px of the full images; is it the other way "
            "round, or of smaller versions?"
        )
