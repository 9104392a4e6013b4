"""Quality of a global map: which blocks agree with it, its error, and what it covers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unglow.registration.fit_error import fit_spread, typical_quantiles
from unglow.registration.models import MEDIAN_OF_SQUARES, residuals
from unglow.transform import Quantiles

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.registration.blocks.phase_correlation import Matches

    Points = NDArray[np.float64]
    Matrix = NDArray[np.float64]
    Mask = NDArray[np.bool_]

AGREE_PX = 2.0
"""Blocks within this distance of the map, or of two of their neighbours, agree. A block of
unrelated images does so by chance in less than one case of a hundred."""
NEIGHBOURS = 6
"""Blocks around one that share its error: those of a hexagon."""
_OVERLAPPING = 24
"""Nearer blocks that may share pixels with one."""
_SURE = 2.5
"""Standard errors from which residuals that neighbours share are no chance."""
_WILD = 25.0
"""Weighted squared residuals count up to so many times their median (5 standard deviations)."""
_DISTANCES = 1 << 18
"""Distances that are held at a time, which bounds the memory."""
_REACH_BLOCKS, _REACH_SHARE = 1.5, 0.12
"""A block confirms the map up to so many sides, or this share of the section's diagonal, away."""


def agreement(matches: Matches, matrix: Matrix) -> Mask:
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
        (P, 2, K) float64: the uncertainty of the fit, see `fit_error.fit_spread`.
    misfit
        (P,) float64: the square of what the model cannot follow, px squared; infinite where nothing
        is known.
    """

    spread: NDArray[np.float64]
    misfit: NDArray[np.float64]

    @property
    def lengths(self) -> NDArray[np.float64]:
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
    fitted: Mask,
    agreeing: Mask,
    matrix: Matrix,
    points: Points,
    size: float = 0.0,
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

    Returns
    -------
    The error; infinite for too few blocks.
    """
    spread = fit_spread(model, matches.keep(fitted), matrix, points, size)
    if spread is None:
        return MapError(np.zeros((len(points), 2, 0)), np.full(len(points), np.inf))
    used = matches.keep(agreeing)
    if len(used) <= NEIGHBOURS:
        return MapError(spread, np.zeros(len(points)))
    left = residuals(matrix, used.post, used.pre)
    around = nearest(used.post, used.post, 1 + _OVERLAPPING + NEIGHBOURS)[:, 1:]
    apart = np.abs(used.post[around] - used.post[:, None]).max(axis=2) >= size
    chosen = apart & (np.cumsum(apart, axis=1) <= NEIGHBOURS)
    weights = np.where(chosen, used.weights[around], 0.0)
    shared = residual_variance(left, used.weights, left[around], weights, sure=_SURE)
    return MapError(spread, shared[nearest(points, used.post, 1)[:, 0]])


def residual_variance(
    left: Points,
    weights: NDArray[np.float64],
    around: NDArray[np.float64],
    weights_around: NDArray[np.float64],
    sure: float = 0.0,
) -> NDArray[np.float64]:
    """Estimate the squared error of a map around each block from what neighbours share, (N,) px^2.

    Block noise is independent from block to block while the map's error is shared by neighbours, so
    the mean residual of those around a block estimates it. How much of its square is error and how
    much noise is known from the section as a whole: the result is zero where residuals are only
    noise.

    ``left`` (N, 2) are residuals, px, and ``weights`` (N,) inverse variances up to a factor;
    ``around`` (N, K, 2) and ``weights_around`` (N, K) those of the K blocks around each, 0 for
    none. What is shared counts if it is so many standard errors above zero (``sure``).
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
    return np.where(good, share * (shared**2).sum(axis=1), common)


def inside_frame(points: Points, shape: tuple[int, int]) -> Mask:
    """Mark the points (N, 2) (x, y) that lie on a pixel of a frame (rows, columns), (N,).

    A pixel reaches half a px beyond its centre; NaN lies on none.
    """
    last = np.array(shape)[::-1] - 0.5
    return np.asarray(((points >= -0.5) & (points <= last)).all(axis=1), dtype=np.bool_)


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
