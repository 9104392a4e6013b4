"""Detection of a scanner's strips in the displacements of dense blocks.

A stage that steps between strips leaves a jump that all blocks along a seam share, while a section
is deformed differently from place to place. So steps from block to block are collected by where
between the two blocks is, and their median stands out at a seam.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from unglow.registration.dense_blocks import measure
from unglow.registration.strip_offsets import (
    LEAST_PX,
    STIFF,
    SURE,
    fit_offsets,
    locate,
    make_strips,
    remove_strips,
    residual_ratio,
    smooth_field,
)
from unglow.transform.displacement import ALONG, IMAGES, Strips

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from unglow.core.arrays import Bools, Floats, Ints
    from unglow.registration.dense_blocks import DenseMatches
    from unglow.registration.pair import Pair
    from unglow.transform.displacement import Displacement


log = logging.getLogger(__name__)

_SUSPECT_PX, _SUSPECT_TIMES = 0.3, 3.0
"""A step of this many px, and this many times as long as usual, is worth a closer look."""
_SMOOTH = 0.75
"""Sides of the blocks over which the field is smoothed that steps are seen next to."""
_LEAST_PAIRS = 6
"""Pairs of blocks that a step is the median of."""
_LEAST_ERROR_PX = 0.01
_MEDIAN_ERROR = 1.48 * 1.25
"""Standard error of a median over the median deviation, times the root of their number."""
_ROUNDS = 3
"""Times that seams are sought in what the others leave."""
_CLEAREST = 0.4
"""In each of them, steps count that are this share of the longest one."""
_LINES, _LEAST_LINES = 4, 16
"""For a first look every fourth line of blocks is measured, but not less than this many."""
_MOST_SEAMS = 200
_WORTH = 0.9
"""Strips have to leave less than this share of what is left without them."""
_RIVAL = 3.0
"""Strips of the other image, that leave less than this many times as much, are rivals."""
_NEAR, _FAR = 3, 8
"""Surroundings of a step: positions that are this many half steps of the blocks away, at least and
at most."""
_APART = 1.5
"""Seams lie this many steps of the blocks from each other, and are known to as much."""


@dataclass(frozen=True, eq=False)
class Profile:
    """Steps between neighbouring blocks against where they happen, evenly spaced.

    Attributes
    ----------
    at
        (S,) positions across the strips, px.
    step
        (S, 2) median step there beyond what the surroundings have, px; NaN where there is none.
    error
        (S,) standard error of a step, px.
    """

    at: Floats
    step: Floats
    error: Floats

    @property
    def length(self) -> Floats:
        """(S,) lengths of the steps, px; 0 where there is none."""
        return np.asarray(np.nan_to_num(np.hypot(*self.step.T)))

    @property
    def usual(self) -> float:
        """Median length of the steps, px."""
        length = np.hypot(*self.step[np.isfinite(self.error)].T)
        return float(np.median(length)) if len(length) else 0.0

    def seams(self, least_px: float, apart: float) -> Floats:
        """Positions of the clear steps, at least ``apart`` px from each other, increasing."""
        length = self.length
        strength = np.nan_to_num(np.hypot(*self.step.T) / self.error)
        clear = (strength >= SURE) & (length >= least_px)
        seams: list[float] = []
        for k in np.argsort(-length, kind="stable"):
            if clear[k] and all(abs(self.at[k] - other) > apart for other in seams):
                seams.append(float(self.at[k]))
        return np.sort(np.array(seams[:_MOST_SEAMS]))


def find_strips(pair: Pair, blocks: DenseMatches, level: int) -> tuple[Strips, DenseMatches] | None:
    """Find the strips in which post or pre was scanned; None if there are none.

    ``blocks`` were measured against the global model on a pyramid ``level``. Where they show a
    step, blocks at half the distance are measured.

    Returns
    -------
    Strips with seams known to about half a step of the blocks, and the blocks that they rest on.
    """
    suspects = _suspects(pair, blocks)
    step = blocks.size // 2
    if step < blocks.step:
        parts = [
            measure(pair, blocks.size, step, level=level, only=_lines(axis))
            for axis in sorted({_axis(strips) for strips in suspects})
        ]
        suspects = [s for part in parts if len(part) for s in _suspects(pair, part)]
        if suspects:
            blocks = measure(pair, blocks.size, step, level=level)
    axes = {_axis(strips) for strips in suspects}
    found: list[tuple[float, Strips]] = []
    for empty in _kinds(pair):
        if _axis(empty) in axes:
            strips = _grow(pair, blocks, empty)
            ratio = residual_ratio(pair, blocks, strips)
            log.info("strips along %s: %.3f of the residuals", strips.name, ratio)
            if ratio < _WORTH:
                found.append((ratio, strips))
    if not found:
        return None
    least, best = min(found, key=lambda item: item[0])
    rivals = [s for ratio, s in found if _axis(s) == _axis(best) and ratio < _RIVAL * least]
    strips = min((_move_to_lines(pair, blocks, s) for s in rivals), key=lambda item: item[1])[0]
    return (strips, blocks) if len(strips.seams) else None


def _kinds(pair: Pair) -> list[Strips]:
    """Return strips of all kinds, none with a seam yet."""
    frames = {"post": np.eye(3), "pre": pair.matrix}
    return [
        Strips(image, along, frames[image], np.zeros(0), np.zeros((1, 2)))
        for along in ALONG
        for image in IMAGES
    ]


def _axis(strips: Strips) -> int:
    """Return the axis of post across seams: 0 for x, 1 for y."""
    across = np.abs(strips.frame[strips.axis, :2])
    return int(across[1] > across[0])


def _lines(axis: int) -> Callable[[Ints], Bools]:
    """Mark every few lines of blocks across strips: enough to see whether there are any."""

    def mark(cells: Ints) -> Bools:
        across = cells[:, 1 - axis]
        lines = int(np.ptp(across)) + 1 if len(cells) else 0
        every = min(_LINES, max(1, lines // _LEAST_LINES))
        return np.asarray(across % every == 0)

    return mark


def _suspects(pair: Pair, blocks: DenseMatches) -> list[Strips]:
    """Return the kinds of strips of which there are steps that stick out.

    A section that waves has steps of all lengths, of which a smooth field takes most. Where the
    images are turned against each other, seams of one are smeared along the other.
    """
    kinds = _kinds(pair)
    rest = compute_unexplained(pair, blocks, kinds[0])
    profiles = [profile(rest, strips) for strips in kinds]
    return [
        strips
        for strips, steps in zip(kinds, profiles, strict=True)
        if len(steps.seams(max(_SUSPECT_PX, _SUSPECT_TIMES * steps.usual), 0.0))
    ]


def _move_to_lines(pair: Pair, blocks: DenseMatches, strips: Strips) -> tuple[Strips, float]:
    """Move seams to where the images have them and fit their jumps again; also the loss."""
    smooth = smooth_field(pair, remove_strips(blocks, strips, None), STIFF)
    strips, lost = locate(pair, strips, smooth, blocks, _APART * blocks.step)
    log.info("seams along %s: %.3f lost", strips.name, lost)
    return fit_offsets(pair, blocks, strips), lost


def _grow(pair: Pair, blocks: DenseMatches, strips: Strips) -> Strips:
    """Find the clearest seams first, and others in what they and a smooth field leave."""
    for _ in range(_ROUNDS):
        steps = profile(compute_unexplained(pair, blocks, strips), strips)
        longest = float(steps.length.max(initial=0.0))
        new = _find_unseen(steps, strips, blocks, max(LEAST_PX, _CLEAREST * longest))
        if not len(new):
            break
        seams = np.sort(np.concatenate([strips.seams, new]))
        strips = fit_offsets(pair, blocks, make_strips(strips, seams))
        if not len(strips.seams):
            break
    return strips


def compute_unexplained(pair: Pair, blocks: DenseMatches, strips: Strips) -> DenseMatches:
    """Return what strips and a smooth field leave of the blocks: half a jump next to its seam."""
    rest = remove_strips(blocks, strips, None)
    field = smooth_field(pair, rest, _SMOOTH * blocks.size / blocks.step)
    return replace(blocks, displacement=rest.subtract_field(field))


def profile(blocks: DenseMatches, strips: Strips) -> Profile:
    """Collect the steps between neighbouring blocks across possible strips.

    A step counts at all positions between its two blocks. From the median there, the median of the
    surroundings is taken off: what the section's own slope is.
    """
    across = strips.project(blocks.post, blocks.displacement)
    first, second = _neighbours(blocks, strips)
    swap = across[first] > across[second]
    first, second = np.where(swap, second, first), np.where(swap, first, second)
    steps = blocks.displacement[second] - blocks.displacement[first]
    low, high = across[first], across[second]
    spacing = blocks.step / 2
    if not len(steps):
        return Profile(np.zeros(0), np.zeros((0, 2)), np.zeros(0))
    at = np.arange(np.floor(low.min() / spacing), np.ceil(high.max() / spacing) + 1) * spacing
    step, error = np.full((len(at), 2), np.nan), np.full(len(at), np.nan)
    order = np.argsort(low, kind="stable")
    reach = float((high - low).max())
    for k, position in enumerate(at):
        near = order[slice(*np.searchsorted(low[order], [position - reach, position]))]
        here = steps[near[high[near] > position]]
        if len(here) >= _LEAST_PAIRS:
            step[k] = np.median(here, axis=0)
            spread = np.median(np.abs(here - step[k]), axis=0).max()
            error[k] = max(_MEDIAN_ERROR * spread / np.sqrt(len(here)), _LEAST_ERROR_PX)
    return Profile(at, step - _surroundings(step), error)


def _surroundings(step: Floats) -> Floats:
    """Median of the steps some way off, on both sides."""
    count = len(step)
    padded = np.pad(step, ((_FAR, _FAR), (0, 0)), constant_values=np.nan)
    shifts = [k for k in range(-_FAR, _FAR + 1) if abs(k) >= _NEAR]
    around = np.stack([padded[_FAR + k : _FAR + k + count] for k in shifts])
    measured = np.isfinite(around[..., 0]).any(axis=0)
    out = np.zeros_like(step)
    out[measured] = np.nanmedian(around[:, measured], axis=0)
    return out


def _neighbours(blocks: DenseMatches, strips: Strips) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Pair clear blocks that are next to each other across strips: indices of both."""
    grid, index = blocks.spread_on_grid(np.arange(len(blocks), dtype=np.float64))
    ids = np.full(grid.shape, -1, np.int64)
    clear = blocks.weights > 0
    ids.ravel()[index[clear]] = np.flatnonzero(clear)
    first, second = (ids[:-1], ids[1:]) if _axis(strips) == 1 else (ids[:, :-1], ids[:, 1:])
    both = (first >= 0) & (second >= 0)
    return first[both], second[both]


def add_seams(pair: Pair, blocks: DenseMatches, strips: Strips, smooth: Displacement) -> Strips:
    """Fit the jumps of known strips to blocks measured against them, and of seams still unseen.

    ``blocks`` were measured against ``smooth``, a field without strips, together with ``strips``.
    """
    field = replace(smooth, strips=strips)
    rest = replace(blocks, displacement=blocks.subtract_field(field))
    new = _find_unseen(profile(rest, strips), strips, blocks, LEAST_PX)
    at = np.searchsorted(strips.seams, new)
    if len(new):  # a new strip starts with the offset of the one it was part of
        strips = replace(
            strips,
            seams=np.insert(strips.seams, at, new),
            offsets=np.insert(strips.offsets, at, strips.offsets[at], axis=0),
        )
    return fit_offsets(pair, blocks, strips, field)


def _find_unseen(steps: Profile, strips: Strips, blocks: DenseMatches, least_px: float) -> Floats:
    """Positions of clear steps that no seam is near, increasing."""
    apart = _APART * blocks.step
    seams = steps.seams(least_px, apart)
    return seams[strips.gap(seams) > apart]
