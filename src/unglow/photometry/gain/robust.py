"""Weights that stain does not have, and the noise of residuals, for fits to cells.

Residuals are post - (gain * pre + offset), where gain and offset may differ from cell to cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unglow.photometry.noise.model import NoiseModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.photometry.cells import Cells

    Floats = NDArray[np.float64]

LEAST = 200
"""Fewest cells of a fit."""
LEVELS = 32
"""Steps of brightness."""
# Fewest cells that tell the noise at a step of brightness: their median to 8 %.
_LEAST_STEP = 60
# Tukey's constants below and above the line, in standard deviations: 4.685 is his, for 95 %
# efficiency; above it stain is to have no weight, and `FEEDBACK` makes up for the narrowness.
_BELOW, _ABOVE = 4.685, 2.5
# The weights sum up over so many steps between the two.
_INTEGRATION_STEPS = 4001
# No single step of brightness has more than this share of all weight: empty glass is good evidence
# on the offset, but it is often most of the image.
_SHARE = 0.1
# Nearer to 0 or to the maximum than so many standard deviations of a px, clipping bends levels.
_FROM_FLOOR, _FROM_TOP = 2.5, 3.0
# Median of chi-squared over its mean, for 15 degrees of freedom; and for 1.
_MEDIAN_15, _MEDIAN_1 = 0.956, 0.4549
# Median of the absolute value of a normal variate, in standard deviations.
_NORMAL_MEDIAN = 0.6745
# The error of the map is estimated from cells whose texture is above this quantile.
_STEEP = 0.7
# Least spread of residuals, expected standard deviations: of a copy they are all 0.
_LEAST_SPREAD = 1e-3


@dataclass(frozen=True, slots=True)
class Limits:
    """What the images can hold, grey levels: the floor of both, their maxima, and one level."""

    floor: float
    post_top: float
    pre_top: float
    grey_level: float


@dataclass(frozen=True, eq=False, slots=True)
class State:
    """What a gain and an offset, which may differ from cell to cell, make of each cell, (N,).

    Variances of the means by noise, squared gradient of pre and variance within by texture alone,
    most likely level of pre, and residual.
    """

    gain: Floats
    offset: Floats
    pre_noise: Floats
    post_noise: Floats
    gradient: Floats
    texture: Floats
    level: Floats
    residual: Floats

    @property
    def deviation(self) -> Floats:
        """Standard deviation expected of each residual."""
        return np.asarray(np.sqrt(self.post_noise + self.gain**2 * self.pre_noise))


def _tukey(scaled: Floats) -> Floats:
    limit = np.where(scaled < 0, _BELOW, _ABOVE)
    return np.asarray(np.clip(1 - (scaled / limit) ** 2, 0, None) ** 2, dtype=np.float64)


def _weigh_noise() -> tuple[float, float]:
    """Return what weights narrower above than below make of unit noise without stain.

    Its weighted mean; and the mean weight over the mean slope of weight times departure from there,
    which is the mean of departure times that (Stein's lemma). By so much more than a fit with
    weights that stay as they are does a line move that is fitted again and again with its own
    (Huber and Ronchetti 2009, Robust Statistics, 7.6).
    """
    z = np.linspace(-_BELOW, _ABOVE, _INTEGRATION_STEPS)
    weights = _tukey(z) * np.exp(-(z**2) / 2)
    mean = float(np.sum(weights * z) / np.sum(weights))
    return mean, float(np.sum(weights) / np.sum(weights * z * (z - mean)))


SHIFT, FEEDBACK = _weigh_noise()


def estimate_noise(
    cells: Cells, good: NDArray[np.bool_], gain: float | Floats, limits: Limits
) -> NoiseModel:
    """Estimate the noise of single px from the variances within good cells.

    What post and pre share within a cell is texture, the rest of each variance is noise. Of the
    cells of each brightness those with less texture count.
    """
    least = limits.grey_level**2 / 12
    of_post = (cells.post_var - gain * cells.cov) / cells.post_within
    of_pre = (cells.pre_var - cells.cov / gain) / cells.pre_within
    texture = cells.gradient[good]
    post = _fit_against_level(cells.post[good], of_post[good], texture, least)
    pre = _fit_against_level(cells.pre[good], of_pre[good], texture, least)
    return NoiseModel(*post, *pre, least)


def _fit_against_level(
    level: Floats, variance: Floats, texture: Floats, least: float
) -> tuple[float, float]:
    """Fit medians of variances at each level: what is there without light, and how it rises."""
    steps = compute_steps(level)
    groups = np.split(
        np.argsort(steps, kind="stable"), np.bincount(steps, minlength=LEVELS).cumsum()
    )
    groups = [g[texture[g] <= _median(texture[g])] for g in groups if len(g) >= _LEAST_STEP]
    if not groups:
        return max(float(np.median(variance)), least), 0.0
    x = np.array([_median(level[g]) for g in groups])
    y = np.array([max(_median(variance[g]) / _MEDIAN_15, least) for g in groups])
    weights = np.array([len(g) for g in groups]) / y**2
    mean_x, mean_y = (float(np.average(v, weights=weights)) for v in (x, y))
    across = float(np.sum(weights * (x - mean_x) ** 2))
    slope = float(np.sum(weights * (x - mean_x) * (y - mean_y))) / across if across > 0 else 0.0
    slope = max(slope, 0.0)
    return mean_y - slope * mean_x, slope


def _median(values: Floats) -> float:
    """Return the median of some values, as `np.median` does in five times the time."""
    ordered = np.sort(values)
    half = len(values) // 2
    return float(ordered[-1] if np.isnan(ordered[-1]) else (ordered[half] + ordered[~half]) / 2)


def compute_steps(level: Floats) -> NDArray[np.intp]:
    """Sort cells into steps of brightness, 0 to 31; rare extremes join the outermost."""
    low, high = np.quantile(level, (0.005, 0.995))
    width = max(float(high - low), 1e-300) / LEVELS
    return np.asarray(np.clip((level - low) / width, 0, LEVELS - 1), dtype=np.intp)


def make_state(
    cells: Cells,
    gain: float | Floats,
    offset: float | Floats,
    noise: NoiseModel,
    registration: float,
) -> State:
    """Return what gains and offsets, (N,) or the same everywhere, make of cells.

    ``registration`` is the variance that errors of the map add per squared gradient of pre, px^2.
    """
    gain, offset = (np.broadcast_to(np.asarray(v, np.float64), len(cells)) for v in (gain, offset))
    expected = gain * cells.pre + offset
    pre_px = np.maximum(noise.pre_read + noise.pre_shot * cells.pre, noise.least)
    # of what is expected of post, not of post, whose own noise would go into its weight
    post_px = np.maximum(noise.post_read + noise.post_shot * expected, noise.least)
    # central differences have half the variance of a px on each axis, less of resampled ones
    gradient = np.maximum(cells.gradient - pre_px * cells.pre_within, 0.0)
    # An error of the map bends both images alike: half of it belongs to each.
    pre_noise = pre_px * cells.pre_mean + registration * gradient / 2
    post_noise = post_px * cells.post_mean + gain**2 * registration * gradient / 2
    level = (cells.pre / pre_noise + gain * (cells.post - offset) / post_noise) / (
        1 / pre_noise + gain**2 / post_noise
    )
    residual = cells.post - expected
    texture = np.maximum(cells.cov / gain, 0.0)
    return State(gain, offset, pre_noise, post_noise, gradient, texture, level, residual)


def compute_weights(state: State, noise: NoiseModel, limits: Limits) -> tuple[Floats, float]:
    """Weights of the residuals, and their spread in expected standard deviations."""
    deviation = state.deviation
    scaled = state.residual / deviation
    usable = find_unclipped(state, noise, limits)
    below = -scaled[usable & (scaled <= 0)]
    if len(below) < LEAST // 4:
        raise ValueError(
            "too few cells are left without those that noise, stain or saturation bends"
        )
    spread = max(float(np.median(below)) / _NORMAL_MEDIAN, _LEAST_SPREAD)
    weights = np.where(usable, _tukey(scaled / spread) / deviation**2, 0.0)
    steps = compute_steps(np.where(usable, state.level, np.median(state.level[usable])))
    for _ in range(3):
        totals = np.bincount(steps, weights, LEVELS)
        limit = _SHARE * totals.sum()
        weights = weights * np.minimum(1.0, limit / np.maximum(totals, limit))[steps]
    return weights, spread


def find_unclipped(state: State, noise: NoiseModel, limits: Limits) -> NDArray[np.bool_]:
    """Cells whose pixels noise does not carry below the floor, nor with texture above the maximum.

    Near the maximum, pixels that are too bright were left out of the cells, and the rest is biased.
    """
    post = state.gain * state.level + state.offset
    usable = np.ones(len(post), bool)
    for level, top, variance, texture in (
        (state.level, limits.pre_top, noise.variance_pre, state.texture),
        (post, limits.post_top, noise.variance_post, state.gain**2 * state.texture),
    ):
        floor = limits.floor - limits.grey_level / 2
        at_floor, at_top = variance(np.array([limits.floor, top])).astype(np.float64)
        usable &= level - _FROM_FLOOR * np.sqrt(at_floor) > floor
        usable &= level + _FROM_TOP * np.sqrt(at_top + texture) < top
    return usable


def compute_registration_variance(
    state: State, good: NDArray[np.bool_], registration: float
) -> float:
    """Return the variance per squared gradient that noise leaves unexplained, px^2.

    From cells of much texture below the line, where no stain is.
    """
    steep = good & (state.residual < 0)
    if not steep.any():
        return registration
    steep &= state.gradient > np.quantile(state.gradient[good], _STEEP)
    texture = state.gain[steep] ** 2 * state.gradient[steep]
    if not texture.any():
        return registration
    explained = state.deviation[steep] ** 2 - registration * texture
    rest = state.residual[steep] ** 2 / _MEDIAN_1 - explained
    return max(0.0, float(np.median(rest / texture)))
