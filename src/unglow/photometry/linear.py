"""Gain and offset by a robust errors-in-variables line through the means of small cells.

post = gain * pre + offset + stain, where stain is never negative and both images have noise. The
line solves sum w (post - gain * pre - offset) * (1, level) = 0, where *level* is the most likely
brightness of a cell given both images (Fuller 1987, Measurement Error Models, 1.2 and 3.1). Its
error is independent of the residual, so noise in pre does not pull the gain down, nor do weights or
limits that look at levels. The weights are Tukey's biweight, narrower above the line, where stain
is, over the variance that noise explains; what narrowness does to noise without stain is taken off.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unglow.memory import CELL
from unglow.photometry.intervals import STUDENT
from unglow.photometry.noise import NoiseModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.photometry.cells import Cells

    Floats = NDArray[np.float64]

LEAST = 200
"""Fewer cells than this give no line."""
GAIN_BIAS = 0.004
"""Error of the gain, as a part of it, that the interval allows for beside what the cells show.

Of 240 made pairs and 96 of real pixels, stained or not, 95 % are within (benchmarks/photometry).
"""
# Tukey's constants below and above the line, in standard deviations.
_BELOW, _ABOVE = 4.685, 2.5
# The noise is estimated so often, and between this the line at most so often.
_ROUNDS, _STEPS = 4, 20
# No single one of so many steps of brightness has more than this share of all weight: empty glass
# is good evidence on the offset, but it is often most of the image.
_LEVELS, _SHARE = 32, 0.1
# Nearer to 0 or to the maximum than so many standard deviations of a px, clipping bends levels.
_FROM_FLOOR, _FROM_TOP = 2.5, 3.0
# Median of chi-squared over its mean, for 15 degrees of freedom; and for 1.
_MEDIAN_15, _MEDIAN_1 = 0.956, 0.4549
_QUANTILE = 0.6745
# The section is cut into so many by so many regions.
_REGIONS = 4
_LOW = 0.35
# Means of cells have to vary by this times their noise, as variances.
_TEXTURE = 2.0
# A gain that is known less well than this, as a part of it, is none.
_VAGUE = 0.1


@dataclass(frozen=True, slots=True)
class Limits:
    """What the images can hold, grey levels: the floor of both, their maxima, and one level."""

    floor: float
    post_top: float
    pre_top: float
    grey_level: float


@dataclass(frozen=True, eq=False, slots=True)
class LinearFit:
    """A line, with the cells that it rests on.

    Attributes
    ----------
    gain, offset
        Of post = gain * pre + offset; the offset in grey levels.
    gain_half, offset_half
        Half of the 95 % intervals.
    noise
        The noise of single px that the weights assume.
    rough
        Variance per squared gradient of pre that noise does not explain, px^2: errors of the map.
    spread
        Of the residuals around the line, in standard deviations of what is expected (1 is right).
    used
        (N,) bool: cells with weight.
    """

    gain: float
    offset: float
    gain_half: float
    offset_half: float
    noise: NoiseModel
    rough: float
    spread: float
    used: NDArray[np.bool_]


@dataclass(frozen=True, eq=False, slots=True)
class _State:
    """A line with what it makes of each cell, (N,).

    Variances of the means by noise, squared gradient and variance within by texture alone, most
    likely level of pre, and residual.
    """

    gain: float
    offset: float
    pre_noise: Floats
    post_noise: Floats
    roughness: Floats
    texture: Floats
    level: Floats
    residual: Floats

    @property
    def deviation(self) -> Floats:
        """Standard deviation expected of each residual."""
        return np.asarray(np.sqrt(self.post_noise + self.gain**2 * self.pre_noise))


def fit(cells: Cells, limits: Limits) -> LinearFit:
    """Fit gain and offset.

    Raises
    ------
    ValueError
        A sentence without its full stop, if the cells do not tell gain and offset.
    """
    if len(cells) < LEAST:
        raise ValueError(
            f"only {len(cells)} cells of {CELL} x {CELL} px are well aligned and have data in both "
            f"images without saturated pixels, {LEAST} are needed"
        )
    if not _textured(cells):
        raise ValueError(_NO_TEXTURE)
    gain, offset = _start(cells)
    rough, good = 0.0, np.ones(len(cells), bool)
    for _ in range(_ROUNDS):
        noise = _noise(cells, good, gain, limits)
        for _ in range(_STEPS):
            last = gain, offset
            state = _state(cells, gain, offset, noise, rough)
            weights, spread = _weights(state, noise, limits)
            gain, offset = _solve(cells, state, weights, spread)
            if (
                abs(gain - last[0]) < 1e-7 * abs(gain)
                and abs(offset - last[1]) < 1e-6 * limits.grey_level
            ):
                break
        good = weights > 0
        found, rough = rough, _rough(state, good, rough)
    state = _state(cells, gain, offset, noise, found)
    halves = _halves(cells, state, weights, spread, found)
    if halves[0] > _VAGUE * gain:
        raise ValueError(_NO_TEXTURE)
    return LinearFit(gain, offset, *halves, noise, found, spread, good)


_NO_TEXTURE = (
    "pre has too little texture for gain and offset to be told apart: its brightness hardly "
    "differs from place to place by more than its noise"
)


def _textured(cells: Cells) -> bool:
    """Say whether means of pre differ more than the noise within cells would make them."""
    noise = float(np.median(cells.pre_var / cells.kept_within * cells.kept_mean))
    return float(np.var(cells.pre)) > _TEXTURE * noise


def _start(cells: Cells) -> tuple[float, float]:
    """Line through a low quantile of post at each level of pre: median of the slopes of pairs.

    With a third of the cells stained, this quantile is near the middle of those that are not.
    """
    steps = _steps(cells.pre)
    groups = [steps == n for n in range(_LEVELS)]
    points = np.array(
        [
            (np.median(cells.pre[g]), np.quantile(cells.post[g], _LOW), min(g.sum(), LEAST))
            for g in groups
            if g.sum() >= 20
        ]
    )
    if len(points) < 2:
        raise ValueError(_NO_TEXTURE)
    x, y, n = points.T
    i, j = np.triu_indices(len(points), 1)
    slopes = (y[j] - y[i]) / (x[j] - x[i])
    weights = n[i] * n[j] * (x[j] - x[i])
    order = np.argsort(slopes, kind="stable")
    below = np.cumsum(weights[order])
    gain = float(slopes[order][np.searchsorted(below, below[-1] / 2)])
    _check_rising(gain)
    return gain, float(np.quantile(cells.post - gain * cells.pre, _LOW))


def _check_rising(gain: float) -> None:
    if not gain > 0:
        raise ValueError("post does not grow with pre: the images do not show the same background")


def _noise(cells: Cells, good: NDArray[np.bool_], gain: float, limits: Limits) -> NoiseModel:
    """Estimate the noise of single px from the variances within cells of little texture.

    What post and pre share within a cell is texture, the rest of each variance is noise.
    """
    quiet = cells.at(good & (cells.gradient <= np.median(cells.gradient[good])))
    least = limits.grey_level**2 / 12
    post = _against_level(quiet.post, quiet.post_var - gain * quiet.cov, least)
    rest = (quiet.pre_var - quiet.cov / gain) / quiet.kept_within
    pre = _against_level(quiet.pre, rest, least)
    return NoiseModel(*post, *pre, least)


def _against_level(level: Floats, variance: Floats, least: float) -> tuple[float, float]:
    """Fit medians of variances at each level: what is there without light, and how it rises."""
    steps = _steps(level)
    groups = [g for g in (steps == n for n in range(_LEVELS)) if g.sum() >= 30]
    if not groups:
        return max(float(np.median(variance)), least), 0.0
    x = np.array([np.median(level[g]) for g in groups])
    y = np.array([max(np.median(variance[g]) / _MEDIAN_15, least) for g in groups])
    weights = np.array([g.sum() for g in groups]) / y**2
    mean_x, mean_y = (float(np.average(v, weights=weights)) for v in (x, y))
    across = float(np.sum(weights * (x - mean_x) ** 2))
    slope = float(np.sum(weights * (x - mean_x) * (y - mean_y))) / across if across > 0 else 0.0
    slope = max(slope, 0.0)
    return mean_y - slope * mean_x, slope


def _steps(level: Floats) -> NDArray[np.intp]:
    """Sort cells into steps of brightness, 0 to 31; rare extremes join the outermost."""
    low, high = np.quantile(level, (0.005, 0.995))
    width = max(float(high - low), 1e-300) / _LEVELS
    return np.asarray(np.clip((level - low) / width, 0, _LEVELS - 1), dtype=np.intp)


def _state(cells: Cells, gain: float, offset: float, noise: NoiseModel, rough: float) -> _State:
    # of what the line says of post, not of post, whose own noise would go into its weight
    pre_px = np.maximum(noise.pre_read + noise.pre_shot * cells.pre, noise.least)
    expected = gain * cells.pre + offset
    post_px = np.maximum(noise.post_read + noise.post_shot * expected, noise.least)
    # central differences have half the variance of a px on each axis, less of resampled ones
    roughness = np.maximum(cells.gradient - pre_px * cells.kept_within, 0.0)
    # An error of the map bends both images alike: half of it belongs to each.
    pre_noise = pre_px * cells.kept_mean + rough * roughness / 2
    post_noise = post_px / CELL**2 + gain**2 * rough * roughness / 2
    level = (cells.pre / pre_noise + gain * (cells.post - offset) / post_noise) / (
        1 / pre_noise + gain**2 / post_noise
    )
    residual = cells.post - expected
    texture = np.maximum(cells.cov / gain, 0.0)
    return _State(gain, offset, pre_noise, post_noise, roughness, texture, level, residual)


def _weights(state: _State, noise: NoiseModel, limits: Limits) -> tuple[Floats, float]:
    """Weights of the residuals, and their spread in expected standard deviations."""
    deviation = state.deviation
    scaled = state.residual / deviation
    kept = _unclipped(state, noise, limits)
    below = -scaled[kept & (scaled <= 0)]
    if len(below) < LEAST // 4:
        raise ValueError(
            "too few cells are left without those that noise, stain or saturation bends"
        )
    spread = max(float(np.median(below)) / _QUANTILE, 1e-3)
    weights = np.where(kept, _tukey(scaled / spread) / deviation**2, 0.0)
    steps = _steps(np.where(kept, state.level, np.median(state.level[kept])))
    for _ in range(3):
        totals = np.bincount(steps, weights, _LEVELS)
        limit = _SHARE * totals.sum()
        weights = weights * np.minimum(1.0, limit / np.maximum(totals, limit))[steps]
    return weights, spread


def _unclipped(state: _State, noise: NoiseModel, limits: Limits) -> NDArray[np.bool_]:
    """Cells whose pixels noise does not carry below the floor, nor with texture above the maximum.

    Near the maximum, pixels that are too bright were left out of the cells, and the rest is biased.
    """
    post = state.gain * state.level + state.offset
    kept = np.ones(len(post), bool)
    for level, top, variance, texture in (
        (state.level, limits.pre_top, noise.variance_pre, state.texture),
        (post, limits.post_top, noise.variance_post, state.gain**2 * state.texture),
    ):
        floor = limits.floor - limits.grey_level / 2
        at_floor, at_top = variance(np.array([limits.floor, top])).astype(np.float64)
        kept &= level - _FROM_FLOOR * np.sqrt(at_floor) > floor
        kept &= level + _FROM_TOP * np.sqrt(at_top + texture) < top
    return kept


def _tukey(scaled: Floats) -> Floats:
    limit = np.where(scaled < 0, _BELOW, _ABOVE)
    return np.asarray(np.clip(1 - (scaled / limit) ** 2, 0, None) ** 2, dtype=np.float64)


def _mean_of_noise() -> float:
    """Weighted mean of unit noise: what narrower weights above than below make of no stain."""
    z = np.linspace(-_BELOW, _ABOVE, 4001)
    weights = _tukey(z) * np.exp(-(z**2) / 2)
    return float(np.sum(weights * z) / np.sum(weights))


_SHIFT = _mean_of_noise()


def _solve(cells: Cells, state: _State, weights: Floats, spread: float) -> tuple[float, float]:
    """Solve for the line with the levels as instruments."""
    post = cells.post - _SHIFT * spread * state.deviation
    total = float(np.sum(weights))
    pre_mean, post_mean, level_mean = (
        float(np.sum(weights * v)) / total for v in (cells.pre, post, state.level)
    )
    lever = weights * (state.level - level_mean)
    across = float(np.sum(lever * (cells.pre - pre_mean)))
    if not across > 0:
        raise ValueError(_NO_TEXTURE)
    gain = float(np.sum(lever * (post - post_mean))) / across
    _check_rising(gain)
    return gain, post_mean - gain * pre_mean


def _rough(state: _State, good: NDArray[np.bool_], rough: float) -> float:
    """Return the variance per squared gradient that noise leaves unexplained, px^2.

    From cells of much texture below the line, where no stain is.
    """
    steep = good & (state.residual < 0)
    if not steep.any():
        return rough
    steep &= state.roughness > np.quantile(state.roughness[good], 0.7)
    texture = state.gain**2 * state.roughness[steep]
    if not texture.any():
        return rough
    explained = state.deviation[steep] ** 2 - rough * texture
    rest = state.residual[steep] ** 2 / _MEDIAN_1 - explained
    return max(0.0, float(np.median(rest / texture)))


def _halves(
    cells: Cells, state: _State, weights: Floats, spread: float, rough: float
) -> tuple[float, float]:
    """Half of the 95 % intervals of gain and offset.

    The spread between regions of the section (a sandwich over 4 x 4 of them, so that differences
    over the section count), the bias of the method, and what is unknown of errors of the map: they
    may belong to either image.
    """
    total = float(np.sum(weights))
    pre_mean, level_mean = (float(np.sum(weights * v)) / total for v in (cells.pre, state.level))
    arm = state.level - level_mean
    across = float(np.sum(weights * arm * (cells.pre - pre_mean)))
    pull = weights * (state.residual - _SHIFT * spread * state.deviation)
    regions = _regions(cells.xy)
    count = len(np.unique(regions[weights > 0]))
    slopes = np.bincount(regions, pull * arm, _REGIONS**2) / across
    heights = np.bincount(regions, pull, _REGIONS**2) / total
    grown = STUDENT[max(count - 2, 0)] * math.sqrt(count / max(count - 1, 1))
    gain_half = grown * math.sqrt(float(np.sum(slopes**2)))
    offset_half = grown * math.sqrt(float(np.sum((heights - slopes * pre_mean) ** 2)))
    split = rough * float(np.sum(weights * state.roughness)) / 2 / across
    bias = state.gain * math.hypot(GAIN_BIAS, split)
    return math.hypot(gain_half, bias), math.hypot(offset_half, bias * abs(pre_mean))


def _regions(xy: Floats) -> NDArray[np.intp]:
    """Sort places into regions, 0 to 15: four by four over all of them."""
    low, high = xy.min(axis=0), xy.max(axis=0)
    col, row = (
        np.clip((v - a) / max(float(b - a), 1.0) * _REGIONS, 0, _REGIONS - 1).astype(np.intp)
        for v, a, b in zip(xy.T, low, high, strict=True)
    )
    return np.asarray(row * _REGIONS + col)
