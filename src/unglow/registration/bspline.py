"""Smooth fields through scattered, partly wrong displacements: a penalised B-spline, robustly.

Minimised is ``sum w |d - field|^2 + stiffness * roughness``. Roughness is the sum of the squared
third differences of the control points (Eilers & Marx 1996, doi:10.1214/ss/1038425655, in two
dimensions), so that the field follows a section that bends, and goes on bending beyond its blocks.
Second differences and values count a little, so that far from any block it goes on in a line and
fades. The weights are Tukey's biweight times what is known of each block beforehand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unglow.core.kernels import kernel
from unglow.registration.blocks.dense import NEAR_PX
from unglow.registration.models import MEDIAN_OF_SQUARES, TUKEY
from unglow.transform.displacement import Displacement

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.registration.blocks.dense import Dense

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]
    _Try = tuple[Displacement, Floats, float, Floats]

FADE_KNOTS = 4.5
"""Knots over which a field without data straightens and falls back to the global model."""
_MARGIN = 3
_MOST_STEPS = 600
_TOLERANCE = 1e-5
_ITERATIONS = 5
_MOST_POWERS = 6
_GROWTH = 3
_LEAST_BLOCKS = 30
_FINEST_SIGMA = 0.005
_SHORTEST = 0.25


def stiffness_of(smooth_px: float, spacing_px: int, step_px: float) -> float:
    """Stiffness that smooths over ``smooth_px`` with blocks ``step_px`` apart.

    A wave of k rad/px keeps the share 1 / (1 + (k * smooth_px)^6) if smooth_px is at most about two
    spacings: roughness is the spacing to the fourth power times the integral of the squared third
    derivatives, the data one term for step_px squared.
    """
    return float(smooth_px**6 / (spacing_px**4 * step_px**2))


def fit_field(
    points: Floats,
    targets: Floats,
    weights: Floats,
    start: Displacement,
    stiffness: float,
) -> Displacement:
    """Least-squares field on the grid of ``start``, which is also the first guess.

    Parameters
    ----------
    points, targets
        (N, 2) float64: positions in post and displacements wanted there, px.
    weights
        (N,) not negative.
    stiffness
        See `stiffness_of`.
    """
    rows, cols = start.coefficients.shape[1:]
    padded = (rows + 2 * _MARGIN, cols + 2 * _MARGIN)
    normal = np.zeros((7, 7, rows, cols))
    right, work, solution = (np.zeros((n, *padded)) for n in (2, 3, 2))
    inner = (slice(None), slice(_MARGIN, -_MARGIN), slice(_MARGIN, -_MARGIN))
    solution[inner] = start.coefficients
    given = [np.ascontiguousarray(v, np.float64) for v in (points, targets, weights)]
    bending, ridge = (stiffness / FADE_KNOTS**power for power in (2, 6))
    numbers = np.array([stiffness, bending, ridge + 1e-12, _TOLERANCE])
    kernel("fit_spline")(
        *given,
        len(given[2]),
        start.spacing_px,
        numbers,
        _MOST_STEPS,
        normal,
        right,
        work,
        solution,
        rows,
        cols,
    )
    return Displacement(start.spacing_px, solution[inner])


def fit_robust_field(
    blocks: Dense,
    trust: Floats,
    start: Displacement,
    stiffness: float,
    biweights: Floats,
    iterations: int = _ITERATIONS,
) -> tuple[Displacement, Floats]:
    """Fit with Tukey's biweight, beginning with the given ones; the field and its biweights.

    Parameters
    ----------
    blocks
        N measured blocks.
    trust
        (N,) inverse variances up to a factor; 0 keeps a block out for good.
    start
        Grid and first guess.
    stiffness
        See `stiffness_of`.
    biweights
        (N,) in 0..1.
    """
    found = start
    for _ in range(iterations):
        found = fit_field(blocks.post, blocks.off, trust * biweights, found, stiffness)
        biweights = biweight(blocks, blocks.off - found.at(blocks.post), trust)
    return found, biweights


def biweight(blocks: Dense, off: Floats, trust: Floats) -> Floats:
    """Tukey's biweights (N,) of residuals (N, 2), each measured by its own standard deviation.

    Where a block's neighbours are off more than most, so may it be: the field is too stiff there,
    and leaving the blocks out would make it worse.
    """
    known = trust > 0
    if not known.any():
        return np.zeros(len(trust))
    squares = np.where(known, (off**2).sum(axis=1) * trust, np.nan)
    scale = float(np.nanmedian(squares)) / MEDIAN_OF_SQUARES
    scale = max(scale, _FINEST_SIGMA**2 * float(np.median(trust[known])))
    around = blocks.around(squares[:, None])[0][:, 0]
    local = np.nan_to_num(around) / MEDIAN_OF_SQUARES
    ratio = squares / (TUKEY**2 * np.maximum(scale, local))
    return np.where(known, np.clip(1 - ratio, 0, None) ** 2, 0.0)


def choose_stiffness(
    blocks: Dense, start: Displacement, known: Displacement | None
) -> tuple[Displacement, Floats, float] | None:
    """Fit with the stiffness that predicts held-out blocks best.

    The smoothing length begins at half the distance of the blocks, and is halved or doubled by
    steps of sqrt(2) for as long as held-out blocks gain; it is at least a quarter of a block, since
    blocks that overlap share what is wrong with them. Before that, a field through the blocks
    that hang together takes in those around them that it comes near.

    Parameters
    ----------
    blocks
        N measured blocks.
    start
        Grid and first guess.
    known
        Field that the blocks were measured against, if there is one.

    Returns
    -------
    The field, the (N,) final weights (0 for held-out blocks), and the stiffness; None if too few
    blocks hang together.
    """
    agreeing = blocks.agreeing(known)
    inside = blocks.mainland(agreeing, known)
    if np.count_nonzero(inside & ~blocks.held_out) < _LEAST_BLOCKS:
        return None
    unit = float(np.median(blocks.trust[inside]))

    def tried(power: int, start: Displacement, biweights: Floats, iterations: int) -> _Try:
        length = max(blocks.step / 2 * 2 ** (power / 2), _SHORTEST * blocks.size)
        stiffness = unit * stiffness_of(length, start.spacing_px, blocks.step)
        trust = np.where(inside & ~blocks.held_out, blocks.trust, 0.0)
        field, weights = fit_robust_field(blocks, trust, start, stiffness, biweights, iterations)
        squares = ((blocks.off - field.at(blocks.post)) ** 2).sum(axis=1) * blocks.trust
        return field, trust * weights, stiffness, squares

    field = start
    for _ in range(_GROWTH):
        field = tried(0, field, inside.astype(np.float64), 1)[0]
        near = np.hypot(*(blocks.off - field.at(blocks.post)).T) <= NEAR_PX
        inside = inside | (agreeing & near)
    best = tried(0, field, inside.astype(np.float64), _ITERATIONS)
    test = blocks.held_out & inside
    bound = 30 * float(np.median(best[3][test])) if test.any() else 0.0
    for direction in (1, -1):
        for steps in range(1, _MOST_POWERS + 1):
            other = tried(direction * steps, best[0], _biweights(best[1], blocks), 2)
            if not _score(other[3][test], bound) < _score(best[3][test], bound):
                break
            best = other
        if steps > 1:
            break
    return best[:3]


def _biweights(weights: Floats, blocks: Dense) -> Floats:
    """Weights without what is known of the blocks beforehand."""
    return np.divide(weights, blocks.trust, out=np.zeros_like(weights), where=blocks.trust > 0)


def _score(squares: Floats, bound: float) -> float:
    """Mean of squares that count up to a bound, so that a few wild blocks decide nothing."""
    return float(np.minimum(squares, bound).mean()) if len(squares) else 0.0
