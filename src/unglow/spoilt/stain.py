"""Dense stain among spoilt places: crowds of spots, which in blocks look like dirt.

A place is excluded on evidence against stain only. Two numbers of its px, with d the difference
and t = post - d the expected post, decide (figures of two phantoms with 140 places, and a brain):

- how d goes with t in a band of 3 to 6 px: stain lies anywhere (correlation within 0.09 of 0, and
  as much more as chance makes of few blocks), while what is bleached, blurred, moved or covered
  takes structures of t away (-0.9 to -0.2); where the gain is another, d shows them (0.8);
- which part of the excess of d over its surroundings goes when d is opened by lines of 49 px in
  eight directions (Soille & Talbot 2001, IEEE TPAMI 23, 1313), less what noise has of it: spots of
  4 to 20 px go (0.08 to 1; 0.04 where they hide the section), films and most folds stay (-0.03 to
  0.09), flakes are in between (0.09 to 0.3).
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import cv2
import numpy as np

from unglow.core import shapes
from unglow.core.progress import step
from unglow.core.windows import Window, grid
from unglow.spoilt.outlines import find_boxes
from unglow.spoilt.places import NEAR_PX, REASONS, Places

if TYPE_CHECKING:
    from unglow.core.arrays import Bools, Bytes, Floats, Floats32
    from unglow.core.windows import Pixels


_LIKE_STAIN = tuple(map(REASONS.index, ("debris", "gain off", "out of focus", "unlike pre")))
"""Places with other reasons are dark, or moved, which no stain is."""
_AGAINST, _CHANCE = 0.09, 0.5
"""Evidence against stain: a correlation below the first, negative, and by the second over the root
of the number of blocks more,"""
_FOLLOWS, _OTHER_GAIN = 0.4, 1.0
"""Where the correlation is higher, and structures of d larger than this part of those of t, post
follows pre with twice the gain or more: neither dirt nor light does that."""
_SMOOTH, _COMPACT = 0.08, 0.25
"""and a part that goes below the first; from the second on, all is stain."""
_SMALL, _SMALL_COMPACT = 16, 0.45
"""Places of fewer blocks hold too few spots for a correlation, and small flakes look like a group
of spots: they are stain from this part on."""
_HIDES, _RIM = 0.05, 1.7
"""A flake hides this part of the section, and more. Of d its rim goes: the second number over the
root of its number of blocks, where that is more than `_COMPACT`."""
_SQUARE, _SQUARES = 256, 8
"""Of a place, squares of this side, px, are read, at most this many, from all over it."""
_MARGIN, _LINE = 64, 49
"""What is read around a square, and the length of the lines, px."""
_FINE, _COARSE, _CORE = 3.0, 6.0, 1.3
"""Standard deviations of blurs, px: the ends of the band, and what comes before lines."""


@cache
def _draw_lines() -> list[Bytes]:
    """Return lines of `_LINE` px through the middle of a square, in eight directions."""
    half, lines = _LINE // 2, []
    for angle in (k * math.pi / 8 for k in range(8)):
        x, y = (round(half * v) for v in (math.cos(angle), math.sin(angle)))
        canvas = np.zeros((_LINE, _LINE), np.uint8)
        cv2.line(canvas, (half - x, half - y), (half + x, half + y), (1,))
        lines.append(canvas)
    return lines


@step("stain")
def part_stain(
    places: Places, post: Pixels, difference: Pixels, saturated: float
) -> tuple[Places, Places]:
    """Return the places that are not stain, and those that may be.

    The latter have the reason "gain off" where post follows pre, or else "debris".

    Parameters
    ----------
    places
        All spoilt places of a pair.
    post, difference
        Its images in the frame of post; px of the difference without data are NaN.
    saturated
        Level of post from which on px are as bright as recorded, or brighter.
    """
    stain, unclear = np.zeros_like(places.mask), np.zeros_like(places.mask)
    reasons = np.full_like(places.reasons, REASONS.index("debris"))
    for number, (y0, y1, x0, x1) in enumerate(find_boxes(places.labels, len(places.reasons)), 1):
        if places.reasons[number - 1] not in _LIKE_STAIN:
            continue
        blocks = places.labels[y0:y1, x0:x1] == number
        correlation, slope, gone = _judge(
            [
                _sample_square(places, number, square, post, difference, saturated)
                for square in _choose_squares(blocks, (y0, x0), places.side, post.shape)
            ]
        )
        count = np.count_nonzero(blocks)
        small = count < _SMALL
        unlike = correlation < -_AGAINST - _CHANCE / math.sqrt(count)
        if not small and correlation > _FOLLOWS and slope > _OTHER_GAIN:
            unclear[y0:y1, x0:x1] |= blocks
            reasons[number - 1] = REASONS.index("gain off")
        elif gone >= _SMOOTH and (small or not unlike):
            least = _SMALL_COMPACT if small else _COMPACT
            if slope < -_HIDES and not small:
                least = max(least, _RIM / math.sqrt(count))
            (stain if gone >= least else unclear)[y0:y1, x0:x1] |= blocks
    return places.exclude(stain | unclear), replace(places, reasons=reasons).exclude(~unclear)


def _choose_squares(
    blocks: Bools, first: tuple[int, int], side: int, shape: tuple[int, int]
) -> list[Window]:
    """Return squares of whole blocks that hold some of a place, evenly over all there are."""
    step = max(1, _SQUARE // side)
    found = [part for part in grid(blocks.shape, (step, step)) if blocks[part.slices].any()]
    chosen = [found[k * len(found) // _SQUARES] for k in range(_SQUARES)]
    parts = (part.shift(*first) for part in dict.fromkeys(chosen))
    return [
        Window(*(side * v for v in (one.y0, one.y1, one.x0, one.x1))).clip(shape) for one in parts
    ]


def _sample_square(
    places: Places, number: int, square: Window, post: Pixels, difference: Pixels, saturated: float
) -> tuple[Floats, Floats32, Floats32]:
    """Return what a square has of a place, and of what is around all places.

    Returns
    -------
    (3,) sums of d t, d d and t t in the band over px of the place; and (2, n) d with little blur
    and opened, of px of the place and of those around.
    """
    window = square.grow(_MARGIN).clip(post.shape)
    seen, left = post.read(window).astype(np.float32), difference.read(window)
    known = np.isfinite(left)
    left, expected = (np.where(known, image, image[known].mean()) for image in (left, seen - left))
    rows, cols = np.arange(window.y0, window.y1), np.arange(window.x0, window.x1)
    labels = places.labels[rows[:, None] // places.side, cols // places.side]
    core = square.shift(-window.y0, -window.x0).slices
    inside = np.zeros(window.shape, np.bool_)
    inside[core] = (labels[core] == number) & known[core]
    clear = inside & (seen < saturated)
    d, t = (
        (shapes.blur(image, _FINE) - shapes.blur(image, _COARSE))[clear].astype(np.float64)
        for image in (left, expected)
    )
    smooth = shapes.blur(left, _CORE)
    opened = np.full_like(smooth, -np.inf)
    for line in _draw_lines():
        np.maximum(opened, cv2.morphologyEx(smooth, cv2.MORPH_OPEN, line), out=opened)
    both, around = np.stack([smooth, opened]), known & ~shapes.grow(labels > 0, NEAR_PX)
    return np.array([d @ t, d @ d, t @ t]), both[:, inside], both[:, around]


def _judge(parts: list[tuple[Floats, Floats32, Floats32]]) -> tuple[float, float, float]:
    """Return correlation and slope of d by t, and the part of the excess that lines do not fill."""
    sums, inside, around = zip(*parts, strict=True)
    across, of_d, of_t = np.sum(sums, axis=0)
    (smooth, opened), outer = (np.concatenate(both, axis=1) for both in (inside, around))
    level, noise = 0.0, 0.0
    if outer.size:
        level, noise = float(np.median(outer[0])), float(np.median(outer[0] - outer[1]))
    excess = np.maximum(smooth - level, 0).sum(dtype=np.float64)
    gone = (np.maximum(smooth, level) - np.maximum(opened, level)).sum(dtype=np.float64)
    correlation = across / max(math.sqrt(of_d * of_t), 1e-30)
    slope = across / max(of_t, 1e-30)
    gone = (gone - noise * smooth.size) / max(excess, 1e-30)
    return float(correlation), float(slope), float(gone)
