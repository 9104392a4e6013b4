"""Fit of a gain map: the relative brightness of the light of post over the frame.

post = m(x, y) * (gain * pre + c1) + c0, with m a polynomial and the rest as in
`unglow.photometry.gain.linear`: levels as instruments, weights that stain does not have. Where m
differs from place to place, the two offsets differ in what it does to them, and are distinguished.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unglow.memory import CELL
from unglow.photometry.gain.linear import REGIONS, LinearFit, half_widths
from unglow.photometry.gain.robust import (
    LEAST,
    compute_weights,
    estimate_again,
    find_unclipped,
    make_state,
    sort_levels,
)
from unglow.photometry.imaging import GainMap, legendre

if TYPE_CHECKING:
    from unglow.core.arrays import Bools, Floats
    from unglow.photometry.cell_moments import CellMoments
    from unglow.photometry.cells import Cells
    from unglow.photometry.gain.robust import Limits, State
    from unglow.photometry.imaging import NoiseModel


DEGREES = (2, 4)
"""Degrees in x and in y of the polynomials that are tried, one after the other."""
WORTH = 0.9
"""A map is used if it makes residuals of cells that were kept out of its fit smaller than this.

As a part of what they are without a map.
"""
BELIEVED = 2.5
"""Lamps and flat fields differ by less than this, from the dimmest place to the brightest."""
# A map that makes them no smaller than this, as such a part, leaves nothing for a higher degree.
_HOPELESS = 0.97
# Rounds of noise and map, and steps of the map in each: in full, and in a trial.
_FULL, _TRIAL_ROUNDS = (4, 6), (1, 6)
# A trial takes this many cells. They are held out by tiles, this many along each side, in this
# many sets.
_TRIAL, _TILES, _FOLDS = 1 << 13, 8, 4
# The dark level of pre is sought within about this part of its mean brightness around 0.
_DARK = 0.1
# Cells beyond this part of the way from the darkest to the brightest show light.
_LIT = 0.2
LEVEL_PX = 128
"""Side of the squares whose median is a local level, px; candidates are looked for above the same.
"""
# On a sparse lattice squares grow until they are this many cells wide; a median takes this many
# cells.
_WIDE_CELLS, _LEAST_CELLS = 16, 64


@dataclass(frozen=True, eq=False, slots=True)
class Shaded:
    """A line with a gain map.

    Attributes
    ----------
    line
        Gain and offset where m is 1: the offset is c0 + c1.
    map
        m and c0.
    held_out
        Median residual of cells that were kept out of the fit over that without a map.
    """

    line: LinearFit
    map: GainMap
    held_out: float

    @property
    def believable(self) -> bool:
        """Whether light can be that uneven; if not, smooth stain or another background is in it."""
        return self.map.limits[1] <= BELIEVED * self.map.limits[0]


@dataclass(frozen=True, eq=False, slots=True)
class _Fitted:
    """A map as it was fitted, with what the intervals of its line follow from.

    The gain where m is 1, c1 / gain, the polynomials at the cells and which of these show light,
    the matrix of the equations, and the last state, weights, spread and noise.
    """

    map: GainMap
    gain: float
    shift: float
    basis: Floats
    lit: Bools
    normal: Floats
    state: State
    weights: Floats
    spread: float
    noise: NoiseModel
    registration: float

    @property
    def offset(self) -> float:
        """c0 + c1."""
        return self.map.dark + self.gain * self.shift


def find(cells: Cells, limits: Limits, line: LinearFit, shape: tuple[int, int]) -> Shaded | None:
    """Fit a gain map of one of `DEGREES`; None where held-out cells gain too little by it.

    ``line`` is that without a map, ``shape`` (rows, columns) of post, px.
    """
    trial = cells.select(slice(None, None, max(1, -(-len(cells) // _TRIAL))))
    # glass that is clipped at 0 is bent in its own way, which a map must not be judged by
    state = make_state(trial, line.gain, line.offset, line.noise, line.registration)
    trial = trial.select(find_unclipped(state, line.noise, limits))
    if len(trial) < _FOLDS * LEAST:
        return None
    found, best = None, WORTH
    for degree in DEGREES:
        held_out = _score_held_out(trial, limits, line, shape, degree)
        if held_out < best:
            found, best = degree, held_out
        if held_out > _HOPELESS:
            break
    if found is None:
        return None
    fitted = _fit(cells, limits, line, shape, found, _FULL)
    return Shaded(_measure_line(cells, limits, fitted), fitted.map, best)


def _score_held_out(
    cells: Cells, limits: Limits, line: LinearFit, shape: tuple[int, int], degree: int
) -> float:
    """Median absolute residual of cells in tiles that were kept out, over that without a map.

    Of all of them, stained or not: a line that is too low would leave less below it. But not of
    dark ones, which say nothing about light.
    """
    low, high = cells.xy.min(axis=0), cells.xy.max(axis=0)
    tiles = ((cells.xy - low) / np.maximum(high - low, 1) * _TILES).astype(np.intp)
    folds = (tiles[:, 0] + 2 * tiles[:, 1]) % _FOLDS
    gain, offset = np.empty(len(cells)), np.empty(len(cells))
    for fold in range(_FOLDS):
        out = folds == fold
        fitted = _fit(cells.select(~out), limits, line, shape, degree, _TRIAL_ROUNDS)
        relative = fitted.map.evaluate(cells.xy[out])
        gain[out], offset[out] = fitted.map.line(relative, fitted.gain, fitted.offset)
    lit = _even_out(cells)
    with_map, plain = (
        float(np.median(np.abs(state.residual / state.deviation)[lit]))
        for state in (
            make_state(cells, gain, offset, line.noise, 0.0),
            make_state(cells, line.gain, line.offset, line.noise, 0.0),
        )
    )
    return with_map / plain if plain > 0 else 1.0  # nothing is left to explain


def _fit(
    cells: Cells,
    limits: Limits,
    line: LinearFit,
    shape: tuple[int, int],
    degree: int,
    effort: tuple[int, int],
) -> _Fitted:
    """Fit a map of one degree in this many rounds of steps, starting from a line without."""
    terms = [(i, j) for i in range(degree + 1) for j in range(degree + 1)]
    along_y, along_x = (
        legendre(cells.xy[:, axis], side, degree + 1)
        for axis, side in ((1, shape[0]), (0, shape[1]))
    )
    basis = np.stack([along_y[i] * along_x[j] for i, j in terms])
    slopes = np.zeros(len(terms))
    slopes[0] = line.gain
    dark, shift = line.offset, 0.0  # c0, and c1 / gain
    noise, registration = line.noise, line.registration
    gain = np.full(len(cells), line.gain)
    state = make_state(cells, gain, dark, noise, registration)
    for number in range(effort[0]):
        steps = sort_levels(state, noise, limits)
        if number > 0:
            noise, registration = estimate_again(cells, state, noise, registration, limits, steps)
            state = make_state(cells, gain, dark + gain * shift, noise, registration)
        for _ in range(effort[1]):
            weights, spread = compute_weights(state, noise, limits, steps)
            slopes, dark, step, normal = _solve(cells, state, weights, basis, shift)
            shift += step
            gain = np.maximum(slopes @ basis, line.gain / 4)
            state = make_state(cells, gain, dark + gain * shift, noise, registration)
    lit = (weights > 0) & _even_out(cells)
    mean = float(np.mean(gain[lit]))
    coefficients = np.zeros((degree + 1, degree + 1))
    for (i, j), slope in zip(terms, slopes, strict=True):
        coefficients[i, j] = slope / mean
    span = float(gain[lit].min() / mean), float(gain[lit].max() / mean)
    made = GainMap(shape, coefficients, span, dark)
    return _Fitted(
        made, mean, shift, basis, lit, normal, state, weights, spread, noise, registration
    )


def _measure_line(cells: Cells, limits: Limits, fitted: _Fitted) -> LinearFit:
    """Return the line of a map with its intervals."""
    # how gain and offset follow from what was solved for, and so from each residual
    basis, shift, state = fitted.basis, fitted.shift, fitted.state
    follow = np.zeros((2, len(fitted.normal)))
    follow[:, 1:-1] = basis[:, fitted.lit].mean(axis=1) * [[1.0], [shift]]
    follow[1, 0], follow[1, -1] = 1.0, fitted.gain
    solved = np.linalg.solve(fitted.normal.T, follow.T).T
    c0, of_slopes, c1 = np.split(solved, (1, -1), axis=1)
    half = half_widths(
        cells,
        state,
        fitted.weights,
        fitted.spread,
        fitted.registration,
        fitted.noise,
        limits,
        influence=c0 + of_slopes @ basis * (state.level + shift) + c1 * state.gain,
        across_side=2 * REGIONS,
        terms=len(basis) + 2,
    )
    return LinearFit(
        fitted.gain,
        fitted.offset,
        half,
        fitted.noise,
        fitted.registration,
        fitted.spread,
        fitted.weights > 0,
    )


def _even_out(cells: Cells) -> Bools:
    """Say which cells are clearly brighter than the darkest, and so show what light there is."""
    low, high = np.quantile(cells.pre, (0.01, 0.95))
    return np.asarray(cells.pre > low + _LIT * (high - low))


def _solve(
    cells: Cells, state: State, weights: Floats, basis: Floats, shift: float
) -> tuple[Floats, float, float, Floats]:
    """Solve for the slopes (K,), c0, and a step of c1 / gain, with the levels as instruments.

    The last is the matrix of the equations, c0 first, (K + 2, K + 2).
    """
    columns, instruments = (np.empty((len(basis) + 2, len(cells))) for _ in range(2))
    for rows, bright in ((columns, cells.pre), (instruments, state.level)):
        rows[0], rows[-1] = 1.0, state.gain
        np.multiply(basis, bright + shift, out=rows[1:-1])
    instruments *= weights
    normal = instruments @ columns.T
    right = instruments @ cells.post
    # Without shading the two offsets are one; a weak pull towards 0 then decides.
    level = float(np.sum(weights * cells.pre) / np.sum(weights))
    pull = 1 / max((_DARK * level) ** 2, 1e-12)
    normal[-1, -1] += pull
    right[-1] -= pull * shift
    found: Floats = np.linalg.solve(normal, right).astype(np.float64)
    return found[1:-1], float(found[0]), float(found[-1]), normal


def local_level(bins: CellMoments, gain: float, offset: float) -> Floats:
    """Return medians of post - (gain * pre + offset) over the squares around cells, (ny, nx).

    Each half of a square has the median of the square around it; 0 where that holds too few cells.
    """
    left = bins.post.astype(np.float64) - (gain * bins.pre.astype(np.float64) + offset)
    left[bins.count < CELL**2] = np.nan
    half = max(LEVEL_PX // (CELL * bins.every), _WIDE_CELLS) // 2
    level = np.zeros(left.shape)
    for row in range(0, left.shape[0], half):
        for col in range(0, left.shape[1], half):
            rows, cols = (slice(max(0, n - half // 2), n + half + half // 2) for n in (row, col))
            known = left[rows, cols]
            known = known[np.isfinite(known)]
            if len(known) >= _LEAST_CELLS:
                level[row : row + half, col : col + half] = np.median(known)
    return level
