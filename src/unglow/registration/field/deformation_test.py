"""Whether a section is bent: residuals of the global model that neighbours share."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from unglow.registration.blocks.phase_correlation import MIN_QUALITY, block_shifts
from unglow.registration.models import residuals
from unglow.registration.quality import nearest
from unglow.transform import apply_matrix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.registration.blocks.dense import Images
    from unglow.registration.blocks.phase_correlation import Matches

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

SHARED_PX = 0.02
"""Residuals that neighbours share, px, below which nothing is worth a field."""
_SURE = 2.5
_NEIGHBOURS = 6
_TOUCHING = 100


def is_deformed(
    images: Images, matches: Matches, agreeing: Mask, matrix: Floats, size: int
) -> bool:
    """Whether residuals of the global model are shared by neighbours, beyond chance and size.

    The noise of blocks is independent from block to block, so the mean product of a residual with
    the mean of its neighbours' is zero unless the model fails to follow the section. Over a large
    section the sample blocks lie further apart than it may bend; there, blocks are measured that
    touch some of them.

    Parameters
    ----------
    images
        The pair.
    matches
        Its sample blocks.
    agreeing
        (N,) which of them the model was fitted to.
    matrix
        (3, 3) the model.
    size
        Side of the blocks, px.
    """
    used = matches.keep(agreeing)
    if len(used) <= 2 * _NEIGHBOURS:
        return False
    off = residuals(matrix, used.post, used.pre)
    # a few wild blocks decide nothing
    bound = 6 * float(np.median(np.hypot(*off.T))) + 1e-9
    around = nearest(used.post, used.post, _NEIGHBOURS + 1)[:, 1:]
    mine = _shortened(off, bound)
    if _are_shared(mine, mine[around].mean(axis=1)):
        return True
    apart = np.hypot(*(used.post[around[:, 0]] - used.post).T)
    if np.median(apart) < 2 * size:
        return False
    some = np.arange(0, len(used), max(1, len(used) // _TOUCHING))
    beside = _residuals_beside(replace(images, matrix=matrix), used.post[some], size)
    known = np.isfinite(beside).all(axis=1)
    return _are_shared(mine[some[known]], _shortened(beside[known], bound))


def _shortened(off: Floats, bound: float) -> Floats:
    """Residuals (N, 2), none longer than a bound."""
    factor: Floats = np.minimum(1, bound / np.maximum(np.hypot(*off.T), 1e-12))
    return off * factor[:, None]


def _are_shared(off: Floats, others: Floats) -> bool:
    """Whether products of residuals (N, 2) are above zero, beyond chance and `SHARED_PX`."""
    if len(off) <= 2 * _NEIGHBOURS:
        return False
    products = (off * others).sum(axis=1)
    shared = float(products.mean())
    doubt = float(products.std()) / np.sqrt(len(products))
    return bool(shared > SHARED_PX**2 and shared > _SURE * doubt)


def _residuals_beside(images: Images, centres: Floats, size: int) -> Floats:
    """Residuals (N, 2) of blocks that touch those around centres (N, 2); NaN if not clear."""
    corners = np.rint(centres - (size - 1) / 2).astype(np.int64)
    left = centres[:, 0] < images.post_shape[1] / 2
    corners[:, 0] += np.where(left, size, -size)
    corners[:, 0] = np.clip(corners[:, 0], 0, images.post_shape[1] - size)
    shifts = block_shifts(
        *images.planes(0),
        images.matrix,
        corners,
        size,
        sign=images.sign,
        workers=images.workers,
    )
    at = corners + (size - 1) / 2
    moved = apply_matrix(images.matrix, at - shifts[:, :2]) - apply_matrix(images.matrix, at)
    with np.errstate(invalid="ignore"):
        return np.where((shifts[:, 2] >= MIN_QUALITY)[:, None], moved, np.nan)
