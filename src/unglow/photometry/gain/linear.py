"""Gain and offset by a robust errors-in-variables line through the means of small cells.

post = gain * pre + offset + stain, where stain is never negative and both images have noise. The
line solves sum w (post - gain * pre - offset) * (1, level) = 0, where *level* is the most likely
brightness of a cell given both images (Fuller 1987, Measurement Error Models, 1.2 and 3.1). Its
error is independent of the residual, so noise in pre does not pull the gain down, nor do weights or
limits that look at levels. The weights are Tukey's biweight, over the variance that noise explains.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unglow.memory import CELL
from unglow.photometry.gain.robust import (
    FEEDBACK,
    LEAST,
    compute_steps,
    compute_weights,
    estimate_again,
    estimate_noise,
    find_median,
    make_state,
    measure_faint_stain,
    sort_levels,
    split_steps,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.core.arrays import Bools, Floats
    from unglow.photometry.cells import Cells
    from unglow.photometry.gain.robust import Limits, State
    from unglow.photometry.imaging import NoiseModel


STUDENT = [12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228]
STUDENT += [2.201, 2.179, 2.160, 2.145, 2.131]
"""Two-sided 95 % points of Student's t for 1 to 15 degrees of freedom."""
FAINT = 2.75
"""How far faint stain may move a line, standard deviations of its cells, for each part of them.

As much of it lies within the limit of the weights as just above, where it can be counted. It lifts
cells by 1 of these on average over all, and by this much where it is most frequent at one end of
the brightness: 9 of 10 real images with a third of them stained are within (`benchmarks/photometry
gain`).
"""
REGIONS = 4
"""The section is cut into this many by this many regions."""
# Rounds of noise and line, steps of the line in each at most, and about how many cells they take,
# but for the last round, which takes all.
_ROUNDS, _STEPS, _ROUGH = 4, 20, 1 << 13
# The line is still if gain moves by less than this part of it, the offset by this many levels.
_STILL_GAIN, _STILL_OFFSET = 1e-5, 1e-3
# The first line goes through this quantile of post, at levels of pre with this many cells.
_LOW, _LEAST_AT_LEVEL = 0.35, 20
# Means of cells have to vary by this times their noise, as variances.
_TEXTURE = 2.0
# Half of the statistical interval of a gain, as a part of it, beyond which the gain is none.
_VAGUE = 0.15


@dataclass(frozen=True, slots=True)
class HalfWidths:
    """Half of the 95 % intervals of a line, the offset in grey levels.

    Attributes
    ----------
    gain, offset
        By chance: noise, and differences over the section.
    gain_systematic, offset_systematic
        What the method may be off by next to chance, which more pixels do not make smaller.
    """

    gain: float
    offset: float
    gain_systematic: float
    offset_systematic: float

    @property
    def whole_gain(self) -> float:
        """Both parts of the gain's."""
        return math.hypot(self.gain, self.gain_systematic)

    @property
    def whole_offset(self) -> float:
        """Both parts of the offset's."""
        return math.hypot(self.offset, self.offset_systematic)


@dataclass(frozen=True, eq=False, slots=True)
class LinearFit:
    """A line, with the cells that it rests on.

    Attributes
    ----------
    gain, offset
        Of post = gain * pre + offset; the offset in grey levels.
    half
        Half of the 95 % intervals.
    noise
        The noise of single px that the weights assume.
    registration
        Variance per squared gradient of pre that noise does not explain, px^2: errors of the map.
    spread
        Of the residuals around the line, in standard deviations of what is expected (1 is right).
    used
        (N,) bool: cells with weight.
    """

    gain: float
    offset: float
    half: HalfWidths
    noise: NoiseModel
    registration: float
    spread: float
    used: Bools


