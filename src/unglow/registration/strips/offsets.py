"""Offsets between the strips of a scanner at given seams, next to a smooth field."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from unglow.registration.blocks.dense import TAPER_SIGMA
from unglow.registration.bspline import fit_field, stiffness_of
from unglow.registration.models import MEDIAN_OF_SQUARES, TUKEY
from unglow.transform.displacement import Displacement

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.registration.blocks.dense import DenseMatches
    from unglow.registration.pair import Pair
    from unglow.transform.scanner_strips import Strips

    Floats = NDArray[np.float64]
    _Steps = NDArray[np.float32]


LEAST_PX = 0.25
"""Smaller jumps are left to the field."""
SURE = 5.0
"""Standard errors from which a jump is one."""
STIFF, SOFT = 1.5, 0.75
"""Steps of the blocks over which fields are smoothed, before and after the strips are known."""
_ROUNDS = 3
"""Fits with new biweights."""
_LEAST_BLOCKS = 30
"""Fewer blocks show no jump."""
_LEAST_ALONE = 4
"""A strip needs this many blocks that see it alone."""
_ACROSS = 0.35
"""A block that is nearer to a seam than this share of its side sees both strips."""
_NEAR_SEAM = 0.75
"""A block that is nearer than this share of its side says whether a seam is one."""
_PART = 1 << 12
"""Blocks that are multiplied at a time, which bounds the memory."""


def fit_offsets(
    pair: Pair, blocks: DenseMatches, strips: Strips, field: Displacement | None = None
) -> Strips:
    """Fit the jumps at given seams next to a smooth field, and drop seams without one.

    The partly linear model of Speckman (1988, doi:10.1111/j.2517-6161.1988.tb01729.x): what a
    smooth field can follow is taken off blocks and steps equally before the steps are fitted.

    ``strips`` says where the seams are. ``field`` is the map that the blocks were measured against,
    if it holds these strips: then blocks across a seam are used too, and show how wrong its jumps
    are.
    """
    if np.count_nonzero(blocks.weights) < _LEAST_BLOCKS:
        return make_strips(strips, strips.seams[:0])
    strips = _drop_hidden_seams(blocks, strips, field)
    while len(strips.seams):
        jumps, errors = _jumps(pair, blocks, strips, field)
        lengths = np.hypot(*jumps.T)
        least = np.maximum(LEAST_PX, SURE * errors)
        weakest = int(np.argmin(lengths / least))
        if lengths[weakest] >= least[weakest]:
            offsets = np.concatenate([np.zeros((1, 2)), np.cumsum(jumps, axis=0)])
            return replace(strips, offsets=offsets - offsets.mean(axis=0))
        strips = make_strips(strips, np.delete(strips.seams, weakest))
    return strips


def make_strips(strips: Strips, seams: Floats) -> Strips:
    """Return strips with other seams and no jumps yet."""
    return replace(strips, seams=seams, offsets=np.zeros((len(seams) + 1, 2)))


def remove_strips(
    blocks: DenseMatches, strips: Strips, smooth: Displacement | None
) -> DenseMatches:
    """Return the blocks as if there were no strips.

    Blocks across a seam get no weight, unless they were measured against ``smooth`` with strips.
    """
    displaced, across = _measure_across(blocks, strips, smooth)
    displacement = blocks.displacement - strips.evaluate(blocks.post, displaced)
    peak_ratio = blocks.peak_ratio
    if smooth is None:
        peak_ratio = np.where(strips.gap(across) < _ACROSS * blocks.size, 0.0, peak_ratio)
    return replace(blocks, displacement=displacement, peak_ratio=peak_ratio)


def _measure_across(
    blocks: DenseMatches, strips: Strips, smooth: Displacement | None
) -> tuple[Floats, Floats]:
    """Smooth displacements (N, 2) of the blocks, and their positions (N,) across the strips."""
    displaced = blocks.displacement if smooth is None else smooth.evaluate(blocks.post)
    return displaced, strips.project(blocks.post, displaced)


def _drop_hidden_seams(blocks: DenseMatches, strips: Strips, field: Displacement | None) -> Strips:
    """Drop seams of strips that hardly a block sees alone, as at the end of a section."""
    _, across = _measure_across(blocks, strips, None if field is None else field.smooth)
    across = across[blocks.find_agreeing(field)]
    while len(strips.seams):
        alone = strips.gap(across) >= _ACROSS * blocks.size
        counts = np.bincount(strips.index(across[alone]), minlength=len(strips.offsets))
        bare = np.flatnonzero(counts < _LEAST_ALONE)
        if not len(bare):
            break
        strips = _merge(strips, max(int(bare[0]) - 1, 0))
    return strips


def _merge(strips: Strips, seam: int) -> Strips:
    """Return strips without one seam; the strip after it continues with the one before."""
    seams = np.delete(strips.seams, seam)
    offsets = np.delete(strips.offsets, seam + 1, axis=0)
    return replace(strips, seams=seams, offsets=offsets if len(seams) else np.zeros((1, 2)))


def _jumps(
    pair: Pair, blocks: DenseMatches, strips: Strips, field: Displacement | None
) -> tuple[Floats, Floats]:
    """Jumps (K, 2) at the seams, px, and their standard errors (K,)."""
    smooth = None if field is None else field.smooth
    displaced, across = _measure_across(blocks, strips, smooth)
    prior = np.where(blocks.is_held_out, 0.0, blocks.weights)
    if field is None:
        prior = np.where(strips.gap(across) < _ACROSS * blocks.size, 0.0, prior)
    width = TAPER_SIGMA * blocks.size if field is not None else 1e-3
    start, stiffness = _grid(pair, blocks, prior, STIFF if field is None else SOFT)
    weights = prior * blocks.find_agreeing(field)

    def subtract_smooth(values: Floats) -> Floats:
        return values - fit_field(blocks.post, values, weights, start, stiffness).evaluate(
            blocks.post
        )

    count = len(strips.seams)
    steps = np.empty((len(blocks), count), np.float32)
    for k in range(0, count, 2):  # a field has two components: two steps are fitted at a time
        two = strips.seams[[k, min(k + 1, count - 1)]]
        ramps = subtract_smooth(ramp((across[:, None] - two) / width))
        steps[:, k : k + 2] = ramps[:, : count - k]
    displacement = blocks.displacement
    if field is not None:
        displacement = displacement - strips.evaluate(blocks.post, displaced)
    displacement = subtract_smooth(displacement)
    for _ in range(_ROUNDS):
        normal, right = normal_equations(steps, displacement, weights)
        jumps = np.asarray(np.linalg.solve(normal, right))
        squares = ((displacement - product(steps, jumps)) ** 2).sum(axis=1) * prior
        scale = max(float(np.median(squares[weights > 0])) / MEDIAN_OF_SQUARES, 1e-12)
        weights = prior * np.clip(1 - squares / (TUKEY**2 * scale), 0, None) ** 2
    errors = np.sqrt(np.diag(np.linalg.inv(normal)) * scale)
    return jumps + (0 if field is None else strips.jumps), errors


def normal_equations(steps: _Steps, displacement: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Weighted normal matrix (K, K) and right side (K, 2), in parts: N x K numbers are many."""
    count = steps.shape[1]
    normal, right = 1e-9 * np.eye(count), np.zeros((count, 2))
    for part in _parts(steps):
        exact = steps[part].astype(np.float64)
        weighted = exact * weights[part, None]
        normal += exact.T @ weighted
        right += weighted.T @ displacement[part]
    return normal, right


