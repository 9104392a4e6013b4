"""Finding the strips of a scanner in the displacements of dense blocks.

A stage that steps between strips leaves a jump that all blocks along a seam share, while a section
bends differently from place to place. So steps from block to block are collected by where between
the two blocks lies, and their median stands out at a seam.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from unglow.registration.blocks.dense import measure
from unglow.registration.strips.locate_seams import located
from unglow.registration.strips.offsets import (
    LEAST_PX,
    ROUGH,
    SURE,
    at_seams,
    misfit,
    smooth_field,
    with_jumps,
    without,
)
from unglow.transform.scanner_strips import ALONG, IMAGES, Strips

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from unglow.registration.blocks.dense import Dense, Images
    from unglow.transform.displacement import Displacement

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

log = logging.getLogger(__name__)

_SUSPECT_PX = 0.3
_SMOOTH = 0.75
_LEAST_PAIRS = 6
_ROUNDS = 3
_CLEAREST = 0.4
_RARE = 3.0
_LINES = 4
_LEAST_LINES = 16
_MOST_SEAMS = 200
_WORTH = 0.9
_ALIKE = 3.0
_NEAR, _FAR = 3, 8


@dataclass(frozen=True, eq=False)
class Profile:
    """Steps between neighbouring blocks against where they happen, evenly spaced.

    Attributes
    ----------
    at
        (S,) positions across the strips, px.
    step
        (S, 2) median step there beyond what the surroundings have, px; NaN where there is none.
    doubt
        (S,) standard error of a step, px.
    """

    at: Floats
    step: Floats
    doubt: Floats

    @property
    def strength(self) -> Floats:
        """(S,) lengths of the steps over their standard errors, 0 where there is none."""
        return np.asarray(np.nan_to_num(np.hypot(*self.step.T) / self.doubt))

    @property
    def usual(self) -> float:
        """Median length of the steps, px."""
        length = np.hypot(*self.step[np.isfinite(self.doubt)].T)
        return float(np.median(length)) if len(length) else 0.0

    def seams(self, least_px: float, apart: float) -> Floats:
        """Positions of the clear steps, at least ``apart`` px from each other, increasing."""
        length = np.nan_to_num(np.hypot(*self.step.T))
        clear = (self.strength >= SURE) & (length >= least_px)
        found: list[float] = []
        for k in np.argsort(-length, kind="stable"):
            if clear[k] and all(abs(self.at[k] - other) > apart for other in found):
                found.append(float(self.at[k]))
        return np.sort(np.array(found[:_MOST_SEAMS]))


def find_strips(images: Images, blocks: Dense, level: int) -> tuple[Strips, Dense] | None:
    """Find the strips in which post or pre was scanned; None if there are none.

    Parameters
    ----------
    images
        Images, thumbnails and global model.
    blocks
        Blocks measured against the global model on a pyramid level. Where they show a step, blocks
        at half the distance are measured.
    level
        That level.

    Returns
    -------
    Strips with seams known to about half a step of the blocks, and the blocks that they rest on.
    """
    suspects = _suspects(images, blocks)
    step = blocks.size // 2
    if step < blocks.step:
        parts = [
            measure(images, None, blocks.size, step, level, _lines(axis))
            for axis in sorted({_way(strips) for strips in suspects})
        ]
        suspects = [strips for part in parts for strips in _suspects(images, part)]
        if suspects:
            blocks = measure(images, None, blocks.size, step, level)
    if not suspects:
        return None
    found: list[tuple[float, Strips]] = []
    ways = {_way(strips) for strips in suspects}
    for empty in _kinds(images):
        if _way(empty) in ways:
            strips = _grown(blocks, empty, images)
            left = misfit(blocks, images, strips)
            log.info("strips along %s: %.3f of the misfit", strips.name, left)
            if left < _WORTH:
                found.append((left, strips))
    if not found:
        return None
    least, best = min(found, key=lambda item: item[0])
    rivals = [s for left, s in found if _way(s) == _way(best) and left < _ALIKE * least]
    seen = [_at_lines(images, strips, blocks) for strips in rivals]
    strips = min(seen, key=lambda item: item[1])[0]
    return (strips, blocks) if len(strips.seams) else None


def _kinds(images: Images) -> list[Strips]:
    """Return strips of all kinds, none with a seam yet."""
    frames = {"post": np.eye(3), "pre": images.matrix}
    return [
        Strips(image, along, frames[image], np.zeros(0), np.zeros((1, 2)))
        for along in ALONG
        for image in IMAGES
    ]


def _way(strips: Strips) -> int:
    """Return which way leads across seams: 0 along rows of post, 1 down its columns."""
    across = np.abs(strips.frame[strips.axis, :2])
    return int(across[1] > across[0])


def _lines(way: int) -> Callable[[NDArray[np.int64]], Mask]:
    """Mark every few lines of blocks across strips: enough to see whether there are any."""

    def marked(place: NDArray[np.int64]) -> Mask:
        beside = place[:, 1 - way]
        lines = int(np.ptp(beside)) + 1 if len(place) else 0
        every = min(_LINES, max(1, lines // _LEAST_LINES))
        return np.asarray(beside % every == 0)

    return marked


def _suspects(images: Images, blocks: Dense) -> list[Strips]:
    """Return the kinds of strips of which there are steps that stick out.

    A section that waves has steps of all lengths, of which a smooth field takes most. Where the
    images are turned against each other, seams of one are smeared along the other.
    """
    kinds = _kinds(images)
    rest = unexplained(blocks, kinds[0], images)
    return [strips for strips in kinds if _stands_out(profile(rest, strips))]


def _stands_out(shown: Profile) -> bool:
    return len(shown.seams(max(_SUSPECT_PX, _RARE * shown.usual), 0.0)) > 0


def _at_lines(images: Images, strips: Strips, blocks: Dense) -> tuple[Strips, float]:
    """Move seams to where the images have them, and fit their jumps again; and what is lost."""
    smooth = smooth_field(without(blocks, strips, None), images, ROUGH)
    strips, lost = located(images, strips, smooth, blocks, 1.5 * blocks.step)
    log.info("seams along %s: %.3f lost", strips.name, lost)
    return with_jumps(blocks, strips, images), lost


def _grown(blocks: Dense, strips: Strips, images: Images) -> Strips:
    """Find the clearest seams first, and others in what they and a smooth field leave."""
    for _ in range(_ROUNDS):
        shown = profile(unexplained(blocks, strips, images), strips)
        largest = float(np.nan_to_num(np.hypot(*shown.step.T)).max(initial=0.0))
        far = _unseen(shown, strips, blocks, max(LEAST_PX, _CLEAREST * largest))
        if not len(far):
            break
        seams = np.sort(np.concatenate([strips.seams, far]))
        strips = with_jumps(blocks, at_seams(strips, seams), images)
        if not len(strips.seams):
            break
    return strips


def unexplained(blocks: Dense, strips: Strips, images: Images) -> Dense:
    """Return what strips and a smooth field leave of the blocks: half a jump beside its seam."""
    apart = without(blocks, strips, None)
    field = smooth_field(apart, images, _SMOOTH * blocks.size / blocks.step)
    return replace(blocks, off=apart.off - field.at(blocks.post))


def profile(blocks: Dense, strips: Strips) -> Profile:
    """Collect the steps between neighbouring blocks across possible strips.

    A step counts at all positions between its two blocks. From the median there, the median of the
    surroundings is taken off: what the section's own slope is.
    """
    across = strips.across(blocks.post, blocks.off)
    first, second = _pairs(blocks, strips)
    swap = across[first] > across[second]
    first, second = np.where(swap, second, first), np.where(swap, first, second)
    steps = blocks.off[second] - blocks.off[first]
    low, high = across[first], across[second]
    spacing = blocks.step / 2
    if not len(steps):
        return Profile(np.zeros(0), np.zeros((0, 2)), np.zeros(0))
    at = np.arange(np.floor(low.min() / spacing), np.ceil(high.max() / spacing) + 1) * spacing
    step, doubt = np.full((len(at), 2), np.nan), np.full(len(at), np.nan)
    order = np.argsort(low, kind="stable")
    reach = float((high - low).max())
    for k, place in enumerate(at):
        near = order[slice(*np.searchsorted(low[order], [place - reach, place]))]
        here = steps[near[high[near] > place]]
        if len(here) >= _LEAST_PAIRS:
            step[k] = np.median(here, axis=0)
            spread = np.median(np.abs(here - step[k]), axis=0).max()
            doubt[k] = max(1.48 * 1.25 * spread / np.sqrt(len(here)), 0.01)
    return Profile(at, step - _surroundings(step), doubt)


def _pairs(blocks: Dense, strips: Strips) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Pair trusted blocks that lie next to each other across strips: indices of both."""
    where, index = blocks.on_grid(np.arange(len(blocks), dtype=np.float64))
    ids = np.full(where.shape, -1, np.int64)
    trusted = blocks.trust > 0
    ids.ravel()[index[trusted]] = np.flatnonzero(trusted)
    first, second = (ids[:-1], ids[1:]) if _way(strips) == 1 else (ids[:, :-1], ids[:, 1:])
    both = (first >= 0) & (second >= 0)
    return first[both], second[both]


