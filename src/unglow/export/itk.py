"""Displacement fields (MetaImage) and transforms (``.tfm``) for ITK and SimpleITK.

ITK maps points of the fixed image (post) to the moving one (pre), (x, y), origin in the centre of
the first pixel: the same direction and convention as here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.files import replacing, write_text
from unglow.core.windows import Window
from unglow.export.map_sampling import SampleGrid, precision, widest_step

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.export.physical_map import PhysicalMap

_BAND_SAMPLES = 1 << 20
"""Samples of a band of rows, which is held at a time: at most 16 MB."""
_TILE_COLUMNS = 1024
"""Columns of it that are computed at a time."""


def write_field(physical: PhysicalMap, target: Path, step: int | None = None) -> str:
    """Write the whole displacement, pre minus post position, as an uncompressed MetaImage.

    Parameters
    ----------
    physical
        The map.
    target
        ``*.mha`` to write: vectors (x, y) of float32, or float64 where that is too coarse.
    step
        Distance of the samples, whole px of post; None for `widest_step`.

    Returns
    -------
    One line that says what was written.
    """
    grid = SampleGrid(physical.transform, step or widest_step(physical.transform))
    dtype = np.dtype(precision(physical.transform)).newbyteorder("<")
    with replacing(target) as partial, partial.open("wb") as stream:
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
    affine = _section("AffineTransform_double_2_2", physical.affine_parameters, [0, 0])
    sections, what = [affine], "affine transform"
    if physical.coefficients is not None:
        moved = np.tensordot(np.linalg.inv(physical.matrix[:2, :2]), physical.coefficients, axes=1)
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
    lie on its last knot. What is added has no weight up to there.

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
