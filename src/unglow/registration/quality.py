"""Quality of a global map: which blocks agree with it, its error, and what it covers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unglow.registration.models import MEDIAN_OF_SQUARES, MIN_POINTS, final_weights, residuals
from unglow.registration.phase_correlation import overlap_correlation
from unglow.transform import LocalError, Quantiles, apply_matrix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.core.arrays import Bools, Floats
    from unglow.registration.phase_correlation import Matches

    Points = Floats
    Matrix = Floats


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
    blocks share is added, see `overlap_correlation`.

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
    for start in range(0, count, step):
        part = slice(start, start + step)
        both = overlap_correlation((post[part, None] - post[None]) / size)
        both[np.arange(len(both)), np.arange(start, start + len(both))] = 0.0
        others = np.einsum("nm,mik->nik", both, weighted)
        total += np.einsum("nik,nil->kl", weighted[part], others)
    return total


AGREE_PX = 2.0
"""Blocks within this distance of the map, or of two of their neighbours, agree. A block of
unrelated images does so by chance in less than one case of a hundred."""
NEIGHBOURS = 6
"""Blocks around one that share its error: those of a hexagon."""
_OVERLAPPING = 24
"""Nearer blocks that may share pixels with one."""
_SURE = 2.5
"""Standard errors from which residuals that neighbours share are no chance."""
_MOST_NOISE = 0.5
"""Noise of sample blocks, see `compute_excess`: 0.13 to 0.47 where no section bends (measured).
Dense ones, which are smaller and at rims, reach 0.7 around the field of a scanner."""
_CLEARLY = 2.0
"""Half of the blocks around one have to be this many times as far off as noise, at most, explains:
few they are."""
_WILD = 25.0
"""Weighted squared residuals are limited to this multiple of their median (5 sigma)."""
_DISTANCES = 1 << 18
"""Distances that are held at a time, which bounds the memory."""
_LOCAL_PX, _LOCAL_TIMES, _LOCAL_SHARE = 0.05, 5.0, 0.25
"""An error is that of a place if it is above these px and medians, on this share at most."""
_REACH_BLOCKS, _REACH_SHARE = 1.5, 0.12
"""A block confirms the map up to this many sides, or this share of the section's diagonal, away."""


def agreement(matches: Matches, matrix: Matrix) -> Bools:
    """Mark the matches that agree with the map or, where the section is deformed, with neighbours.

    Returns
    -------
    (N,) bool.
    """
    left = residuals(matrix, matches.post, matches.pre)
    good = np.hypot(*left.T) <= AGREE_PX
    if len(matches) > NEIGHBOURS and np.isfinite(left).all():
        around = nearest(matches.post, matches.post, NEIGHBOURS + 1)[:, 1:]
        steps = np.hypot(*np.moveaxis(left[around] - left[:, None], -1, 0))
        good |= (steps <= AGREE_PX).sum(axis=1) >= 2
    return np.asarray(good, dtype=np.bool_)


