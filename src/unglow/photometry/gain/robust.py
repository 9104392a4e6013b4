"""Weights that stain does not have, and the noise of residuals, for fits to cells.

Residuals are post - (gain * pre + offset), where gain and offset may differ from cell to cell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unglow.memory import CELL
from unglow.photometry.imaging import NoiseModel

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from unglow.core.arrays import Bools, Floats
    from unglow.photometry.cell_moments import CellMoments
    from unglow.photometry.cells import Cells


LEAST = 200
"""Fewest cells of a fit."""
LEVELS = 32
"""Steps of brightness."""
# Fewest cells that give the noise at a step of brightness: their median to 8 %.
_LEAST_STEP = 60
# Tukey's constant, in standard deviations. With his 4.685 noise would be averaged better, but more
# stain has weight. It is the same below as above the line: tails and textures that both sides have
# then move nothing.
_LIMIT = 2.5
# Cells beyond `_LIMIT` up to here, but not those as far below, show how much faint stain there is.
_FAINT = 4.0
# Their sums over a normal distribution take this many steps.
_INTEGRATION_STEPS = 4001
# No single step of brightness has more than this share of all weight: empty glass is good evidence
# on the offset, but it is often most of the image.
_SHARE = 0.1
# Nearer to 0 or to the maximum than this many standard deviations of a px, clipping bends levels.
_FROM_FLOOR, _FROM_TOP = 2.5, 3.0
# Median of chi-squared over its mean, for 15 degrees of freedom; and for 1.
_MEDIAN_15, _MEDIAN_1 = 0.956, 0.4549
# Median of the absolute value of a normal variate, in standard deviations.
_NORMAL_MEDIAN = 0.6745
# The error of the map is estimated from cells whose texture is above this quantile.
_STEEP = 0.7
_ALL = slice(None)
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

    Squared gradient of pre and variance within by texture alone, most likely level of pre, residual
    and the standard deviation that is expected of it.
    """

    gain: Floats
    offset: Floats
    gradient: Floats
    texture: Floats
    level: Floats
    residual: Floats
    deviation: Floats


def _tukey(scaled: Floats) -> Floats:
    scaled = scaled / _LIMIT
    return np.asarray(np.maximum(1 - scaled * scaled, 0) ** 2, dtype=np.float64)


def _compute_feedback() -> float:
    """Return by how much more a line moves that is fitted again and again with its own weights.

    Than one with weights that stay: the mean weight of unit noise over the mean slope of weight
    times departure, which is the mean of departure times that (Stein's lemma; Huber and Ronchetti
    2009, Robust Statistics, 7.6).
    """
    z = np.linspace(-_LIMIT, _LIMIT, _INTEGRATION_STEPS)
    weights = _tukey(z) * np.exp(-(z**2) / 2)
    return float(np.sum(weights) / np.sum(weights * z * z))


FEEDBACK = _compute_feedback()


def estimate_noise(cells: Cells, good: Bools, gain: float | Floats, limits: Limits) -> NoiseModel:
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
    groups = split_steps(steps)
    groups = [g[texture[g] <= find_median(texture[g])] for g in groups if len(g) >= _LEAST_STEP]
    if not groups:
        return max(float(np.median(variance)), least), 0.0
    x = np.array([find_median(level[g]) for g in groups])
    y = np.array([max(find_median(variance[g]) / _MEDIAN_15, least) for g in groups])
    weights = np.array([len(g) for g in groups]) / y**2
    mean_x, mean_y = (float(np.average(v, weights=weights)) for v in (x, y))
    across = float(np.sum(weights * (x - mean_x) ** 2))
    slope = float(np.sum(weights * (x - mean_x) * (y - mean_y))) / across if across > 0 else 0.0
    slope = max(slope, 0.0)
    return mean_y - slope * mean_x, slope


def find_median(values: Floats) -> float:
    """Return the median of some values, as `np.median` does in a multiple of the time."""
    half = len(values) // 2
    ordered = np.partition(values, half)
    if np.isnan(ordered[half:].max()):  # sorted to the end
        return math.nan
    return float(ordered[half] if len(values) % 2 else (ordered[:half].max() + ordered[half]) / 2)


