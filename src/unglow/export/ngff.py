"""OME-Zarr 0.6 coordinate transformations: an affine one, after a displacement field if deformed.

Version 0.6 (https://ngff.openmicroscopy.org/0.6/) is the first with affine transformations and
displacements; 0.5 knows scale and translation only. A *scene* holds them, with coordinate systems
named ``post`` and ``pre``; coordinates are (y, x), origin in the centre of the first pixel, and
displacements live in a multiscale image of their own, axes (c, y, x) with c = y, x.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.windows import grid as windows
from unglow.export.map_sampling import SampleGrid, precision, widest_step
from unglow.export.targets import whole_directory

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.core.windows import Window
    from unglow.export.physical_map import PhysicalMap

VERSION = "0.6"
"""Of the OME-Zarr specification that the scene follows."""
_FIELD = "coordinateTransformations/displacements"
_CHUNK = 512
"""Side of the chunks of displacements, samples."""


def write_scene(physical: PhysicalMap, target: Path, step: int | None = None) -> str:
    """Write a scene with the transformation from ``post`` to ``pre``.

    With an affine matrix, the field comes first and the matrix after it, so that the matrix stays
    exact and also holds outside of the samples. A homography is all in the displacements.

    Parameters
    ----------
    physical
        The map.
    target
        ``*.zarr`` directory to make.
    step
        Distance of the samples of the field, whole px of post; None for `widest_step`.

    Returns
    -------
    One line that says what was written.
    """
    import zarr  # noqa: PLC0415 (0.2 s)

    sampled = physical.transform.displacement is not None or not physical.affine
    with whole_directory(target) as partial:
        scene = _scene(physical, sampled=sampled)
        root = zarr.create_group(partial, zarr_format=3, attributes={"ome": scene})
        if not sampled:
            return f"{target}: affine transformation in {physical.unit}, exact"
        grid = SampleGrid(physical.transform, step or widest_step(physical.transform))
        group = root.create_group(_FIELD, attributes={"ome": _field(physical, grid)})
        dtype = precision(physical.transform, matrix=not physical.affine)
        array = group.create_array(
            "0",
            shape=(2, *grid.shape),
            chunks=(2, *(min(_CHUNK, n) for n in grid.shape)),
            dtype=dtype,
            fill_value=np.nan,
            dimension_names=("c", "y", "x"),
        )
        for window in windows(grid.shape, (_CHUNK, _CHUNK)):
            array[(slice(None), *window.slices)] = _displacements(physical, grid, window)
    return f"{target}: displacements in {physical.unit}, {grid.description()}"


def _scene(physical: PhysicalMap, *, sampled: bool) -> dict[str, Any]:
    """Metadata of the scene, the value of ``ome``."""
    affine = {"type": "affine", "affine": _by_row(physical.matrix).tolist()}
    field = {"type": "displacements", "path": _FIELD, "interpolation": "linear"}
    steps = [*([field] if sampled else []), *([affine] if physical.affine else [])]
    only = steps[0] if len(steps) == 1 else {"type": "sequence", "transformations": steps}
    ends = {"name": "post to pre", "input": {"name": "post"}, "output": {"name": "pre"}}
    axes = _axes(physical)
    return {
        "version": VERSION,
        "scene": {
            "coordinateSystems": [{"name": name, "axes": axes} for name in ("post", "pre")],
            "coordinateTransformations": [{**only, **ends}],
        },
    }


def _field(physical: PhysicalMap, grid: SampleGrid) -> dict[str, Any]:
    """Metadata of the multiscale image of displacements, the value of ``ome``."""
    scale = [1.0, *(grid.step * size for size in reversed(physical.post_size))]
    ends = {"input": {"path": "0"}, "output": {"name": "field"}}
    axes = [{"name": "c", "type": "displacement", "discrete": True}, *_axes(physical)]
    return {
        "version": VERSION,
        "multiscales": [
            {
                "name": "displacements",
                "coordinateSystems": [{"name": "field", "axes": axes}],
                "datasets": [
                    {
                        "path": "0",
                        "coordinateTransformations": [{"type": "scale", "scale": scale, **ends}],
                    }
                ],
            }
        ],
    }


def _axes(physical: PhysicalMap) -> list[dict[str, str]]:
    unit = {"unit": "micrometer"} if physical.unit == "um" else {}
    return [{"name": name, "type": "space", **unit} for name in ("y", "x")]


def _by_row(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Turn a matrix for (x, y, 1) into the first two rows of one for (y, x, 1)."""
    return matrix[np.ix_((1, 0), (1, 0, 2))]


def _displacements(physical: PhysicalMap, grid: SampleGrid, window: Window) -> NDArray[np.float64]:
    """Displacements before the affine part of the samples of a window, (2, rows, cols) y and x."""
    points = grid.points(window) * np.array(physical.post_size)[:, None, None]
    mapped = grid.mapped(window) * np.array(physical.pre_size)[:, None, None]
    if physical.affine:
        matrix = physical.matrix
        back = np.linalg.inv(matrix[:2, :2])
        mapped = np.tensordot(back, mapped - matrix[:2, 2, None, None], axes=1)
    return np.asarray((mapped - points)[::-1], dtype=np.float64)
