"""How far the strips of a scanner jump at known seams, beside a smooth field."""

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

    from unglow.registration.blocks.dense import Dense, Images
    from unglow.transform.scanner_strips import Strips

    Floats = NDArray[np.float64]
    _Steps = NDArray[np.float32]

LEAST_PX = 0.25
"""Smaller jumps are left to the field."""
SURE = 5.0
"""Standard errors from which a step is one."""
ROUGH, FINE = 1.5, 0.75
"""Steps of the blocks over which fields are smoothed, before and after the strips are known."""
_ROUNDS = 3
_LEAST_BLOCKS = 30
_LEAST_ALONE = 4
_TORN = 0.35
_BESIDE = 0.75
_PART = 1 << 12


def with_jumps(
    blocks: Dense, strips: Strips, images: Images, known: Displacement | None = None
) -> Strips:
    """Fit the jumps at given seams beside a smooth field, and drop seams without one.

    The partly linear model of Speckman (1988, doi:10.1111/j.2517-6161.1988.tb01729.x): what a
    smooth field can follow is taken off blocks and steps alike before the steps are fitted.

    Parameters
    ----------
    blocks
        N measured blocks.
    strips
        Where the seams are.
    images
        Says how large the frame is.
    known
        Map that the blocks were measured against, if it holds these strips: then blocks across a
        seam are used too, and tell how wrong its jumps are.
    """
    if np.count_nonzero(blocks.trust) < _LEAST_BLOCKS:
        return at_seams(strips, strips.seams[:0])
    strips = _borne(blocks, strips, known)
    while len(strips.seams):
        jumps, doubt = _jumps(blocks, strips, images, known)
        lengths = np.hypot(*jumps.T)
        weakest = int(np.argmin(lengths / np.maximum(LEAST_PX, SURE * doubt)))
        if lengths[weakest] >= max(LEAST_PX, SURE * doubt[weakest]):
            return _offset(strips, jumps)
        strips = at_seams(strips, np.delete(strips.seams, weakest))
    return strips


def _borne(blocks: Dense, strips: Strips, known: Displacement | None) -> Strips:
    """Drop seams of strips that hardly a block sees alone, as at the end of a section."""
    smooth = blocks.off if known is None else known.smooth.at(blocks.post)
    across = strips.across(blocks.post, smooth)
    across = across[blocks.agreeing(known)]
    while len(strips.seams):
        alone = strips.gap(across) >= _TORN * blocks.size
        counts = np.bincount(strips.index(across[alone]), minlength=len(strips.offsets))
        bare = np.flatnonzero(counts < _LEAST_ALONE)
        if not len(bare):
            break
        strips = _merged(strips, max(int(bare[0]) - 1, 0))
    return strips


def _merged(strips: Strips, seam: int) -> Strips:
    """Return strips without one seam; the strip after it goes on with the one before."""
    seams = np.delete(strips.seams, seam)
    offsets = np.delete(strips.offsets, seam + 1, axis=0)
    return replace(strips, seams=seams, offsets=offsets if len(seams) else np.zeros((1, 2)))


def without(blocks: Dense, strips: Strips, field: Displacement | None) -> Dense:
    """Return the blocks as if there were no strips; those across a seam are not trusted.

    ``field`` is the smooth field, if it is known.
    """
    smooth = blocks.off if field is None else field.at(blocks.post)
    off = blocks.off - strips.at(blocks.post, smooth)
    across = strips.across(blocks.post, smooth)
    torn = strips.gap(across) < _TORN * blocks.size if field is None else np.zeros(len(off), bool)
    quality = np.where(torn, 0.0, blocks.quality)
    return replace(blocks, off=off, quality=quality)


def at_seams(strips: Strips, seams: Floats) -> Strips:
    """Return strips with other seams and no jumps yet."""
    return replace(strips, seams=seams, offsets=np.zeros((len(seams) + 1, 2)))


def _offset(strips: Strips, jumps: Floats) -> Strips:
    offsets = np.concatenate([np.zeros((1, 2)), np.cumsum(jumps, axis=0)])
    return replace(strips, offsets=offsets - offsets.mean(axis=0))


