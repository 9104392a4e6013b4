"""Transform parameter files for elastix and transformix.

elastix, too, maps points of the fixed image (post) to the moving one (pre), (x, y), origin in the
centre of the first pixel. Two transforms that are combined by ``Add`` move a point by the sum of
both displacements, which is what matrix and field do here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unglow.export.itk import beyond_frame, numbers
from unglow.export.targets import whole_directory

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from unglow.export.physical_map import PhysicalMap

_NAMES = ("TransformParameters.0.txt", "TransformParameters.1.txt")


def write_parameters(physical: PhysicalMap, target: Path) -> str:
    """Write an affine transform, and a B-spline transform that is added to it if there is a field.

    Exact: the cubic B-spline of elastix is the one of the field.

    Parameters
    ----------
    physical
        The map; affine but for a smooth field (`PhysicalMap.need_spline`).
    target
        Directory to make, with ``TransformParameters.0.txt`` and ``TransformParameters.1.txt``.

    Returns
    -------
    One line that says what was written.
    """
    files = [_affine(physical)]
    if physical.coefficients is not None:
        files.append(_spline(physical, physical.coefficients))
    with whole_directory(target) as partial:
        partial.mkdir()
        for name, text in zip(_NAMES, files, strict=False):
            (partial / name).write_text(text, encoding="ascii")
    last = target / _NAMES[len(files) - 1]
    return f"{last}: for transformix -tp, in {physical.unit}, exact"


def _affine(physical: PhysicalMap) -> str:
    more = {"HowToCombineTransforms": '"Compose"', "CenterOfRotationPoint": "0.0 0.0"}
    return _text(physical, "AffineTransform", physical.affine_parameters, more)


def _spline(physical: PhysicalMap, coefficients: NDArray[np.float64]) -> str:
    control, origin = beyond_frame(physical, coefficients)
    more = {
        "HowToCombineTransforms": '"Add"',
        "GridSize": f"{control.shape[2]} {control.shape[1]}",
        "GridIndex": "0 0",
        "GridSpacing": numbers(physical.knots),
        "GridOrigin": numbers(origin),
        "GridDirection": "1 0 0 1",
        "BSplineTransformSplineOrder": "3",
        "UseCyclicTransform": '"false"',
    }
    return _text(physical, "BSplineTransform", control.ravel(), more, initial=_NAMES[0])


def _text(
    physical: PhysicalMap,
    name: str,
    parameters: NDArray[np.float64],
    more: dict[str, str],
    initial: str = "NoInitialTransform",
) -> str:
    """One file: a transform, the frame of post, and how transformix is to resample pre."""
    rows, cols = physical.transform.post_shape
    lines = {
        "Transform": f'"{name}"',
        "NumberOfParameters": str(parameters.size),
        "TransformParameters": numbers(parameters),
        # every version reads this spelling; the newer one, ...ParameterFileName, not all
        "InitialTransformParametersFileName": f'"{initial}"',
        **more,
        "FixedImageDimension": "2",
        "MovingImageDimension": "2",
        "FixedInternalImagePixelType": '"float"',
        "MovingInternalImagePixelType": '"float"',
        "Size": f"{cols} {rows}",
        "Index": "0 0",
        "Spacing": numbers(physical.post_size),
        "Origin": "0 0",
        "Direction": "1 0 0 1",
        "UseDirectionCosines": '"true"',
        "ResampleInterpolator": '"FinalBSplineInterpolator"',
        "FinalBSplineInterpolationOrder": "3",
        "Resampler": '"DefaultResampler"',
        "DefaultPixelValue": "0",
        "ResultImageFormat": '"mha"',
        "ResultImagePixelType": '"float"',
        "CompressResultImage": '"false"',
    }
    return "".join(f"({key} {value})\n" for key, value in lines.items())
