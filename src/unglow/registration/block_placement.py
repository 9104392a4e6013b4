"""Placement of the blocks that are matched: textured, and spread evenly over the section."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import cv2
import numpy as np

from unglow.transform import apply_matrix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.core.arrays import Bools, Floats, Floats32, Ints
    from unglow.registration.images import Thumbnail
    from unglow.registration.pair import Pair

SMALLEST_PX = 64
"""Side of the smallest blocks, level-0 px."""
HELD_OUT = 0
"""Class of `fifths` that is held out of all fits."""
_MIN_SECTION = 0.3
"""Least share of a block's area that must belong to the section in both images."""
_MOST_CANDIDATES = 1 << 18
"""About this many places are compared to choose sample blocks, which bounds time and memory."""
_BAND_PX = 1 << 17
"""Thumbnail px whose positions are held at a time."""
_STRIP_PX = 1024
"""Dense blocks follow each other in strips of this width, so that neighbours are read together."""


def block_size(shape: tuple[int, int], section_share: float, wanted: int) -> int:
    """Side of the sample blocks, px: ``wanted``, halved (down to 64) while it is too large.

    Four must fit into the shorter side of the image, and three into that of a square as large as
    the section, which covers ``section_share`` (0..1) of the image.
    """
    side = min(min(shape) / 4, float(np.sqrt(section_share * shape[0] * shape[1])) / 3)
    size = wanted
    while size > SMALLEST_PX and size > side:
        size //= 2
    return size


