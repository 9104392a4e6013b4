"""Fitting the noise model of a pair to the variances inside its cells.

With t = gain * pre + offset the texture that both images share, the moments of a cell of n px say

    P = post_var - G cov          of post's own noise        E P = (n - 1)/n v_post
    Q = G^2 pre_var - G cov       of pre's own noise         E Q = G^2 C(phase) v_pre
    V = P + Q                     of the difference          no texture in it, nor in its scatter

where C is what resampling leaves (`unglow.photometry.noise.resampling.cell_noise`). V tells the sum
of the two noises, and U = P - r V, r being the share of post in V, what each has of it: in white
noise U and V are not correlated, so that both are fitted at once, as two rows per cell, by weighted
least squares. Texture shows in V as far as the images are out of register, in proportion to the
squared gradient of pre: a column more. The gradient itself holds noise of the same px, so its
expectation from the gradients of neighbouring cells takes its place (two-stage least squares).

Stain is left out twice: cells whose mean departs from gain * pre + offset, and cells whose V is
beyond what 5 % of cells without stain exceed; for the tail that goes with them, a factor makes up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.rounding import rounded
from unglow.photometry.noise.cells import GROUPS, LEAST_CELLS, NoiseCells, whole_cells
from unglow.photometry.noise.model import ROUNDING, NoiseModel
from unglow.photometry.sizes import CELL

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from unglow.photometry.blur import Blur
    from unglow.photometry.cell_moments import BinSamples
    from unglow.transform import Transform

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]

_PX = CELL * CELL
_ROUNDS = 15
# Standard deviation of a normal variate over the median of its absolute value.
_NORMAL = 1.4826
# Noise alone and a gain that is hardly wrong scatter by no more than this times what is expected.
_MORE = 1.1
# Groups by level, for a first guess.
_LEVELS = 16
# Nothing moves any more if the sum of the noises moves by less than this, relatively.
_STILL = 1e-4
_TINY = 1e-9
# What `_TAIL` of normal variates are below is kept of V: tails are where faint stain is.
_TAIL, _KEPT = 1.645, 0.95
# U, which stain moves little, may depart by so many standard deviations.
_FAR = 6.0
# A cell's mean may depart from the background by so many standard deviations.
_DEPART = 2.0
# Dark cells are cut off at zero within so many standard deviations of a px.
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
    misfit
        Variance per squared gradient of pre (both with gain), px^2: half the square of how far
        the images are out of register, if nothing else leaves texture.
    """

    model: NoiseModel
    cells: int
    misfit: float

    def to_json(self) -> dict[str, Any]:
        """Return the entry "noise" of ``scale.json``."""
        return {
            **{name: rounded(value) for name, value in self.model.to_json().items()},
            "cells": self.cells,
            "misfit_px2": rounded(self.misfit),
        }


@dataclass(frozen=True, slots=True)
class _State:
    """Variances at the darkest levels, how they grow, and texture in V per squared gradient."""

    post_dark: float
    post_shot: float
    pre_dark: float
    pre_shot: float
    misfit: float
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
    """What a state expects of cells: parts of V, and variances of V, of U and of cells' means.

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


def fit(
    bins: BinSamples,
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
        Whether the images hold whole grey levels, which adds the noise of rounding, and end at 0.
    blur
        What made the images of the cells match, if anything did; the model is that of raw px.

    Raises
    ------
    ValueError
        If fewer than 200 cells can be used; the message says so.
    """
    cells = whole_cells(bins, gain, offset, transform, blur)
    least = ROUNDING if integer else 0.0
    state, used = _fitted(cells, least, integer=integer)
    model = replace(
        state.model(),
        spread=_spread_of_means(cells, state, transform.error_px.p95, integer=integer),
    )
    return NoiseFit(model, int(used.sum()), state.misfit)


def _spread_of_means(cells: NoiseCells, state: _State, error_px: float, *, integer: bool) -> float:
    """Return how the means of cells scatter, over what noise and the map's error give.

    From those below the background: above it is stain.
    """
    expected = _expected(cells, state)
    variance = expected.mean_var - expected.texture
    if np.isfinite(error_px):
        variance = variance + error_px**2 / 2 * expected.slope
    away = cells.rest / np.sqrt(variance)
    lit = _lit(cells, state, away < 0, integer=integer)
    found = _NORMAL * float(np.median(-away[lit])) if lit.any() else 1.0
    return found if found > _MORE else 1.0


