"""Resampling pre onto the post grid, window by window, with results that no tiling can change.

Catmull-Rom interpolation (Keys 1981, doi:10.1109/TASSP.1981.1163711, a = -0.5) over 4 x 4 px.
Source coordinates are computed from global float64 positions and split into an integer and a
fraction before the window's origin is taken off, and no fast-math is used, so a pixel's value has
the same bits in whatever window it is computed. OpenCV's interpolators are not used: they round
positions to 1/32 px in places and refuse sides above 32767 px.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.kernels import kernel
from unglow.core.windows import Window, grid

if TYPE_CHECKING:
    from collections.abc import Callable

    from unglow.core.arrays import Array, Floats, Floats32
    from unglow.transform.displacement import Displacement
    from unglow.transform.transform import Transform

SUPPORT = 2
"""Pixels that the interpolation needs beyond the floor of a position (one before, two after)."""

_SPARE_PX = 1 << 16
"""Source px that a window may take beyond 5/4 of its own before it is split: small windows, and
maps that turn or enlarge a little, are resampled in one piece."""
_HORIZON = 1e-9
"""Homogeneous coordinate up to which a corner counts as beyond the horizon."""
_FAR_PX = 1e4
"""Positions are cut off this far outside of pre."""


def warp_window(
    read_pre: Callable[[Window], Array],
    pre_shape: tuple[int, int],
    transform: Transform,
    window: Window,
    out: Floats32 | None = None,
) -> Floats32:
    """Resample pre at the positions of a window of post, which may leave the image.

    Parameters
    ----------
    read_pre
        Returns the pixels of a window inside pre, any real dtype; called with just the window that
        the interpolation needs (more than once if that is much larger than the window).
    pre_shape
        (rows, columns) of pre.
    out
        ``window.shape`` float32, overwritten and returned; None for a new array.

    Returns
    -------
    ``window.shape`` float32; NaN outside pre, and where any of the 4 x 4 source pixels is NaN.
    A position belongs to pre up to half a pixel beyond its outermost pixel centres; the rim repeats
    the edge pixels.
    """
    field = transform.displacement
    return warp_matrix(read_pre, pre_shape, transform.matrix, window, field, out)


def warp_matrix(
    read_pre: Callable[[Window], Array],
    pre_shape: tuple[int, int],
    matrix: Floats,
    window: Window,
    field: Displacement | None = None,
    out: Floats32 | None = None,
) -> Floats32:
    """Like `warp_window`, for a bare 3 x 3 matrix from post to pre, and a field if there is one."""
    if out is None:
        out = np.empty(window.shape, dtype=np.float32)
    if np.isfinite(matrix).all():
        limit = window.size * 5 // 4 + _SPARE_PX
        matrix = np.ascontiguousarray(matrix / matrix[2, 2])
        _warp_into(out, read_pre, pre_shape, matrix, field, window, limit)
    else:
        out[...] = np.nan
    return out


def _warp_into(
    out: Floats32,
    read_pre: Callable[[Window], Array],
    pre_shape: tuple[int, int],
    matrix: Floats,
    field: Displacement | None,
    window: Window,
    limit: int,
) -> None:
    """Fill ``out``, in halves while the source window holds more than ``limit`` px.

    Memory stays bounded for any matrix, however absurd.
    """
    source = source_window(matrix, field, window, pre_shape)
    if window.size == 0 or source.size == 0:
        out[...] = np.nan
        return
    if source.size > limit and window.size > 1:
        rows, cols = window.shape
        half = (-(-rows // 2), cols) if rows >= cols else (rows, -(-cols // 2))
        for part in grid(window.shape, half):
            whole = part.shift(window.y0, window.x0)
            _warp_into(out[part.slices], read_pre, pre_shape, matrix, field, whole, limit)
        return
    pixels = np.ascontiguousarray(read_pre(source), dtype=np.float32)
    kernel("catmull_rom")(
        pixels,
        *pixels.shape,
        source.y0,
        source.x0,
        *pre_shape,
        *map_arguments(matrix, field),
        window.y0,
        window.x0,
        out,
        *out.shape,
        out.strides[0] // out.itemsize,
        np.empty((2, out.shape[1])),
    )


def source_window(
    matrix: Floats,
    field: Displacement | None,
    window: Window,
    pre_shape: tuple[int, int],
) -> Window:
    """Return the part of pre, (rows, columns), that resampling a window of post needs.

    ``matrix`` is finite, with matrix[2, 2] = 1. The window has size 0 if nothing of pre is seen;
    where the map has its horizon inside the window of post, it is the entire of pre.
    """
    if window.size == 0:
        return Window(0, 0, 0, 0)
    xs, ys = (window.x0, window.x1 - 1), (window.y0, window.y1 - 1)
    rows = np.asarray(matrix).tolist()  # plain numbers: small arrays take longer
    u, v, w = ([a * x + b * y + c for y in ys for x in xs] for a, b, c in rows)
    if max(w) <= 0:
        return Window(0, 0, 0, 0)
    if min(w) <= _HORIZON:
        return Window.from_shape(pre_shape)
    low, high = ((0.0, 0.0), (0.0, 0.0)) if field is None else field.bounds(window)
    ends = []
    for axis, along, side in ((1, v, pre_shape[0]), (0, u, pre_shape[1])):
        at = [position / below for position, below in zip(along, w, strict=True)]
        # clipped to just beyond the image first, so that absurd positions fit an int
        first, last = (
            math.floor(min(max(end, -_FAR_PX), side + _FAR_PX))
            for end in (min(at) + float(low[axis]), max(at) + float(high[axis]))
        )
        ends += [first - SUPPORT, last + SUPPORT + 2]
    return Window(*ends).clip(pre_shape)


def map_arguments(matrix: Floats, field: Displacement | None) -> tuple[Any, ...]:
    """Return what kernels take of a map: matrix, field and strips.

    ``matrix`` (3, 3) float64 has no gaps, and matrix[2, 2] = 1; the strips are those of the field.
    """
    knots = matrix[None] if field is None else np.ascontiguousarray(field.coefficients)
    strips = None if field is None else field.strips
    seams, offsets = (matrix, matrix) if strips is None else (strips.seams, strips.offsets)
    return (
        matrix,
        knots,
        *knots.shape[1:],
        0 if field is None else field.spacing_px,
        seams,
        offsets,
        0 if strips is None else len(strips.seams),
        0 if strips is None else strips.axis,
        0 if strips is None else int(strips.image == "pre"),
    )