def sample_corners(pair: Pair, size: int, count: int, level: int = 0) -> tuple[Ints, Bools]:
    """Choose blocks: one per cell of a square grid, where the texture is best.

    Parameters
    ----------
    pair
        The images, and the map that says which part of post pre shows as well.
    size, count
        Side of the blocks, level-0 px, and how many there may be.
    level
        Pyramid level on which the blocks must be inside both images.

    Returns
    -------
    (N, 2) int corners (x, y) in level-0 px, and an (N,) bool that marks every fifth cell, spatially
    interleaved, to be held out of fits.
    """
    (height, width), pre_shape = (
        tuple(n * 2**level for n in image.level_shape(level)) for image in (pair.post, pair.pre)
    )
    merit = _merit(pair, size, pre_shape)
    scale = 2**pair.post_thumb.level
    stride = max(1, size // (8 * scale))
    candidates = np.count_nonzero(merit) / stride**2
    stride *= max(1, math.ceil(math.sqrt(candidates / max(_MOST_CANDIDATES, 8 * count))))
    rows, cols = (stride * v for v in np.nonzero(merit[::stride, ::stride] > 0))
    # of the thumbnail pixels, those around which a complete block fits into post
    x0, y0 = (np.rint(scale * v + (scale - size) / 2) for v in (cols, rows))
    whole = (x0 >= 0) & (y0 >= 0) & (x0 + size <= width) & (y0 + size <= height)
    rows, cols, x0, y0 = rows[whole], cols[whole], x0[whole], y0[whole]
    if not len(rows):
        return np.zeros((0, 2), dtype=np.int64), np.zeros(0, dtype=bool)
    area = len(rows) * float(stride * scale) ** 2
    # tapered blocks that overlap by half are nearly independent; few and small ones are not missed
    side = max(float(np.sqrt(area / count)), size / (4 if pair.blurred else 2))
    while _count_cells(x0, y0, side) > count:
        side *= 1.03
    picked, cells = _best_per_cell(merit[rows, cols], x0, y0, side)
    corners = np.column_stack([x0[picked], y0[picked]]).astype(np.int64)
    return corners, fifths(cells) == HELD_OUT


def fifths(cells: Ints) -> Ints:
    """Class 0..4 of cells (N, 2) (column, row) of a grid, spatially interleaved."""
    classes: Ints = (cells[:, 0] + 2 * cells[:, 1]) % 5
    return classes


def dense_corners(pair: Pair, size: int, step: int, unit: int) -> tuple[Ints, Ints]:
    """Put blocks on a square grid wherever both images show the section, flush with the frame.

    ``size`` and ``step`` are side and distance of the blocks, level-0 px; corners are multiples of
    ``unit`` px.

    Returns
    -------
    (N, 2) int corners (x, y) in level-0 px, and their (N, 2) cells (column, row) of the grid.
    """
    xs, ys = (_starts(n, size, step, unit) for n in pair.post.shape[::-1])
    return _find_textured(pair, xs, ys, size)


def rim_corners(pair: Pair, size: int, step: int, taken: Ints) -> tuple[Ints, Ints]:
    """Put blocks of half the side where complete ones do not fit: along rims of frames and section.

    A field is known as far as there are centres of blocks. Parameters and results are those of
    `dense_corners`; ``taken`` are the (N, 2) cells of complete blocks, and the grid continues by
    one cell on each side.
    """
    half = size // 2
    starts: list[Ints] = []
    for length in pair.post.shape[::-1]:
        inner = _starts(length, size, step, 1) + size // 4
        starts.append(np.concatenate([[0], inner, [length - half]]).astype(np.int64))
    corners, cells = _find_textured(pair, starts[0], starts[1], half)
    cells -= 1
    width = len(starts[0]) + 1  # so that each cell has a number of its own
    free = ~np.isin(cells @ [1, width], taken @ [1, width])
    return corners[free], cells[free]


def _find_textured(pair: Pair, xs: Ints, ys: Ints, size: int) -> tuple[Ints, Ints]:
    """Corners and cells of a grid of starts, for blocks in whose middle there is texture."""
    merit, scale = _merit(pair, size, pair.pre.shape), 2**pair.post_thumb.level
    at_x, at_y = (
        np.clip((v + size // 2) // scale, 0, n - 1)
        for v, n in ((xs, merit.shape[1]), (ys, merit.shape[0]))
    )
    rows, cols = np.nonzero(merit[np.ix_(at_y, at_x)] > 0)
    order = np.lexsort((cols, rows, xs[cols] // _STRIP_PX))
    rows, cols = rows[order], cols[order]
    return np.column_stack([xs[cols], ys[rows]]), np.column_stack([cols, rows])


def centroids(post: Thumbnail, corners: Ints, size: int) -> Floats:
    """Where the section is inside blocks, (N, 2) (x, y), level-0 px: what a shift belongs to.

    A block at the edge of the section sees only a part of it, off its centre: the centre of the
    texture weighted by the squared taper of `unglow.registration.phase_correlation`.
    ``corners`` (N, 2) are the first pixels (x, y) of blocks of ``size`` px, level 0.
    """
    scale = 2**post.level
    side = max(2, round(size / scale))
    taper = np.sin(np.pi * (np.arange(side) + 0.5) / side) ** 4
    rows, cols = post.section.shape
    first = np.clip(np.rint(corners / scale).astype(np.int64), 0, [cols - side, rows - side])
    texture = np.abs(post.detail)
    ramp = np.arange(side) - (side - 1) / 2
    sums = []
    for across, down in ((taper, taper), (taper * ramp, taper), (taper, taper * ramp)):
        filtered = cv2.sepFilter2D(
            texture, cv2.CV_32F, across, down, anchor=(0, 0), borderType=cv2.BORDER_CONSTANT
        )
        sums.append(np.asarray(filtered, np.float64)[first[:, 1], first[:, 0]])
    area = np.maximum(sums[0], 1e-3 * taper.sum() ** 2)
    off = np.column_stack([sums[1] / area, sums[2] / area]) * scale
    return np.asarray(corners + (size - 1) / 2 + off, dtype=np.float64)


def _starts(length: int, size: int, step: int, unit: int) -> Ints:
    """First pixels of blocks along an axis, the last one flush with its end."""
    last = (length - size) // unit * unit
    starts = np.arange(0, last + 1, step, dtype=np.int64)
    return starts if last < 0 or last - starts[-1] < step // 4 else np.append(starts, last)


def _find_cells(x0: Floats, y0: Floats, side: float) -> tuple[Ints, Ints]:
    """Column and row of the cells that candidates are in, (N,) each."""
    return np.floor(x0 / side).astype(np.int64), np.floor(y0 / side).astype(np.int64)


def _count_cells(x0: Floats, y0: Floats, side: float) -> int:
    """Count the cells with a candidate."""
    cell_x, cell_y = _find_cells(x0, y0, side)
    return int(np.count_nonzero(np.bincount(cell_y * (cell_x.max() + 1) + cell_x)))


def _best_per_cell(
    merit: Floats32, x0: Floats, y0: Floats, side: float
) -> tuple[NDArray[np.intp], Ints]:
    """Index of the best candidate of each cell, in row order, and the cells (x, y)."""
    cell_x, cell_y = _find_cells(x0, y0, side)
    # prefer the middle of a cell a little, which keeps neighbours apart
    off = np.maximum(np.abs(x0 / side - cell_x - 0.5), np.abs(y0 / side - cell_y - 0.5))
    order = np.lexsort((-merit * (1 - off), cell_x, cell_y))
    cells = np.column_stack([cell_x, cell_y])[order]
    first = np.ones(len(order), dtype=bool)
    first[1:] = (np.diff(cells, axis=0) != 0).any(axis=1)
    return order[first], cells[first]


def _merit(pair: Pair, size: int, pre_shape: tuple[int, ...]) -> Floats32:
    """Texture around each thumbnail pixel of post; 0 where a block would see too little."""
    post = pair.post_thumb
    box = max(1, size // 2**post.level) | 1
    merit, share = (_box(v, box) for v in (np.abs(post.detail), post.section))
    merit += np.float32(1e-3)
    share_pre = _box(pair.pre_thumb.section, box)
    rows, cols = merit.shape
    step = max(1, _BAND_PX // max(1, cols))
    for y0 in range(0, rows, step):  # positions take 20 times the memory of the thumbnail
        band = slice(y0, min(y0 + step, rows))
        mapped = _map_band(pair, band, cols)
        inside = _holds_blocks(mapped, pre_shape, size / 2)
        last = np.array(share_pre.shape[::-1]) - 1
        at = np.nan_to_num(mapped / 2**post.level).clip(0, last).astype(np.int64)
        seen = np.where(inside, share_pre[at[:, 1], at[:, 0]], np.float32(0)).reshape(-1, cols)
        merit[band] *= (seen > _MIN_SECTION) & (share[band] > _MIN_SECTION)
        del mapped, at
    return merit


def _map_band(pair: Pair, band: slice, cols: int) -> Floats:
    """Where the map puts the thumbnail px of a band of post's rows, (N, 2), level-0 px of pre."""
    scale = 2**pair.post_thumb.level
    y, x = np.mgrid[band, 0:cols].astype(np.float64)
    centres = np.column_stack([x.ravel(), y.ravel()]) * float(scale) + (scale - 1) / 2
    return apply_matrix(pair.matrix, centres)


def _holds_blocks(centres: Floats, shape: tuple[int, ...], half: float) -> Bools:
    """Mark the centres (N, 2) of blocks that are inside an image of (rows, columns)."""
    height, width = shape
    x, y = centres.T
    with np.errstate(invalid="ignore"):
        inside = (x >= half) & (y >= half) & (x <= width - 1 - half) & (y <= height - 1 - half)
    return np.asarray(inside, dtype=np.bool_)


def _box(values: NDArray[np.generic], size: int) -> Floats32:
    return np.asarray(
        cv2.blur(values.astype(np.float32), (size, size), borderType=cv2.BORDER_REFLECT),
        dtype=np.float32,
    )
