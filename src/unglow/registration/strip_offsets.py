"""Seams between the strips of a scanner, to a px, and offsets at them next to a smooth field."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.windows import Window
from unglow.registration.bspline import fit_field, stiffness_of
from unglow.registration.dense_blocks import TAPER_SIGMA
from unglow.registration.models import MEDIAN_OF_SQUARES, TUKEY
from unglow.registration.phase_correlation import filter_band, read_mapped_blocks
from unglow.transform.displacement import Displacement

if TYPE_CHECKING:
    from unglow.core.arrays import Floats, Floats32, Ints
    from unglow.registration.dense_blocks import DenseMatches
    from unglow.registration.pair import Pair
    from unglow.transform.displacement import Strips

    _Steps = Floats32


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
        jumps, errors = _fit_jumps(pair, blocks, strips, field)
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


def _fit_jumps(
    pair: Pair, blocks: DenseMatches, strips: Strips, field: Displacement | None
) -> tuple[Floats, Floats]:
    """Jumps (K, 2) at the seams, px, and their standard errors (K,)."""
    smooth = None if field is None else field.smooth
    displaced, across = _measure_across(blocks, strips, smooth)
    prior = np.where(blocks.is_held_out, 0.0, blocks.weights)
    if field is None:
        prior = np.where(strips.gap(across) < _ACROSS * blocks.size, 0.0, prior)
    width = TAPER_SIGMA * blocks.size if field is not None else 1e-3
    start, stiffness = _make_grid(pair, blocks, prior, STIFF if field is None else SOFT)
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
    for part in _split(steps):
        exact = steps[part].astype(np.float64)
        weighted = exact * weights[part, None]
        normal += exact.T @ weighted
        right += weighted.T @ displacement[part]
    return normal, right


def product(steps: _Steps, jumps: Floats) -> Floats:
    """Displacements (N, 2) that jumps (K, 2) at steps (N, K) give."""
    return np.concatenate([steps[part].astype(np.float64) @ jumps for part in _split(steps)])


def _split(steps: _Steps) -> list[slice]:
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
    start, stiffness = _make_grid(pair, blocks, weights, steps)
    return fit_field(blocks.post, blocks.displacement, weights, start, stiffness)


def _make_grid(
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
    `fit_offsets`), so that a jump that is off by d moves the map
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


_WINDOWS = 8
"""Windows that are looked at along each seam."""
_RIM_PX = 16
"""They continue this far beyond where the seam is sought, at least."""


def locate(
    pair: Pair, strips: Strips, smooth: Displacement, blocks: DenseMatches, reach: float
) -> tuple[Strips, float]:
    """Move seams to where the images say, by at most ``reach`` px.

    Across each seam, windows of pre are warped with the displacements of both strips. The seam is
    where one stops and the other starts to resemble post.

    Parameters
    ----------
    strips
        Strips with rough seams and known offsets.
    smooth
        The field without strips.
    blocks
        Say where there is texture.

    Returns
    -------
    The strips with better seams, and how much worse than seams of their own the windows fit them,
    0 to 1: straight lines of the wrong image do not follow the seams. It is the median over the
    seams, since one that is not a seam would decide.
    """
    seams, lost = strips.seams.copy(), []
    across = strips.project(blocks.post, smooth.evaluate(blocks.post))
    for k, seam in enumerate(strips.seams):
        middle = (strips.seams[:-1] + strips.seams[1:]) / 2
        low = max([seam - reach, *middle[k - 1 : k]])
        high = min([seam + reach, *middle[k : k + 1]])
        side = min(2 * 2 ** math.ceil(math.log2(reach + _RIM_PX)), *pair.post.shape)
        first, last = math.floor(low), math.ceil(high)
        every = [
            _measure_gain(pair, strips, smooth, k, corner, side, (first, last))
            for corner in _choose_corners(pair, strips, blocks, across, seam, side)
        ]
        gains = [gain for gain in every if gain is not None]
        if gains:
            total = np.sum(gains, axis=0)
            seams[k] = first + int(total.argmax()) + 0.5
            own = sum(float(gain.max()) for gain in gains)
            lost.append((own - float(total.max())) / max(own - float(total.min()), 1e-12))
    seams = np.maximum.accumulate(seams + 1e-6 * np.arange(len(seams)))
    return replace(strips, seams=seams), float(np.median(lost)) if lost else 1.0


def _choose_corners(
    pair: Pair, strips: Strips, blocks: DenseMatches, across: Floats, seam: float, side: int
) -> Ints:
    """First pixels (x, y) of windows along a seam, evenly spread over where there is texture."""
    near = np.flatnonzero((np.abs(across - seam) <= blocks.step) & (blocks.weights > 0))
    order = near[np.argsort(blocks.post[near, 1 - strips.axis], kind="stable")]
    chosen = order[np.linspace(0, len(order) - 1, min(_WINDOWS, len(order))).astype(np.int64)]
    slope = strips.frame[strips.axis, :2]
    move = (seam - across[chosen])[:, None] * slope / float(slope @ slope)
    corners = np.rint(blocks.post[chosen] + move - (side - 1) / 2).astype(np.int64)
    last = np.array(pair.post.shape[::-1]) - side
    return np.unique(np.clip(corners, 0, np.maximum(last, 0)), axis=0)


def _measure_gain(
    pair: Pair,
    strips: Strips,
    smooth: Displacement,
    k: int,
    corner: Ints,
    side: int,
    span: tuple[int, int],
) -> Floats | None:
    """How well a window fits with seam ``k`` after each integer px of a span, up to a constant.

    With the seam after px p, px up to p take the displacement of the strip before, the others that
    of the strip after.
    """
    x, y = (int(v) for v in corner)
    window = Window(y, y + side, x, x + side)
    products = []
    for offset in strips.offsets[k : k + 2]:
        moved = Displacement(smooth.spacing_px, smooth.coefficients + offset[:, None, None])
        both = read_mapped_blocks(pair.select_level(0, moved), side, corner)
        if both is None:
            return None
        post, pre = (filter_band(v) for v in both)
        power = float(np.sqrt(np.mean(post * post) * np.mean(pre * pre)))
        products.append(post * pre / max(power, 1e-12))
    better = pair.sign * (products[0] - products[1]).ravel()
    first, last = span
    index = np.clip(_project_pixels(strips, smooth, window) - first, 0, last - first + 1)
    sums = np.bincount(index, better, last - first + 2)
    return np.asarray(np.cumsum(sums)[:-1], dtype=np.float64)


def _project_pixels(strips: Strips, smooth: Displacement, window: Window) -> Ints:
    """Nearest integer px across the strips of all pixels of a window, in row order."""
    rows, cols = (n - 1 for n in window.shape)  # seams hardly bend in a window
    corners = np.array([(x, y) for y in (0, rows) for x in (0, cols)], dtype=np.float64)
    corners += np.array([window.x0, window.y0])
    at = strips.project(corners, smooth.evaluate(corners)).reshape(2, 2)
    down, right = (np.linspace(0, 1, n) for n in window.shape)
    left = at[0, 0] + (at[1, 0] - at[0, 0]) * down
    slope = (at[0, 1] - at[0, 0]) + (at[1, 1] - at[1, 0] - at[0, 1] + at[0, 0]) * down
    positions = np.rint(left[:, None] + slope[:, None] * right)
    return np.asarray(positions.ravel(), dtype=np.int64)
