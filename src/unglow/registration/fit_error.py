"""Error of a global map that follows from the noise of the blocks it was fitted to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unglow.registration.blocks.taper import overlap_correlation
from unglow.registration.models import MIN_POINTS, final_weights, residuals
from unglow.transform import Quantiles, apply_matrix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.registration.blocks.phase_correlation import Matches

    Floats = NDArray[np.float64]

_DRAWS, _SEED = 400, 20012
"""Maps that are drawn to find the typical one."""
_MOST_POINTS = 500
"""Points on which they are looked at."""
_PAIRS = 1 << 18
"""Pairs of blocks that are held at a time, which bounds the memory."""
_LEAST_FREE = 0.05
"""Share of a block's residual that the fit leaves it, at least."""


def fit_spread(
    model: str, fitted: Matches, matrix: Floats, points: Floats, size: float
) -> Floats | None:
    """Return how the map would move points if its numbers were off by one standard error.

    The covariance of a robust fit is the sandwich of M-estimators (Huber 1967; Stefanski & Boos
    2002, doi:10.1198/000313002753631330): residuals themselves are the noise, so that it need not
    be the same everywhere. Each counts divided by 1 - leverage, since the fit has drawn the map
    towards it (MacKinnon & White 1985, doi:10.1016/0304-4076(85)90158-7). Noise that overlapping
    blocks share is added, see `unglow.registration.blocks.taper`.

    Parameters
    ----------
    model, matrix
        The model, and the map that was fitted to ``fitted``.
    points
        (P, 2) (x, y) of post.
    size
        Side of the blocks, px; 0 if they are known not to overlap.

    Returns
    -------
    (P, 2, K) px of pre, for K independent standard errors. None if there are too few blocks.
    """
    places, middle, unit = _centre(apply_matrix(matrix, fitted.post))
    full, slope, spread = final_weights(matrix, fitted.post, fitted.pre, fitted.weights)
    if np.count_nonzero(full) <= MIN_POINTS[model]:
        return None
    moves = _tangents(model, places)
    normal = np.einsum("n,nik,nil->kl", slope, moves, moves)
    try:
        inverse = np.linalg.inv(normal)
    except np.linalg.LinAlgError:
        return None
    leverage = np.einsum("n,nik,kl,nil->n", slope, moves, inverse, moves) / 2
    free = np.maximum(1 - leverage, _LEAST_FREE)
    left = residuals(matrix, fitted.post, fitted.pre)
    left = np.where(full[:, None] > 0, left, 0.0) / free[:, None]
    scores = np.einsum("n,nik,ni->nk", full, moves, left)
    meat = np.einsum("nk,nl->kl", scores, scores)
    if size > 0:
        squares = full**2 * (left**2).sum(axis=1) / 2
        usual = np.sqrt(squares.sum() / (spread**2).sum())
        meat += _estimate_shared(fitted.post, usual * spread, moves, size)
    values, vectors = np.linalg.eigh(inverse @ meat @ inverse)
    roots = vectors * np.sqrt(np.maximum(values, 0.0))
    at = (apply_matrix(matrix, points) - middle) / unit
    return np.asarray(np.einsum("pik,kl->pil", _tangents(model, at), roots))


def typical_quantiles(spread: Floats, misfit: Floats) -> Quantiles:
    """Median and 95th percentile over the points, px: of the typical map, half have larger ones.

    A global map errs by a few numbers, by which all points are moved together. So one map is better
    everywhere, another worse: for an affine one, nine in ten have a 95th percentile of 0.5 to 1.65
    times the typical one.

    Parameters
    ----------
    spread
        (P, 2, K) of `fit_spread`.
    misfit
        (P,) squared error that differs from place to place, px squared.
    """
    every = max(1, len(spread) // _MOST_POINTS)
    spread, misfit = spread[::every], misfit[::every]
    rng = np.random.default_rng(_SEED)
    numbers = rng.normal(size=(_DRAWS, spread.shape[2]))
    moved = np.einsum("dk,pik->dpi", numbers, spread)
    if misfit.any():
        moved += rng.normal(size=moved.shape) * np.sqrt(misfit / 2)[:, None]
    lengths = np.hypot(moved[..., 0], moved[..., 1])
    median, p95 = np.median(np.quantile(lengths, (0.5, 0.95), axis=1), axis=1)
    return Quantiles(float(median), float(p95))


def _centre(places: Floats) -> tuple[Floats, Floats, float]:
    """Places (N, 2) around their middle, in units of their spread; the middle, and the unit."""
    middle = places.mean(axis=0)
    unit = float(np.sqrt(((places - middle) ** 2).sum(axis=1).mean())) or 1.0
    return (places - middle) / unit, middle, unit


def _tangents(model: str, places: Floats) -> Floats:
    """Ways (N, 2, K) in which a model can move mapped places (N, 2) a little."""
    u, v = places.T
    one, zero = np.ones_like(u), np.zeros_like(u)
    ways = [(one, zero), (zero, one)]
    if model == "similarity":
        ways += [(u, v), (-v, u)]
    elif model != "translation":
        ways += [(u, zero), (zero, u), (v, zero), (zero, v)]
    if model == "homography":
        ways += [(u * u, u * v), (u * v, v * v)]
    return np.stack([np.stack(way, axis=1) for way in ways], axis=2)


def _estimate_shared(post: Floats, spread: Floats, moves: Floats, size: float) -> Floats:
    """Covariance (K, K) of the scores of different blocks, which overlap.

    ``spread`` (N,) are the standard deviations of the weighted noise of the blocks.
    """
    count, ways = moves.shape[0], moves.shape[2]
    total = np.zeros((ways, ways))
    step = max(1, _PAIRS // max(1, count))
    weighted = spread[:, None, None] * moves
    for begin in range(0, count, step):
        part = slice(begin, begin + step)
        both = overlap_correlation((post[part, None] - post[None]) / size)
        both[np.arange(len(both)), np.arange(begin, begin + len(both))] = 0.0
        others = np.einsum("nm,mik->nik", both, weighted)
        total += np.einsum("nik,nil->kl", weighted[part], others)
    return total