def with_more(blocks: Dense, strips: Strips, smooth: Displacement, images: Images) -> Strips:
    """Fit the jumps of known strips to blocks measured against them, and of seams still unseen.

    Parameters
    ----------
    blocks
        N blocks measured against ``smooth`` with ``strips``.
    strips
        What is known of them.
    smooth
        The field without strips.
    images
        Says how large the frame is.
    """
    known = replace(smooth, strips=strips)
    rest = replace(blocks, off=blocks.off - known.at(blocks.post))
    far = _unseen(profile(rest, strips), strips, blocks, LEAST_PX)
    at = np.searchsorted(strips.seams, far)
    if len(far):  # a new strip begins with the offset of the one it was part of
        strips = replace(
            strips,
            seams=np.insert(strips.seams, at, far),
            offsets=np.insert(strips.offsets, at, strips.offsets[at], axis=0),
        )
    return with_jumps(blocks, strips, images, known)


def _unseen(shown: Profile, strips: Strips, blocks: Dense, least_px: float) -> Floats:
    """Positions of clear steps that no seam is near, increasing: a block and a half apart."""
    apart = 1.5 * blocks.step
    seams = shown.seams(least_px, apart)
    return seams[strips.gap(seams) > apart]


def _surroundings(step: Floats) -> Floats:
    """Median of the steps some way off, on both sides."""
    count = len(step)
    padded = np.pad(step, ((_FAR, _FAR), (0, 0)), constant_values=np.nan)
    ways = [k for k in range(-_FAR, _FAR + 1) if abs(k) >= _NEAR]
    around = np.stack([padded[_FAR + k : _FAR + k + count] for k in ways])
    known = np.isfinite(around[..., 0]).any(axis=0)
    out = np.zeros_like(step)
    out[known] = np.nanmedian(around[:, known], axis=0)
    return out