def fit(cells: Cells, limits: Limits) -> LinearFit:
    """Fit gain and offset.

    Raises
    ------
    ValueError
        A sentence without its full stop, if the cells do not separate gain and offset.
    """
    if len(cells) < LEAST:
        raise ValueError(
            f"only {len(cells)} cells of {CELL} x {CELL} px are well aligned and have data in both "
            f"images without saturated pixels, {LEAST} are needed"
        )
    if not _is_textured(cells):
        raise ValueError(_NO_TEXTURE)
    rough = cells.select(slice(None, None, max(1, len(cells) // _ROUGH)))
    gain, offset = _start(rough)
    registration = 0.0
    noise = estimate_noise(rough, np.ones(len(rough), bool), gain, limits)
    for number, some in enumerate((*[rough] * (_ROUNDS - 1), cells)):
        state = make_state(some, gain, offset, noise, registration)
        steps = sort_levels(state, noise, limits)
        if number > 0:
            noise, registration = estimate_again(some, state, noise, registration, limits, steps)
            state = make_state(some, gain, offset, noise, registration)
        for _ in range(_STEPS):
            last = gain, offset
            weights, spread = compute_weights(state, noise, limits, steps)
            gain, offset = _solve(some, state, weights)
            state = make_state(some, gain, offset, noise, registration)
            if (
                abs(gain - last[0]) < _STILL_GAIN * abs(gain)
                and abs(offset - last[1]) < _STILL_OFFSET * limits.grey_level
            ):
                break
    half = half_widths(cells, state, weights, spread, registration, noise, limits)
    if half.gain > _VAGUE * gain:
        raise ValueError(_NO_TEXTURE)
    return LinearFit(gain, offset, half, noise, registration, spread, weights > 0)


_NO_TEXTURE = (
    "pre has too little texture to separate gain and offset: its brightness hardly "
    "differs from place to place by more than its noise"
)


def _is_textured(cells: Cells) -> bool:
    """Say whether means of pre differ more than the noise within cells would make them."""
    noise = float(np.median(cells.pre_var / cells.pre_within * cells.pre_mean))
    return float(np.var(cells.pre)) > _TEXTURE * noise


def _start(cells: Cells) -> tuple[float, float]:
    """Line through a low quantile of post at each level of pre: median of the slopes of pairs.

    With a third of the cells stained, this quantile is near the middle of those that are not.
    """
    groups = split_steps(compute_steps(cells.pre))
    points = np.array(
        [
            (find_median(cells.pre[g]), np.quantile(cells.post[g], _LOW), min(len(g), LEAST))
            for g in groups
            if len(g) >= _LEAST_AT_LEVEL
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


def _solve(cells: Cells, state: State, weights: Floats) -> tuple[float, float]:
    """Solve for the line with the levels as instruments."""
    total = float(np.sum(weights))
    pre_mean, post_mean, level_mean = (
        float(np.sum(weights * v)) / total for v in (cells.pre, cells.post, state.level)
    )
    lever = weights * (state.level - level_mean)
    across = float(np.sum(lever * (cells.pre - pre_mean)))
    if not across > 0:
        raise ValueError(_NO_TEXTURE)
    gain = float(np.sum(lever * (cells.post - post_mean))) / across
    _check_rising(gain)
    return gain, post_mean - gain * pre_mean


def half_widths(
    cells: Cells,
    state: State,
    weights: Floats,
    spread: float,
    registration: float,
    noise: NoiseModel,
    limits: Limits,
    *,
    influence: Floats | None = None,
    across_side: int = REGIONS,
    terms: int = 2,
) -> HalfWidths:
    """Return half of the 95 % intervals of gain and offset.

    By chance: the spread between regions of the section (a sandwich over 4 x 4 of them, so that
    differences over the section count; more where a fit of more terms takes such differences out).
    Systematic, from the pair itself: what faint stain may move the line, and what is unknown of
    errors of the map, which may belong to either image.

    ``influence``, (2, N), is what a residual of each cell, times its weight, adds to gain and
    offset; that of a line by default.
    """
    total = float(np.sum(weights))
    pre_mean, level_mean = (float(np.sum(weights * v)) / total for v in (cells.pre, state.level))
    arm = state.level - level_mean
    across = float(np.sum(weights * arm * (cells.pre - pre_mean)))
    if influence is None:
        influence = np.stack([arm / across, 1 / total - pre_mean * arm / across])
    pulls = FEEDBACK * weights * state.residual * influence
    regions = regions_of(cells.xy, across_side)
    count = len(np.unique(regions[weights > 0]))
    free = max(count - terms, 0)
    grown = STUDENT[min(free, len(STUDENT) - 1)] * math.sqrt(count / (free + 1))
    of_gain, of_offset = (
        grown * math.sqrt(float(np.sum(np.bincount(regions, pull, across_side**2) ** 2)))
        for pull in pulls
    )
    faint = FAINT * measure_faint_stain(state, noise, limits, spread) * spread
    number = np.count_nonzero(weights)
    split = registration * float(np.sum(weights * state.gradient)) / 2 / across
    turned = math.hypot(faint * math.sqrt(number / across), float(np.mean(state.gain)) * split)
    lifted = math.hypot(faint * math.sqrt(number / total), turned * pre_mean)
    return HalfWidths(
        of_gain,
        of_offset,
        turned,
        lifted,
    )


def regions_of(xy: Floats, across: int) -> NDArray[np.intp]:
    """Return the region of each position, of this many by this many."""
    low, high = xy.min(axis=0), xy.max(axis=0)
    col, row = (
        np.clip((v - a) / max(float(b - a), 1.0) * across, 0, across - 1).astype(np.intp)
        for v, a, b in zip(xy.T, low, high, strict=True)
    )
    return np.asarray(row * across + col)
