"""The displacement field of a deformed section, from passes over dense blocks.

Each pass warps pre by the map of the last one.
A block sees the mean displacement of what is in it, so a pass against a map that is still bent
inside the blocks is biased; blocks are measured again against the current field until the field's
change is too straight to matter. The field is kept only if it beats every global model on blocks
that no fit has used, and if it makes the images themselves more alike there.
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from unglow.registration.blocks.dense import TAPER_SIGMA, Dense, Images, measure
from unglow.registration.blocks.phase_correlation import detail_correlation, mapped_blocks
from unglow.registration.blocks.placement import SMALLEST_PX
from unglow.registration.bspline import choose_stiffness
from unglow.registration.field.folding import pinch
from unglow.registration.models import choose_model, residuals
from unglow.registration.settings import MODELS
from unglow.registration.sizes import FIELD_POINTS
from unglow.registration.strips.detect import find_strips, with_more
from unglow.registration.strips.locate_seams import located
from unglow.registration.strips.offsets import without
from unglow.transform.displacement import Displacement

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.transform.scanner_strips import Strips

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

log = logging.getLogger(__name__)

_FEW_POINTS = 2000
_MOST_PASSES = 3
_BIAS_PX = 0.01
_SEAM_PX = 24.0
_SEAM_CHANGE = 0.1
_COMPARED = 120
_WILD = 9.0
_CLEAR = 0.75
_PINCHED = (0.5, 2.0)


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
    blocks: Dense
    weights: Floats
    stiffness: float
    change: Displacement
    passes: int

    @property
    def smooth_off(self) -> Floats:
        """(N, 2) what the smooth part of the field was fitted to, px."""
        strips, smooth = self.field.strips, self.field.smooth
        return self.blocks.off if strips is None else without(self.blocks, strips, smooth).off

    @property
    def off(self) -> Floats:
        """(N, 2) measured positions minus those of the map, px."""
        return self.blocks.off - self.field.at(self.blocks.post)

    @property
    def agreeing(self) -> Mask:
        """(N,) blocks that lie near the blocks around them or near the map."""
        near = np.hypot(*self.off.T) <= 1.0
        return np.asarray(self.blocks.agreeing(self.field) | (near & (self.blocks.trust > 0)))


def find_deformation(images: Images, size: int) -> Deformation | None:
    """Fit a field in several passes; None if too few blocks can be matched.

    Strips are part of it only if they leave less of held-out blocks than a field without them.

    Parameters
    ----------
    images
        Images, thumbnails and global model.
    size
        Side of the sample blocks, level-0 px; `dense_side` says that of the dense ones.
    """
    found = _in_passes(images, size)
    if found is None or found.field.strips is None or _strips_are_clear(images, found):
        return found
    plain = _in_passes(replace(images, strips=False), size)
    return found if plain is None or leaves_less(found, plain) else plain


def _in_passes(images: Images, size: int) -> Deformation | None:
    side = dense_side(images.post_shape, size)
    found = None
    for level, block, step, spacing in _passes(images, side):
        found = _passed(images, found, block, step, spacing, level)
        if found is None:
            return None
    return found


def _passes(images: Images, side: int) -> list[tuple[int, int, int, int]]:
    """Level, block side, step and spacing of the knots of each pass."""
    step = field_step(images.post_shape, side)
    coarse = side > SMALLEST_PX and images.levels > 1 and step >= side // 2
    block = side if side > SMALLEST_PX else 2 * side
    first = (int(coarse), block, 2 * step, 2 * step)
    return [first, *[(0, side, step, step)] * (_MOST_PASSES - 1)]


def dense_side(shape: tuple[int, int], size: int) -> int:
    """Side of dense blocks, px: half a sample block, but not less than 128 px where three fit."""
    least = 2 * SMALLEST_PX if min(shape) >= 6 * SMALLEST_PX else SMALLEST_PX
    return max(least, size // 2)


def field_step(shape: tuple[int, int], side: int) -> int:
    """Distance of blocks and of knots, px: half a block; less in a small frame, more in a huge one.

    `unglow.workflow.memory_model.register` counts on there being about `FIELD_POINTS` at most.
    """
    area, step = shape[0] * shape[1], side // 2
    if area <= _FEW_POINTS * (step // 2) ** 2:
        return step // 2
    while area > FIELD_POINTS * step**2:
        step *= 2
    return step


def _passed(
    images: Images, last: Deformation | None, block: int, step: int, spacing: int, level: int
) -> Deformation | None:
    """Measure all blocks against the current map and fit the field to them."""
    known = None if last is None else last.field
    if last is not None and last.blocks.step == step and last.blocks.size == block:
        blocks = _measured_again(images, last)
        if blocks is None:
            return last
    else:
        blocks = measure(images, known, block, step, level)
    start = Displacement.zeros(images.post_shape, spacing)
    if known is not None:
        while known.spacing_px > spacing:
            known = known.finer(images.post_shape)
        start = known.smooth
    strips, blocks = _strips(images, blocks, known, level)
    smooth = None if known is None else known.smooth
    rest = blocks if strips is None else without(blocks, strips, smooth)
    fitted = choose_stiffness(rest, start, smooth)
    if fitted is None:
        return None
    field, weights, stiffness = fitted
    change = field if smooth is None else minus(field, smooth)
    field = replace(field, strips=strips)
    passes = 1 if last is None else last.passes + 1
    used = np.count_nonzero(weights)
    log.info("pass %d: %d of %d blocks of %d px used", passes, used, len(blocks), block)
    return Deformation(field, blocks, weights, stiffness, change, passes)


def _strips(
    images: Images, blocks: Dense, known: Displacement | None, level: int
) -> tuple[Strips | None, Dense]:
    """Find a scanner's strips, or improve those that are known; and the blocks to go on with."""
    if known is None:
        found = find_strips(images, blocks, level) if images.strips else None
        return (None, blocks) if found is None else found
    if known.strips is None:
        return None, blocks
    strips = with_more(blocks, known.strips, known.smooth, images)
    if len(strips.seams) and _changed(strips, known.strips) > _SEAM_CHANGE:
        strips, _ = located(images, strips, known.smooth, blocks, _SEAM_PX)
    return (strips if len(strips.seams) else None), blocks


