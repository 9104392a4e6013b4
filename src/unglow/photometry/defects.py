"""Px of pre that do not show the section: hot and dead px, tracks, lost rows, saturated px.

Resampling would spread them, so they are found in pre's own px and become no data before it. A px
is suspicious if it departs from the median of 3 x 3 px by far more than noise, and by more than
what is around that median departs to the other side. It is a defect if post does not show it: a
sharp grain of the section is in both images. This is done in fixed tiles, so that the tiling of
later work changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

from unglow.core.progress import step
from unglow.core.windows import Window, cells, grid, map_bounded
from unglow.memory import DEFECT_TILE, MOST_DEFECTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from unglow.core.windows import Pixels
    from unglow.transform import Transform

    Ints = NDArray[np.intp]
    NoiseCurve = Callable[[NDArray[np.float32]], NDArray[np.float64]]
    """Standard deviations of noise at levels of an image."""

_SAMPLES, _SAMPLE_PX, _GROUPS = 4, 64, 8
"""Noise is measured in so many windows along each axis, at so many levels."""
_SIGMA = 1.57
"""Standard deviation of noise over the mean of 95 % of its departures from medians of 3 x 3 px."""
_LEAST_SIGMA = 0.5
"""Noise of integer grey levels is at least this."""
_FAR = 8.0
"""A suspicious px departs by this many standard deviations."""
_SHOWN = 1 / 3
"""Post shows a px if one of 3 x 3 px there departs by this part of that, each in its own noise."""
_LINE, _LINE_PX = 0.1, 32
"""A row or column is lost if this part, and this many, of its px in a tile are defects."""
_PILE, _PILE_PX, _BELOW = 2, 16, 1 / 256
"""Pre is saturated if its largest value has this many times as many px as the values just below (a
part of its range), and this many."""
_MOST_POST = 8
"""At most so many tiles of post are looked at for a tile of pre."""
_STEPS = np.arange(-2, 3)


@dataclass(frozen=True, eq=False)
class Defects:
    """What of an image is no data.

    Attributes
    ----------
    tiles
        Row and column of a tile of `DEFECT_TILE` px to its defects, (N, 2) uint16 [row, col] in it.
    lines
        Rows and columns that are lost, (rows,) and (columns,) bool.
    top
        px with this value or more are saturated; inf if none are.
    saturated_px
        How many these are.
    """

    tiles: dict[tuple[int, int], NDArray[np.uint16]]
    lines: tuple[NDArray[np.bool_], NDArray[np.bool_]]
    top: float
    saturated_px: int

    def to_json(self) -> dict[str, int]:
        """Return the counts, for the attributes of a store."""
        return {
            "saturated": self.saturated_px,
            "single": sum(map(len, self.tiles.values())),
            "rows": int(self.lines[0].sum()),
            "columns": int(self.lines[1].sum()),
        }

    def mask(self, block: NDArray[np.float32], window: Window) -> None:
        """Make what is no data NaN in the px of a window, in place."""
        if self.saturated_px:
            block[block >= np.float32(self.top)] = np.nan
        block[self.lines[0][window.y0 : window.y1]] = np.nan
        block[:, self.lines[1][window.x0 : window.x1]] = np.nan
        for tile, _ in cells(window, (DEFECT_TILE, DEFECT_TILE)):
            if tile in self.tiles:
                at = self.tiles[tile] + np.array(tile) * DEFECT_TILE - (window.y0, window.x0)
                at = at[((at >= 0) & (at < window.shape)).all(axis=1)]
                block[at[:, 0], at[:, 1]] = np.nan


@step("defects")
def find_defects(
    pre: Pixels,
    post: Pixels,
    transform: Transform,
    pre_range: tuple[float, float],
    *,
    integer: bool,
    workers: int,
) -> Defects:
    """Find the defects of pre, and whether it is saturated.

    Parameters
    ----------
    pre, post
        The images; NaN where there are no data.
    transform
        Map of post (x, y) to pre (x, y), not a failed one.
    pre_range
        Smallest and largest value of pre.
    integer
        Whether the images hold integer grey levels.
    workers
        Tiles in flight.
    """
    noises = tuple(_measure_noise(image, _LEAST_SIGMA * integer) for image in (pre, post))
    low, top = pre_range
    below = top - max(1.0 * integer, _BELOW * (top - low))

    def search(window: Window) -> tuple[tuple[int, int], Ints, Ints]:
        block = pre.read(window)
        piled = np.array([np.count_nonzero(block >= value) for value in (top, below)])
        found, departs = _find_suspicious(block, noises[0])
        if len(found):
            xy = found[:, ::-1] + [window.x0, window.y0]
            shown = _depart_in_post(post, transform.inverse_map(xy), np.sign(departs), noises[1])
            found = found[shown < _SHOWN * np.abs(departs)]
        return (window.y0 // DEFECT_TILE, window.x0 // DEFECT_TILE), found, piled

    tiles, piled = {}, np.zeros(2, np.int64)
    lines = np.zeros(pre.shape[0], np.bool_), np.zeros(pre.shape[1], np.bool_)
    for tile, found, counts in map_bounded(search, grid(pre.shape, (DEFECT_TILE,) * 2), workers):
        piled += counts
        lost = np.zeros(len(found), np.bool_)
        for axis, line in enumerate(lines):
            length = min(DEFECT_TILE, pre.shape[1 - axis] - tile[1 - axis] * DEFECT_TILE)
            per_line = np.bincount(found[:, axis], minlength=1)
            is_lost = per_line >= max(_LINE_PX, _LINE * length)
            line[np.flatnonzero(is_lost) + tile[axis] * DEFECT_TILE] = True
            lost |= is_lost[found[:, axis]]
        if 0 < len(found := found[~lost]) <= MOST_DEFECTS:
            tiles[tile] = found.astype(np.uint16)
    at_top, near = int(piled[0]), int(piled[1] - piled[0])
    is_saturated = at_top >= _PILE_PX and at_top > _PILE * near
    return Defects(tiles, lines, top if is_saturated else np.inf, at_top if is_saturated else 0)


def _measure_noise(image: Pixels, least: float) -> NoiseCurve:
    """Measure noise by level, rising, in windows all over an image."""
    levels, away = [], []
    for row in range(_SAMPLES):
        for col in range(_SAMPLES):
            y, x = (int((k + 0.5) / _SAMPLES * n) for k, n in zip((row, col), image.shape, strict=True))
            window = Window(y, y + _SAMPLE_PX, x, x + _SAMPLE_PX).clip(image.shape)
            block = image.read(window).astype(np.float32)
            if np.isfinite(block).all():
                levels.append(cv2.medianBlur(block, 3).ravel())
                away.append(np.abs(block.ravel() - levels[-1]))
    if not levels:
        return lambda at: np.full(at.shape, np.inf)
    level, departs = np.concatenate(levels), np.concatenate(away)
    groups = np.array_split(np.argsort(level, kind="stable"), _GROUPS)
    kept = (np.sort(departs[g])[: max(1, int(0.95 * len(g)))] for g in groups)
    sigmas = np.maximum.accumulate([max(least, _SIGMA * float(part.mean())) for part in kept])
    middles = [float(np.median(level[g])) for g in groups]
    return lambda at: np.interp(at, middles, sigmas)


def _find_suspicious(
    block: NDArray[Any], noise: NoiseCurve
) -> tuple[Ints, NDArray[np.float64]]:
    """Return the suspicious px of a tile, (N, 2) [row, col], and how many sigma they depart."""
    none = np.zeros((0, 2), np.intp), np.zeros(0)
    if min(block.shape) < len(_STEPS):
        return none
    if block.dtype.str[1:] not in ("u1", "u2", "i2") or not block.dtype.isnative:
        block = np.nan_to_num(block.astype(np.float32))
    wide = cv2.copyMakeBorder(block, 2, 2, 2, 2, cv2.BORDER_REFLECT_101)
    median = cv2.medianBlur(wide, 3)[2:-2, 2:-2]
    away = cv2.absdiff(block, median)
    least = _FAR * float(noise(np.array([-np.inf]))[0])
    at = np.argwhere(away > least) if np.isfinite(least) else none[0]
    level = median[at[:, 0], at[:, 1]].astype(np.float32)
    value = block[at[:, 0], at[:, 1]].astype(np.float32)
    departs = (value - level) / noise(level)
    far = np.abs(departs) > _FAR
    at, level, value, departs = at[far], level[far], value[far], departs[far]
    if not 0 < len(at) <= block.size // 8:
        return none
    around = _cut_patches(wide, at + 2)
    other = np.where(value > level, level - around.min(axis=1), around.max(axis=1) - level)
    beyond = np.abs(value - level) > other
    return at[beyond], departs[beyond]


def _cut_patches(image: NDArray[Any], at: Ints) -> NDArray[np.float32]:
    """Return the 5 x 5 px around places (N, 2) [row, col] inside an image, (N, 25)."""
    rows, cols = at[:, 0, None, None] + _STEPS[:, None], at[:, 1, None, None] + _STEPS
    return np.asarray(image[rows, cols].reshape(len(at), -1), np.float32)


def _depart_in_post(
    post: Pixels, xy: NDArray[np.float64], signs: NDArray[np.float64], noise: NoiseCurve
) -> NDArray[np.float64]:
    """Return by how many sigma post departs at places (N, 2) (x, y) in a direction, (N,).

    The most of 3 x 3 px, from the median of 5 x 5 px. inf where post has no such px.
    """
    out = np.full(len(xy), np.inf)
    high = np.array(post.shape[::-1]) - 3
    inside = np.flatnonzero((xy > 2).all(axis=1) & (xy < high).all(axis=1))
    if not len(inside):
        return out
    at = np.rint(xy[inside, ::-1]).astype(np.intp)
    (y0, x0), (y1, x1) = at.min(axis=0) - 2, at.max(axis=0) + 3
    window = Window(int(y0), int(y1), int(x0), int(x1))
    if window.size > _MOST_POST * DEFECT_TILE**2:
        return out
    patches = _cut_patches(post.read(window), at - (y0, x0))
    level = np.median(patches, axis=1)
    core = patches.reshape(-1, 5, 5)[:, 1:4, 1:4].reshape(-1, 9)
    most = (signs[inside, None] * (core - level[:, None])).max(axis=1) / noise(level)
    out[inside] = np.where(np.isfinite(most), most, np.inf)
    return out
