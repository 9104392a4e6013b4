"""Initial matrix: a first map from post to pre that the user gives in a file."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.errors import InputError
from unglow.core.files import read_file
from unglow.transform.matrix import apply_matrix

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.transform.landmarks import Frame

_SAMPLES = 5
"""Points along each axis of post that show whether a matrix leads into pre."""
_LARGEST = 1e12
"""Elements of a matrix that leads into an image are smaller."""
_LEAST_AREA = 1e-6
"""Least change of area of a matrix that maps post onto an area."""


def read_initial(path: Path, post: Frame, pre: Frame) -> NDArray[np.float64]:
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
    try:
        text = read_file(path).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(f"{path} cannot be read ({why}): {_describe_formats()}") from error
    content = _parse_json(text)
    if isinstance(content, dict):
        content = _parse_transform(path, content, post, pre)
    elif content is None:
        content = _parse_text(text)
    matrix = _parse_numbers(path, content)
    _check(path, matrix, post, pre)
    return matrix


def _describe_formats() -> str:
    return (
        "an initial transform is a 3 x 3 matrix from post (x, y, 1) to pre in px, as a JSON list "
        "of rows, as text with three numbers in each of three lines, or in a transform.json."
    )


def _parse_json(text: str) -> Any:
    """Return what JSON text holds; None if it is no JSON."""
    try:
        return json.loads(text)
    except (RecursionError, ValueError):
        return None


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


def _parse_text(text: str) -> list[list[str]]:
    """Return the cells of text, without comments."""
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    return [re.split(r"[,;\s]+", line.strip(",;")) for line in lines if line]


def _parse_numbers(path: Path, content: Any) -> NDArray[np.float64]:
    try:
        matrix = np.array(content, dtype=np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        raise InputError(
            f"{path} holds something else than numbers: {_describe_formats()}"
        ) from error
    if matrix.shape != (3, 3) or not np.isfinite(matrix).all():
        raise InputError(f"{path} does not hold 3 x 3 finite numbers: {_describe_formats()}")
    with np.errstate(all="ignore"):
        matrix = np.asarray(matrix / matrix[2, 2], dtype=np.float64)
    if not (np.abs(matrix) < _LARGEST).all() or abs(np.linalg.det(matrix)) < _LEAST_AREA:
        raise InputError(
            f"{path} holds a matrix that maps post onto a line or a point: correct it."
        )
    return matrix


def _check(path: Path, matrix: NDArray[np.float64], post: Frame, pre: Frame) -> None:
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
