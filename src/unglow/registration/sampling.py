"""Where to measure at full resolution: textured blocks, spread evenly over the section."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cv2
import numpy as np

from unglow.transform import apply_matrix, to_level0

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.registration.thumbnails import Thumbnail

_MIN_SECTION = 0.3
"""Least share of a block's area that must belong to the section in both images."""
_FEW_CELLS = 100


def block_size(shape: tuple[int, int], section_share: float, wanted: int) -> int:
    """Side of the sample blocks, px: ``wanted``, halved (down to 64) while it is too large.

    Four must fit into the shorter side of the image, and three into that of a square as large as
    the section, which covers ``section_share`` (0..1) of the image.
    """
    side = min(min(shape) / 4, float(np.sqrt(section_share * shape[0] * shape[1])) / 3)
    size = wanted
    while size > 64 and size > side:
        size //= 2
    return size


def sample_corners(
    post: Thumbnail,
    pre: Thumbnail,
    post_shape: tuple[int, int],
    pre_shape: tuple[int, int],
    matrix: NDArray[np.float64],
    size: int,
    count: int,
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Choose blocks: one per cell of a square grid, where the texture is best.

    Parameters
    ----------
    post, pre
        Thumbnails, which say where there is texture.
    post_shape, pre_shape
        (rows, columns) of level 0.
    matrix
        (3, 3) current map in level-0 pixels.
    size
        Side of a block, level-0 px.
    count
        At most so many blocks.

    Returns
    -------
    (N, 2) int corners (x, y) in level-0 px, and an (N,) bool that marks every fifth cell, spatially
    interleaved, to be held out of fits.
    """
    merit = _merit(post, pre, pre_shape, matrix, size)
    scale = 2**post.level
    stride = max(1, size // (8 * scale))
    rows, cols = (stride * v for v in np.nonzero(merit[::stride, ::stride] > 0))
    # of the thumbnail pixels, those around which a whole block fits into post
    x0, y0 = (np.rint(to_level0(post.level)[0, 0] * v + (scale - size) / 2) for v in (cols, rows))
    whole = (x0 >= 0) & (y0 >= 0) & (x0 + size <= post_shape[1]) & (y0 + size <= post_shape[0])
    rows, cols, x0, y0 = rows[whole], cols[whole], x0[whole], y0[whole]
    if not len(rows):
        return np.zeros((0, 2), dtype=np.int64), np.zeros(0, dtype=bool)
    area = len(rows) * float(stride * scale) ** 2
    side = max(float(np.sqrt(area / count)), float(size))
    if area / side**2 < _FEW_CELLS:  # tapered blocks that overlap by half are nearly independent
        side = max(float(np.sqrt(area / min(count, _FEW_CELLS))), size / 2)
    while True:
        picked, cells = _best_per_cell(merit[rows, cols], x0, y0, side)
        if len(picked) <= count:
            break
        side *= 1.03
    corners = np.column_stack([x0[picked], y0[picked]]).astype(np.int64)
    return corners, (cells[:, 0] + 2 * cells[:, 1]) % 5 == 0


def _best_per_cell(
    merit: NDArray[np.float32], x0: NDArray[np.float64], y0: NDArray[np.float64], side: float
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Index of the best candidate of each cell, in row order, and the cells (x, y)."""
    cell_x, cell_y = (np.floor(v / side).astype(np.int64) for v in (x0, y0))
    # prefer the middle of a cell a little, which keeps neighbours apart
    off = np.maximum(np.abs(x0 / side - cell_x - 0.5), np.abs(y0 / side - cell_y - 0.5))
    order = np.lexsort((-merit * (1 - off), cell_x, cell_y))
    cells = np.column_stack([cell_x, cell_y])[order]
    first = np.ones(len(order), dtype=bool)
    first[1:] = (np.diff(cells, axis=0) != 0).any(axis=1)
    return order[first], cells[first]


def _merit(
    post: Thumbnail,
    pre: Thumbnail,
    pre_shape: tuple[int, int],
    matrix: NDArray[np.float64],
    size: int,
) -> NDArray[np.float32]:
    """Texture around each thumbnail pixel of post; 0 where a block would see too little."""
    scale = 2**post.level
    box = max(1, size // scale) | 1
    texture, share = (_box(v, box) for v in (np.abs(post.detail), post.section))
    rows, cols = np.indices(post.image.shape)
    centres = np.column_stack([cols.ravel(), rows.ravel()]) * float(scale) + (scale - 1) / 2
    mapped = apply_matrix(matrix, centres)
    reach = size / 2
    height, width = pre_shape
    with np.errstate(invalid="ignore"):
        inside = (
            (mapped[:, 0] >= reach)
            & (mapped[:, 1] >= reach)
            & (mapped[:, 0] <= width - 1 - reach)
            & (mapped[:, 1] <= height - 1 - reach)
        )
    share_pre = _box(pre.section, box)
    at = np.nan_to_num(mapped / scale).clip(0, [pre.image.shape[1] - 1, pre.image.shape[0] - 1])
    seen = share_pre[at[:, 1].astype(int), at[:, 0].astype(int)]
    good = inside & (seen > _MIN_SECTION) & (share.ravel() > _MIN_SECTION)
    return np.where(good.reshape(texture.shape), texture + np.float32(1e-3), np.float32(0))


def _box(values: NDArray[np.generic], size: int) -> NDArray[np.float32]:
    return np.asarray(
        cv2.blur(values.astype(np.float32), (size, size), borderType=cv2.BORDER_REFLECT),
        dtype=np.float32,
    )
