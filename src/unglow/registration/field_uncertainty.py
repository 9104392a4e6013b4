"""Uncertainty of a displacement field around each of its control points."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cv2
import numpy as np

from unglow.registration.block_placement import HELD_OUT, fifths
from unglow.registration.bspline import fit_field
from unglow.registration.deformation import curvature_bias, subtract_displacement
from unglow.registration.phase_correlation import overlap_correlation
from unglow.registration.quality import residual_variance
from unglow.registration.strip_offsets import jump_variance

if TYPE_CHECKING:
    from unglow.core.arrays import Bools, Floats, Floats32, Ints
    from unglow.registration.deformation import Deformation
    from unglow.registration.dense_blocks import DenseMatches
    from unglow.registration.inverse_consistency import InverseConsistency
    from unglow.transform.displacement import Displacement


_CLEAR = 2.0
"""Peak ratio of blocks that show a tear."""
_TORN_BLOCKS, _TORN_SHARE, _TORN_AROUND = 4, 0.01, 3
"""A section is torn where this many blocks are off, this share of the clear ones, each with this
many others of its 8 neighbours."""
_LEAST_POINTS = 30
"""Points on which the way back is compared with the error map."""
_BISECTIONS = 60
"""Of a quantile: down to the last bits of a double."""
_FARTHEST_PX = 1e6
"""Errors beyond, infinite ones too, count like this."""
_STIFF = 1.1
"""What leaving out blocks makes fits too stiff by (tests: noise of blocks that share none)."""
_MOST_SHARED = 2.5
"""Variance of a mean of blocks over that of independent ones, beyond which it is not estimated."""
_PART = 1 << 13
"""Blocks whose neighbours are held at a time, which bounds the memory."""


def error_map(found: Deformation) -> Floats32:
    """Estimate the error of the map around each control point, block noise removed.

    Parts are added in squares. *Noise*: the delete-a-group jackknife (Efron & Tibshirani 1993,
    chapter 11) over four interleaved classes of blocks, raised by what it cannot see, see
    `unseen`. *Jumps* of strips, which the jackknife leaves alone: see
    `unglow.registration.strip_offsets`. *Smoothing*: what a second fit, to the field itself,
    takes off it. *Residuals*: what neighbouring ones share, see
    `unglow.registration.quality.residual_variance`. *Curvature inside blocks*: how the field has
    changed since the blocks were measured, see `unglow.registration.deformation.curvature_bias`.
    *Continuation*: at a distance r from the nearest block the section's typical second derivative
    leaves a line by half of it times r squared; there the field soon continues in one.

    Where a seam is is known to a few px; points between it and its true place are off by the
    full jump. They are far too few for the error around a control point to show them.

    Returns
    -------
    (ny, nx) float32, root mean square of the error's length, px.
    """
    squares = (
        _estimate_noise(found)
        + _estimate_jump_variance(found)
        + _average_shared_residuals(found)
        + _estimate_extrapolation(found)
    )
    points = found.field.knots
    for bias in (
        curvature_bias(found.change, points, found.blocks.size),
        _measure_smoothing(found, points),
    ):
        squares += (bias**2).sum(axis=1).reshape(squares.shape)
    return np.sqrt(squares).astype(np.float32)


def raise_error_map(field: Displacement, way_back: InverseConsistency) -> Floats32:
    """Return the error map, raised where going to post and back misses by more than it says.

    Both ways rest on the same pixels, so that they share noise. If the errors there and back are f
    and b, and their correlation is c, the mean square of the miss is f^2 + b^2 - 2 c f b: not more
    than f^2 if b is not larger than f and c at least b / 2f. So the miss says of what blocks do
    not, such as what all of them share, and is the least that the error can be. Only medians are
    compared: the way back rests on patches, at whose rims it is worse.
    """
    errors = look_up_values(field, field.error_px, way_back.post)
    valid = np.isfinite(errors) & np.isfinite(way_back.miss)
    if np.count_nonzero(valid) < _LEAST_POINTS:
        return field.error_px
    usual = max(length_quantile(errors[valid], 0.5), 1e-6)
    factor = max(1.0, float(np.median(way_back.miss[valid])) / usual)
    return np.asarray(field.error_px * np.float32(factor), dtype=np.float32)


def length_quantile(errors: Floats, share: float) -> float:
    """Quantile of the lengths of errors with root mean squares (N,), each as often as the others.

    A length of two independent components with the root mean square s is above q with probability
    exp(-q^2 / s^2) (Rayleigh's distribution). NaN if there are none.
    """
    if not len(errors):
        return float("nan")
    errors = np.clip(errors, 1e-12, _FARTHEST_PX)
    rates = errors**-2
    low, high = 0.0, 3.0 * float(errors.max())
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        above = float(np.exp(-rates * middle**2).mean())
        low, high = (middle, high) if above > 1 - share else (low, middle)
    return (low + high) / 2


def look_up_values(field: Displacement, values: Floats32, points: Floats) -> Floats:
    """Values (ny, nx) of the control points next to points (N, 2), (N,) float64."""
    cells = _cell_of(field, points)
    return np.asarray(values[cells[:, 1], cells[:, 0]], dtype=np.float64)


def distances(found: Deformation) -> Floats:
    """Distance of each control point to the nearest block that agrees, (ny, nx), px."""
    field = found.field
    _, ny, nx = field.coefficients.shape
    empty = np.ones((ny, nx), np.uint8)
    cells = _cell_of(field, found.blocks.post[found.is_agreeing])
    empty[cells[:, 1], cells[:, 0]] = 0
    steps = cv2.distanceTransform(empty, cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    # its last bits vary from call to call; squares of distances on a grid are integers
    squares = np.rint(np.asarray(steps, dtype=np.float64) ** 2)
    return np.asarray(np.sqrt(squares) * field.spacing_px, dtype=np.float64)


def count_torn(found: Deformation, limit_px: float) -> tuple[int, Floats]:
    """Count the blocks whose surroundings the field misses by more than ``limit_px``.

    Only blocks with a clear peak count, and only if most of the clear blocks around them, and they
    themselves, are off: single wrong matches are not. 0 for fewer than a few; and the (x, y) of the
    first of them.
    """
    blocks = found.blocks
    clear = blocks.peak_ratio >= _CLEAR
    lengths = np.where(clear, np.hypot(*found.residuals.T), np.nan)
    around = blocks.neighbours(lengths[:, None])[..., 0]
    others = (around > limit_px).sum(axis=0)
    most = 2 * others > np.isfinite(around).sum(axis=0)
    with np.errstate(invalid="ignore"):
        off = clear & (lengths > limit_px) & (others >= _TORN_AROUND) & most
    count = int(np.count_nonzero(off))
    if count < max(_TORN_BLOCKS, _TORN_SHARE * np.count_nonzero(clear)):
        return 0, np.zeros(2)
    return count, blocks.post[np.flatnonzero(off)[0]]


def _cell_of(field: Displacement, points: Floats) -> Ints:
    """Column and row of the control point next to each point, (N, 2)."""
    last = np.array(field.coefficients.shape[:0:-1]) - 1
    return np.clip(np.rint(points / field.spacing_px).astype(np.int64) + 1, 0, last)


def _estimate_noise(found: Deformation) -> Floats:
    """Variance of the field at its control points, both components together."""
    field, blocks = found.field.smooth, found.blocks
    displacement = found.smooth_displacement
    group = fifths(blocks.cell)
    points = field.knots
    moved = []
    for left_out in sorted(set(range(5)) - {HELD_OUT}):
        weights = np.where(group == left_out, 0.0, found.weights)
        other = fit_field(blocks.post, displacement, weights, field, found.stiffness)
        moved.append(subtract_displacement(other, field).evaluate(points))
    spread = np.array(moved)
    spread -= spread.mean(axis=0)
    count = len(moved)
    variance = (count - 1) / count * (spread**2).sum(axis=(0, 2))
    use = found.weights > 0
    more = unseen(blocks, use)[use]
    variance = variance.reshape(field.coefficients.shape[1:])
    variance *= _average_around(field, blocks, use, more, float(np.median(more)))
    # a handful of groups say little about one place: average over the nearest ones
    return np.asarray(cv2.blur(variance, (3, 3), borderType=cv2.BORDER_REPLICATE))


def _estimate_jump_variance(found: Deformation) -> Floats:
    """Variance of the map from that of its jumps, both components together, px squared."""
    field, use = found.field, found.weights > 0
    if field.strips is None:
        return np.zeros(field.coefficients.shape[1:])
    variance = jump_variance(found.blocks, field, found.residuals, found.weights, found.stiffness)
    return variance * float(np.median(estimate_shared_noise(found.blocks, use)[use]))


def unseen(blocks: DenseMatches, use: Bools) -> Floats:
    """How many times larger than the jackknife says the variance is that noise of blocks makes.

    Blocks that overlap share noise: by the correlation of their squared tapers, which at the edge
    of the section lie closer together than the blocks. If a mean of blocks has t times the
    variance that independent ones would have, and the four groups none of that in them, the
    jackknife finds (4 - t) / 3 of the latter. It is also a little too low for stiff fits, since
    what is excluded makes them stiffer.

    Returns
    -------
    (N,) at least 1.
    """
    total = estimate_shared_noise(blocks, use)
    return np.asarray(_STIFF * 3 * total / (4 - np.minimum(total, _MOST_SHARED)))


def estimate_shared_noise(blocks: DenseMatches, use: Bools) -> Floats:
    """Variance of a mean of blocks over that of independent ones, around each block, (N,).

    ``use`` (N,) marks the blocks that count.
    """
    centres, total = np.where(use[:, None], blocks.post, np.nan), np.ones(len(blocks))
    for start in range(0, len(blocks), _PART):  # in parts, so that memory stays put
        part = slice(start, start + _PART)
        apart = (blocks.neighbours(centres, part) - blocks.post[part]) / blocks.size
        total[part] += overlap_correlation(apart).sum(axis=0)
    return total


def _measure_smoothing(found: Deformation, points: Floats) -> Floats:
    """Return what smoothing takes off the field at points (N, 2), px."""
    field, blocks = found.field.smooth, found.blocks
    again = fit_field(
        blocks.post, field.evaluate(blocks.post), found.weights, field, found.stiffness
    )
    return subtract_displacement(again, field).evaluate(points)


def _average_shared_residuals(found: Deformation) -> Floats:
    """Squared residuals that neighbours share, averaged around each control point."""
    blocks, field = found.blocks, found.field
    shape = field.coefficients.shape[1:]
    use = found.is_agreeing & (blocks.weights > 0)
    if not use.any():
        return np.zeros(shape)
    left = np.where(use[:, None], found.residuals, np.nan)
    weights = np.where(use, blocks.weights, 0.0)
    around = np.moveaxis(blocks.neighbours(left), 0, 1)
    others = np.nan_to_num(blocks.neighbours(weights[:, None])[..., 0]).T
    squares = residual_variance(found.residuals, weights, around, others)
    return _average_around(field, blocks, use, squares[use], float(np.median(squares[use])))


def _average_around(
    field: Displacement, blocks: DenseMatches, use: Bools, values: Floats, otherwise: float
) -> Floats:
    """Mean of the values of blocks around each control point; ``otherwise`` where there is none."""
    shape = field.coefficients.shape[1:]
    cells = _cell_of(field, blocks.post[use])
    index = cells[:, 1] * shape[1] + cells[:, 0]
    size = shape[0] * shape[1]
    sums, counts = np.bincount(index, values, size), np.bincount(index, minlength=size)
    mean = np.full(size, otherwise)
    np.divide(sums, counts, out=mean, where=counts > 0)
    return mean.reshape(shape)


def _estimate_extrapolation(found: Deformation) -> Floats:
    """Squared error of going on in a line beyond the blocks."""
    field = found.field
    away = distances(found)
    c = field.coefficients
    second = [
        c[:, 1:-1, :-2] - 2 * c[:, 1:-1, 1:-1] + c[:, 1:-1, 2:],
        c[:, :-2, 1:-1] - 2 * c[:, 1:-1, 1:-1] + c[:, 2:, 1:-1],
    ]
    near = (away <= field.spacing_px)[1:-1, 1:-1]
    if not near.any():
        return np.full(away.shape, np.inf)
    squares = sum((d**2).sum(axis=0)[near] for d in second) / 2
    typical = float(np.sqrt(np.mean(squares))) / field.spacing_px**2
    return (typical / 2 * away**2) ** 2
