"""Test for a deformation: residuals of the global model that neighbours share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unglow.registration.blocks.phase_correlation import MIN_PEAK_RATIO, block_shifts
from unglow.registration.models import residuals
from unglow.registration.quality import NEIGHBOURS, nearest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.registration.blocks.phase_correlation import Matches
    from unglow.registration.pair import Pair

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

SHARED_PX = 0.02
"""Residuals that neighbours share, px, below which nothing is worth a field."""
_SURE = 2.5
"""Standard errors by which products of residuals have to exceed zero."""
_BOUND = 6.0
"""Residuals count up to so many times their median length: a few wild blocks decide nothing."""
_LEAST_BLOCKS = 2 * NEIGHBOURS
"""So few blocks tell nothing."""
_TOUCHING = 100
"""About so many blocks are measured beside others where these lie far apart."""


def is_deformed(pair: Pair, matches: Matches, agreeing: Mask, size: int) -> bool:
    """Whether residuals of the global model are shared by neighbours, beyond chance and size.

    The noise of blocks is independent from block to block, so the mean product of a residual with
    the mean of its neighbours' is zero unless the model fails to follow the section. Over a large
    section the sample blocks (of ``size`` px) lie further apart than it may be deformed; there,
    blocks are measured that touch some of them. ``agreeing`` (N,) are those that the model fits.
    """
    used = matches.keep(agreeing)
    if len(used) <= _LEAST_BLOCKS:
        return False
    left = residuals(pair.matrix, used.post, used.pre)
    bound = _BOUND * float(np.median(np.hypot(*left.T))) + 1e-9
    around = nearest(used.post, used.post, NEIGHBOURS + 1)[:, 1:]
    own = _limit_lengths(left, bound)
    if _are_shared(own, own[around].mean(axis=1)):
        return True
    apart = np.hypot(*(used.post[around[:, 0]] - used.post).T)
    if np.median(apart) < 2 * size:
        return False
    some = np.arange(0, len(used), max(1, len(used) // _TOUCHING))
    beside = _compute_residuals(pair, used.post[some], size)
    clear = np.isfinite(beside).all(axis=1)
    return _are_shared(own[some[clear]], _limit_lengths(beside[clear], bound))


def _limit_lengths(left: Floats, bound: float) -> Floats:
    """Residuals (N, 2), none longer than a bound."""
    factor: Floats = np.minimum(1, bound / np.maximum(np.hypot(*left.T), 1e-12))
    return left * factor[:, None]


def _are_shared(left: Floats, others: Floats) -> bool:
    """Whether products of residuals (N, 2) are above zero, beyond chance and `SHARED_PX`."""
    if len(left) <= _LEAST_BLOCKS:
        return False
    products = (left * others).sum(axis=1)
    shared = float(products.mean())
    error = float(products.std()) / np.sqrt(len(products))
    return bool(shared > SHARED_PX**2 and shared > _SURE * error)


def _compute_residuals(pair: Pair, centres: Floats, size: int) -> Floats:
    """Residuals (N, 2) of blocks that touch those around centres (N, 2); NaN if not clear."""
    width = pair.post.shape[1]
    corners = np.rint(centres - (size - 1) / 2).astype(np.int64)
    corners[:, 0] += np.where(centres[:, 0] < width / 2, size, -size)
    corners[:, 0] = np.clip(corners[:, 0], 0, width - size)
    planes = pair.select_level(0)
    shifts = block_shifts(planes, corners, size)
    at = np.asarray(corners + (size - 1) / 2, dtype=np.float64)
    left: Floats = planes.map(at - shifts[:, :2]) - planes.map(at)
    with np.errstate(invalid="ignore"):
        return np.where((shifts[:, 2] >= MIN_PEAK_RATIO)[:, None], left, np.nan)
