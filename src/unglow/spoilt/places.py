"""Spoilt places: which blocks, why, and how strongly.

Scores (`unglow.spoilt.block_scores`) are put in units of their own scatter over the section, which
an imperfect map or noise that is not white widens. A place is a set of blocks that touch: far
beyond that scatter in one of them and beyond it in all (hysteresis; Canny 1986, IEEE TPAMI 8,
679), by single blocks or by squares of 2 x 2 and 4 x 4, in which what is weak and wide stands out.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

import cv2
import numpy as np

from unglow.core.progress import step
from unglow.core.reasons import explain
from unglow.core.shapes import drop_small_pieces, fill_holes, reach
from unglow.memory import BLOCK
from unglow.spoilt.block_scores import SCORES, SHARES
from unglow.spoilt.seams import SEAM, Seams

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.core.arrays import Bools, Bytes, Floats32, Ints
    from unglow.core.windows import Window
    from unglow.spoilt.block_scores import BlockScores


REASONS = ("not stored", "lost", "moved", "debris", "gain off", "out of focus", "unlike pre")
"""Why a place is spoilt, as `Places.reasons` has the index of it."""
ON_SECTION = 0.6
"""A block is judged if this share of it is on the section."""
FAR, BEYOND = 6.0, 3.0
"""A place has a block whose score is beyond the first, and none whose score is below the second: on
8 undamaged phantoms of 2048 px, 21 000 blocks, no score but one of texture was beyond 5."""
_TEXTURE_MORE = 2.0
"""The texture of a block has a longer tail: its first limit is so much higher."""
_SQUARE_MORE = 2.0
"""So are those of squares: neighbours share what the gain is off by."""
_MOST = 5.0
"""A block adds at most this to a square: a few strong ones do not carry those around them."""
_OWN = 1.5
"""In a square that is out, blocks count that do so by this."""
_SQUARES = (2, 4)
_SIDES = {"level": (-1,), "rise": (1,), "texture": (1,)}
"""Scores that depart to one side: stain lifts the level, and noise may be less than thought."""
_LEAST_BLOCKS = 20
"""Fewer blocks on the section have no scatter to speak of."""
_LEAST_WIDTH = {"level": 1.0, "rise": 1.0}
_NARROW = 0.8
"""Scatter is not taken to be less than this: that of `_LEAST_WIDTH`, whose errors hold more than
noise, or this for the others."""
_SHARES = {"lost": 0.3, "floor": 0.9}
"""A block is lost, or at the lowest value of the image, if this share of its px is."""
_STEP, _STEP_MORE = 0.5, 1.5
"""Debris begins within a block: its score steps by this part of the largest one, and this more."""
_HOLE_BLOCKS = 16
"""Holes in places of at most this many blocks are part of them."""
_PART = 0.25
"""A reason holds for a place if it does for this part of its blocks."""
_SIGMA_OF_MAD = 1.4826


@dataclass(frozen=True, eq=False)
class Places:
    """The spoilt places of a pair on the grid of its blocks.

    Attributes
    ----------
    side
        Side of a block, px.
    labels
        (ny, nx) int32: number of the place that a block belongs to, from 1 on; 0 for none.
    reasons
        (places,) uint8: index in `REASONS` of each place.
    strengths
        (places,) float32: the largest score in each place, in units of its scatter.
    widths
        Scatter of each score over the section, before anything is excluded: 1 for noise alone.
    below
        Share of the section in which post is expected to be below the darkest px that it has.
    judged
        Blocks on the section that had data enough.
    seams
        Straight lines, which are excluded like places.
    """

    side: int
    labels: NDArray[np.int32]
    reasons: Bytes
    strengths: Floats32
    widths: dict[str, float]
    below: float
    judged: int
    seams: Seams = field(default_factory=Seams)

    @classmethod
    def empty(cls) -> Self:
        """Return no places, on a grid of a single block."""
        labels = np.zeros((1, 1), np.int32)
        return cls(BLOCK, labels, np.zeros(0, np.uint8), np.zeros(0, np.float32), {}, 0.0, 0)

    @property
    def mask(self) -> Bools:
        """Which blocks are spoilt, (ny, nx)."""
        return self.labels > 0

    @property
    def share(self) -> float:
        """Share of the section that is spoilt, 0 to 1: its blocks and seams."""
        return float(np.count_nonzero(self.labels)) / max(self.judged, 1) + self.seams.share

    @property
    def shares(self) -> dict[str, float]:
        """Share of the section that is spoilt for each reason, the largest first."""
        blocks = np.bincount(self.labels.ravel(), minlength=len(self.reasons) + 1)[1:]
        found = np.bincount(self.reasons, weights=blocks, minlength=len(REASONS))
        judged = max(self.judged, 1)
        parts = {REASONS[k]: float(found[k]) / judged for k in np.flatnonzero(found)}
        if self.seams.lines:
            parts[SEAM] = self.seams.share
        return dict(sorted(parts.items(), key=lambda one: -one[1]))

    def explain_excess(self, key: str, most: float, **values: object) -> list[str]:
        """Return the reason of that key if more than ``most`` (0 to 1) of the section is spoilt."""
        if self.share <= most:
            return []
        parts = ", ".join(f"{name} {100 * part:.1f} %" for name, part in self.shares.items())
        percents = {"percent": 100 * self.share, "most": 100 * most}
        return [explain(key, parts=parts, **percents, **values)]

    def exclude(self, kept: Bools) -> Self:
        """Return the places but for blocks (ny, nx) that are kept whatever they are."""
        labels = np.where(kept, 0, self.labels).astype(np.int32)
        there = np.unique(labels[labels > 0])
        numbers = np.zeros(len(self.reasons) + 1, np.int32)
        numbers[there] = np.arange(1, len(there) + 1)
        reasons, strengths = self.reasons[there - 1], self.strengths[there - 1]
        return replace(self, labels=numbers[labels], reasons=reasons, strengths=strengths)


@step("spoilt places")
def find_places(scores: BlockScores, on_section: Bools) -> Places:
    """Find the spoilt places of a pair.

    Parameters
    ----------
    scores
        Of its blocks.
    on_section
        (ny, nx): which blocks are on the section.
    """
    on = on_section & np.isfinite(scores.select("level"))
    judged = int(np.count_nonzero(on))
    widths: dict[str, float] = {}
    found: dict[str, Bools] = {}
    strength = np.zeros(on.shape, np.float32)
    for name in SCORES[:-SHARES]:
        score = scores.select(name)
        normed, widths[name] = _normalize(score, on, _LEAST_WIDTH.get(name, _NARROW))
        far = FAR + (_TEXTURE_MORE if name == "texture" else 0)
        squares = () if name in _LEAST_WIDTH else _SQUARES
        for sign in _SIDES.get(name, (1, -1)):
            beyond, size = _find_outstanding(sign * normed, on, far, squares)
            if name == "rise":
                beyond = _drop_gradients(beyond, normed, on)
            key = f"{name}{'+' if sign > 0 else '-'}"
            found[key] = beyond
            strength = np.maximum(strength, np.where(beyond, size, 0))
    for name, least in _SHARES.items():
        found[name] = on & (np.nan_to_num(scores.select(name)) > least)
    mask = np.logical_or.reduce(list(found.values()))
    mask = _fill_holes(mask, on)
    count, connected = cv2.connectedComponents(mask.view(np.uint8), connectivity=8)
    labels = np.asarray(connected, np.int32)
    strengths = np.zeros(count, np.float32)
    np.maximum.at(strengths, labels, strength)
    below = float(scores.select("below")[on].mean()) if judged else 0.0
    reasons = _reasons(found, labels, count)
    return Places(scores.side, labels, reasons[1:], strengths[1:], widths, below, judged)


def _normalize(score: Floats32, on: Bools, least: float) -> tuple[Floats32, float]:
    """Return a score in units of its scatter over the section, 0 elsewhere, and that scatter."""
    values = score[on & np.isfinite(score)]
    if values.size < _LEAST_BLOCKS:
        return np.zeros_like(score), 1.0
    middle = float(np.median(values))
    width = _SIGMA_OF_MAD * float(np.median(np.abs(values - middle)))
    normed = np.where(on, np.nan_to_num((score - middle) / max(least, width)), 0)
    return normed.astype(np.float32), width


def _find_outstanding(
    score: Floats32, on: Bools, far: float, squares: tuple[int, ...]
) -> tuple[Bools, Floats32]:
    """Return the blocks that stand out alone or in squares, and by how much."""
    mask = reach((score > far) & on, (score > BEYOND) & on)
    size = score
    for side in squares:
        held = _sums(on.astype(np.float32), side)
        whole = held >= 0.75 * side * side
        total = _sums(np.where(on, np.clip(score, -_MOST, _MOST), 0), side)
        sums = (total / np.sqrt(np.maximum(held, 1))).astype(np.float32)
        normed, _ = _normalize(sums, whole, _NARROW)
        if not (normed > far + _SQUARE_MORE).any():
            continue
        best = _dilate(np.where(whole, normed, -np.inf).astype(np.float32), side)
        own = on & (score > _OWN)
        mask |= reach(own & (best > far + _SQUARE_MORE), own & (best > BEYOND + 1))
        size = np.maximum(size, np.where(own, best, 0))
    return mask, size


def _fill_holes(mask: Bools, on: Bools) -> Bools:
    """Add blocks most of whose neighbours are spoilt, and small holes, within the section."""
    around = cv2.boxFilter(
        mask.astype(np.float32), -1, (3, 3), normalize=False, borderType=cv2.BORDER_CONSTANT
    )
    mask = mask | (on & (around >= 5))
    holes = fill_holes(mask) & ~mask
    return np.asarray((mask | (holes & ~drop_small_pieces(holes, _HOLE_BLOCKS + 1))) & on)


def _drop_gradients(mask: Bools, score: Floats32, on: Bools) -> Bools:
    """Leave out places whose score nowhere steps from block to block: uneven light has no edge."""
    count, connected = cv2.connectedComponents(mask.view(np.uint8), connectivity=8)
    labels = np.asarray(connected, np.int32)
    peaks, steps = np.zeros((2, count), np.float32)
    np.maximum.at(peaks, labels, score)
    for one, other in ((np.s_[1:], np.s_[:-1]), (np.s_[:, 1:], np.s_[:, :-1])):
        size = np.where(on[one] & on[other], np.abs(score[one] - score[other]), 0)
        np.maximum.at(steps, np.maximum(labels[one], labels[other]), size)
    return np.asarray(mask & (steps >= _STEP * peaks + _STEP_MORE)[labels])


def _sums(values: Floats32, side: int) -> Floats32:
    """Sum over squares of blocks, each at its first block but for side / 2 - 1."""
    at = (side // 2 - 1,) * 2
    return np.asarray(cv2.boxFilter(
        values, -1, (side, side), anchor=at, normalize=False, borderType=cv2.BORDER_CONSTANT
    ))  # fmt: skip


def _dilate(values: Floats32, side: int) -> Floats32:
    """Give each block the largest of the sums that it is in."""
    at = (side - side // 2,) * 2
    kernel = np.ones((side, side), np.uint8)
    return np.asarray(cv2.dilate(values, kernel, anchor=at, borderType=cv2.BORDER_CONSTANT,
                                 borderValue=(-np.inf,)))  # fmt: skip


def _reasons(found: dict[str, Bools], labels: NDArray[np.int32], count: int) -> Bytes:
    """Return the index in `REASONS` of why each label is spoilt, (count,)."""
    sizes = np.maximum(np.bincount(labels.ravel(), minlength=count), 1)
    share = {
        name: np.bincount(labels[mask], minlength=count) / sizes for name, mask in found.items()
    }
    shifted = np.maximum.reduce([share[f"shift_{axis}{sign}"] for axis in "xy" for sign in "+-"])
    holds = [
        ("not stored", share["floor"] >= _PART),
        ("lost", share["lost"] >= _PART),
        ("moved", shifted >= _PART),
        ("debris", share["rise+"] >= _PART),
        ("gain off", share["level-"] >= _PART),
        ("out of focus", np.maximum(share["focus+"], share["focus-"]) > 0),
        ("gain off", np.maximum(share["slope+"], share["slope-"]) > 0),
    ]
    numbers = [REASONS.index(name) for name, _ in holds]
    return np.select([one for _, one in holds], numbers, len(REASONS) - 1).astype(np.uint8)


NEAR_PX = 12
"""What lies this close to a spoilt place is listed and not counted, px: the edge of a place may go
on a little beyond its blocks."""


@dataclass(frozen=True, eq=False)
class SpoiltMask:
    """The px of post that are spoilt: those of blocks, and of seams.

    Attributes
    ----------
    blocks
        (ny, nx): which blocks are spoilt.
    side
        Side of a block, px, larger than `NEAR_PX`.
    seams
        Lines, next to which nothing is spoilt.
    """

    blocks: Bools
    side: int
    seams: Seams = field(default_factory=Seams)

    def touches(self, window: Window) -> bool:
        """Whether a window has spoilt px."""
        return bool(self.blocks[self._span(window)].any() or len(self.seams.find_boxes(window)))

    def mask_window(self, window: Window, step: int = 1) -> Bools:
        """Return which px of a window that may leave the image are spoilt, (rows, cols).

        Of every ``step`` rows and columns the first one, for a pyramid level of such px, or any one
        of a seam.
        """
        rows, cols = (
            self._index(np.arange(start, stop, step), n)
            for start, stop, n in zip(
                (window.y0, window.x0), (window.y1, window.x1), self.blocks.shape, strict=True
            )
        )
        mask = np.asarray(self.blocks[rows[:, None], cols[None, :]])
        self.seams.mark(mask, window, step, 1)
        return mask

    def is_near(self, col: Ints, row: Ints) -> Bools:
        """Return which px (N,) are at most `NEAR_PX` along either axis from px of such blocks."""
        near = np.zeros(len(col), np.bool_)
        for down in (-NEAR_PX, 0, NEAR_PX):
            for across in (-NEAR_PX, 0, NEAR_PX):
                rows = self._index(row + down, self.blocks.shape[0])
                cols = self._index(col + across, self.blocks.shape[1])
                near |= self.blocks[rows, cols]
        return near

    def mask_near(self, window: Window) -> Bools:
        """Return which px of a window are near as `is_near` says, ``window.shape``."""
        near, plain = np.zeros(window.shape, np.bool_), replace(self, seams=Seams())
        if not self.blocks[self._span(window.grow(NEAR_PX))].any():
            return near
        for down in (-NEAR_PX, 0, NEAR_PX):
            for across in (-NEAR_PX, 0, NEAR_PX):
                near |= plain.mask_window(window.shift(down, across))
        return near

    def _index(self, at: Ints, blocks: int) -> Ints:
        return np.clip(at // self.side, 0, blocks - 1)

    def _span(self, window: Window) -> tuple[slice, slice]:
        """Return the blocks that a window lies in."""
        rows, cols = self.blocks.shape
        y0, x0 = max(0, window.y0 // self.side), max(0, window.x0 // self.side)
        return (
            slice(min(y0, rows - 1), max(1, min(rows, -(-window.y1 // self.side)))),
            slice(min(x0, cols - 1), max(1, min(cols, -(-window.x1 // self.side)))),
        )