def product(steps: _Steps, jumps: Floats) -> Floats:
    """Displacements (N, 2) that jumps (K, 2) at steps (N, K) give."""
    return np.concatenate([steps[part].astype(np.float64) @ jumps for part in _parts(steps)])


def _parts(steps: _Steps) -> list[slice]:
    return [slice(k, k + _PART) for k in range(0, len(steps), _PART)]


def ramp(t: Floats) -> Floats:
    """Share of a normal distribution below ``t`` (Page 1977's approximation by tanh)."""
    return np.asarray(0.5 * (1 + np.tanh(0.7978846 * (t + 0.044715 * np.clip(t, -50, 50) ** 3))))


def residual_ratio(pair: Pair, blocks: DenseMatches, strips: Strips) -> float:
    """Compare what a smooth field leaves of held-out blocks next to seams with and without strips.

    The ratio of medians, below 1 if strips help; infinite if there is no such block. Strips do not
    answer for blocks across a seam, which no smooth field can follow.
    """
    gap = strips.gap(strips.project(blocks.post, blocks.displacement))
    near_seam = blocks.is_held_out & (gap <= _NEAR_SEAM * blocks.size)
    medians = []
    for some in (remove_strips(blocks, strips, None), blocks):
        test = near_seam & (some.weights > 0)
        if not test.any():
            return np.inf
        left = np.hypot(*some.subtract_field(smooth_field(pair, some, STIFF))[test].T)
        medians.append(float(np.median(left)))  # a few wild blocks decide nothing
    return medians[0] / max(medians[1], 1e-12)


