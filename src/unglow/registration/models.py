"""Robust global maps from matched points: translation, similarity, affine, homography.

Fits are iteratively reweighted least squares with Tukey's biweight, started from the largest set of
matches that one similarity explains, so that they stand many wrong matches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unglow.registration.settings import MODELS
from unglow.transform import apply_matrix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unglow.core.arrays import Bools, Floats

    Points = Floats
    Matrix = Floats

MIN_POINTS = {"translation": 1, "similarity": 2, "affine": 3, "homography": 4}
TUKEY = 5.1
"""Cut-off in standard deviations per axis (95 % efficiency for two-dimensional residuals)."""
MEDIAN_OF_SQUARES = 1.3863
"""Of the sum of two squared standard normals: 2 ln 2."""

_ITERATIONS = 20
_SETTLED_PX = 1e-7
"""Fits end after this many iterations, or when no match is mapped further from where it was, px."""
_NEWTON_STEPS = 6
"""Of a homography; each about squares the error of the last."""
_HYPOTHESES = 500
"""Pairs of matches that are tried: where a quarter is right, no pair is, in 1e-14 of cases."""
_SEED = 20011
_CONSENSUS_ERRORS = 1 << 16
"""Errors that are held at a time, which bounds the memory."""
_FINEST_SIGMA = 0.01
"""px: below it all residuals count as equally good."""
_MEDIAN_OF_LENGTHS = 1.1774
"""Median length of two-dimensional normal residuals over their standard deviation: sqrt(2 ln 2)."""
_SURE, _GAIN = 2.0, 0.05
"""A richer model has to gain this many standard errors, and this share of the squared residuals."""
_BOUND = 9.0
"""Squared residuals are limited to this multiple of their median when models are compared."""


def residuals(matrix: Matrix, post: Points, pre: Points) -> Points:
    """Measured minus mapped pre positions, (N, 2) px; beyond a horizon they are infinite."""
    difference = pre - apply_matrix(matrix, post)
    return np.where(np.isnan(difference), np.inf, difference)


def measure_distances(one: Matrix, other: Matrix, points: Points) -> Floats:
    """Return how far apart two maps put points (N, 2), (N,) px; infinite beyond a horizon."""
    return np.asarray(np.hypot(*residuals(one, points, apply_matrix(other, points)).T))


def find_consensus(post: Points, pre: Points, tolerance: float) -> Bools:
    """Mark (N,) the most of N matches (x, y) that one similarity puts within ``tolerance`` px.

    All false for fewer than three matches. The pairs of matches that are tried come from a fixed
    seed, so the same matches give the same answer.
    """
    count = len(post)
    if count < 3:
        return np.zeros(count, dtype=bool)
    rng = np.random.default_rng(_SEED)
    first = rng.integers(0, count, _HYPOTHESES)
    second = (first + rng.integers(1, count, _HYPOTHESES)) % count
    # complex numbers: a similarity is z -> a z + b; a mirrored one acts on the conjugate
    best = np.zeros(count, dtype=bool)
    target = pre[:, 0] + 1j * pre[:, 1]
    for orientation in (1j, -1j):
        source = post[:, 0] + orientation * post[:, 1]
        base = source[second] - source[first]
        good = np.abs(base) > 4 * tolerance
        a = (target[second] - target[first])[good] / base[good]
        b = target[first][good] - a * source[first][good]
        highest = -1.0
        step = max(1, _CONSENSUS_ERRORS // count)
        for k in range(0, len(a), step):  # in parts, so that memory does not grow with the matches
            error = np.abs(a[k : k + step, None] * source + b[k : k + step, None] - target)
            inside = error <= tolerance
            # ties in number are broken by the smaller error, then by order
            score = np.where(inside, 1 - 0.5 * (error / tolerance) ** 2, 0).sum(axis=1)
            i = int(score.argmax())
            if score[i] > highest:
                highest, mask = score[i], inside[i]
        if highest >= 0 and mask.sum() > best.sum():
            best = mask
    return best


def fit(model: str, post: Points, pre: Points, weights: Floats) -> Matrix:
    """Weighted least-squares map from post to pre: one of `MODELS`.

    Parameters
    ----------
    post, pre
        (N, 2) matched points, N at least `MIN_POINTS` for the model.
    weights
        (N,) not negative.

    Returns
    -------
    (3, 3) float64 with element [2, 2] = 1.

    Raises
    ------
    numpy.linalg.LinAlgError
        The points do not determine the model.
    """
    # centred and scaled coordinates keep the normal equations well conditioned
    to_unit_post, p = _unit(post, weights)
    to_unit_pre, q = _unit(pre, weights)
    if model == "translation":
        matrix = np.eye(3)
        matrix[:2, 2] = np.average(pre - post, axis=0, weights=weights)
        return matrix
    unit = _fit_linear(model, p, q, weights)
    if model == "homography":
        for _ in range(_NEWTON_STEPS):
            unit = _newton_step(unit, p, q, weights)
    matrix = np.linalg.inv(to_unit_pre) @ unit @ to_unit_post
    return np.asarray(matrix / matrix[2, 2], dtype=np.float64)


def _unit(points: Points, weights: Floats) -> tuple[Matrix, Points]:
    centre = np.average(points, axis=0, weights=weights)
    size = float(np.sqrt(np.average(((points - centre) ** 2).sum(1), weights=weights))) or 1.0
    matrix = np.array(
        [[1 / size, 0, -centre[0] / size], [0, 1 / size, -centre[1] / size], [0, 0, 1]]
    )
    return matrix, (points - centre) / size


def _fit_linear(model: str, p: Points, q: Points, weights: Floats) -> Matrix:
    matrix = np.eye(3)
    if model == "similarity":
        z, t = p[:, 0] + 1j * p[:, 1], q[:, 0] + 1j * q[:, 1]
        mirrored = z.conj()
        straight, flipped = ((weights * s.conj() * t).sum() for s in (z, mirrored))
        total = (weights * np.abs(z) ** 2).sum()
        if total <= 0:
            raise np.linalg.LinAlgError("the points coincide")
        a, turn = (straight, 1.0) if abs(straight) >= abs(flipped) else (flipped, -1.0)
        a /= total
        matrix[:2, :2] = [[a.real, -turn * a.imag], [a.imag, turn * a.real]]
        return matrix
    design = np.column_stack([p, np.ones(len(p))])
    weighted = design * weights[:, None]
    matrix[:2] = np.linalg.solve(weighted.T @ design, weighted.T @ q).T
    return matrix


def _newton_step(matrix: Matrix, p: Points, q: Points, weights: Floats) -> Matrix:
    """One Gauss-Newton step on the eight free numbers of a homography."""
    x, y = p.T
    u, v, w = (row[0] * x + row[1] * y + row[2] for row in matrix)
    one, zero = np.ones_like(x), np.zeros_like(x)
    u, v = u / w, v / w
    jacobian = np.concatenate(
        [
            np.stack([x, y, one, zero, zero, zero, -u * x, -u * y], 1) / w[:, None],
            np.stack([zero, zero, zero, x, y, one, -v * x, -v * y], 1) / w[:, None],
        ]
    )
    error = np.concatenate([q[:, 0] - u, q[:, 1] - v])
    weighted = jacobian * np.tile(weights, 2)[:, None]
    step = np.linalg.solve(weighted.T @ jacobian, weighted.T @ error)
    return np.asarray(matrix + np.append(step, 0.0).reshape(3, 3), dtype=np.float64)


def fit_robust(
    model: str, post: Points, pre: Points, start: Bools, prior: Floats | None = None
) -> tuple[Matrix, Floats]:
    """Fit one of `MODELS` with Tukey's biweight, beginning with the matches (N,) in ``start``.

    ``prior`` (N,) are inverse variances up to a factor; 0 keeps a match out for good.

    Returns
    -------
    The (3, 3) matrix, and the (N,) biweights in 0..1.

    Raises
    ------
    numpy.linalg.LinAlgError
        Too few matches, or they do not determine the model.
    """
    prior = np.ones(len(post)) if prior is None else prior
    usable = prior > 0
    # lengths count in units of what is usual for a match as good as this one
    unit = np.sqrt(prior / (np.median(prior[usable]) if usable.any() else 1.0))
    weights = np.where(start, prior, 0.0)
    matrix = np.eye(3)
    for _ in range(_ITERATIONS):
        if np.count_nonzero(weights) < max(MIN_POINTS[model], 2):
            raise np.linalg.LinAlgError("too few matches agree")
        previous, matrix = matrix, fit(model, post, pre, weights)
        lengths = np.minimum(np.hypot(*residuals(matrix, post, pre).T), 1e9) * unit
        inside = lengths[(weights > 0) & usable]
        sigma = _sigma(inside)
        biweight = np.where(usable, np.clip(1 - (lengths / (TUKEY * sigma)) ** 2, 0, None) ** 2, 0)
        weights = prior * biweight
        if np.abs(apply_matrix(matrix, post) - apply_matrix(previous, post)).max() < _SETTLED_PX:
            break
    return matrix, biweight


def final_weights(
    matrix: Matrix, post: Points, pre: Points, prior: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return the weights (N,) of matches in the fit that has led to a map, for `fit_spread`.

    Returns
    -------
    What residuals were weighted with; by how much a residual's weighted value grows with it, on
    average over directions (the derivative of Tukey's function); and the standard deviation of the
    weighted noise, up to a factor.
    """
    usable = prior > 0
    unit = np.where(usable, prior / (np.median(prior[usable]) if usable.any() else 1.0), 0.0)
    lengths = np.minimum(np.hypot(*residuals(matrix, post, pre).T), 1e9) * np.sqrt(unit)
    sigma = _sigma(lengths[usable]) if usable.any() else _FINEST_SIGMA
    inside = np.clip(1 - (lengths / (TUKEY * sigma)) ** 2, 0, None)
    weights = unit * inside**2
    return weights, unit * inside * (3 * inside - 2), np.sqrt(unit) * inside**2


