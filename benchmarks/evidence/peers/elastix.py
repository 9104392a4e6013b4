"""Register a pair with itk-elastix and map points: rigid, affine and, if asked for, B-spline.

    python elastix.py POST.npy PRE.npy POINTS.npy MAPPED.npy [bspline]

Settings: the default parameter maps, with 500 iterations, 4096 samples and 5 resolutions.
"""

import re
import sys
import tempfile
from pathlib import Path

import itk
import numpy as np


def main() -> None:
    """Register the images that the command line names."""
    post, pre, points, target, *more = sys.argv[1:]
    fixed, moving = (itk.image_from_array(np.load(path)) for path in (post, pre))
    maps = itk.ParameterObject.New()
    for name in ("rigid", "affine", *more):
        one = maps.GetDefaultParameterMap(name, 5)
        one["MaximumNumberOfIterations"] = ["500"]
        one["NumberOfSpatialSamples"] = ["4096"]
        if name == "bspline":
            one["FinalGridSpacingInPhysicalUnits"] = ["128"]
        maps.AddParameterMap(one)
    _, result = itk.elastix_registration_method(fixed, moving, parameter_object=maps)
    at = np.load(points)
    with tempfile.TemporaryDirectory() as place:
        listed = Path(place) / "points.txt"
        rows = "\n".join(f"{x} {y}" for x, y in at)
        listed.write_text(f"point\n{len(at)}\n{rows}\n")
        itk.transformix_filter(
            moving, result, fixed_point_set_file_name=str(listed), output_directory=place
        )
        text = (Path(place) / "outputpoints.txt").read_text()
    found = re.findall(r"OutputPoint = \[ (\S+) (\S+) \]", text)
    np.save(target, np.array(found, float))


if __name__ == "__main__":
    main()
