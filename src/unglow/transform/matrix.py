"""3 x 3 matrices as maps of points (x, y), at level 0 and at coarser levels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def apply_matrix(matrix: NDArray[np.float64], points_xy: ArrayLike) -> NDArray[np.float64]:
    """Apply a 3 x 3 matrix to (N, 2) points (x, y); NaN where a point goes beyond the horizon."""
    points = np.asarray(points_xy, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(f"points must be (N, 2), not {points.shape}")
    x, y = points[:, 0], points[:, 1]
    u, v, w = (row[0] * x + row[1] * y + row[2] for row in matrix)
    with np.errstate(invalid="ignore"):
        w = np.where(w > 0, w, np.nan)
    return np.stack([u / w, v / w], axis=1)


def jacobians(matrix: NDArray[np.float64], points_xy: NDArray[np.float64]) -> NDArray[np.float64]:
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


def inside_frame(points: NDArray[np.float64], shape: tuple[int, int]) -> NDArray[np.bool_]:
    """Mark the points (N, 2) (x, y) that are on a pixel of a frame (rows, columns), (N,).

    A pixel reaches half a px beyond its centre; NaN is on none.
    """
    last = np.array(shape)[::-1] - 0.5
    return np.asarray(((points >= -0.5) & (points <= last)).all(axis=1), dtype=np.bool_)


def convert_to_level(matrix: NDArray[np.float64], level: int) -> NDArray[np.float64]:
    """Convert a level-0 matrix into the pixels of pyramid ``level`` (of both images)."""
    up = to_level0(level)
    return np.linalg.inv(up) @ matrix @ up


def from_level(matrix: NDArray[np.float64], level: int) -> NDArray[np.float64]:
    """Convert a matrix in the pixels of pyramid ``level`` (of both images) into a level-0 one."""
    up = to_level0(level)
    return up @ matrix @ np.linalg.inv(up)


def convert_levels(matrix: NDArray[np.float64], post: int, pre: int) -> NDArray[np.float64]:
    """Convert a level-0 matrix into px of a pyramid level of ``post`` and one of ``pre``.

    Negative levels convert back.
    """
    moved = to_level0(-pre) @ matrix @ to_level0(post)
    return np.asarray(moved / moved[2, 2], dtype=np.float64)


def to_level0(level: int) -> NDArray[np.float64]:
    """Return the 3 x 3 matrix from pixels of a pyramid level to level-0 pixels.

    That of a negative level leads back.
    """
    factor = 2.0**level
    offset = (factor - 1) / 2
    return np.array([[factor, 0, offset], [0, factor, offset], [0, 0, 1]])