def _sigma(lengths: Floats) -> float:
    """Return the standard deviation per axis of residuals of these lengths."""
    return max(float(np.median(lengths)) / _MEDIAN_OF_LENGTHS, _FINEST_SIGMA)


def choose_model(
    post: Points,
    pre: Points,
    start: Bools,
    held_out: Bools,
    models: Sequence[str] = MODELS,
    weights: Floats | None = None,
    least: float = 0.0,
) -> tuple[str, Matrix]:
    """Take the simplest model that no richer one clearly beats on held-out matches.

    A richer model replaces a simpler one if it lowers the (bounded) squared residuals of the
    held-out matches by more than two standard errors of the paired difference and by more than 5 %.

    Parameters
    ----------
    post, pre
        (N, 2) matched points.
    start, held_out
        (N,) matches worth fitting, and matches that no fit may use.
    models
        Candidates, simplest first.
    weights
        (N,) inverse variances of the matches, up to a factor; the same for all if None.
    least
        What a richer model has to gain at least, px squared.

    Returns
    -------
    The model's name and its (3, 3) matrix, fitted without the held-out matches.

    Raises
    ------
    numpy.linalg.LinAlgError
        Not even the simplest model can be fitted.
    """
    weights = np.ones(len(post)) if weights is None else weights
    prior = np.where(held_out, 0.0, weights)
    test = held_out & start & (weights > 0)
    unit = weights[test] / (np.median(weights[test]) if test.any() else 1.0)
    fitted: list[tuple[str, Matrix, Floats]] = []
    for model in models:
        try:
            matrix, _ = fit_robust(model, post, pre, start, prior)
        except np.linalg.LinAlgError:
            continue
        squares = (residuals(matrix, post[test], pre[test]) ** 2).sum(1) * unit
        fitted.append((model, matrix, squares))
    if not fitted:
        raise np.linalg.LinAlgError("too few matches agree")
    if not test.any():
        return fitted[0][:2]
    # one bound for all models, so that a few wild matches decide nothing
    usual = min(float(np.median(squares)) for *_, squares in fitted)
    bound = _BOUND * max(usual, least) + 1e-6
    best = fitted[0]
    for other in fitted[1:]:
        mine, theirs = (np.minimum(item[2], bound) for item in (best, other))
        gain = mine - theirs
        error = float(gain.std()) / np.sqrt(len(gain))
        if gain.mean() > max(_SURE * error, _GAIN * mine.mean(), least):
            best = other
    return best[:2]