def _jumps(
    blocks: Dense, strips: Strips, images: Images, known: Displacement | None
) -> tuple[Floats, Floats]:
    """Jumps (K, 2) at the seams, px, and their standard errors (K,)."""
    smooth = blocks.off if known is None else known.smooth.at(blocks.post)
    across = strips.across(blocks.post, smooth)
    trust = np.where(blocks.held_out, 0.0, blocks.trust)
    if known is None:
        trust = np.where(strips.gap(across) < _TORN * blocks.size, 0.0, trust)
    soft = TAPER_SIGMA * blocks.size if known is not None else 1e-3
    start, stiffness = _grid(blocks, trust, images, ROUGH if known is None else FINE)
    weights = trust * blocks.agreeing(known)

    def rough(values: Floats) -> Floats:
        return values - fit_field(blocks.post, values, weights, start, stiffness).at(blocks.post)

    count = len(strips.seams)
    steps = np.empty((len(blocks), count), np.float32)
    for k in range(0, count, 2):  # a field has two components: two steps are fitted at a time
        two = strips.seams[[k, min(k + 1, count - 1)]]
        steps[:, k : k + 2] = rough(_ramp((across[:, None] - two) / soft))[:, : count - k]
    off = rough(blocks.off if known is None else blocks.off - strips.at(blocks.post, smooth))
    for _ in range(_ROUNDS):
        normal, right = _normal_equations(steps, off, weights)
        jumps = np.asarray(np.linalg.solve(normal, right))
        left = ((off - _product(steps, jumps)) ** 2).sum(axis=1) * trust
        scale = max(float(np.median(left[weights > 0])) / MEDIAN_OF_SQUARES, 1e-12)
        weights = trust * np.clip(1 - left / (TUKEY**2 * scale), 0, None) ** 2
    doubt = np.sqrt(np.diag(np.linalg.inv(normal)) * scale)
    return jumps + (0 if known is None else strips.jumps), doubt


def _normal_equations(steps: _Steps, off: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Weighted normal matrix (K, K) and right side (K, 2), in parts: N x K numbers are many."""
    count = steps.shape[1]
    normal, right = 1e-9 * np.eye(count), np.zeros((count, 2))
    for part in _parts(steps):
        exact = steps[part].astype(np.float64)
        weighted = exact * weights[part, None]
        normal += exact.T @ weighted
        right += weighted.T @ off[part]
    return normal, right


def _product(steps: _Steps, jumps: Floats) -> Floats:
    """Displacements (N, 2) that jumps (K, 2) at steps (N, K) give."""
    return np.concatenate([steps[part].astype(np.float64) @ jumps for part in _parts(steps)])


def _parts(steps: _Steps) -> list[slice]:
    return [slice(k, k + _PART) for k in range(0, len(steps), _PART)]


def _ramp(t: Floats) -> Floats:
    """Share of a normal distribution below ``t`` (Page 1977's approximation by tanh)."""
    return np.asarray(0.5 * (1 + np.tanh(0.7978846 * (t + 0.044715 * np.clip(t, -50, 50) ** 3))))


def misfit(blocks: Dense, images: Images, strips: Strips) -> float:
    """Compare what a smooth field leaves of held-out blocks beside seams with and without strips.

    The ratio of medians, below 1 if strips help; infinite if there is no such block. Strips do not
    answer for blocks across a seam, which no smooth field can follow.
    """
    apart = without(blocks, strips, None)
    gap = strips.gap(strips.across(blocks.post, blocks.off))
    beside = blocks.held_out & (gap <= _BESIDE * blocks.size)
    both = []
    for some in (apart, blocks):
        test = beside & (some.trust > 0)
        if not test.any():
            return np.inf
        field = smooth_field(some, images, ROUGH)
        left = np.hypot(*(some.off - field.at(blocks.post))[test].T)
        both.append(float(np.median(left)))  # a few wild blocks decide nothing
    return both[0] / max(both[1], 1e-12)


def smooth_field(blocks: Dense, images: Images, steps: float) -> Displacement:
    """Field through blocks that are not held out, smoothed over so many steps of the blocks."""
    trust = np.where(blocks.held_out, 0.0, blocks.trust) * blocks.agreeing()
    start, stiffness = _grid(blocks, trust, images, steps)
    return fit_field(blocks.post, blocks.off, trust, start, stiffness)


def _grid(blocks: Dense, trust: Floats, images: Images, steps: float) -> tuple[Displacement, float]:
    """Knots two steps of the blocks apart, and the stiffness that smooths over so many steps."""
    start = Displacement.zeros(images.post_shape, 2 * blocks.step)
    unit = float(np.median(trust[trust > 0])) if (trust > 0).any() else 1.0
    return start, unit * stiffness_of(steps * blocks.step, start.spacing_px, blocks.step)
