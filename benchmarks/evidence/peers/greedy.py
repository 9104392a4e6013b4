"""Register a pair with greedy (picsl-greedy) and map points: affine and, if asked for, deformable.

    python greedy.py POST.npy PRE.npy POINTS.npy MAPPED.npy [deformable]

Settings: the affine and deformable steps of its own quick start, with NCC of 8 x 8 px, and a search
of 300 starts with rotations of 5 and shifts of 40 px (s.d.) around the image centres.
"""

import sys

import numpy as np
import SimpleITK
from picsl_greedy import Greedy2D

# greedy counts x and y the other way round (RAS) than ITK (LPS).
FLIP = np.diag([-1.0, -1.0, 1.0])


def main() -> None:
    """Register the images that the command line names."""
    post, pre, points, target, *more = sys.argv[1:]
    fixed, moving = (SimpleITK.GetImageFromArray(np.load(path)) for path in (post, pre))
    greedy = Greedy2D()
    greedy.execute(
        "-i fixed moving -a -dof 12 -n 100x50x10 -m NCC 8x8 -ia-image-centers "
        "-search 300 5 40 -o affine",
        fixed=fixed,
        moving=moving,
        affine=None,
    )
    affine = FLIP @ np.asarray(greedy["affine"]) @ FLIP
    at = np.load(points)
    if more:
        words = "-i fixed moving -it affine -n 100x50x0 -m NCC 8x8 -s 4vox 1vox -wp 0 -o warp"
        greedy.execute(words, warp=None)
        warp = SimpleITK.GetArrayFromImage(greedy["warp"])
        at = at + np.column_stack([interpolate(warp[..., axis], at) for axis in (0, 1)])
    np.save(target, at @ affine[:2, :2].T + affine[:2, 2])


def interpolate(values: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Interpolate (rows, cols) linearly at (N, 2) points (x, y)."""
    x, y = np.clip(points, 0, np.array(values.shape[::-1]) - 1.001).T
    col, row = x.astype(int), y.astype(int)
    right, down = x - col, y - row
    upper = values[row, col] * (1 - right) + values[row, col + 1] * right
    lower = values[row + 1, col] * (1 - right) + values[row + 1, col + 1] * right
    return upper * (1 - down) + lower * down


if __name__ == "__main__":
    main()
