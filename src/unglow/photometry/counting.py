"""Compiled loops that count pixels; apart from the rest because numba takes 0.3 s to import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@numba.njit(nogil=True, cache=True, boundscheck=False)
def count_pairs(
    post: NDArray[Any],
    pre: NDArray[np.float32],
    corner: NDArray[np.int64],
    binning: NDArray[np.float64],
    cells: NDArray[np.int32],
    edges: NDArray[np.float32],
    joint: NDArray[np.int64],
    post_only: NDArray[np.int64],
    ratios: NDArray[np.int64],
    counters: NDArray[np.int64],
    extremes: NDArray[np.float64],
) -> None:
    """Add one pair of co-registered blocks to the counts, in place.

    Parameters
    ----------
    post, pre
        (rows, cols); NaN where there is no data.
    corner
        Row and column of the first pixel, and the side of a tile and the number of tile groups.
    binning
        First edge, inverse width, least pre value of a ratio, largest post value.
    cells, edges
        Ratio table of `unglow.photometry.statistics`.
    joint, post_only, ratios, counters, extremes
        Counts that grow: [pre bin, post bin], [post bin], [group, ratio bin], the `COUNTERS`
        of `unglow.photometry.statistics`, and the smallest and largest ratio.
    """
    row0, col0, tile, groups = corner[0], corner[1], corner[2], corner[3]
    first, inverse, floor_pre, top = binning[0], binning[1], binning[2], binning[3]
    last = np.float64(joint.shape[0] - 1)
    low_cell, shift = cells[0], cells[1]
    smallest, largest = edges[0], edges[edges.size - 1]
    ratio_min, ratio_max = np.float32(extremes[0]), np.float32(extremes[1])
    overlap = alone = dark = used = at_top = 0
    for i in range(post.shape[0]):
        group_row = 4 * ((row0 + i) // tile)
        j = 0
        while j < post.shape[1]:
            tile_col = (col0 + j) // tile
            group = (group_row + tile_col) % groups
            stop = min(post.shape[1], (tile_col + 1) * tile - col0)
            for k in range(j, stop):
                p = np.float64(post[i, k])
                q = np.float64(pre[i, k])
                if np.isnan(p):
                    dark += 1
                    continue
                b = int(min(max((p - first) * inverse, 0.0), last))
                at_top += p >= top
                if np.isnan(q):
                    alone += 1
                    post_only[b] += 1
                    continue
                overlap += 1
                a = int(min(max((q - first) * inverse, 0.0), last))
                joint[a, b] += 1
                if p <= 0.0 or q < floor_pre:
                    continue
                used += 1
                ratio = np.float32(p / q)
                ratio_min = min(ratio_min, ratio)
                ratio_max = max(ratio_max, ratio)
                if ratio < smallest:
                    ratios[group, 0] += 1
                elif ratio >= largest:
                    ratios[group, ratios.shape[1] - 1] += 1
                else:
                    bits = ratio.view(np.int32)
                    n = cells[2 + (bits >> shift) - low_cell]
                    ratios[group, n + (ratio >= edges[n])] += 1
            j = stop
    extremes[0], extremes[1] = ratio_min, ratio_max
    for n, count in enumerate((post.size, overlap, alone, dark, used, at_top)):
        counters[n] += count