def split_steps(steps: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Return the indices of the cells of each step of brightness, rising."""
    # of single bytes a stable sort counts, which takes a tenth of the time
    order = np.argsort(steps.astype(np.uint8), kind="stable")
    return np.split(order, np.bincount(steps, minlength=LEVELS).cumsum())


def compute_steps(level: Floats, some: Bools | slice = _ALL) -> NDArray[np.intp]:
    """Sort cells into steps of brightness, 0 to 31; rare extremes join the outermost.

    The steps divide the range of ``some`` cells: a slice, or (N,).
    """
    low, high = np.quantile(level[some], (0.005, 0.995))
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
    # numbers stay numbers until the end
    gain, offset = np.asarray(gain, np.float64), np.asarray(offset, np.float64)
    square = gain * gain
    expected = gain * cells.pre + offset
    pre_px = np.maximum(noise.pre_read + noise.pre_shot * cells.pre, noise.least)
    # of what is expected of post, not of post, whose own noise would go into its weight
    post_px = np.maximum(noise.post_read + noise.post_shot * expected, noise.least)
    # central differences have half the variance of a px on each axis, less of resampled ones
    gradient = np.maximum(cells.gradient - pre_px * cells.pre_within, 0.0)
    # An error of the map bends both images equally: half of it belongs to each.
    bent = registration / 2 * gradient
    pre_noise = square * (pre_px * cells.pre_mean + bent)
    variance = post_px * cells.post_mean + square * bent + pre_noise
    residual = cells.post - expected
    # the mean of both images by their noise: of the residual, pre is off by its share
    level = cells.pre + residual * pre_noise / (gain * variance)
    texture = np.maximum(cells.cov / gain, 0.0)
    gain, offset = (np.broadcast_to(v, len(cells)) for v in (gain, offset))
    return State(gain, offset, gradient, texture, level, residual, np.sqrt(variance))


def compute_weights(
    state: State, noise: NoiseModel, limits: Limits, steps: NDArray[np.intp]
) -> tuple[Floats, float]:
    """Weights of the residuals, and their spread in expected standard deviations.

    ``steps`` are those of brightness (`sort_levels`).
    """
    scaled = state.residual / state.deviation
    usable = find_unclipped(state, noise, limits)
    below = -scaled[usable & (scaled <= 0)]
    if len(below) < LEAST // 4:
        raise ValueError(
            "too few cells are left without those that noise, stain or saturation bends"
        )
    spread = max(find_median(below) / _NORMAL_MEDIAN, _LEAST_SPREAD)
    weights = usable * _tukey(scaled / spread) / (state.deviation * state.deviation)
    totals = np.bincount(steps, weights, LEVELS)
    factors = np.ones(LEVELS)
    for _ in range(3):
        limit = _SHARE * float((factors * totals).sum())
        factors *= np.minimum(1.0, limit / np.maximum(factors * totals, limit))
    return weights * factors[steps], spread


def estimate_again(
    cells: Cells,
    state: State,
    noise: NoiseModel,
    registration: float,
    limits: Limits,
    steps: NDArray[np.intp],
) -> tuple[NoiseModel, float]:
    """Estimate the noise and the variance by errors of the map, px^2, from cells with weight.

    ``noise`` and ``registration`` are those that ``state`` was made with.
    """
    good = compute_weights(state, noise, limits, steps)[0] > 0
    again = estimate_noise(cells, good, state.gain, limits)
    return again, compute_registration_variance(state, good, registration)


def sort_levels(state: State, noise: NoiseModel, limits: Limits) -> NDArray[np.intp]:
    """Sort cells into the steps of brightness that share the weight, (N,)."""
    return compute_steps(state.level, find_unclipped(state, noise, limits))


def measure_faint_stain(state: State, noise: NoiseModel, limits: Limits, spread: float) -> float:
    """Return the share of cells just above the limit of the weights, less those as far below."""
    usable = find_unclipped(state, noise, limits)
    scaled = (state.residual / state.deviation)[usable] / spread
    faint = (np.abs(scaled) > _LIMIT) & (np.abs(scaled) < _FAINT)
    return max(float(np.mean(np.sign(scaled) * faint)), 0.0)


def find_unclipped(state: State, noise: NoiseModel, limits: Limits) -> Bools:
    """Cells whose pixels noise does not carry below the floor, nor with texture above the maximum.

    Near the maximum, pixels that are too bright were excluded from the cells, and the rest is
    biased.
    """
    post = state.gain * state.level + state.offset
    usable = np.ones(len(post), bool)
    floor = limits.floor - limits.grey_level / 2
    for level, top, variance, texture in (
        (state.level, limits.pre_top, noise.variance_pre, state.texture),
        (post, limits.post_top, noise.variance_post, state.gain * state.gain * state.texture),
    ):
        at_floor, at_top = variance(np.array([limits.floor, top])).astype(np.float64)
        room = np.maximum(top - level, 0.0)
        usable &= level > floor + _FROM_FLOOR * np.sqrt(at_floor)
        usable &= room * room > _FROM_TOP**2 * (at_top + texture)
    return usable


def compute_registration_variance(state: State, good: Bools, registration: float) -> float:
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
    return max(0.0, find_median(rest / texture))


BLOCK_CELLS = 16
"""Side of a block, in cells of the lattice: 64 px in an image of 2048 px, 900 px in one of 30000.
"""
FAR, BEYOND = 6.0, 3.0
"""A place has a block that departs by the first, and others next to it by the second, in standard
deviations of blocks."""
_CAP = 3.0
"""A cell adds at most this to the sum of its block, so that no single structure decides."""
_PART = 0.25
"""A block is judged if this share of its cells has data."""
_LEAST_CELLS, _LEAST_BLOCKS = 60, 30
"""Fewer cells of a level, or fewer blocks, have no spread to speak of."""
_SCALED_BY = 1 << 16
"""What is usual at a level follows from about this many cells."""
_MOST = 0.3
"""If more of the cells depart, no part is the odd one, and none is excluded."""
_SIGMA_OF_MAD = 1.4826


def find_outlying_cells(bins: CellMoments, gain: ArrayLike, offset: ArrayLike) -> Bools:
    """Find the cells of places that depart from post = gain * pre + offset.

    Parameters
    ----------
    bins
        Moments of cells on a lattice of (ny, nx).
    gain, offset
        The line, numbers or (ny, nx); offset in grey levels.

    Returns
    -------
    (ny, nx) bool; none where more than 30 % of the cells would be among them.
    """
    whole = bins.count == CELL**2
    none = np.zeros(whole.shape, bool)
    if np.count_nonzero(whole) < _LEAST_CELLS:
        return none
    counts = _sum_blocks(whole.astype(np.float64))
    if np.count_nonzero(counts >= _PART * BLOCK_CELLS**2) < _LEAST_BLOCKS:
        return none
    pre, texture = bins.pre.astype(np.float64), bins.pre_var.astype(np.float64)
    residual = bins.post - (np.asarray(gain) * pre + np.asarray(offset))
    level = _score_blocks(residual, pre, whole, counts)
    shared = _score_blocks(bins.cov.astype(np.float64), np.log1p(texture), whole, counts)
    blocks = _grow(_join(level) | _join(-level) | _join(-shared))
    cells = np.kron(blocks, np.ones((BLOCK_CELLS, BLOCK_CELLS), bool))
    found: Bools = cells[: whole.shape[0], : whole.shape[1]] & whole
    return none if np.count_nonzero(found) > _MOST * np.count_nonzero(whole) else found


def _score_blocks(values: Floats, level: Floats, whole: Bools, counts: Floats) -> Floats:
    """Return how far the values of each block are from those of cells of the same level.

    In standard deviations of blocks; 0 where a block has too few cells.
    """
    scaled = np.zeros(whole.shape)
    scaled[whole] = np.clip(_scale_by_level(values[whole], level[whole]), -_CAP, _CAP)
    judged = counts >= _PART * BLOCK_CELLS**2
    score = _sum_blocks(scaled) / np.sqrt(np.maximum(counts, 1.0))
    score -= np.median(score[judged])
    score /= max(_SIGMA_OF_MAD * float(np.median(np.abs(score[judged]))), 1.0)
    score[~judged] = 0.0
    return score


def _scale_by_level(values: Floats, level: Floats) -> Floats:
    """Return values in standard deviations of those of the same level, below their median.

    Above it stain adds to them.
    """
    some = slice(None, None, max(1, len(values) // _SCALED_BY))
    known, steps = values[some], compute_steps(level, some)
    centre, spread = np.zeros(LEVELS), np.full(LEVELS, np.inf)
    for n, at in enumerate(split_steps(steps[some])[:LEVELS]):
        if len(at) >= _LEAST_CELLS:
            centre[n] = find_median(known[at])
            departure = known[at] - centre[n]
            sigma = _SIGMA_OF_MAD * find_median(-departure[departure <= 0])
            spread[n] = sigma if sigma > 0 else np.inf
    return np.asarray((values - centre[steps]) / spread[steps])


def _sum_blocks(values: Floats) -> Floats:
    """Sum over blocks of cells; the last ones may be smaller."""
    rows, cols = (range(0, n, BLOCK_CELLS) for n in values.shape)
    return np.asarray(np.add.reduceat(np.add.reduceat(values, rows, axis=0), cols, axis=1))


def _join(score: Floats) -> Bools:
    """Return blocks beyond `FAR`, with those beyond `BEYOND` that touch them or one another."""
    allowed, found = score > BEYOND, score > FAR
    while True:
        grown = _grow(found) & allowed
        if np.array_equal(grown, found):
            return found
        found = grown


def _grow(blocks: Bools) -> Bools:
    """Add the eight neighbours of each block."""
    padded = np.pad(blocks, 1)
    rows = padded[:-2] | padded[1:-1] | padded[2:]
    return rows[:, :-2] | rows[:, 1:-1] | rows[:, 2:]
