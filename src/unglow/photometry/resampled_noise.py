"""White noise under resampling: the variance that is retained, px by px.

A resampled px is a weighted sum of 4 x 4 px of pre (Catmull-Rom, as in
`unglow.transform.resample`), and a filter is a weighted sum of resampled px. Of white noise of
variance 1 the sum of squared weights is left: between 0.41 (half-way between px in both directions)
and 1 for a single px. It depends on the *phase*, the fraction of a px at which a position falls in
pre, and on the local Jacobian of the map from post to pre.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from unglow.transform.resample import map_arguments

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray

    from unglow.core.arrays import Floats, Floats32
    from unglow.core.windows import Window
    from unglow.transform import Transform


_BLOCK = 256
"""Side, px, of the blocks of constant Jacobian, at fixed positions in post."""
_STEPS = 256.0
"""Jacobians are rounded to 1/256: 0.02 px at the rim of a filter 9 px wide."""


def catmull_rom(distance: ArrayLike) -> Floats:
    """Weight of a px at a distance (px, any shape) along one axis: Keys 1981 with a = -0.5."""
    d = np.abs(np.asarray(distance, dtype=np.float64))
    near = (1.5 * d - 2.5) * d * d + 1.0
    far = ((-0.5 * d + 2.5) * d - 4.0) * d + 2.0
    return np.where(d <= 1.0, near, np.where(d < 2.0, far, 0.0))


def compute_filtered_noise(jacobian: ArrayLike, weights: ArrayLike, phases: int = 16) -> Floats:
    """Variance that a filter leaves of resampled white noise of variance 1.

    Parameters
    ----------
    jacobian
        (2, 2): derivative of the position in pre (x, y) by that in post (x, y).
    weights
        (k, k) of the filter, over px of post; its centre is at (k - 1) / 2.
    phases
        Phases per axis.

    Returns
    -------
    (phases, phases) float64, [fy, fx]: the sum of squared weights that the px of pre have in the
    result where the filter's centre falls on the fraction (fx / phases, fy / phases) of a px.
    """
    h = np.asarray(weights, dtype=np.float64)
    x, y = _tap_weights(jacobian, h.shape, phases)
    sums = np.matmul((y * h.ravel()[:, None]).transpose(0, 2, 1)[:, None], x[None])
    return np.asarray((sums * sums).sum(axis=(2, 3)), dtype=np.float64)


def cell_noise(
    jacobian: ArrayLike, side: int, phases: int = 16, blur: ArrayLike = (1.0,)
) -> tuple[Floats, Floats]:
    """Predict the population variance of white noise of variance 1 inside a resampled cell.

    Parameters
    ----------
    jacobian
        As for `compute_filtered_noise`.
    side
        Px of post along a side of the cell.
    phases
        Phases per axis, those of the cell's centre, at (side - 1) / 2.
    blur
        (2 r + 1,) weights along both axes that the resampled image was filtered with.

    Returns
    -------
    Its expectation and its own variance (for normal noise), each (phases, phases) float64.
    """
    mixing = departures(blur, side)
    n, wide = side * side, math.isqrt(mixing.shape[1])
    x, y = _tap_weights(jacobian, (wide, wide), phases)
    mean, spread = np.empty((phases, phases)), np.empty((phases, phases))
    for row, col in np.ndindex(phases, phases):
        taps = mixing @ (y[row][:, :, None] * x[col][:, None, :]).reshape(wide * wide, -1)
        products = taps @ taps.T
        mean[row, col] = np.trace(products) / n
        spread[row, col] = 2.0 * (products * products).sum() / n**2
    return mean, spread


def departures(blur: ArrayLike, side: int) -> Floats:
    """Weights that make of an image the px of a filtered cell, less their mean, in row order.

    Parameters
    ----------
    blur
        (2 r + 1,) weights of the filter along both axes.
    side
        Px along a side of the cell.

    Returns
    -------
    (side^2, (side + 2 r)^2) float64.
    """
    along = shift_weights(blur, side)
    mixing = np.kron(along, along)
    return np.asarray(mixing - mixing.mean(axis=0))


def shift_weights(blur: ArrayLike, side: int) -> Floats:
    """Return the weights of a filter for each of ``side`` px in a row, (side, side + 2 r)."""
    weights = np.asarray(blur, dtype=np.float64)
    out = np.zeros((side, side + len(weights) - 1))
    for px in range(side):
        out[px, px : px + len(weights)] = weights
    return out


def _tap_weights(jacobian: ArrayLike, shape: tuple[int, ...], phases: int) -> tuple[Floats, Floats]:
    """Weights of the columns and rows of pre in each px of a filter, (phases, taps, px) each."""
    rows, cols = shape
    dy, dx = np.meshgrid(
        np.arange(rows) - (rows - 1) / 2, np.arange(cols) - (cols - 1) / 2, indexing="ij"
    )
    offsets = np.asarray(jacobian, dtype=np.float64) @ np.stack([dx.ravel(), dy.ravel()])
    fractions = np.arange(phases) / phases
    found = []
    for along in offsets:
        at = fractions[:, None, None] + along[None, :, None]
        px = np.arange(np.floor(at.min()) - 1, np.floor(at.max()) + 3)
        found.append(catmull_rom(at - px))
    return found[0], found[1]


def jacobian(transform: Transform, point_xy: tuple[float, float]) -> Floats:
    """Return the derivative (2, 2) of the position in pre (x, y) by that in post (x, y)."""
    return np.asarray(_jacobians(transform, [point_xy])[0], dtype=np.float64)


def round_jacobian(transform: Transform, point_xy: tuple[float, float]) -> Floats:
    """Return `jacobian` in steps of 1/256, so that few tables serve an entire image."""
    return _round(jacobian(transform, point_xy))


def _jacobians(transform: Transform, points_xy: list[tuple[float, float]]) -> Floats:
    """Return `jacobian` at several points, (N, 2, 2)."""
    m = transform.matrix / transform.matrix[2, 2]
    found = np.empty((len(points_xy), 2, 2))
    for linear, point in zip(found, points_xy, strict=True):
        u, v, w = m @ (*point, 1.0)
        linear[:] = (m[:2, :2] - np.outer([u / w, v / w], m[2, :2])) / w
    if transform.displacement is not None:
        found += transform.displacement.jacobian(points_xy)
    return found


def _round(local: Floats) -> Floats:
    return np.asarray(np.rint(local * _STEPS) / _STEPS, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class FilteredVariance:
    """`compute_filtered_noise` of every px of a window of post, for which tables are made once.

    Of the nearest of 16 x 16 phases; the value of a px does not depend on the window: what varies
    slowly is evaluated over blocks at fixed positions. For a filter at least 2 px wide an entry is
    0.5 % off at worst, for a single px 5 %.

    Attributes
    ----------
    transform
        Map from post to pre.
    first_row
        Which row of blocks holds the window's first px, counted from the one at 0.
    tables
        (blocks down, blocks across, phases, phases) float32: `compute_filtered_noise` of the blocks
        of `_BLOCK` px that the window touches.
    """

    transform: Transform
    first_row: int
    tables: Floats32

    @classmethod
    def from_transform(cls, transform: Transform, window: Window, weights: Floats) -> Self:
        """Make the tables of a window of post, which may leave the image.

        Parameters
        ----------
        transform
            Map from post to pre, not a failed one.
        window
            Part of the post grid.
        weights
            (k, k) float64 of the filter.
        """
        h = np.asarray(weights, dtype=np.float64)
        rows = range(window.y0 // _BLOCK, (window.y1 - 1) // _BLOCK + 1)
        cols = range(window.x0 // _BLOCK, (window.x1 - 1) // _BLOCK + 1)
        middle = (_BLOCK - 1) / 2
        centres = [(_BLOCK * col + middle, _BLOCK * row + middle) for row in rows for col in cols]
        steps = _round(_jacobians(transform, centres))
        found = [_make_table(local.tobytes(), h.tobytes(), h.shape) for local in steps]
        tables = np.array(found, dtype=np.float32)
        shape = len(rows), len(cols), *tables.shape[1:]
        return cls(transform, rows[0], tables.reshape(shape))

    def arguments(self, window: Window) -> tuple[Any, ...]:
        """Return what `phase_factor` of ``kernels.h`` takes for a part with as many columns."""
        tables = self.tables[window.y0 // _BLOCK - self.first_row :]
        matrix = np.ascontiguousarray(self.transform.matrix / self.transform.matrix[2, 2])
        return (
            *map_arguments(matrix, self.transform.displacement),
            *(window.y0, window.x0),
            *(tables, *tables.shape[:3], _BLOCK),
        )


def interpolate_phase(table: Floats, x: Floats, y: Floats) -> Floats:
    """Interpolate tables (..., phases, phases), [fy, fx], at positions in pre (any shape)."""
    flat = table.reshape(*table.shape[:-2], -1)
    out = np.zeros((*flat.shape[:-1], *np.shape(x)))
    for row, col, weight in _find_corners(table.shape[-1], x, y):
        out += weight * flat[..., row * table.shape[-1] + col]
    return out


def phase_shares(phases: int, x: Floats, y: Floats) -> Floats:
    """Return the weight of each table entry in means of `interpolate_phase` at positions in pre.

    ``x`` and ``y`` are (N, points). Returns (N, phases, phases) float64, with a sum of 1 each.
    """
    first = phases * phases * np.arange(len(x))[:, None]
    shares = np.zeros(len(x) * phases * phases)
    for row, col, weight in _find_corners(phases, x, y):
        at = first + row * phases + col
        shares += np.bincount(at.ravel(), weight.ravel(), len(shares))
    return np.asarray(shares.reshape(len(x), phases, phases) / x.shape[1])


def _find_corners(
    phases: int, x: Floats, y: Floats
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp], Floats]]:
    """Yield rows and columns of the four entries around each phase, and their weights."""
    (left, s), (top, t) = (_split_phase(v, phases) for v in (x, y))
    for row, along_y in ((top, 1 - t), ((top + 1) % phases, t)):
        for col, along_x in ((left, 1 - s), ((left + 1) % phases, s)):
            yield row, col, along_y * along_x


def _split_phase(position: Floats, phases: int) -> tuple[NDArray[np.intp], Floats]:
    """Return the phase before each position, and the rest in steps of phases."""
    steps = (position - np.floor(position)) * phases
    before = np.floor(steps)
    return before.astype(np.intp) % phases, steps - before


@lru_cache(maxsize=512)
def _make_table(local: bytes, weights: bytes, shape: tuple[int, int]) -> Floats:
    """Return `compute_filtered_noise` of arrays given by their bytes, which can be keys."""
    return compute_filtered_noise(
        np.frombuffer(local).reshape(2, 2), np.frombuffer(weights).reshape(shape)
    )
