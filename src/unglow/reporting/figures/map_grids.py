"""What a registration did to a section and how well it is known, on grids small enough to draw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.transform import jacobians

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.transform import Transform
    from unglow.transform.displacement import Displacement

    Floats = NDArray[np.float64]

# Cells along the longer side of a section: of what is computed at each of them, and of the error of
# a matrix, which takes longer.
_FINE, _COARSE = 110, 32
# The error of a matrix is estimated from so many blocks at least.
_LEAST_FITTED = 8
# Width of the cells of `covered`, in mean distances of blocks.
_NEARBY = 1.5


@dataclass(frozen=True, slots=True)
class Grid:
    """Values on a regular grid over post.

    Attributes
    ----------
    values
        (rows, cols); [i, k] is the value around (x, y) = ``first`` + ``step`` * (k, i).
    step, first
        Distance of the places, and x and y of the first one, level-0 px.
    """

    values: NDArray[Any]
    step: float
    first: float

    def sampled(self, frame: tuple[int, int], rows: int, cols: int) -> NDArray[Any]:
        """Return the nearest values for (rows, cols) pixels that share a frame (rows, columns)."""
        nearest = []
        for size, count, length in zip(frame, (rows, cols), self.values.shape, strict=True):
            at = (np.arange(count) + 0.5) * size / count - 0.5
            index = np.rint((at - self.first) / self.step).astype(np.intp)
            nearest.append(np.clip(index, 0, length - 1))
        return np.asarray(self.values[np.ix_(*nearest)])

    def at(self, points: Floats) -> NDArray[Any]:
        """Return the nearest values of points (N, 2) (x, y), (N,)."""
        index = np.rint((points[:, ::-1] - self.first) / self.step).astype(np.intp)
        rows, cols = np.clip(index, 0, np.array(self.values.shape) - 1).T
        return np.asarray(self.values[rows, cols])

    def filled(self, values: Floats) -> Grid:
        """Return this grid with other values, (N,) in row order."""
        return Grid(values.reshape(self.values.shape), self.step, self.first)

    def places(self) -> Floats:
        """Points (x, y) of all values in row order, (N, 2)."""
        row, col = np.indices(self.values.shape)
        points = np.column_stack([col.ravel(), row.ravel()]) * self.step + self.first
        return np.asarray(points, np.float64)


def lattice(frame: tuple[int, int], count: int) -> Grid:
    """Return square cells over a frame (rows, columns), ``count`` on its longer side; NaN yet."""
    side = max(frame) / count
    shape = [max(1, round(n / side)) for n in frame]
    return Grid(np.full(shape, np.nan), side, (side - 1) / 2)


def error_of_map(transform: Transform, blocks: NDArray[np.void]) -> Grid:
    """Return the estimated error of the map over post, px; NaN where there are too few blocks.

    With a field it is what the field's file holds; for a matrix alone it is estimated again from
    the blocks, in the way of ``transform.error_px`` (`unglow.registration.quality.map_error`).
    """
    field = transform.displacement
    if field is not None and field.error_px.size:
        return Grid(field.error_px, field.spacing_px, -field.spacing_px)
    unknown = lattice(transform.post_shape, _COARSE)
    fitted = blocks["used"] & ~blocks["held_out"]
    if field is not None or np.count_nonzero(fitted) < _LEAST_FITTED:
        return unknown
    # Needed for a matrix alone; it brings OpenCV along, which takes 0.15 s.
    from unglow.registration.phase_correlation import Matches  # noqa: PLC0415
    from unglow.registration.quality import map_error  # noqa: PLC0415

    post = np.column_stack([blocks["x"], blocks["y"]])
    pre = np.column_stack([blocks["pre_x"], blocks["pre_y"]])
    matches = Matches(post, pre, blocks["quality"])
    error = map_error(
        transform.model, matches, fitted, blocks["used"], transform.matrix, unknown.places()
    ).lengths
    return unknown.filled(error * 2.0**-transform.octaves)  # pre may be finer or coarser than post


def covered(blocks: NDArray[np.void], frame: tuple[int, int]) -> Grid:
    """Return where a block that agrees with the map is near: in a cell or one of the 8 around it.

    Cells are `_NEARBY` times as wide as blocks lie apart on average.
    """
    area = np.ptp(blocks["x"]) * np.ptp(blocks["y"]) if len(blocks) else 0.0
    side = _NEARBY * float(np.sqrt(area / max(len(blocks), 1)))
    side = max(side, max(frame) / _FINE, 1.0)
    rows, cols = (int(n // side) + 1 for n in frame)
    near = np.zeros((rows + 2, cols + 2), dtype=np.bool_)
    used = blocks[blocks["used"]]
    row, col = (
        np.clip((used[name] // side).astype(np.intp), 0, count - 1)
        for name, count in (("y", rows), ("x", cols))
    )
    for down in range(3):
        for right in range(3):
            near[row + down, col + right] = True
    return Grid(near[1:-1, 1:-1], side, (side - 1) / 2)


def displacement_length(field: Displacement, frame: tuple[int, int]) -> Grid:
    """Return the length of the displacement over a frame (rows, columns), px of pre."""
    grid = lattice(frame, _FINE)
    return grid.filled(np.hypot(*field.evaluate(grid.places()).T))


def area_ratio(transform: Transform) -> Grid:
    """Return the area of the map with its field over that of the matrix alone.

    The ratio of the two Jacobian determinants. 1 everywhere without a field.
    """
    grid = lattice(transform.post_shape, _FINE)
    points = grid.places()
    plain = jacobians(transform.matrix, points)
    whole = plain
    if transform.displacement is not None:
        whole = plain + transform.displacement.jacobian(points)
    return grid.filled(np.linalg.det(whole) / np.linalg.det(plain))


def turned_to_post(transform: Transform, vectors: Floats) -> Floats:
    """Turn vectors (N, 2) along the axes of pre into those of post; lengths stay what they are.

    What turns (or mirrors) is the orthogonal part of the matrix at the centre of post: Q of its
    polar decomposition.
    """
    rows, cols = transform.post_shape
    turning = jacobians(transform.matrix, np.array([[(cols - 1) / 2, (rows - 1) / 2]]))[0]
    if not np.isfinite(turning).all():
        return vectors
    left, _, right = np.linalg.svd(turning)
    return np.asarray(vectors @ (left @ right))
