"""Morphology of masks, blur and interpolation of small images, in OpenCV.

Results are those of scipy.ndimage, which takes 0.3 s to import. Masks are (rows, cols) bool, and px
of them touch along their edges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cv2
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.core.arrays import Bools, Floats, Floats32


_CROSS = cv2.getStructuringElement(cv2.MORPH_CROSS, (3, 3))
_REACH = 4.0
"""Half width of a blur, in standard deviations, as in scipy."""


def blur(image: Floats32, sigma: float) -> Floats32:
    """Return a (rows, cols) float32 image under a normal blur, its edges continued.

    Sums are taken in float64, so that their order does not show.
    """
    reach = int(_REACH * sigma + 0.5)
    weights = np.exp(-0.5 / sigma**2 * np.arange(-reach, reach + 1) ** 2)
    weights /= weights.sum()
    alone = np.ones(1)
    for across, down in ((alone, weights), (weights, alone)):
        sums = cv2.sepFilter2D(image, cv2.CV_64F, across, down, borderType=cv2.BORDER_REPLICATE)
        image = sums.astype(np.float32)
    return image


def grow(mask: Bools, px: int) -> Bools:
    """Grow a mask by ``px`` steps to a neighbour."""
    return cv2.dilate(mask.view(np.uint8), _CROSS, iterations=px).view(np.bool_)


def shrink(mask: Bools, px: int) -> Bools:
    """Return a mask without what can be reached from outside of it; that is not beyond the edge."""
    return cv2.erode(mask.view(np.uint8), _CROSS, iterations=px).view(np.bool_)


def close_gaps(mask: Bools, px: int) -> Bools:
    """Return a mask grown by some px and shrunk by as many, from beyond the edge as well."""
    return np.ascontiguousarray(shrink(np.pad(grow(mask, px), px), px)[px:-px, px:-px])


def fill_holes(mask: Bools) -> Bools:
    """Return a mask with its holes."""
    outside = np.pad(mask, 1).view(np.uint8)
    cv2.floodFill(outside, None, (0, 0), 2)
    return np.asarray(outside[1:-1, 1:-1] != 2)


def reach(seeds: Bools, candidates: Bools) -> Bools:
    """Return the candidates that touch seeds, over others of them, corners included."""
    if not seeds.any():
        return np.zeros_like(seeds)
    count, labels = cv2.connectedComponents(candidates.view(np.uint8), connectivity=8)
    chosen = np.zeros(count, np.bool_)
    chosen[labels[seeds & candidates]] = True
    chosen[0] = False
    return np.asarray(chosen[labels])


def drop_small_pieces(mask: Bools, least_px: float) -> Bools:
    """Return a mask without its pieces of fewer px."""
    _, labels, stats, _ = cv2.connectedComponentsWithStats(mask.view(np.uint8), connectivity=4)
    large = stats[:, cv2.CC_STAT_AREA] >= least_px
    large[0] = False
    return np.asarray(large[labels])


def measure_distance(mask: Bools) -> Floats32:
    """Return how far each px is from the nearest one outside of the mask, px, (rows, cols) float32.

    At least one px has to be outside.
    """
    distances = cv2.distanceTransform(mask.view(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    # OpenCV is off by the last bit of a float32
    squares = np.rint(np.square(distances, dtype=np.float64))
    return np.sqrt(squares, out=squares).astype(np.float32)


def interpolate(image: Floats32, y: Floats, x: Floats) -> Floats32:
    """Interpolate a (rows, cols) float32 image linearly at positions (N,), its edges continued."""
    out = np.zeros(len(x))
    for row, row_weight in _list_neighbours(y, image.shape[0]):
        for col, col_weight in _list_neighbours(x, image.shape[1]):
            out += image[row, col] * row_weight * col_weight
    return out.astype(np.float32)


def _list_neighbours(at: Floats, size: int) -> tuple[tuple[NDArray[np.intp], Floats], ...]:
    """Return the px before and after positions along an axis, each with its weight."""
    inside = np.clip(at, 0, size - 1)
    before = inside.astype(np.intp)
    share = inside - before
    return (before, 1 - share), (np.minimum(before + 1, size - 1), share)
