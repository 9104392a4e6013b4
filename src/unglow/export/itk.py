"""Displacement fields (MetaImage) and transforms (``.tfm``) for ITK and SimpleITK.

ITK maps points of the fixed image (post) to the moving one (pre), (x, y), origin in the centre of
the first pixel: the same direction and convention as here.

Samples of a map on a regular grid, and how far linear interpolation between them is off.

A linear function between samples h apart errs by h^2 / 8 times the greatest second derivative at
most; a bilinear one by the sum over both axes (de Boor, A Practical Guide to Splines, chapter 3).
The second derivative of a cubic B-spline along one axis is a weighted mean of second differences
of its control points over the square of their distance, so none exceeds the greatest of those.

Strips jump, which no interpolation follows: samples on two sides of a seam have a ramp between
them. With one sample for each pixel, no pixel of post is on a ramp.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.files import replace_file, write_text
from unglow.core.windows import Window
from unglow.transform import apply_matrix
from unglow.transform.displacement import find_cells, weights

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.export.physical_map import PhysicalMap
    from unglow.transform import Transform
    from unglow.transform.displacement import Displacement, Strips

    Floats = NDArray[np.float64]


ERROR_PX = 0.005
"""Error of linear interpolation that is allowed where the step is chosen here, px of pre."""
_WIDEST = 256
"""The widest step that is chosen, px: a field that is coarser than that is small enough."""
_FLOAT32_PX = 4096.0
"""Displacements below this are rounded by 0.00012 px at most in float32."""


@dataclass(frozen=True)
class SampleGrid:
    """Samples of a map, from the centre of the first pixel of post to its last or beyond.

    Attributes
    ----------
    transform
        Any that did not fail.
    step
        Distance of the samples, integer px of post.
    """

    transform: Transform
    step: int

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns) of samples."""
        ny, nx = (-(-(n - 1) // self.step) + 1 for n in self.transform.post_shape)
        return ny, nx

    def points(self, window: Window) -> Floats:
        """Positions in post of the samples of a window of the grid, (2, rows, cols) x and y, px."""
        y, x = np.mgrid[window.slices].astype(np.float64) * self.step
        return np.stack([x, y])

    def mapped(self, window: Window) -> Floats:
        """Map the samples of a window (rows and columns of the grid) into pre.

        Returns
        -------
        (2, rows, cols) float64: x and y in pre, px. A sample beyond the last row or column of
        post has the value that makes the interpolation right there.
        """
        points = self.points(window)
        flat = points.reshape(2, -1).T
        mapped = apply_matrix(self.transform.matrix, flat).T.reshape(points.shape)
        field = self.transform.displacement
        if field is not None:
            mapped += self._displacements(field, window)
        if field is not None and field.strips is not None:
            strips = field.strips  # its seams are in the frame that points are mapped to, or from
            index = strips.index((mapped if strips.image == "pre" else points)[strips.axis])
            for component in range(2):
                mapped[component] += strips.offsets[index, component]
        return mapped

    def _displacements(self, field: Displacement, window: Window) -> Floats:
        """Displacements of the samples of a window, (2, rows, cols) px, by two matrix products."""
        rows, cols = self.transform.post_shape
        spacing, (_, ny, nx) = field.spacing_px, field.coefficients.shape
        top, down = _operator(window.y0, window.y1, self.step, rows, spacing, ny)
        left, across = _operator(window.x0, window.x1, self.step, cols, spacing, nx)
        part = field.coefficients[:, top : top + down.shape[1], left : left + across.shape[1]]
        return np.asarray(down @ part @ across.T, dtype=np.float64)

    def description(self) -> str:
        """Return how many samples there are, how far apart, and how precise that is, in words."""
        ny, nx = self.shape
        text = (
            f"{nx} x {ny} samples {self.step} px apart; linear interpolation between them is off "
            f"by at most {error_px(self.transform, self.step):.2g} px"
        )
        strips = _strips(self.transform)
        if strips is None:
            return text
        return (
            f"{text}, but between samples on two sides of a seam of {strips.name} it blurs the "
            f"jump (up to {np.hypot(*strips.jumps.T).max():.2g} px)"
        )


def error_px(transform: Transform, step: int) -> float:
    """Bound of the error of linear interpolation on a grid of ``step`` px of post, px of pre.

    It does not hold between samples on two sides of a seam.
    """
    far = np.array([[0.0, 0.0], np.array(transform.post_shape[::-1]) - 1.0 + step])
    curvature = _matrix_curvature(transform.matrix, far)
    if transform.displacement is not None:
        field = transform.displacement
        along = [np.hypot(*np.diff(field.coefficients, n=2, axis=axis)).max() for axis in (1, 2)]
        curvature += float(sum(along)) / field.spacing_px**2
    return float(step**2 / 8 * curvature)


def widest_step(transform: Transform) -> int:
    """Return the widest step whose interpolation error stays below `ERROR_PX`, 1 px or more.

    With strips it is 1, so that each pixel has the map of its own strip.
    """
    if _strips(transform) is not None:
        return 1
    return next(s for s in range(_WIDEST, 0, -1) if s == 1 or error_px(transform, s) <= ERROR_PX)


def precision(transform: Transform) -> type[np.float32 | np.float64]:
    """Return float32 if that is precise enough for the displacements, otherwise float64."""
    rows, cols = transform.post_shape
    corners = np.array([[x, y] for x in (0.0, cols - 1.0) for y in (0.0, rows - 1.0)])
    longest = float(np.abs(apply_matrix(transform.matrix, corners) - corners).max())
    if transform.displacement is not None:
        longest += float(np.abs(transform.displacement.coefficients).max())
    strips = _strips(transform)
    if strips is not None:
        longest += float(np.abs(strips.offsets).max())
    return np.float32 if longest < _FLOAT32_PX else np.float64


def _strips(transform: Transform) -> Strips | None:
    return None if transform.displacement is None else transform.displacement.strips


def _matrix_curvature(matrix: Floats, corners: Floats) -> float:
    """Sum of the greatest lengths of the second derivatives along x and y; 0 for an affine map.

    Parameters
    ----------
    matrix
        (3, 3), post to pre; u / w and v / w are the coordinates in pre.
    corners
        (2, 2) first and last point (x, y) of the frame.

    Notes
    -----
    With g = dw/dx, the second derivative of u / w along x is -2 g (du/dx w - u g) / w^3, and the
    bracket does not depend on x: its extremes, like that of w, are at corners.
    """
    total = 0.0
    points = np.array([[x, y, 1.0] for x in corners[:, 0] for y in corners[:, 1]])
    image = points @ matrix.T
    least = float(image[:, 2].min())
    if least <= 0:
        return math.inf
    for axis in (0, 1):
        slope = matrix[:, axis]
        bracket = slope[:2] * image[:, 2:] - image[:, :2] * slope[2]
        total += 2 * abs(slope[2]) * float(np.hypot(*bracket.T).max()) / least**3
    return total


@lru_cache(maxsize=128)  # the same columns come again in each band of rows
def _operator(
    begin: int, end: int, step: int, size: int, spacing: int, count: int
) -> tuple[int, Floats]:
    """Matrix from control points to the samples begin..end of one axis; its first control point.

    The sample beyond the last of ``size`` pixels is on the line through the sample before it
    and the last pixel.
    """
    at = np.arange(begin, end) * step
    matrix = _weights(np.minimum(at, size - 1), spacing, count)
    beyond = at[-1] - (size - 1)
    if beyond > 0:
        before = at[-1] - step
        (row,) = _weights(np.array([before]), spacing, count)
        matrix[-1] = row + (matrix[-1] - row) * step / (step - beyond)
    used = np.flatnonzero(matrix.any(axis=0))
    matrix = matrix[:, used[0] : used[-1] + 1].copy()
    matrix.setflags(write=False)
    return int(used[0]), matrix


def _weights(positions: NDArray[np.int64], spacing: int, count: int) -> Floats:
    """Weights of all control points of one axis at positions (N,) in the frame, (N, count)."""
    first, t = find_cells(positions, spacing, count)
    matrix = np.zeros((len(positions), count))
    rows = np.arange(len(positions))
    for k, weight in enumerate(weights(t)):
        matrix[rows, first + k] = weight
    return matrix


_BAND_SAMPLES = 1 << 20
"""Samples of a band of rows, which is held at a time: at most 16 MB."""
_TILE_COLUMNS = 1024
"""Columns of it that are computed at a time."""


def write_field(physical: PhysicalMap, target: Path, step: int | None = None) -> str:
    """Write the entire displacement, pre minus post position, as an uncompressed MetaImage.

    Parameters
    ----------
    physical
        The map.
    target
        ``*.mha`` to write: vectors (x, y) of float32, or float64 where that is too coarse.
    step
        Distance of the samples, integer px of post; None for `widest_step`.

    Returns
    -------
    One line that says what was written.
    """
    grid = SampleGrid(physical.transform, step or widest_step(physical.transform))
    dtype = np.dtype(precision(physical.transform)).newbyteorder("<")
    with replace_file(target) as partial, partial.open("wb") as stream:
        stream.write(_header(physical, grid, dtype).encode("ascii"))
        for band in _bands(physical, grid, dtype):
            stream.write(band.data)
    return f"{target}: displacements in {physical.unit}, {grid.description()}"


def write_transform(physical: PhysicalMap, target: Path) -> str:
    """Write the map as an ITK transform file: an affine transform, after a B-spline if deformed.

    Exact: ITK's cubic B-spline is the one of the field. It moves the point before the affine
    transform does, so the control points go through the inverse of the affine part.

    Parameters
    ----------
    physical
        The map; affine but for a smooth field (`PhysicalMap.need_spline`).
    target
        ``*.tfm`` to write.

    Returns
    -------
    One line that says what was written.
    """
    linear, translation = physical.matrix[:2, :2], physical.matrix[:2, 2]
    parameters = np.concatenate([linear.ravel(), translation])
    affine = _section("AffineTransform_double_2_2", parameters, [0, 0])
    sections, what = [affine], "affine transform"
    if physical.coefficients is not None:
        moved = np.tensordot(np.linalg.inv(linear), physical.coefficients, axes=1)
        control, origin = beyond_frame(physical, moved)
        fixed = [*control.shape[:0:-1], *origin, *physical.knots, 1, 0, 0, 1]
        spline = _section("BSplineTransform_double_2_2", control.ravel(), fixed)
        sections = ["Transform: CompositeTransform_double_2_2\n", affine, spline]
        what = f"affine transform after a cubic B-spline of {control[0].size} control points"
    text = "#Insight Transform File V1.0\n"
    write_text(target, text + "".join(f"#Transform {k}\n{s}" for k, s in enumerate(sections)))
    return f"{target}: {what}, in {physical.unit}, exact"


def beyond_frame(
    physical: PhysicalMap, control: NDArray[np.float64]
) -> tuple[NDArray[np.float64], tuple[float, float]]:
    """Add a row and a column of control points at the far end; ITK needs them on the last knot.

    ITK and elastix move no point that is not well inside the grid, and the last pixel of post may
    are on its last knot. What is added has no weight up to there.

    Parameters
    ----------
    physical
        The map that the control points belong to.
    control
        (2, ny, nx) float64.

    Returns
    -------
    (2, ny + 1, nx + 1) control points, and the position (x, y) of the first one, physical.
    """
    padded = np.pad(control, ((0, 0), (0, 1), (0, 1)), mode="edge")
    return padded, (-physical.knots[0], -physical.knots[1])


def numbers(values: NDArray[np.float64] | list[float] | tuple[float, ...]) -> str:
    """Write numbers so that they read back as the same float64, with spaces between."""
    return " ".join(repr(float(v)) for v in values)


def _section(name: str, parameters: NDArray[np.float64], fixed: list[float]) -> str:
    return (
        f"Transform: {name}\nParameters: {numbers(parameters)}\nFixedParameters: {numbers(fixed)}\n"
    )


def _header(physical: PhysicalMap, grid: SampleGrid, dtype: np.dtype[Any]) -> str:
    spacing = [grid.step * size for size in physical.post_size]
    lines = {
        "ObjectType": "Image",
        "NDims": "2",
        "BinaryData": "True",
        "BinaryDataByteOrderMSB": "False",
        "CompressedData": "False",
        "TransformMatrix": "1 0 0 1",
        "Offset": "0 0",
        "CenterOfRotation": "0 0",
        "ElementSpacing": numbers(spacing),
        "DimSize": f"{grid.shape[1]} {grid.shape[0]}",
        "ElementNumberOfChannels": "2",
        "ElementType": "MET_FLOAT" if dtype.itemsize == 4 else "MET_DOUBLE",
        "ElementDataFile": "LOCAL",
    }
    return "".join(f"{key} = {value}\n" for key, value in lines.items())


def _bands(physical: PhysicalMap, grid: SampleGrid, dtype: np.dtype[Any]) -> Iterator[NDArray[Any]]:
    """Displacements (rows, columns, 2) of band after band of rows, physical."""
    ny, nx = grid.shape
    pre, post = (np.array(size)[:, None, None] for size in (physical.pre_size, physical.post_size))
    height = max(1, _BAND_SAMPLES // nx)
    for top in range(0, ny, height):
        rows = min(height, ny - top)
        band = np.empty((rows, nx, 2), dtype=dtype)
        for left in range(0, nx, _TILE_COLUMNS):
            window = Window(top, top + rows, left, min(left + _TILE_COLUMNS, nx))
            moved = grid.mapped(window) * pre - grid.points(window) * post
            band[:, window.x0 : window.x1] = moved.transpose(1, 2, 0)
        yield band
