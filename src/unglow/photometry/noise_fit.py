"""Fitting the noise model of a pair to the variances inside its cells.

With t = gain * pre + offset the texture that both images share, the moments of a cell of n px say

    P = post_var - G cov          of post's own noise        E P = (n - 1)/n v_post
    Q = G^2 pre_var - G cov       of pre's own noise         E Q = G^2 C(phase) v_pre
    V = P + Q                     of the difference          no texture in it, nor in its scatter

where C is what resampling leaves (`unglow.photometry.resampled_noise.cell_noise`). V says the sum
of the two noises, and U = P - r V, r being the share of post in V, what each has of it: in white
noise U and V are not correlated, so that both are fitted at once, as two rows per cell, by weighted
least squares. Texture shows in V as far as the images are out of register, in proportion to the
squared gradient of pre: a column more. The gradient itself holds noise of the same px, so its
expectation from the gradients of neighbouring cells takes its place (two-stage least squares).

Stain is excluded twice: cells whose mean departs from gain * pre + offset, and cells whose V is
beyond what 5 % of cells without stain exceed; for the tail that goes with them, a factor makes up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.records import to_plain
from unglow.core.rounding import round_digits
from unglow.memory import CELL
from unglow.photometry.cells import GROUPS, LEAST_CELLS, NoiseCells
from unglow.photometry.imaging import ROUNDING, NoiseModel

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from unglow.core.arrays import Bools, Floats
    from unglow.photometry.cell_moments import CellMoments
    from unglow.photometry.imaging import Blur
    from unglow.transform import Transform


_PX = CELL * CELL
# The fit is repeated at most so often, until the sum of the noises moves by less than this part:
# first with about this many cells, then with all.
_ROUNDS, _STILL, _ROUGH = 15, 1e-4, 1 << 13
# Standard deviation of a normal variate over the median of its absolute value.
_NORMAL = 1.4826
# Noise alone and a gain that is hardly wrong scatter by no more than this times what is expected.
_SPREAD = 1.1
# The first guess takes the quieter cells of this many groups by level: this quantile of a variance
# of 16 normal numbers is this part of its expectation.
_GUESS_LEVELS, _QUIET, _QUIET_SHARE = 16, 0.3, 0.8
# Variances grow from the level of the darkest cells: this quantile.
_DARKEST = 0.01
# Keeps variances above 0, grey levels squared.
_TINY = 1e-9
# Cells count whose V is below what this share of cells without stain are below, this many standard
# deviations of a normal variate: tails are where faint stain is.
_BELOW_TAIL, _TAIL = 0.95, 1.645
# U, which stain moves little, may depart by this many standard deviations.
_FAR = 6.0
# A cell's mean may depart from the background by this many standard deviations.
_DEPART = 2.0
# Dark cells are cut off at zero within this many standard deviations of a px.
_CLIP = 3.0


@dataclass(frozen=True, slots=True)
class NoiseFit:
    """A noise model and how it was found.

    Attributes
    ----------
    model
        The noise of the pair.
    cells
        Cells that the last fit used.
    registration
        Variance per squared gradient of pre (both with gain), px^2: half the square of how far
        the images are out of register, if nothing else leaves texture.
    """

    model: NoiseModel
    cells: int
    registration: float

    def to_json(self) -> dict[str, Any]:
        """Return the entry "noise" of ``scale.json``."""
        return {
            **{name: round_digits(value) for name, value in to_plain(self.model).items()},
            "cells": self.cells,
            "misfit_px2": round_digits(self.registration),
        }


@dataclass(frozen=True, slots=True)
class _Variances:
    """Variances at the darkest levels, how they grow, and texture in V per squared gradient."""

    post_dark: float
    post_shot: float
    pre_dark: float
    pre_shot: float
    registration: float
    levels: tuple[float, float]
    least: float

    def post(self, cells: NoiseCells) -> Floats:
        """Variance of single px of post."""
        growth = self.post_shot * (cells.post - self.levels[0])
        return np.maximum(self.post_dark + growth, self.least + _TINY)

    def pre(self, cells: NoiseCells) -> Floats:
        """Variance of single raw px of pre."""
        growth = self.pre_shot * (cells.pre - self.levels[1])
        return np.maximum(self.pre_dark + growth, self.least + _TINY)

    def model(self) -> NoiseModel:
        post, pre = self.levels
        return NoiseModel(
            post_read=self.post_dark - self.post_shot * post,
            post_shot=self.post_shot,
            pre_read=self.pre_dark - self.pre_shot * pre,
            pre_shot=self.pre_shot,
            least=self.least,
        )


@dataclass(slots=True)
class _Expected:
    """What is expected of cells: parts of V, and variances of V, of U and of cells' means.

    Of texture, V may hold anything; that noise alone scatters like gamma variates of ``shape`` is
    what its tail is judged by.
    """

    post: Floats
    pre: Floats
    texture: Floats
    slope: Floats
    shape: Floats
    v_var: Floats
    u_var: Floats
    mean_var: Floats

    @property
    def v(self) -> Floats:
        return self.post + self.pre + self.texture

    @property
    def share(self) -> Floats:
        """Share of post in the noise of V."""
        return self.post / (self.post + self.pre)


def fit_noise(
    bins: CellMoments,
    gain: ArrayLike,
    offset: ArrayLike,
    transform: Transform,
    *,
    integer: bool = True,
    blur: Blur | None = None,
) -> NoiseFit:
    """Fit the noise of both images of a pair.

    Parameters
    ----------
    bins
        Moments of cells.
    gain, offset
        Of the background in post, gain * pre + offset: numbers, or one for each cell, (ny, nx).
    transform
        Map from post to pre, not a failed one.
    integer
        Whether the images hold integer grey levels, which adds the noise of rounding, and end at 0.
    blur
        What made the images of the cells match, if anything did; the model is that of raw px.

    Raises
    ------
    ValueError
        If fewer than 200 cells can be used.
    """
    cells = NoiseCells.from_moments(bins, gain, offset, transform, blur)
    least = ROUNDING if integer else 0.0
    variances, used = _refine_fit(cells, least, integer=integer)
    model = replace(
        variances.model(),
        spread=_measure_scatter(cells, variances, transform.usual_error_px, integer=integer),
    )
    return NoiseFit(model, int(used.sum()), variances.registration)


def _measure_scatter(
    cells: NoiseCells, variances: _Variances, error_px: float, *, integer: bool
) -> float:
    """Return how the means of cells scatter, over what noise and the map's error give.

    From those below the background: above it is stain.
    """
    expected = _predict(cells, variances)
    variance = expected.mean_var - expected.texture
    if np.isfinite(error_px):
        variance = variance + error_px**2 / 2 * expected.slope
    away = cells.residual / np.sqrt(variance)
    unclipped = _drop_clipped(cells, variances, away < 0, integer=integer)
    spread = _NORMAL * float(np.median(-away[unclipped])) if unclipped.any() else 1.0
    return spread if spread > _SPREAD else 1.0


def _refine_fit(cells: NoiseCells, least: float, *, integer: bool) -> tuple[_Variances, Bools]:
    """Refine a first guess until nothing moves; also which cells the last round used.

    At first with some of the cells: what those say is all but right.
    """
    variances = _guess(cells, least)
    rough = cells.select(slice(None, None, max(1, len(cells) // _ROUGH)))
    for some in (rough, cells):
        variances, used = _refine(some, variances, integer=integer)
    return variances, used


def _refine(cells: NoiseCells, variances: _Variances, *, integer: bool) -> tuple[_Variances, Bools]:
    used = np.ones(len(cells.post), bool)
    last = 0.0
    for _ in range(_ROUNDS):
        expected = _predict(cells, variances)
        total = float(expected.v.mean())
        if abs(total - last) < _STILL * total:
            break
        last = total
        used = _find_unstained(cells, expected)
        used = _drop_clipped(cells, variances, used, integer=integer)
        if used.sum() < LEAST_CELLS:
            raise ValueError(f"only {used.sum()} cells of {CELL} x {CELL} px look free of stain")
        variances = _solve(cells.select(used), variances)
    return variances, used


def _guess(cells: NoiseCells, least: float) -> _Variances:
    """Halve what V is in quiet cells of each level between the images."""
    levels = float(np.quantile(cells.post, _DARKEST)), float(np.quantile(cells.pre, _DARKEST))
    parts = np.array_split(np.argsort(cells.post, kind="stable"), _GUESS_LEVELS)
    quiet = np.array([np.quantile(cells.v[part], _QUIET) / _QUIET_SHARE for part in parts])
    quiet = quiet + 2 * least + _TINY
    level = np.array([cells.post[part].mean() for part in parts]) - levels[0]
    bright = slice(_GUESS_LEVELS // 2, None)
    slope = float(np.median(quiet[bright] / np.maximum(level[bright], _TINY)))
    dark, shot = float(quiet.min()) / 2, max(slope, 0.0) / 2
    retained = float(np.median(cells.pre_within))
    gain = max(float(np.median(cells.post - levels[0])), _TINY)
    gain /= max(float(np.median(cells.pre - levels[1])), _TINY)
    return _Variances(
        post_dark=dark,
        post_shot=shot,
        pre_dark=dark / retained,
        pre_shot=shot * gain / retained,
        registration=0.0,
        levels=levels,
        least=least,
    )


def _predict(cells: NoiseCells, variances: _Variances) -> _Expected:
    """Return what variances make one expect of cells, with normal noise."""
    post, pre = variances.post(cells), variances.pre(cells)
    inside, resampled = post * cells.post_within, pre * cells.pre_within
    noise = inside + resampled
    # the gradient of pre without its own noise, expected from the gradients around a cell
    total = np.bincount(cells.group, cells.gradient - pre * cells.pre_slope, GROUPS)
    count = np.bincount(cells.group, minlength=GROUPS)
    slope = np.maximum(total / np.maximum(count, 1), 0.0)[cells.group]
    texture = variances.registration * slope
    scatter = post * post * cells.post_scatter + pre * pre * cells.pre_scatter
    scatter += 4 * post * resampled / _PX
    v_var = scatter * ((noise + texture) / noise) ** 2 + texture**2
    # a ramp of slope 1 has a variance of (CELL^2 - 1) / 12 over a cell
    shared = slope * (CELL * CELL - 1) / 12
    u_var = (inside * resampled + shared * noise) / (_PX - 1)
    mean_var = post * cells.post_mean + pre * cells.pre_mean + texture
    shape = noise * noise / scatter
    return _Expected(inside, resampled, texture, slope, shape, v_var, u_var, mean_var)


def _find_unstained(cells: NoiseCells, expected: _Expected) -> Bools:
    """Find cells that look like background and noise."""
    share = expected.share
    u = cells.p - share * cells.v - ((1 - share) * expected.post - share * expected.pre)
    below = cells.v <= _find_tail(expected.shape) * expected.v
    quiet = np.asarray(below & (u * u <= _FAR**2 * expected.u_var))
    # mean difference about its median, in standard deviations
    away = np.asarray((cells.residual - np.median(cells.residual)) / np.sqrt(expected.mean_var))
    spread = _NORMAL * float(np.median(np.abs(away[quiet] - np.median(away[quiet]))))
    return quiet & (np.abs(away) <= _DEPART * max(1.0, spread))


def _find_tail(shape: Floats) -> Floats:
    """Return what 5 % of gamma variates of mean 1 exceed (Wilson and Hilferty 1931)."""
    third = 1 / (9 * shape)
    return np.asarray((1 - third + _TAIL * np.sqrt(third)) ** 3)


def _cut_tail(shape: Floats) -> Floats:
    """Return the mean of gamma variates of mean 1 without what lies beyond `_find_tail`.

    It is 1 - x^k exp(-x) / (Gamma(k + 1) F) at x = k * tail, F being the part that is left.
    """
    x = shape * _find_tail(shape)
    log_gamma = shape * np.log(shape) - shape + 0.5 * np.log(2 * np.pi * shape) + 1 / (12 * shape)
    return np.asarray(1 - np.exp(shape * np.log(x) - x - log_gamma) / _BELOW_TAIL)


def _drop_clipped(cells: NoiseCells, variances: _Variances, used: Bools, *, integer: bool) -> Bools:
    """Leave out cells whose levels are close to zero, where cameras cut their noise off.

    Where hardly a cell is left then, all stay: of such images nothing better can be said.
    """
    if not integer:
        return used
    post, pre = np.sqrt(variances.post(cells)), np.sqrt(variances.pre(cells))
    bright = used & (cells.post > _CLIP * post) & (cells.pre > _CLIP * pre)
    return np.asarray(bright if bright.sum() >= LEAST_CELLS else used)


def _solve(cells: NoiseCells, variances: _Variances) -> _Variances:
    """Fit variances to cells, with weights and shares from the last variances."""
    expected = _predict(cells, variances)
    share = expected.share
    zero = np.zeros(len(share))
    post_level, pre_level = cells.post - variances.levels[0], cells.pre - variances.levels[1]
    white = cells.post_within
    in_post, in_pre = (white, white * post_level), (cells.pre_within, cells.pre_within * pre_level)
    v = cells.v / _cut_tail(expected.shape)
    v -= variances.least * (white + cells.pre_within)
    weights = 1 / expected.v_var
    matrix, vector = _normal_equations([*in_post, *in_pre, expected.slope, zero], v, weights)
    u = (
        cells.p
        - share * cells.v
        - variances.least * ((1 - share) * white - share * cells.pre_within)
    )
    of_u = [(1 - share) * column for column in in_post] + [-share * column for column in in_pre]
    of_u_matrix, of_u_vector = _normal_equations(
        [*of_u, zero, expected.slope], u, 1 / expected.u_var
    )
    matrix, vector = matrix + of_u_matrix, vector + of_u_vector
    post_dark, post_shot, pre_dark, pre_shot, registration, _ = _nonnegative(matrix, vector)
    return replace(
        variances,
        post_dark=post_dark + variances.least,
        post_shot=post_shot,
        pre_dark=pre_dark + variances.least,
        pre_shot=pre_shot,
        registration=registration,
    )


def _normal_equations(
    columns: list[Floats], target: Floats, weights: Floats
) -> tuple[Floats, Floats]:
    """Return normal matrix and vector of a weighted least-squares fit."""
    a = np.stack(columns)
    weighted = a * weights
    return weighted @ a.T, weighted @ target


def _nonnegative(matrix: Floats, vector: Floats) -> list[float]:
    """Solve normal equations with all unknowns but the last not below zero.

    Of all choices of unknowns that are zero, the one in which the others are positive and none that
    is zero would rather be: the cost is convex, so that it is the best.
    """
    scale = 1 / np.sqrt(np.maximum(np.diag(matrix), np.finfo(float).tiny))
    a, b = matrix * np.outer(scale, scale), vector * scale
    count = len(b) - 1
    best, lowest = np.zeros(len(b)), 0.0
    for free in product((True, False), repeat=count):
        on = np.flatnonzero([*free, True])
        solution = np.zeros(len(b))
        solution[on] = np.linalg.lstsq(a[np.ix_(on, on)], b[on], rcond=1e-10)[0]
        if (solution[:count] < 0).any():
            continue
        cost = float(solution @ a @ solution - 2 * b @ solution)
        if cost < lowest:
            best, lowest = solution, cost
        if (b[:count] <= (a @ solution)[:count] + _TINY)[np.logical_not(free)].all():
            break
    return [float(v) for v in best * scale]