def _strips_are_clear(images: Images, found: Deformation) -> bool:
    """Whether strips leave far less of held-out blocks than a smooth field through the same ones.

    A field can follow small jumps, and the jitter of a stage that moves in no strips at all.
    """
    blocks = found.blocks
    start = Displacement.zeros(images.post_shape, found.field.spacing_px)
    fitted = choose_stiffness(blocks, start, None)
    test = blocks.held_out & found.agreeing
    if fitted is None or not test.any():
        return True
    smooth = blocks.off - fitted[0].at(blocks.post)
    mine, theirs = _bounded(found.off[test], smooth[test])
    return float(mine.mean()) < _CLEAR**2 * float(theirs.mean())


def leaves_less(found: Deformation, other: Deformation) -> bool:
    """Whether a map leaves less of the held-out blocks that both have."""
    off = []
    for one in (found, other):
        known = one.blocks.held_out & (one.blocks.trust > 0)
        places = map(tuple, one.blocks.place[known].tolist())
        off.append(dict(zip(places, one.off[known], strict=True)))
    both = sorted(off[0].keys() & off[1].keys())
    if not both:
        return True
    mine, theirs = (
        float(squares.mean())
        for squares in _bounded(*(np.array([one[place] for place in both]) for one in off))
    )
    log.info("held-out blocks: %.3f px with strips, %.3f px without", mine**0.5, theirs**0.5)
    return mine < theirs


def _bounded(*offs: Floats) -> list[Floats]:
    """Squares (N,) of residuals (N, 2), up to a bound for all: a few wild ones decide nothing."""
    squares = [(off**2).sum(axis=1) for off in offs]
    bound = _WILD * max(min(float(np.median(s)) for s in squares), 1e-6)
    return [np.minimum(s, bound) for s in squares]


def _changed(strips: Strips, other: Strips) -> float:
    """Greatest change of a jump, px; infinite if there are other seams."""
    if len(strips.seams) != len(other.seams):
        return np.inf
    return float(np.hypot(*(strips.jumps - other.jumps).T).max(initial=0.0))


def minus(field: Displacement, other: Displacement) -> Displacement:
    """Difference of two fields on the same grid."""
    return Displacement(field.spacing_px, field.coefficients - other.coefficients)


