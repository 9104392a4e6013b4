"""The map of a pair as a displacement field (MetaImage) for ITK, SimpleITK, ANTs and elastix.

ITK maps points of the fixed image (post) to the moving one (pre), (x, y), origin in the centre of
the first pixel: the same direction and convention as here. Physical coordinates are pixel positions
times pixel size.

A linear function between samples h apart errs by h^2 / 8 times the greatest second derivative at
most; a bilinear one by the sum over both axes (de Boor, A Practical Guide to Splines, chapter 3).
The second derivative of a cubic B-spline along one axis is a weighted mean of second differences
of its control points over the square of their distance, so none exceeds the greatest of those.

Strips jump, which no interpolation follows: samples on two sides of a seam have a ramp between
them. With one sample for each pixel, no pixel of post is on a ramp.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from unglow import transform as transforms
from unglow.core.errors import InputError
from unglow.core.files import replace_file
from unglow.core.levels import nearest
from unglow.images.zarr import open_store
from unglow.images.zarr.layout import DOCUMENT

if TYPE_CHECKING:
    from pathlib import Path

    from unglow.core.arrays import Floats
    from unglow.transform import Transform
    from unglow.transform.displacement import Strips


ERROR_PX = 0.005
"""Error of linear interpolation that is allowed where the distance of samples is chosen, px."""
_WIDEST = 256
"""The largest distance that is chosen, px: a field that is coarser than that is small enough."""
_BAND_SAMPLES = 1 << 17
"""Samples that are computed at a time."""


def write_field(found: Transform, place: Path, target: Path, step: int | None = None) -> str:
    """Write the entire displacement, pre minus post position, as an uncompressed MetaImage.

    Parameters
    ----------
    found
        A map that did not fail.
    place
        Its directory. In micrometres if ``post.ome.zarr`` and ``pre.ome.zarr`` there or, as in a
        parameter sweep, above have a pixel size; otherwise in px.
    target
        ``*.mha`` to write: vectors (x, y) of float32.
    step
        Largest distance of the samples, integer px of post; None for `widest_step`.

    Returns
    -------
    One line that says what was written.

    Raises
    ------
    StoreError
        A store is damaged.
    """
    step = step or widest_step(found)
    post, pre = (_read_pixel_size(place, name) for name in ("post", "pre"))
    unit, sizes = ("um", (post, pre)) if post and pre else ("px", ((1.0, 1.0),) * 2)
    post_size, pre_size = np.array(sizes)
    lengths = np.array(found.post_shape[::-1]) - 1
    counts = [-(-length // step) + 1 for length in lengths.tolist()]
    x, y = (np.linspace(0, n, count) for n, count in zip(lengths, counts, strict=True))
    spacing = lengths / np.maximum(np.array(counts) - 1, 1)
    with replace_file(target) as partial, partial.open("wb") as stream:
        stream.write(_make_header(counts, spacing * post_size).encode("ascii"))
        for rows in np.array_split(y, -(-x.size * y.size // _BAND_SAMPLES)):
            at = np.stack(np.meshgrid(x, rows), axis=-1).reshape(-1, 2)
            stream.write((found.map(at) * pre_size - at * post_size).astype("<f4").tobytes())
    text = (
        f"{target}: displacements in {unit}, {counts[0]} x {counts[1]} samples at most {step} px "
        f"apart; linear interpolation between them is off by at most {error_px(found, step):.2g} px"
    )
    if (strips := _strips(found)) is not None:
        jump = np.hypot(*strips.jumps.T).max()
        text += f", but blurs the jumps (up to {jump:.2g} px) at seams of {strips.name}"
    return text


def load(path: Path) -> Transform:
    """Read a ``transform.json`` with its field; InputError if the registration failed."""
    if path.is_dir():
        raise InputError(f"{path} is a directory: name the transform.json of a pair.")
    found = transforms.load(path)
    if found.has_failed:
        raise InputError(f"{path} has no map to export: {' '.join(found.reasons)}")
    return found


def error_px(found: Transform, step: int) -> float:
    """Bound of the error of linear interpolation between samples ``step`` px apart, px of pre.

    It does not hold between samples on two sides of a seam.
    """
    curvature = _matrix_curvature(found.matrix, np.array(found.post_shape[::-1]) - 1.0)
    if found.displacement is not None:
        field = found.displacement
        along = [np.hypot(*np.diff(field.coefficients, n=2, axis=axis)).max() for axis in (1, 2)]
        curvature += float(sum(along)) / field.spacing_px**2
    return float(step**2 / 8 * curvature)


def widest_step(found: Transform) -> int:
    """Return the largest distance of samples with an error below `ERROR_PX`, 1 px or more.

    With strips it is 1, so that each pixel has the map of its own strip.
    """
    if _strips(found) is not None:
        return 1
    return next(s for s in range(_WIDEST, 0, -1) if s == 1 or error_px(found, s) <= ERROR_PX)


def _strips(found: Transform) -> Strips | None:
    return None if found.displacement is None else found.displacement.strips


def _matrix_curvature(matrix: Floats, last: Floats) -> float:
    """Sum of the greatest lengths of the second derivatives along x and y; 0 for an affine map.

    With u / w and v / w the coordinates in pre and g = dw/dx, the second derivative of u / w along
    x is -2 g (du/dx w - u g) / w^3, and the bracket does not depend on x: its extremes, like that
    of w, are at corners of the frame, from (0, 0) to ``last`` (x, y).
    """
    total = 0.0
    points = np.array([[x, y, 1.0] for x in (0.0, last[0]) for y in (0.0, last[1])])
    image = points @ matrix.T
    least = float(image[:, 2].min())
    if least <= 0:
        return math.inf
    for slope in matrix[:, :2].T:
        bracket = slope[:2] * image[:, 2:] - image[:, :2] * slope[2]
        total += 2 * abs(slope[2]) * float(np.hypot(*bracket.T).max()) / least**3
    return total


def _read_pixel_size(place: Path, name: str) -> tuple[float, float] | None:
    found = nearest(place, f"{name}.ome.zarr/{DOCUMENT}")
    return None if found is None else open_store(found.parent).pixel_size_um


def _make_header(counts: list[int], spacing: Floats) -> str:
    lines = {
        "ObjectType": "Image",
        "NDims": "2",
        "BinaryData": "True",
        "BinaryDataByteOrderMSB": "False",
        "CompressedData": "False",
        "TransformMatrix": "1 0 0 1",
        "Offset": "0 0",
        "CenterOfRotation": "0 0",
        "ElementSpacing": " ".join(map(repr, spacing.tolist())),
        "DimSize": f"{counts[0]} {counts[1]}",
        "ElementNumberOfChannels": "2",
        "ElementType": "MET_FLOAT",
        "ElementDataFile": "LOCAL",
    }
    return "".join(f"{key} = {value}\n" for key, value in lines.items())