def nearest(points: Points, among: Points, count: int) -> NDArray[np.intp]:
    """Index (P, min(count, N)) of the nearest of ``among`` (N, 2) for each of ``points`` (P, 2).

    Nearest first; of two at the same distance the first one of ``among`` comes first. All are
    finite.
    """
    index = np.zeros((len(points), min(count, len(among))), np.intp)
    step = max(1, _DISTANCES // max(1, len(among)))
    for k in range(0, len(points), step):  # in parts, so that memory stays put
        some = points[k : k + step]
        squares = (some[:, :1] - among[:, 0]) ** 2 + (some[:, 1:] - among[:, 1]) ** 2
        rows = np.arange(len(some))
        for n in range(index.shape[1]):  # a few passes, where sorting takes fifteen
            index[k : k + step, n] = at = squares.argmin(axis=1)
            squares[rows, at] = np.inf
    return index


@dataclass(frozen=True, eq=False, slots=True)
class MapError:
    """The error of a global map at P points of the section, noise of the blocks removed.

    Attributes
    ----------
    spread
        (P, 2, K) float64: the uncertainty of the fit, see `fit_spread`.
    misfit
        (P,) float64: the square of what the model cannot follow, px squared; infinite where nothing
        is known.
    """

    spread: Floats
    misfit: Floats

    @property
    def lengths(self) -> Floats:
        """(P,) root mean square of the error's length, px: both parts, added in squares."""
        return np.asarray(np.sqrt((self.spread**2).sum(axis=(1, 2)) + self.misfit), np.float64)

    @property
    def quantiles(self) -> Quantiles:
        """Median and 95th percentile over the points, px, of a typical map."""
        if not np.isfinite(self.misfit).all():
            return Quantiles(np.inf, np.inf)
        return typical_quantiles(self.spread, self.misfit)


def map_error(
    model: str,
    matches: Matches,
    fitted: Bools,
    agreeing: Bools,
    matrix: Matrix,
    points: Points,
    size: float = 0.0,
    least: float = 0.0,
) -> MapError:
    """Estimate the error of a global map at points (P, 2) (x, y) of the section.

    What the model cannot follow is the `residual_variance` of the six nearest other blocks that
    share no pixel with one, if it is beyond chance.

    Parameters
    ----------
    model, matrix
        The model that was fitted, and the final map.
    matches
        All N measured blocks.
    fitted, agreeing
        (N,) the blocks of the fit, and all that agree.
    points
        Where the error is wanted.
    size
        Side of the blocks, px; 0 if it is not known: then they count as not overlapping.
    least
        Weight from which on blocks that do not agree count against the map.

    Returns
    -------
    The error; infinite for too few blocks.
    """
    spread = fit_spread(model, matches.keep(fitted), matrix, points, size)
    if spread is None:
        return MapError(np.zeros((len(points), 2, 0)), np.full(len(points), np.inf))
    clear = (matches.weights > 0) & (agreeing | (matches.weights >= least))
    off = residuals(matrix, matches.post, matches.pre)[clear]
    if compute_excess(off, matches.weights[clear], _MOST_NOISE):
        agreeing = agreeing | clear  # those that are far off say most of where the section bends
    used = matches.keep(agreeing)
    if len(used) <= NEIGHBOURS:
        return MapError(spread, np.zeros(len(points)))
    left = residuals(matrix, used.post, used.pre)
    around = nearest(used.post, used.post, 1 + _OVERLAPPING + NEIGHBOURS)[:, 1:]
    apart = np.abs(used.post[around] - used.post[:, None]).max(axis=2) >= size
    chosen = apart & (np.cumsum(apart, axis=1) <= NEIGHBOURS)
    weights = np.where(chosen, used.weights[around], 0.0)
    shared = residual_variance(left, used.weights, left[around], weights, _SURE, _MOST_NOISE)
    return MapError(spread, shared[nearest(points, used.post, 1)[:, 0]])


def locate_error(
    points: Points, lengths: Floats, shape: tuple[int, int], side: int
) -> LocalError | None:
    """Return where the error of a global map is, if it is in few places: None if it is not.

    ``lengths`` (P,) are errors at ``points`` (P, 2) of the section, px. Each square of ``side`` px
    of an image of that ``shape`` (rows, columns) gets the one nearest to its middle.
    """
    far = lengths > max(_LOCAL_PX, _LOCAL_TIMES * float(np.median(lengths)))
    if not far.any() or far.mean() > _LOCAL_SHARE or not np.isfinite(lengths).all():
        return None
    y, x = (np.arange(-(-n // side)) * side + (side - 1) / 2 for n in shape)
    centres = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    at = lengths[nearest(centres, points, 1)[:, 0]].reshape(len(y), len(x))
    return LocalError(float(side), tuple(tuple(float(f"{v:.3g}") for v in row) for row in at))


def residual_variance(
    left: Points,
    weights: Floats,
    around: Floats,
    weights_around: Floats,
    sure: float = 0.0,
    most_noise: float = 1.0,
) -> Floats:
    """Estimate the squared error of a map around each block from what neighbours share, (N,) px^2.

    Block noise is independent from block to block while the map's error is shared by neighbours, so
    the mean residual of those around a block estimates it. How much of its square is error and how
    much noise is known from the section as a whole: the result is zero where residuals are only
    noise.

    ``left`` (N, 2) are residuals, px, and ``weights`` (N,) inverse variances up to a factor;
    ``around`` (N, K, 2) and ``weights_around`` (N, K) those of the K blocks around each, 0 for
    none. What is shared counts if it is this many standard errors above zero (``sure``), and so
    does what is more than blocks can be noisy (``most_noise``, see `compute_excess`).
    """
    total = weights_around.sum(axis=1)
    good = (total > 0) & (weights > 0)
    if not good.any():
        return np.zeros(len(left))
    unit = float(np.median(weights[good]))
    own, total = weights / unit, np.maximum(total / unit, 1e-9)
    shared = (np.nan_to_num(around) * (weights_around / unit)[..., None]).sum(axis=1)
    shared = shared / total[:, None]
    squares = (left**2).sum(axis=1) * own
    typical = float(np.median(squares[good]))
    # a few wild blocks decide nothing
    bounded = np.sqrt(np.minimum(1, _WILD * max(typical, 1e-12) / np.maximum(squares, 1e-30)))
    noise = typical / MEDIAN_OF_SQUARES * 2
    pair_weights = np.where(good, own * total, 0.0)
    products = bounded * (np.nan_to_num(left) * shared).sum(axis=1)
    # the mean product of a residual with its neighbours' has no contribution from noise
    common = float((pair_weights * products).sum() / pair_weights.sum())
    error = float(np.sqrt(((pair_weights * (products - common)) ** 2).sum()) / pair_weights.sum())
    common = common if common > sure * error else 0.0
    share = common / (common + noise / total) if common > 0 else np.zeros(len(left))
    found = np.where(good, share * (shared**2).sum(axis=1), common)
    # neighbours a third of a bend away share nothing of it; where a part has moved most are off
    seen = weights_around > 0
    few = seen.sum(axis=1, keepdims=True) <= NEIGHBOURS / 2  # those say nothing of a place
    off = np.where(seen, (np.nan_to_num(around) ** 2).sum(axis=2), np.nan)
    near = np.where(few, (left**2).sum(axis=1, keepdims=True), off)
    clear = np.where(few, 0.0, off * weights_around)
    near, clear = (np.nanmedian(v, axis=1) / MEDIAN_OF_SQUARES for v in (near, clear))
    excess = compute_excess(left[good], weights[good], most_noise)
    most = np.maximum(excess, 1 - (_CLEARLY * most_noise) ** 2 / np.maximum(clear, 1e-12))
    return np.maximum(found, most * 2 * near)


def compute_excess(left: Points, weights: Floats, most_noise: float) -> float:
    """Share (0..1) of the squared residuals (N, 2) that is more than blocks can be noisy.

    Their noise follows from their peaks (``weights``), in phantoms, brains and scans:
    ``most_noise`` px along an axis at most, if a peak is twice as high as the next one.
    """
    if not len(left):
        return 0.0
    typical = float(np.median((left**2).sum(axis=1) * weights)) / MEDIAN_OF_SQUARES
    return max(0.0, 1 - most_noise**2 / max(typical, 1e-12))


def compute_confirmed_reach(points: Points, size: int) -> float:
    """How far from a block that agrees a map still counts as confirmed, px.

    One and a half blocks of side ``size`` px, or 12 % of the diagonal of the section, of which
    ``points`` (N, 2) (x, y) are given, if that is more.
    """
    across = float(np.hypot(*np.ptp(points, axis=0))) if len(points) else 0.0
    return max(_REACH_BLOCKS * size, _REACH_SHARE * across)


def compute_uncovered_share(points: Points, blocks: Points, reach: float) -> float:
    """Share of ``points`` further than ``reach`` px from every one of ``blocks``."""
    if not len(blocks) or not len(points):
        return 1.0
    closest = blocks[nearest(points, blocks, 1)[:, 0]]
    return float((np.hypot(*(points - closest).T) > reach).mean())
