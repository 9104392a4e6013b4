"""The displacement field of a deformed section, from passes over dense blocks.

Each pass warps pre by the map of the last one. A block sees the mean displacement of what is in it,
so a pass against a map that is still deformed inside the blocks is biased; blocks are measured
again against the current field until the field's change is too straight to matter. The field is
kept only if it beats every global model on blocks that no fit has used, and if it makes the images
themselves more similar there.
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from unglow.memory import FIELD_POINTS
from unglow.registration.block_placement import SMALLEST_PX
from unglow.registration.bspline import choose_stiffness, pinch
from unglow.registration.dense_blocks import TAPER_SIGMA, DenseMatches, measure, one_of
from unglow.registration.models import choose_model, residuals
from unglow.registration.phase_correlation import detail_correlation, read_mapped_blocks
from unglow.registration.settings import MODELS
from unglow.registration.strip_detection import add_seams, find_strips
from unglow.registration.strip_offsets import locate, remove_strips
from unglow.transform.displacement import Displacement

if TYPE_CHECKING:
    from unglow.core.arrays import Bools, Floats, Floats32
    from unglow.registration.pair import Pair
    from unglow.transform.displacement import Strips


log = logging.getLogger(__name__)

_FEW_POINTS = 2000
"""In a frame of fewer blocks they lie a quarter of their side apart, not half."""
_FINE_PASSES = 2
"""Passes at full resolution, after a coarse one."""
_BIAS_PX, _BIAS_SHARE = 0.01, 0.02
"""Blocks with a larger bias are measured again, if they are this share of all."""
_NEAR_PX = 1.0
"""Blocks within this distance of the map agree with it."""
_SEAM_PX, _SEAM_CHANGE_PX = 24.0, 0.1
"""Seams are located again, within the former distance, if a jump has changed by the latter."""
_CLEARLY = 0.75
"""Strips are clear if they leave less than this share of what a smooth field leaves."""
_BOUND = 9.0
"""Squared residuals are limited to this multiple of their median: few blocks decide nothing."""
_SURE, _GAIN = 3.0, 0.1
"""A field has to gain this many standard errors, and this share of the squared residuals."""
_LEAST_TESTED = 10
"""Held-out blocks on which a field has to be compared."""
_COMPARED = 120
"""About this many held-out blocks are compared as images."""
_LEAST_AREA, _MOST_AREA = 0.5, 2.0
"""A field that changes areas by more than these factors pinches the section: it is not used."""


@dataclass(frozen=True, eq=False)
class Deformation:
    """A field, the blocks it rests on, and how it was fitted.

    Attributes
    ----------
    field
        The field, to be added to the global model's positions.
    blocks
        The last measured blocks.
    weights
        (N,) final weights of the blocks, those of held-out blocks 0.
    stiffness
        What the field was fitted with.
    change
        Final field minus the one that the blocks were measured against.
    passes
        Number of passes.
    """

    field: Displacement
    blocks: DenseMatches
    weights: Floats
    stiffness: float
    change: Displacement
    passes: int

    @property
    def smooth_displacement(self) -> Floats:
        """(N, 2) what the smooth part of the field was fitted to, px."""
        strips, blocks = self.field.strips, self.blocks
        if strips is None:
            return blocks.displacement
        return remove_strips(blocks, strips, self.field.smooth).displacement

    @property
    def residuals(self) -> Floats:
        """(N, 2) measured positions minus those of the map, px."""
        return self.blocks.subtract_field(self.field)

    @property
    def is_agreeing(self) -> Bools:
        """(N,) blocks that lie near the blocks around them or near the map."""
        near = np.hypot(*self.residuals.T) <= _NEAR_PX
        return np.asarray(
            self.blocks.find_agreeing(self.field) | (near & (self.blocks.weights > 0))
        )


def find_deformation(pair: Pair, size: int) -> Deformation | None:
    """Fit a field in several passes; None if too few blocks can be matched.

    Strips are part of it only if they leave less of held-out blocks than a field without them.
    ``size`` is the side of the sample blocks, level-0 px; `dense_side` says that of the dense ones.
    """
    found = _fit_in_passes(pair, size, strips=pair.settings.strips == "auto")
    if found is None or found.field.strips is None or _strips_are_clear(pair, found):
        return found
    plain = _fit_in_passes(pair, size, strips=False)
    return found if plain is None or leaves_less(found, plain) else plain


def _fit_in_passes(pair: Pair, size: int, *, strips: bool) -> Deformation | None:
    """Fit a field, after a first pass over fewer and larger blocks, or ones of a coarser level."""
    side = dense_side(pair.post.shape, size)
    step = field_step(pair.post.shape, side)
    coarse = side > SMALLEST_PX and pair.levels > 1 and step >= side // 2
    found = _first_pass(pair, max(side, 2 * SMALLEST_PX), 2 * step, int(coarse), strips=strips)
    for _ in range(_FINE_PASSES):
        if found is not None:
            found = _next_pass(pair, found, side, step)
    return found


def dense_side(shape: tuple[int, int], size: int) -> int:
    """Side of dense blocks, px: half a sample block, but not less than 128 px where three fit."""
    least = 2 * SMALLEST_PX if min(shape) >= 6 * SMALLEST_PX else SMALLEST_PX
    return max(least, size // 2)


def field_step(shape: tuple[int, int], side: int) -> int:
    """Distance of blocks and of knots, px: half a block; less in a small frame, more in a huge one.

    `unglow.workflow.stage_memory.register` counts on there being about `FIELD_POINTS` at most.
    """
    area, step = shape[0] * shape[1], side // 2
    if area <= _FEW_POINTS * (step // 2) ** 2:
        return step // 2
    while area > FIELD_POINTS * step**2:
        step *= 2
    return step


def _first_pass(
    pair: Pair, side: int, step: int, level: int, *, strips: bool
) -> Deformation | None:
    """Measure blocks against the global model, look for strips, and fit the field."""
    blocks = measure(pair, side, step, level=level)
    if not len(blocks):
        return None
    found = find_strips(pair, blocks, level) if strips else None
    start = Displacement.zeros(pair.post.shape, step)
    if found is None:
        return _fit_blocks(blocks, None, start, None, 1)
    return _fit_blocks(found[1], found[0], start, None, 1)


def _next_pass(pair: Pair, last: Deformation, side: int, step: int) -> Deformation | None:
    """Measure blocks against the current map and fit the field to them; the last if all is well."""
    field = last.field
    same = last.blocks.step == step and last.blocks.size == side
    if same and last.blocks.level == 0:  # strips are looked for on a coarser one
        again = _measure_again(pair, last)
        if again is None:
            return last
        blocks = again
    else:
        blocks = measure(pair, side, step, field=field)
    while field.spacing_px > step:
        field = field.finer(pair.post.shape)
    strips = (
        None if field.strips is None else _improve_strips(pair, blocks, field.strips, field.smooth)
    )
    return _fit_blocks(blocks, strips, field.smooth, field.smooth, last.passes + 1)


def _fit_blocks(
    blocks: DenseMatches,
    strips: Strips | None,
    start: Displacement,
    last: Displacement | None,
    passes: int,
) -> Deformation | None:
    """Fit a field, from ``start`` on, to blocks that were measured against the ``last`` one."""
    rest = blocks if strips is None else remove_strips(blocks, strips, last)
    fit = choose_stiffness(rest, start, last)
    if fit is None:
        return None
    used = np.count_nonzero(fit.weights)
    log.info("pass %d: %d of %d blocks of %d px used", passes, used, len(blocks), blocks.size)
    change = fit.field if last is None else subtract_displacement(fit.field, last)
    field = replace(fit.field, strips=strips)
    return Deformation(field, blocks, fit.weights, fit.stiffness, change, passes)


def _improve_strips(
    pair: Pair, blocks: DenseMatches, strips: Strips, smooth: Displacement
) -> Strips | None:
    """Improve strips by blocks that were measured against them."""
    better = add_seams(pair, blocks, strips, smooth)
    if not len(better.seams):
        return None
    if _measure_change(better, strips) > _SEAM_CHANGE_PX:
        better, _ = locate(pair, better, smooth, blocks, _SEAM_PX)
    return better if len(better.seams) else None


def _strips_are_clear(pair: Pair, found: Deformation) -> bool:
    """Whether strips leave far less of held-out blocks than a smooth field through the same ones.

    A field can follow small jumps, and the jitter of a stage that moves in no strips at all.
    """
    blocks = found.blocks
    start = Displacement.zeros(pair.post.shape, found.field.spacing_px)
    smooth = choose_stiffness(blocks, start, None)
    test = blocks.is_held_out & found.is_agreeing
    if smooth is None or not test.any():
        return True
    own, others = _bound_squares(found.residuals[test], blocks.subtract_field(smooth.field)[test])
    return float(own.mean()) < _CLEARLY**2 * float(others.mean())


def leaves_less(found: Deformation, other: Deformation) -> bool:
    """Whether a map leaves less of the held-out blocks that both have."""
    left = []
    for one in (found, other):
        test = one.blocks.is_held_out & (one.blocks.weights > 0)
        cells = map(tuple, one.blocks.cell[test].tolist())
        left.append(dict(zip(cells, one.residuals[test], strict=True)))
    both = sorted(left[0].keys() & left[1].keys())
    if not both:
        return True
    own, others = (
        float(squares.mean())
        for squares in _bound_squares(*(np.array([one[cell] for cell in both]) for one in left))
    )
    log.info("held-out blocks: %.3f px with strips, %.3f px without", own**0.5, others**0.5)
    return own < others


def _bound_squares(*residuals_of: Floats) -> list[Floats]:
    """Squares (N,) of residuals (N, 2), up to one bound for all."""
    squares = [(left**2).sum(axis=1) for left in residuals_of]
    bound = _BOUND * max(min(float(np.median(s)) for s in squares), 1e-6)
    return [np.minimum(s, bound) for s in squares]


def _measure_change(strips: Strips, other: Strips) -> float:
    """Greatest change of a jump, px; infinite if there are other seams."""
    if len(strips.seams) != len(other.seams):
        return np.inf
    return float(np.hypot(*(strips.jumps - other.jumps).T).max(initial=0.0))


def subtract_displacement(field: Displacement, other: Displacement) -> Displacement:
    """Difference of two fields on the same grid."""
    return Displacement(field.spacing_px, field.coefficients - other.coefficients)


def curvature_bias(change: Displacement, points: Floats, size: float) -> Floats:
    """Bias (N, 2), px, of blocks that were measured before the field changed.

    A block of taper variance s^2 per axis sees the change averaged over itself, which differs from
    the change at its centre by s^2 / 2 times its Laplacian.
    """
    reach = TAPER_SIGMA * size
    total = np.zeros_like(points)
    here = change.evaluate(points)
    for axis in range(2):
        step = np.zeros(2)
        step[axis] = reach
        total += (change.evaluate(points + step) + change.evaluate(points - step) - 2 * here) / 2
    return total


def _measure_again(pair: Pair, last: Deformation) -> DenseMatches | None:
    """Measure those blocks again that the change of the field has biased; None for hardly any."""
    blocks = last.blocks
    bias = np.hypot(*curvature_bias(last.change, blocks.post, blocks.size).T)
    biased = (bias > _BIAS_PX) & (blocks.peak_ratio > 1)
    strips = last.field.strips
    if strips is not None:  # blocks across a seam gain from every better one
        smooth = last.field.smooth.evaluate(blocks.post)
        biased |= strips.gap(strips.project(blocks.post, smooth)) < blocks.size / 2
    if np.count_nonzero(biased) < _BIAS_SHARE * len(blocks):
        return None
    only = one_of(blocks.cell[biased])
    return blocks.replace(measure(pair, blocks.size, blocks.step, field=last.field, only=only))


def is_usable(pair: Pair, found: Deformation) -> bool:
    """Whether the field is better than none: by held-out blocks, by the images, and unfolded."""
    if not beats_global(found, pair.matrix):
        return False
    low, high = pinch(found.field, pair.matrix)
    if not (low >= _LEAST_AREA and high <= _MOST_AREA):  # NaN beyond a horizon counts as pinched
        log.info("the field would pinch the section (area ratios %.2f to %.2f)", low, high)
        return False
    return makes_similar(pair, found)


def beats_global(found: Deformation, matrix: Floats) -> bool:
    """Whether the field explains held-out blocks better than any global model, beyond chance.

    The global models are fitted to the same dense blocks, so that they lose nothing for having
    been fitted to fewer. The gain in bounded squared residuals has to be more than three standard
    errors of the paired difference, and more than 10 %.
    """
    blocks, agreeing = found.blocks, found.is_agreeing
    test = blocks.is_held_out & agreeing
    if np.count_nonzero(test) < _LEAST_TESTED:
        return False
    rivals = [matrix]
    with contextlib.suppress(np.linalg.LinAlgError):
        data = (blocks.post, blocks.pre, agreeing, blocks.is_held_out, MODELS, blocks.weights)
        rivals.append(choose_model(*data)[1])
    left = (residuals(m, blocks.post[test], blocks.pre[test]) for m in rivals)
    own, *others = _bound_squares(found.residuals[test], *left)
    best = min(others, key=lambda squares: float(squares.mean()))
    gain = best - own
    error = float(gain.std()) / np.sqrt(len(gain))
    return bool(gain.mean() > _SURE * error and gain.mean() > _GAIN * best.mean())


def makes_similar(pair: Pair, found: Deformation) -> bool:
    """Whether the field raises the correlation of band-passed held-out blocks as they lie."""
    blocks = found.blocks
    last = np.array(pair.post.shape[::-1]) - blocks.size
    fits = (blocks.corner <= last).all(axis=1)
    test = np.flatnonzero(blocks.is_held_out & (blocks.weights > 0) & fits)
    test = test[:: max(1, len(test) // _COMPARED)]
    maps = pair.select_level(0), pair.select_level(0, found.field)
    gains = []
    for corner in np.rint(blocks.corner[test]).astype(np.int64):
        both = [read_mapped_blocks(planes, blocks.size, corner) for planes in maps]
        scores = [detail_correlation(*one, pair.sign) for one in both if one is not None]
        if len(scores) == len(maps):
            gains.append(scores[1] - scores[0])
    enough = len(gains) >= _LEAST_TESTED
    return enough and float(np.mean(gains)) > 0 and float(np.median(gains)) > 0


def add_error_map(found: Deformation, error_px: Floats32) -> Deformation:
    """Return the deformation with an error map in its field."""
    return replace(found, field=replace(found.field, error_px=error_px))
