"""The loops over single pixels, compiled ahead of the jobs that call them.

Only `unglow.kernels.build` imports this module: numba takes 0.5 s and 70 MB. No fast-math anywhere:
reordered sums would depend on the tiling. No loop may allocate or raise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import carray  # type: ignore[attr-defined]

from unglow.kernels.components import connect_runs, copy_runs, count_runs
from unglow.kernels.places import map_of, place_row
from unglow.kernels.significance import filtered, interpolate, phase_factor, squared_shift
from unglow.kernels.splines import fit_spline, jit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.kernels.places import Map

    Weights = tuple[np.float32, np.float32, np.float32, np.float32]

__all__ = [
    "catmull_rom",
    "connect_runs",
    "copy_runs",
    "count_pairs",
    "count_runs",
    "filtered",
    "fit_spline",
    "interpolate",
    "narrow_product",
    "phase_factor",
    "squared_shift",
]


@jit
def _row4(
    source: NDArray[np.float32], row: int, cols: tuple[int, int, int, int], weights: Weights
) -> np.float32:
    """Weighted sum of four px of one source row."""
    line = source[row]
    left = weights[0] * line[cols[0]] + weights[1] * line[cols[1]]
    right = weights[2] * line[cols[2]] + weights[3] * line[cols[3]]
    total: np.float32 = left + right
    return total


@jit
def _weights(s: np.float32) -> Weights:
    """Catmull-Rom weights of the neighbours at -1, 0, 1, 2 for a fraction ``s`` in [0, 1]."""
    half, one = np.float32(0.5), np.float32(1.0)
    rest = one - s
    before = -half * s * rest * rest
    after = -half * s * s * rest
    here = one + s * s * (np.float32(1.5) * s - np.float32(2.5))
    return before, here, one - before - here - after, after


@jit
def _resample(
    source: NDArray[np.float32],
    source_y0: int,
    source_x0: int,
    pre_rows: int,
    pre_cols: int,
    known: Map,
    window_y0: int,
    window_x0: int,
    out: NDArray[np.float32],
    out_cols: int,
    positions: NDArray[np.float64],
) -> None:
    last_row, last_col = pre_rows - 1, pre_cols - 1
    for row in range(out.shape[0]):
        place_row(known, window_y0 + row, window_x0, out_cols, positions)
        for col in range(out_cols):
            u, v = positions[0, col], positions[1, col]
            if not (-0.5 <= u <= pre_cols - 0.5 and -0.5 <= v <= pre_rows - 0.5):
                out[row, col] = np.nan
                continue
            floor_u, floor_v = np.floor(u), np.floor(v)
            iu, iv = int(floor_u), int(floor_v)
            wx = _weights(np.float32(u - floor_u))
            wy = _weights(np.float32(v - floor_v))
            if 1 <= iu < last_col - 1 and 1 <= iv < last_row - 1:
                iu -= source_x0
                iv -= source_y0
                cols = (iu - 1, iu, iu + 1, iu + 2)
                rows = (iv - 1, iv, iv + 1, iv + 2)
            else:
                cols = (
                    min(max(iu - 1, 0), last_col) - source_x0,
                    min(max(iu, 0), last_col) - source_x0,
                    min(max(iu + 1, 0), last_col) - source_x0,
                    min(max(iu + 2, 0), last_col) - source_x0,
                )
                rows = (
                    min(max(iv - 1, 0), last_row) - source_y0,
                    min(max(iv, 0), last_row) - source_y0,
                    min(max(iv + 1, 0), last_row) - source_y0,
                    min(max(iv + 2, 0), last_row) - source_y0,
                )
            out[row, col] = (
                wy[0] * _row4(source, rows[0], cols, wx) + wy[1] * _row4(source, rows[1], cols, wx)
            ) + (
                wy[2] * _row4(source, rows[2], cols, wx) + wy[3] * _row4(source, rows[3], cols, wx)
            )


def catmull_rom(
    source: Any,
    source_rows: int,
    source_cols: int,
    source_y0: int,
    source_x0: int,
    pre_rows: int,
    pre_cols: int,
    matrix: Any,
    knots: Any,
    knot_rows: int,
    knot_cols: int,
    spacing: int,
    seams: Any,
    offsets: Any,
    seam_count: int,
    axis: int,
    of_pre: int,
    window_y0: int,
    window_x0: int,
    out: Any,
    out_rows: int,
    out_cols: int,
    out_stride: int,
    positions: Any,
) -> None:
    """`unglow.warp.catmull_rom`; rows of ``out`` begin ``out_stride`` px apart.

    Of the map see `unglow.kernels.places.map_of`; ``positions`` is room for (2, out_cols) float64.
    """
    _resample(
        carray(source, (source_rows, source_cols)),
        source_y0,
        source_x0,
        pre_rows,
        pre_cols,
        map_of(
            matrix, knots, knot_rows, knot_cols, spacing, seams, offsets, seam_count, axis, of_pre
        ),
        window_y0,
        window_x0,
        carray(out, (out_rows, out_stride)),
        out_cols,
        carray(positions, (2, out_cols)),
    )


def narrow_product(
    up_y: Any,
    cross: Any,
    up_x: Any,
    sums: Any,
    out: Any,
    rows: int,
    size: int,
    half: int,
    cols: int,
) -> None:
    """Real part of ``up_y @ cross @ up_x``, summed in a fixed order.

    Complex64 of (rows, size), (size, half), (half, cols); ``sums`` (rows, half) complex64 and
    ``out`` (rows, cols) float32 come in as zeros.
    """
    a, b, c = carray(up_y, (rows, size)), carray(cross, (size, half)), carray(up_x, (half, cols))
    partial_sums, total = carray(sums, (rows, half)), carray(out, (rows, cols))
    for i in range(rows):
        for j in range(size):
            factor = a[i, j]
            for k in range(half):
                partial_sums[i, k] += factor * b[j, k]
    for i in range(rows):
        for k in range(half):
            factor = partial_sums[i, k]
            for m in range(cols):
                total[i, m] += factor.real * c[k, m].real - factor.imag * c[k, m].imag


@jit
def _count(
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


def count_pairs(
    post: Any,
    pre: Any,
    rows: int,
    cols: int,
    corner: Any,
    binning: Any,
    cells: Any,
    cell_count: int,
    edges: Any,
    edge_count: int,
    joint: Any,
    bins: int,
    post_only: Any,
    ratios: Any,
    groups: int,
    counters: Any,
    extremes: Any,
) -> None:
    """`unglow.photometry.counting.count_pairs`, with one ratio bin more than edges."""
    _count(
        carray(post, (rows, cols)),
        carray(pre, (rows, cols)),
        carray(corner, (4,)),
        carray(binning, (4,)),
        carray(cells, (cell_count,)),
        carray(edges, (edge_count,)),
        carray(joint, (bins, bins)),
        carray(post_only, (bins,)),
        carray(ratios, (groups, edge_count + 1)),
        carray(counters, (6,)),
        carray(extremes, (2,)),
    )