def _fitted(cells: NoiseCells, least: float, *, integer: bool) -> tuple[_State, Flags]:
    """Refine a first guess until nothing moves; also which cells the last round used."""
    state = _guess(cells, least)
    used = np.ones(len(cells.post), bool)
    last = 0.0
    for _ in range(_ROUNDS):
        expected = _expected(cells, state)
        total = float(expected.v.mean())
        if abs(total - last) < _STILL * total:
            break
        last = total
        used = _unstained(cells, expected)
        used = _lit(cells, state, used, integer=integer)
        if used.sum() < LEAST_CELLS:
            raise ValueError(f"only {used.sum()} cells of {CELL} x {CELL} px look free of stain")
        state = _solved(cells.take(used), state)
    return state, used


def _guess(cells: NoiseCells, least: float) -> _State:
    """Halve what V is in quiet cells of each level between the images."""
    low = tuple(float(np.quantile(v, 0.01)) for v in (cells.post, cells.pre))
    levels = low[0], low[1]
    parts = np.array_split(np.argsort(cells.post, kind="stable"), _LEVELS)
    # the 0.3 quantile of a variance of 16 normal numbers is 0.8 of its expectation
    quiet = np.array([np.quantile(cells.v[part], 0.3) / 0.8 for part in parts]) + 2 * least + _TINY
    level = np.array([cells.post[part].mean() for part in parts]) - levels[0]
    slope = float(np.median(quiet[_LEVELS // 2 :] / np.maximum(level[_LEVELS // 2 :], _TINY)))
    dark, shot = float(quiet.min()) / 2, max(slope, 0.0) / 2
    kept = float(np.median(cells.kept))
    gain = max(float(np.median(cells.post - levels[0])), _TINY)
    gain /= max(float(np.median(cells.pre - levels[1])), _TINY)
    return _State(
        post_dark=dark,
        post_shot=shot,
        pre_dark=dark / kept,
        pre_shot=shot * gain / kept,
        misfit=0.0,
        levels=levels,
        least=least,
    )


def _expected(cells: NoiseCells, state: _State) -> _Expected:
    """Return what a state expects of cells, with normal noise."""
    post, pre = state.post(cells), state.pre(cells)
    inside, resampled = post * cells.post_kept, pre * cells.kept
    noise = inside + resampled
    # the gradient of pre without its own noise, expected from the gradients around a cell
    shown = np.bincount(cells.group, cells.gradient - pre * cells.slope_kept, GROUPS)
    count = np.bincount(cells.group, minlength=GROUPS)
    slope = np.maximum(shown / np.maximum(count, 1), 0.0)[cells.group]
    texture = state.misfit * slope
    scatter = post * post * cells.post_scatter + pre * pre * cells.scatter
    scatter += 4 * post * resampled / _PX
    v_var = scatter * ((noise + texture) / noise) ** 2 + texture**2
    # a ramp of slope 1 has a variance of (CELL^2 - 1) / 12 over a cell
    shared = slope * (CELL * CELL - 1) / 12
    u_var = (inside * resampled + shared * noise) / (_PX - 1)
    mean_var = post * cells.post_mean + pre * cells.mean_kept + texture
    shape = noise * noise / scatter
    return _Expected(inside, resampled, texture, slope, shape, v_var, u_var, mean_var)


def _unstained(cells: NoiseCells, expected: _Expected) -> Flags:
    """Find cells that look like background and noise."""
    quiet = _quiet(cells, expected)
    away = np.abs(_departure(cells, expected))
    return quiet & (away <= _DEPART * max(1.0, _spread(_departure(cells, expected)[quiet])))


def _quiet(cells: NoiseCells, expected: _Expected) -> Flags:
    """Find cells whose variances look like noise."""
    share = expected.share
    u = cells.p - share * cells.v - ((1 - share) * expected.post - share * expected.pre)
    below = cells.v <= _tail(expected.shape) * expected.v
    return np.asarray(below & (u * u <= _FAR**2 * expected.u_var))


def _departure(cells: NoiseCells, expected: _Expected) -> Floats:
    """Return the mean difference in cells about its median, in standard deviations."""
    return np.asarray((cells.rest - np.median(cells.rest)) / np.sqrt(expected.mean_var))


def _spread(values: Floats) -> float:
    """Return a robust standard deviation, from the median of absolute values about the median."""
    return _NORMAL * float(np.median(np.abs(values - np.median(values))))


def _tail(shape: Floats) -> Floats:
    """Return what 5 % of gamma variates of mean 1 exceed (Wilson and Hilferty 1931)."""
    third = 1 / (9 * shape)
    return np.asarray((1 - third + _TAIL * np.sqrt(third)) ** 3)


def _without_tail(shape: Floats) -> Floats:
    """Return the mean of gamma variates of mean 1 without what lies beyond `_tail`.

    It is 1 - x^k exp(-x) / (Gamma(k + 1) F) at x = k * tail, F being the part that is left.
    """
    x = shape * _tail(shape)
    log_gamma = shape * np.log(shape) - shape + 0.5 * np.log(2 * np.pi * shape) + 1 / (12 * shape)
    return np.asarray(1 - np.exp(shape * np.log(x) - x - log_gamma) / _KEPT)


def _lit(cells: NoiseCells, state: _State, used: Flags, *, integer: bool) -> Flags:
    """Leave out cells whose levels are close to zero, where cameras cut their noise off.

    Where hardly a cell is left then, all stay: of such images nothing better can be said.
    """
    if not integer:
        return used
    post, pre = np.sqrt(state.post(cells)), np.sqrt(state.pre(cells))
    lit = used & (cells.post > _CLIP * post) & (cells.pre > _CLIP * pre)
    return np.asarray(lit if lit.sum() >= LEAST_CELLS else used)


def _solved(cells: NoiseCells, state: _State) -> _State:
    """Fit variances to cells, with weights and shares from the last state."""
    expected = _expected(cells, state)
    share = expected.share
    zero = np.zeros(len(share))
    post_level, pre_level = cells.post - state.levels[0], cells.pre - state.levels[1]
    white = cells.post_kept
    in_post, in_pre = (white, white * post_level), (cells.kept, cells.kept * pre_level)
    v = cells.v / _without_tail(expected.shape)
    v -= state.least * (white + cells.kept)
    weights = 1 / expected.v_var
    matrix, vector = _normal([*in_post, *in_pre, expected.slope, zero], v, weights)
    u = cells.p - share * cells.v - state.least * ((1 - share) * white - share * cells.kept)
    of_u = [(1 - share) * column for column in in_post] + [-share * column for column in in_pre]
    more = _normal([*of_u, zero, expected.slope], u, 1 / expected.u_var)
    matrix, vector = matrix + more[0], vector + more[1]
    post_dark, post_shot, pre_dark, pre_shot, misfit, _ = _nonnegative(matrix, vector, 5)
    return replace(
        state,
        post_dark=post_dark + state.least,
        post_shot=post_shot,
        pre_dark=pre_dark + state.least,
        pre_shot=pre_shot,
        misfit=misfit,
    )


def _normal(columns: list[Floats], target: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return normal matrix and vector of a weighted least-squares fit."""
    a = np.stack(columns)
    return (a * weights) @ a.T, (a * weights) @ target


def _nonnegative(matrix: Floats, vector: Floats, count: int) -> list[float]:
    """Solve normal equations with the first ``count`` unknowns not below zero.

    Of all choices of unknowns that are zero, the best one that keeps the others positive: exact,
    and quick for a handful of unknowns.
    """
    scale = 1 / np.sqrt(np.maximum(np.diag(matrix), np.finfo(float).tiny))
    a, b = matrix * np.outer(scale, scale), vector * scale
    best, lowest = np.zeros(len(b)), 0.0
    for free in product((True, False), repeat=count):
        on = np.flatnonzero([*free, *[True] * (len(b) - count)])
        found = np.zeros(len(b))
        found[on] = np.linalg.lstsq(a[np.ix_(on, on)], b[on], rcond=1e-10)[0]
        if (found[:count] < 0).any():
            continue
        cost = float(found @ a @ found - 2 * b @ found)
        if cost < lowest:
            best, lowest = found, cost
    return [float(v) for v in best * scale]
