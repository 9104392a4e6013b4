"""Smooth fields through scattered, partly wrong displacements: a penalised B-spline, robustly.

Minimised is ``sum w |d - field|^2 + stiffness * roughness``. Roughness is the sum of the squared
third differences of the control points (Eilers & Marx 1996, doi:10.1214/ss/1038425655, in two
dimensions), so that the field follows a section that bends, and continues bending beyond its
blocks. Second differences and values count a little, so that far from any block it continues in a
line and fades. The weights are Tukey's biweight times what is known of each block beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.kernels import kernel
from unglow.registration.dense_blocks import NEAR_PX
from unglow.registration.models import MEDIAN_OF_SQUARES, TUKEY
from unglow.transform import jacobians
from unglow.transform.displacement import Displacement

if TYPE_CHECKING:
    from unglow.core.arrays import Floats
    from unglow.registration.dense_blocks import DenseMatches


FADE_KNOTS = 4.5
"""Knots over which a field without data straightens and falls back to the global model."""
_MARGIN = 3
"""Control points of zeros around the grid, as many as third differences reach."""
_MOST_STEPS, _TOLERANCE = 600, 1e-5
"""Conjugate gradients end after this many steps, or at this share of the first residual."""
_ITERATIONS = 5
"""Fits with new biweights."""
_MOST_POWERS = 6
"""The smoothing length is changed by at most this many factors of sqrt(2)."""
_GROWTH = 3
"""Times that blocks near the field are taken in before it is fitted in earnest."""
_LEAST_BLOCKS = 30
"""A field needs this many blocks that hang together."""
_FINEST_SIGMA = 0.005
"""px: below it all residuals count as equally good."""
_SHORTEST = 0.25
"""Least smoothing length as a share of a block: blocks that overlap share what is wrong."""
_BOUND = 30.0
"""Squared residuals are limited to this multiple of their median when stiffnesses are compared."""


@dataclass(frozen=True, eq=False)
class FieldFit:
    """A fitted field, the (N,) final weights of the blocks (0 if held out), and its stiffness."""

    field: Displacement
    weights: Floats
    stiffness: float


def stiffness_of(smooth_px: float, spacing_px: int, step_px: float) -> float:
    """Stiffness that smooths over ``smooth_px`` with blocks ``step_px`` apart.

    A wave of k rad/px keeps the share 1 / (1 + (k * smooth_px)^6) if smooth_px is at most about two
    spacings: roughness is the spacing to the fourth power times the integral of the squared third
    derivatives, the data one term for step_px squared.
    """
    return float(smooth_px**6 / (spacing_px**4 * step_px**2))


def fit_field(
    points: Floats, targets: Floats, weights: Floats, start: Displacement, stiffness: float
) -> Displacement:
    """Least-squares field on the grid of ``start``, which is also the first guess.

    ``points`` (N, 2) are positions in post and ``targets`` (N, 2) the displacements wanted there,
    px; ``weights`` (N,) are not negative; `stiffness_of` says what the stiffness means.
    """
    rows, cols = start.coefficients.shape[1:]
    padded = (rows + 2 * _MARGIN, cols + 2 * _MARGIN)
    normal = np.zeros((7, 7, rows, cols))
    right, work, solution = (np.zeros((n, *padded)) for n in (2, 3, 2))
    inner = (slice(None), slice(_MARGIN, -_MARGIN), slice(_MARGIN, -_MARGIN))
    solution[inner] = start.coefficients
    data = [np.ascontiguousarray(v, np.float64) for v in (points, targets, weights)]
    bending, ridge = (stiffness / FADE_KNOTS**power for power in (2, 6))
    numbers = np.array([stiffness, bending, ridge + 1e-12, _TOLERANCE])
    kernel("fit_spline")(
        *data,
        len(weights),
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
    blocks: DenseMatches,
    prior: Floats,
    start: Displacement,
    stiffness: float,
    biweights: Floats,
    iterations: int = _ITERATIONS,
) -> tuple[Displacement, Floats]:
    """Fit with Tukey's biweight to N blocks; the field and the (N,) biweights in 0..1.

    ``prior`` (N,) are inverse variances up to a factor, of which 0 keeps a block out for good;
    ``start`` is the grid and the first guess, ``biweights`` are those of the first fit.
    """
    field = start
    for _ in range(iterations):
        field = fit_field(blocks.post, blocks.displacement, prior * biweights, field, stiffness)
        biweights = biweight(blocks, blocks.subtract_field(field), prior)
    return field, biweights


def biweight(blocks: DenseMatches, residuals: Floats, prior: Floats) -> Floats:
    """Tukey's biweights (N,) of residuals (N, 2), each measured by its own standard deviation.

    Where a block's neighbours are off more than most, so may it be: the field is too stiff there,
    and leaving the blocks out would make it worse.
    """
    usable = prior > 0
    if not usable.any():
        return np.zeros(len(prior))
    squares = np.where(usable, (residuals**2).sum(axis=1) * prior, np.nan)
    scale = float(np.nanmedian(squares)) / MEDIAN_OF_SQUARES
    scale = max(scale, _FINEST_SIGMA**2 * float(np.median(prior[usable])))
    around = blocks.compute_neighbour_medians(squares[:, None])[0][:, 0]
    local = np.nan_to_num(around) / MEDIAN_OF_SQUARES
    ratio = squares / (TUKEY**2 * np.maximum(scale, local))
    return np.where(usable, np.clip(1 - ratio, 0, None) ** 2, 0.0)


def choose_stiffness(
    blocks: DenseMatches, start: Displacement, measured_against: Displacement | None
) -> FieldFit | None:
    """Fit with the stiffness that predicts held-out blocks best; None if too few hang together.

    The smoothing length starts at half the distance of the blocks, and is halved or doubled by
    steps of sqrt(2) for as long as held-out blocks gain; it is at least a quarter of a block.
    Before that, a field through the blocks that hang together takes in those around them that it
    comes near. ``start`` is the grid and the first guess; ``measured_against`` is the field that
    the blocks were measured against, if there is one.
    """
    agreeing = blocks.find_agreeing(measured_against)
    inside = blocks.mainland(agreeing, measured_against)
    if np.count_nonzero(inside & ~blocks.is_held_out) < _LEAST_BLOCKS:
        return None
    unit = float(np.median(blocks.weights[inside]))

    def fit_start(power: int, start: Displacement, biweights: Floats, iterations: int) -> FieldFit:
        length = max(blocks.step / 2 * 2 ** (power / 2), _SHORTEST * blocks.size)
        stiffness = unit * stiffness_of(length, start.spacing_px, blocks.step)
        prior = np.where(inside & ~blocks.is_held_out, blocks.weights, 0.0)
        field, biweights = fit_robust_field(blocks, prior, start, stiffness, biweights, iterations)
        return FieldFit(field, prior * biweights, stiffness)

    field = start
    for _ in range(_GROWTH):
        field = fit_start(0, field, inside.astype(np.float64), 1).field
        near = np.hypot(*blocks.subtract_field(field).T) <= NEAR_PX
        inside = inside | (agreeing & near)
    best = fit_start(0, field, inside.astype(np.float64), _ITERATIONS)
    test = blocks.is_held_out & inside

    def squares(fit: FieldFit) -> Floats:
        """Weighted squared residuals of the held-out blocks."""
        left = (blocks.subtract_field(fit.field) ** 2).sum(axis=1)
        return np.asarray((left * blocks.weights)[test])

    first = squares(best)
    bound = _BOUND * float(np.median(first)) if len(first) else 0.0
    least, prior = _score(first, bound), blocks.weights
    for direction in (1, -1):
        for steps in range(1, _MOST_POWERS + 1):
            biweights = np.divide(best.weights, prior, np.zeros_like(prior), where=prior > 0)
            other = fit_start(direction * steps, best.field, biweights, 2)
            score = _score(squares(other), bound)
            if not score < least:
                break
            best, least = other, score
        if steps > 1:
            break
    return best


def _score(squares: Floats, bound: float) -> float:
    """Mean of squares that count up to a bound, so that a few wild blocks decide nothing."""
    return float(np.minimum(squares, bound).mean()) if len(squares) else 0.0


_INSERTIONS = 2
"""Times that knots are inserted: each quarters what the bounds are too wide by."""
_BAND = 32
"""Rows of control points at a time, which bounds the memory."""


def pinch(field: Displacement, matrix: Floats) -> tuple[float, float]:
    """Bounds of the area ratio of the entire map over that of the matrix alone.

    They hold everywhere, not only at samples: between knots, a derivative of the spline is
    between the extremes of its own control points. These are made denser by knot insertion, so that
    little is lost. A lower bound above 0 proves that nothing folds. (A homography counts with its
    derivatives at the middle of each of these small cells.)
    """
    smooth = field.smooth
    bounds = [
        _pinch_of(
            replace(smooth, coefficients=smooth.coefficients[:, first : first + _BAND + 3]),
            matrix,
            first * smooth.spacing_px,
        )
        for first in range(0, smooth.coefficients.shape[1] - 3, _BAND)
    ]
    lows, highs = zip(*bounds, strict=True)
    return float(np.min(lows)), float(np.max(highs))


def _pinch_of(band: Displacement, matrix: Floats, top: int) -> tuple[float, float]:
    """Bounds in the cells of some rows of control points, the first beginning at ``top`` px."""
    fine = band
    for _ in range(_INSERTIONS):
        if fine.spacing_px % 2 == 0:
            _, ny, nx = fine.coefficients.shape
            frame = (ny - 3) * fine.spacing_px + 1, (nx - 3) * fine.spacing_px + 1
            fine = fine.finer(frame)
    c, spacing = fine.coefficients, fine.spacing_px
    _, ny, nx = c.shape
    # bounds of the four derivatives in each cell between knots: [component][axis][low, high]
    slopes = [
        [
            _bound_cells(np.diff(c[k], axis=1 - axis) / spacing, 4 - axis, 3 + axis)
            for axis in range(2)
        ]
        for k in range(2)
    ]
    row, col = np.indices((ny - 3, nx - 3))
    middle = (np.column_stack([col.ravel(), row.ravel()]) + 0.5) * spacing + [0, top]
    inverse = np.asarray(np.linalg.inv(jacobians(matrix, middle)), dtype=np.float64)
    inverse = inverse.reshape(ny - 3, nx - 3, 2, 2)
    ratio = [
        [
            _times(inverse[..., i, 0], slopes[0][j]) + _times(inverse[..., i, 1], slopes[1][j])
            for j in range(2)
        ]
        for i in range(2)
    ]
    for k in range(2):
        ratio[k][k] = ratio[k][k] + 1.0
    straight, crossed = _product(ratio[0][0], ratio[1][1]), _product(ratio[0][1], ratio[1][0])
    return float((straight[0] - crossed[1]).min()), float((straight[1] - crossed[0]).max())


def _bound_cells(values: Floats, rows: int, cols: int) -> Floats:
    """Least and greatest of the control points of each cell, (2, rows, cols)."""
    windows = np.lib.stride_tricks.sliding_window_view(values, (rows, cols))
    return np.stack([windows.min(axis=(2, 3)), windows.max(axis=(2, 3))])


def _times(factor: Floats, interval: Floats) -> Floats:
    both = factor * interval
    return np.stack([both.min(axis=0), both.max(axis=0)])


def _product(one: Floats, other: Floats) -> Floats:
    four = (one[:, None] * other[None]).reshape(4, *one.shape[1:])
    return np.stack([four.min(axis=0), four.max(axis=0)])