def bending_bias(change: Displacement, points: Floats, size: float) -> Floats:
    """Bias (N, 2), px, of blocks that were measured before the field changed.

    A block of taper variance s^2 per axis sees the change averaged over itself, which differs from
    the change at its centre by s^2 / 2 times its Laplacian.
    """
    reach = TAPER_SIGMA * size
    total = np.zeros_like(points)
    here = change.at(points)
    for axis in range(2):
        step = np.zeros(2)
        step[axis] = reach
        total += (change.at(points + step) + change.at(points - step) - 2 * here) / 2
    return total


def _measured_again(images: Images, last: Deformation) -> Dense | None:
    """Measure those blocks again that the change of the field has bent; None if there are none."""
    blocks = last.blocks
    bias = np.hypot(*bending_bias(last.change, blocks.post, blocks.size).T)
    bent = (bias > _BIAS_PX) & (blocks.quality > 1)
    strips = last.field.strips
    if strips is not None:  # blocks across a seam gain from every better one
        smooth = last.field.smooth.at(blocks.post)
        bent |= strips.gap(strips.across(blocks.post, smooth)) < blocks.size / 2
    if np.count_nonzero(bent) < 0.02 * len(blocks):
        return None
    again = measure(images, last.field, blocks.size, blocks.step, only=blocks.place[bent])
    return blocks.replaced(again)


def beats_global(found: Deformation, matrix: Floats) -> bool:
    """Whether the field explains held-out blocks better than any global model, beyond chance.

    The global models are fitted to the same dense blocks, so that they lose nothing for having
    been fitted to fewer. The gain in bounded squared residuals has to be more than three standard
    errors of the paired difference, and more than 10 %.
    """
    blocks, agreeing = found.blocks, found.agreeing
    test = blocks.held_out & agreeing
    if np.count_nonzero(test) < 10:
        return False
    rivals = [matrix]
    with contextlib.suppress(np.linalg.LinAlgError):
        given = (blocks.post, blocks.pre, agreeing, blocks.held_out, MODELS, blocks.trust)
        rivals.append(choose_model(*given)[1])
    offs = (residuals(m, blocks.post[test], blocks.pre[test]) for m in rivals)
    mine, *others = _bounded(found.off[test], *offs)
    theirs = min(others, key=lambda squares: float(squares.mean()))
    gain = theirs - mine
    doubt = float(gain.std()) / np.sqrt(len(gain))
    return bool(gain.mean() > 3 * doubt and gain.mean() > 0.1 * theirs.mean())


def makes_alike(images: Images, found: Deformation) -> bool:
    """Whether the field raises the correlation of band-passed held-out blocks as they lie."""
    blocks = found.blocks
    last = np.array(images.post_shape[::-1]) - blocks.size
    fits = (blocks.corner <= last).all(axis=1)
    test = np.flatnonzero(blocks.held_out & (blocks.trust > 0) & fits)
    test = test[:: max(1, len(test) // _COMPARED)]
    planes = images.planes(0)
    gains = []
    for corner in np.rint(blocks.corner[test]).astype(np.int64):
        scores = []
        for field in (None, found.field):
            both = mapped_blocks(*planes, images.matrix, field, blocks.size, corner)
            if both is not None:
                scores.append(detail_correlation(*both, images.sign))
        if len(scores) == 2:
            gains.append(scores[1] - scores[0])
    return len(gains) >= 10 and float(np.mean(gains)) > 0 and float(np.median(gains)) > 0


def usable(images: Images, found: Deformation | None) -> bool:
    """Whether the field is better than none: by held-out blocks, by the images, and unfolded."""
    if found is None or not beats_global(found, images.matrix):
        return False
    low, high = pinch(found.field, images.matrix)
    if not (_PINCHED[0] <= low and high <= _PINCHED[1]):  # NaN beyond a horizon counts as pinched
        log.info("the field would pinch the section (area ratios %.2f to %.2f)", low, high)
        return False
    return makes_alike(images, found)


def with_error(found: Deformation, error_px: NDArray[np.float32]) -> Deformation:
    """Return the deformation with an error map in its field."""
    return replace(found, field=replace(found.field, error_px=error_px))