def smooth_field(pair: Pair, blocks: DenseMatches, steps: float) -> Displacement:
    """Field through blocks that are not held out, smoothed over this many steps of the blocks."""
    prior = np.where(blocks.is_held_out, 0.0, blocks.weights)
    weights = prior * blocks.find_agreeing()
    start, stiffness = _grid(pair, blocks, weights, steps)
    return fit_field(blocks.post, blocks.displacement, weights, start, stiffness)


def _grid(
    pair: Pair, blocks: DenseMatches, weights: Floats, steps: float
) -> tuple[Displacement, float]:
    """Knots two steps of the blocks apart, and the stiffness that smooths over this many steps."""
    start = Displacement.zeros(pair.post.shape, 2 * blocks.step)
    unit = float(np.median(weights[weights > 0])) if (weights > 0).any() else 1.0
    return start, unit * stiffness_of(steps * blocks.step, start.spacing_px, blocks.step)


def jump_variance(
    blocks: DenseMatches, field: Displacement, residuals: Floats, weights: Floats, stiffness: float
) -> Floats:
    """Variance of a map at its control points from that of its jumps, both components together.

    Jumps are fitted to what a smooth field S leaves of blocks and steps (Speckman 1988, see
    `unglow.registration.strips.offsets.fit_offsets`), so that a jump that is off by d moves the map
    by d times what S leaves of its step: by half of d next to the seam, and by nothing where the
    field has blocks enough to make up for it.

    Parameters
    ----------
    blocks, residuals, weights
        N blocks, (N, 2) what the map leaves of them, px, and their (N,) final weights.
    field
        The field, with strips that have seams.
    stiffness
        What its smooth part was fitted with.

    Returns
    -------
    (ny, nx) px squared, for blocks whose noise is independent.
    """
    strips, smooth = field.strips, field.smooth
    shape = field.coefficients.shape[1:]
    if strips is None or not len(strips.seams):
        return np.zeros(shape)
    knots, width = field.knots, TAPER_SIGMA * blocks.size
    at_blocks = strips.project(blocks.post, smooth.evaluate(blocks.post))
    at_knots = strips.project(knots, smooth.evaluate(knots))
    flat = Displacement(field.spacing_px, np.zeros_like(field.coefficients))
    count = len(strips.seams)
    seen = np.empty((len(blocks), count), np.float32)
    moved = np.empty((len(knots), count), np.float32)
    for k in range(0, count, 2):  # a field has two components: two steps are fitted at a time
        two = strips.seams[[k, min(k + 1, count - 1)]]
        steps = ramp((at_blocks[:, None] - two) / width)
        followed = fit_field(blocks.post, steps, weights, flat, stiffness)
        sharp = (at_knots[:, None] >= two).astype(np.float64)
        seen[:, k : k + 2] = (steps - followed.evaluate(blocks.post))[:, : count - k]
        moved[:, k : k + 2] = (sharp - followed.evaluate(knots))[:, : count - k]
    normal, _ = normal_equations(seen, residuals, weights)
    squares = ((residuals**2).sum(axis=1) * blocks.weights)[weights > 0]
    scale = float(np.median(squares)) / MEDIAN_OF_SQUARES if len(squares) else 0.0
    values, vectors = np.linalg.eigh(np.linalg.inv(normal))
    roots = vectors * np.sqrt(np.maximum(2 * scale * values, 0.0))
    return np.asarray((product(moved, roots) ** 2).sum(axis=1).reshape(shape))
