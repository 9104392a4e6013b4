"""Gains of several backgrounds and one offset, fitted together through the means of small cells.

post = sum_i gain_i * background_i + offset + signal, where neither gains nor signal are negative.
Signal is one-sided, so a symmetric robust fit takes it for offset first. Therefore the fit starts
from what lies around the mode of the residuals (half-sample mode; Bickel and Fruehwirth 2006,
Computational Statistics & Data Analysis 50, 3500) within 2.5 of the scatter below it, and goes on
with each cell weighted by how likely it has no signal (`without_signal`), over its noise. It ends
with the cells whose neighbours show none either.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unglow.photometry.gain.linear import REGIONS, STUDENT, regions_of
from unglow.photometry.gain.without_signal import first_shares, weigh

if TYPE_CHECKING:
    from unglow.core.arrays import Bools, Floats


LEAST = 400
"""Fewer cells say nothing."""
SIMILAR = 0.5
"""Backgrounds are similar if noise is this share of the part of one that the others lack."""
_HUBER, _START_STEPS = 1.345, 12
_NEAR, _STEPS, _STILL = 2.5, 60, 1e-3
_DRAW_STEPS = 5
"""Steps of a fit without one region, which starts at the line of all."""
_CALM, _MOST_OF_ONE = 2.0, 3.0
"""Neighbours of a calm cell are this near to the line together, and one counts at most as this far,
in standard deviations of their noise."""
_CALM_PART = 0.85
"""If fewer are calm, as a part of the cells without signal, faint signal or differences between the
backgrounds are nearly everywhere, and all cells count."""
_NOISE_ERROR = 0.3
"""The noise of a background is believed to this part of it."""
_BIAS, _CALM_BIAS = 0.004, 0.0001
"""Error of a gain, as a part of all of them, that signal too faint to be seen may cause where all
cells count, and where calm ones do: intervals of phantoms of 8 cycles then hold the truth."""
_OFFSET_BIAS = 0.1
"""Error of the offset, as a part of the scatter, that such signal may cause."""
_LEAST_NOISE = 0.1
"""No cell is given less than this part of the mean variance."""
_GLASS = 0.15
"""What is darker than this part of the way from the darkest to bright tissue is taken for glass."""
_SIGMA_OF_MAD = 1.4826


@dataclass(frozen=True, eq=False, slots=True)
class SeveralFit:
    """Gains of K backgrounds, with 95 % intervals as halves of their widths.

    Attributes
    ----------
    gains, gain_halves
        (K,) each.
    offset, offset_half
        Grey levels.
    total, total_half
        Sum of the gains times the mean background each: what is subtracted on average, without the
        offset, grey levels; it is known where single gains are not.
    noise_shares
        (K,) variance of noise as a share of the part of each background that the others lack.
    condition
        Condition number of the standardised backgrounds: 1 if they have nothing in common.
    scatter
        Standard deviation of the residuals of cells without signal, grey levels.
    used
        Number of cells without signal, which gains and offset rest on.
    """

    gains: Floats
    gain_halves: Floats
    offset: float
    offset_half: float
    total: float
    total_half: float
    noise_shares: Floats
    condition: float
    scatter: float
    used: int

    @property
    def are_similar(self) -> bool:
        """Whether the backgrounds are too similar to know single gains."""
        return bool((self.noise_shares > SIMILAR).any())


def fit(backgrounds: Floats, post: Floats, noise: Floats, xy: Floats) -> SeveralFit:
    """Fit gains and offset.

    Parameters
    ----------
    backgrounds, post
        (N, K) and (N,): means of cells, grey levels.
    noise
        (K,) variance of the noise in a mean of each background, grey levels^2.
    xy
        (N, 2) where the cells lie, px: intervals come from leaving out regions, one after another.

    Raises
    ------
    ValueError
        A sentence without its full stop, if the cells do not show gains and offset.
    """
    if len(post) < LEAST:
        raise ValueError(
            f"only {len(post)} cells have data in the marker and in all of its backgrounds without "
            f"saturated pixels, {LEAST} are needed"
        )
    section = _find_section(backgrounds)
    backgrounds, post, xy = backgrounds[section], post[section], xy[section]
    middle = backgrounds.mean(axis=0)
    centred = backgrounds - middle
    spread = centred.std(axis=0)
    if not (spread > np.sqrt(noise)).all():
        raise ValueError("a background has too little texture for its gain to be measured")
    line, scatter = _fit_around_mode(centred, post, _start_line(centred, post))
    variances = np.full(len(post), max(scatter, 1e-9) ** 2)
    state = _State(line, variances, np.ones(len(post)), first_shares())
    state = state.refine(centred, post, np.ones(len(post), bool), _STEPS)
    left, bias = post - centred @ state.line[:-1] - state.line[-1], _BIAS
    calm = _find_calm(left / np.sqrt(state.variances), xy)
    if np.count_nonzero(calm) >= max(LEAST, _CALM_PART * state.weights.sum()):
        state = state.refine(centred, post, calm, _STEPS)
        centred, post, xy, bias = centred[calm], post[calm], xy[calm], _CALM_BIAS
    line, weights = state.line, state.weights / state.variances
    regions = regions_of(xy, REGIONS)
    drawn = np.array(
        [
            state.refine(centred, post, regions != one, _DRAW_STEPS).line
            for one in np.unique(regions)
            if np.count_nonzero(regions != one) >= LEAST // 2
        ]
    )
    at = weights @ centred / weights.sum()
    covariance = ((centred - at).T * weights) @ (centred - at) / weights.sum()
    inverse = np.linalg.pinv(covariance)
    # the part of one that the others lack is 1 / inverse[i, i]; noise of all is this share of it
    shares = (inverse**2 @ noise) / np.diag(inverse)
    unsure = shares * line[:-1].sum()
    if (shares < SIMILAR).all():
        # errors in variables: how far noise in the backgrounds pulls each gain, and the line with
        # it about the mean of what it rests on
        pulled = np.linalg.solve(covariance - np.diag(noise), noise * line[:-1])
        pulled = np.maximum(np.where(line[:-1] > 0, pulled, 0), -line[:-1])
        line, drawn = (v + np.append(pulled, -at @ pulled) for v in (line, drawn))
        unsure = _NOISE_ERROR * np.abs(pulled)
    gains = line[:-1]
    offsets, totals = drawn[:, -1] - drawn[:, :-1] @ middle, drawn[:, :-1] @ middle
    correlation = covariance / np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    eigen = np.linalg.eigvalsh(correlation)
    scatter = math.sqrt(float(state.weights @ state.variances / state.weights.sum()))
    return SeveralFit(
        gains,
        np.hypot(_half(drawn[:, :-1]), bias * gains.sum()) + unsure,
        float(line[-1] - gains @ middle),
        math.hypot(float(_half(offsets)), _OFFSET_BIAS * scatter),
        float(gains @ middle),
        float(_half(totals)),
        shares,
        math.sqrt(max(eigen[-1], 0.0) / max(eigen[0], 1e-12)),
        scatter,
        round(float(state.weights.sum())),
    )


def _find_section(backgrounds: Floats) -> Bools:
    """Return which cells are brighter than glass; all if too few are.

    Faint signal all over the section would count as background against glass.
    """
    low, high = np.quantile(backgrounds, (0.002, 0.9), axis=0)
    level = ((backgrounds - low) / np.maximum(high - low, 1e-12)).mean(axis=1)
    on = level > _GLASS
    return on if np.count_nonzero(on) >= LEAST else np.ones(len(on), bool)


def _find_calm(scaled: Floats, xy: Floats) -> Bools:
    """Return which cells have neighbours that are near the line together, (N,).

    Signal reaches over several cells, so what is too faint to be seen in one shows next to it. The
    noise of a cell takes no part in this, so what is left of it is not bent.
    """
    row, col = (np.unique(v, return_inverse=True)[1] + 1 for v in xy.T[::-1])
    sums = []
    for values in (np.clip(scaled, -_MOST_OF_ONE, _MOST_OF_ONE), 1.0):
        lattice = np.zeros((row.max() + 2, col.max() + 2))
        lattice[row, col] = values
        rows = lattice[:-2] + lattice[1:-1] + lattice[2:]
        around = rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:] - lattice[1:-1, 1:-1]
        sums.append(around[row - 1, col - 1])
    return np.asarray(np.abs(sums[0]) <= _CALM * np.sqrt(sums[1]))


def _half(drawn: Floats) -> Floats:
    """Return half of the 95 % interval from values without one region each (jackknife)."""
    count = len(drawn)
    if count < 2:
        return np.full(drawn.shape[1:], np.inf)
    variance = (count - 1) / count * ((drawn - drawn.mean(axis=0)) ** 2).sum(axis=0)
    return np.asarray(STUDENT[min(count - 2, len(STUDENT) - 1)] * np.sqrt(variance))


def _start_line(centred: Floats, post: Floats) -> Floats:
    """Return a first line by Huber's weights: gains, and the offset at the mean background."""
    weights = np.ones(len(post))
    for _ in range(_START_STEPS):
        line = _solve(centred, post, weights)
        left = post - centred @ line[:-1] - line[-1]
        spread = max(_SIGMA_OF_MAD * float(np.median(np.abs(left - np.median(left)))), 1e-9)
        weights = np.minimum(1.0, _HUBER * spread / np.maximum(np.abs(left), 1e-12))
    return line


def _fit_around_mode(centred: Floats, post: Floats, line: Floats) -> tuple[Floats, float]:
    """Return the line through the mode of the residuals, and their scatter."""
    scale = centred.std(axis=0)
    for _ in range(_STEPS):
        left = post - centred @ line[:-1] - line[-1]
        ordered = np.sort(left)
        mode = _mode(ordered)
        # half of those below it are nearer
        scatter = _SIGMA_OF_MAD * float(mode - ordered[np.searchsorted(ordered, mode) // 2])
        near = np.abs(left - mode) < _NEAR * max(scatter, 1e-9)
        if np.count_nonzero(near) < len(line) + 1:
            raise ValueError("the backgrounds do not explain the marker anywhere")
        last, line = line, _solve(centred[near], post[near], np.ones(np.count_nonzero(near)))
        if (np.abs(line - last)[:-1] * scale <= _STILL * max(scatter, 1e-9)).all():
            break
    return line, scatter


@dataclass(frozen=True, eq=False, slots=True)
class _State:
    """A line, and what its weights follow from.

    ``variances`` and ``weights`` (how likely there is no signal) are (N,), ``shares`` those of
    `weigh`.
    """

    line: Floats
    variances: Floats
    weights: Floats
    shares: Floats

    def refine(self, centred: Floats, post: Floats, chosen: Bools, steps: int) -> _State:
        """Return the state after some steps with some of the cells, or when the line is still."""
        line, shares, scale = self.line, self.shares, np.append(centred.std(axis=0), 1.0)
        centred, post, variances = centred[chosen], post[chosen], self.variances[chosen]
        for _ in range(steps):
            left = post - centred @ line[:-1] - line[-1]
            weights, shares = weigh(left / np.sqrt(variances), shares)
            variances = _variances(centred @ line[:-1], left, weights)
            last, line = line, _solve(centred, post, weights / variances)
            if (np.abs(line - last) * scale <= _STILL * np.sqrt(variances.mean())).all():
                break
        return _State(line, variances, weights, shares)


def _variances(expected: Floats, left: Floats, weights: Floats) -> Floats:
    """Return the variance of the noise of each cell, which is linear in its brightness."""
    mean = float(weights @ left**2 / weights.sum())
    arm = expected - weights @ expected / weights.sum()
    slope = float(weights @ (arm * left**2)) / max(float(weights @ arm**2), 1e-300)
    return np.asarray(np.maximum(mean + max(slope, 0.0) * arm, max(_LEAST_NOISE * mean, 1e-18)))


def _solve(centred: Floats, post: Floats, weights: Floats) -> Floats:
    """Return non-negative gains and a free offset of least squares."""
    total = weights.sum()
    middle, level = weights @ centred / total, float(weights @ post) / total
    arms = (centred - middle) * weights[:, None]
    normal, right = arms.T @ (centred - middle), arms.T @ (post - level)
    gains = _non_negative(normal + 1e-12 * np.trace(normal) * np.eye(len(normal)), right)
    return np.append(gains, level - middle @ gains)


def _non_negative(normal: Floats, right: Floats) -> Floats:
    """Return the non-negative gains of least squares: of all choices of those that are 0 the best.

    There are few backgrounds; one with a negative gain is rare.
    """
    gains = np.asarray(np.linalg.solve(normal, right))
    if (gains >= 0).all():
        return gains
    best, least = np.zeros(len(right)), 0.0
    for chosen in itertools.product((False, True), repeat=len(right)):
        some = np.flatnonzero(chosen)
        found = np.linalg.solve(normal[np.ix_(some, some)], right[some])
        cost = -float(right[some] @ found)
        if len(some) and (found >= 0).all() and cost < least:
            best, least = np.zeros(len(right)), cost
            best[some] = found
    return best


def _mode(ordered: Floats) -> float:
    """Return the half-sample mode of sorted values: the narrowest half, repeatedly."""
    while len(ordered) > 2:
        half = (len(ordered) + 1) // 2
        widths = ordered[half - 1 :] - ordered[: len(ordered) - half + 1]
        start = int(np.argmin(widths))
        ordered = ordered[start : start + half]
    return float(ordered.mean())
