"""Px of pre that do not show the section: hot and dead px, tracks, lost rows, saturated px.

Resampling would spread them, so they are found in pre's own px and become no data before it. A px
is suspicious if it departs from the 5 x 5 px around it by far more than noise, and by more than
any of them to the other side. It is a defect if post does not show it: a sharp grain of the section
is in both images. This is done in fixed tiles, so that the tiling of later work changes nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.progress import step
from unglow.core.windows import Window, cells, grid, map_bounded
from unglow.images.stored_values import find_below_top, is_pile, measure_step
from unglow.memory import DEFECT_TILE, MOST_DEFECTS, part_length

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from unglow.core.arrays import Array, Floats, Floats32
    from unglow.core.windows import Pixels
    from unglow.transform import Transform

    Ints = NDArray[np.intp]

_FAR = 8.0
"""A suspicious px departs by this many standard deviations of the noise around it."""
_NEAR, _DEAD = 4.0, 10
"""So far departs a dead px, if most px of the smallest value do, and so many at least."""
_LOW, _MIDDLE, _HIGH, _SIGMAS = 6, 12, 18, 1.3
"""Of 25 sorted px: their median, and two that are this many standard deviations of noise apart."""
_SHOWN = 1 / 3
"""Post shows a px if one of 3 x 3 px there departs by this part of that, each in its own noise."""
_LINE = 0.1
"""A row or column of a tile is lost if this part of it are defects."""
_MOST_POST = 8
"""At most this many tiles of post are read for a tile of pre."""
_STRIP = 64
"""Rows that are looked at together: as much as fits the cache, and no new memory each time."""


@dataclass(frozen=True, eq=False)
class Defects:
    """Px of an image that are not data.

    Attributes
    ----------
    side
        Side of a tile, px.
    tiles
        Row and column of a tile to the flat numbers of its defects, and the rows and columns in it
        that are lost.
    top
        px with this value or more are saturated; inf if none are.
    saturated_px
        How many these are.
    """

    side: int
    tiles: dict[tuple[int, int], tuple[NDArray[np.uint32], Ints, Ints]]
    top: float
    saturated_px: int

    def mask(self, block: Floats32, window: Window) -> None:
        """Set defects in the px of a window to NaN, in place."""
        if self.saturated_px:
            block[block >= np.float32(self.top)] = np.nan
        for tile, part in cells(window, (self.side, self.side)):
            if tile in self.tiles:
                px, rows, cols = self.tiles[tile]
                lost = np.zeros((self.side, self.side), np.bool_)
                lost.flat[px] = lost[rows] = lost[:, cols] = True
                inside = part.shift(-tile[0] * self.side, -tile[1] * self.side)
                block[part.shift(-window.y0, -window.x0).slices][lost[inside.slices]] = np.nan


@step("defects")
def find_defects(
    images: tuple[Pixels, Pixels],
    transform: Transform,
    pre_range: tuple[float, float],
    visit: Callable[[Floats32, Window], None],
    *,
    integer: bool,
    workers: int,
) -> Defects:
    """Find the defects of pre, and whether it is saturated.

    Parameters
    ----------
    images
        Post and pre; NaN where there are no data.
    transform
        Map of post (x, y) to pre (x, y), not a failed one.
    pre_range
        Smallest and largest value of pre.
    visit
        Called with each tile of pre, float32 (rows, cols), and its window, from several threads.
        Tiles are whole parts of `unglow.memory.part_length`.
    integer
        Whether the images hold integer grey levels: noise is then half a level at least.
    workers
        Tiles in flight.
    """
    post, pre = images
    least, (low, top) = 0.5 * integer, pre_range
    below = find_below_top(pre_range, measure_step(pre))
    side = max(DEFECT_TILE, part_length(pre.shape))
    windows = list(grid(pre.shape, (side, side)))

    def search(window: Window) -> tuple[Window, Ints, NDArray[np.bool_], Ints]:
        block = pre.read(window)
        visit(block.astype(np.float32), window)
        *ends, lowest = (_fit_type(math.ceil, v, block.dtype) for v in (top, below, low))
        counts = [np.count_nonzero(block >= end) for end in ends]
        at, departs = _find_suspicious(block, least, lowest)
        if len(at):
            xy = transform.inverse_map(at[:, ::-1] + np.array([window.x0, window.y0]))
            shown = _SHOWN * np.maximum(np.abs(departs), _FAR)  # less is noise in post
            alone = _depart_in_post(post, xy, np.sign(departs), least) < shown
            at, departs = at[alone], departs[alone]
        is_low = block[tuple(at.T)] == lowest
        counts += [np.count_nonzero(is_low), np.count_nonzero(block == lowest)]
        return window, at, is_low & (np.abs(departs) <= _FAR), np.array(counts)

    tiles, dead, piled = {}, {}, np.zeros(4, np.int64)
    for window, at, is_weak, counts in map_bounded(search, windows, workers):
        piled += counts
        rows, cols = (
            np.flatnonzero(np.bincount(at[~is_weak, axis]) > _LINE * window.shape[1 - axis])
            for axis in (0, 1)
        )
        is_rest = ~(np.isin(at[:, 0], rows) | np.isin(at[:, 1], cols))
        px = (at @ [side, 1]).astype(np.uint32)
        if len(at) and np.count_nonzero(is_rest) <= MOST_DEFECTS // len(windows):
            tile = window.y0 // side, window.x0 // side
            tiles[tile], dead[tile] = (px[is_rest & ~is_weak], rows, cols), px[is_rest & is_weak]
    if piled[2] >= max(_DEAD, piled[3] / 2):
        for tile, (px, rows, cols) in tiles.items():
            tiles[tile] = np.concatenate([px, dead[tile]]), rows, cols
    at_top = int(piled[0]) if is_pile(*piled[:2].tolist()) else 0
    return Defects(side, tiles, top if at_top else np.inf, at_top)


def _find_suspicious(block: Array, least: float, low: float) -> tuple[Ints, Floats32]:
    """Return the suspicious px of a tile, (N, 2) [row, col], and how many sigma they depart.

    Those of the value ``low`` need to depart less.
    """
    at = np.zeros((0, 2), np.intp)
    if min(block.shape) < 5:
        return at, np.zeros(0, np.float32)
    # differences of the same type are smaller, and faster; those of signed integers are too large
    wide = np.pad(block if block.dtype.kind in "uf" else block.astype(np.float32), 2)
    if wide.dtype.kind == "f":
        np.copyto(wide, 0, where=~np.isfinite(wide))
    for lines in (wide, wide.T):  # at an edge, the 5 x 5 px are those inside
        lines[:2], lines[-2:] = lines[5:7], lines[-7:-5]
    for top in range(0, len(block), _STRIP):
        part = wide[top : top + _STRIP + 4]
        level = _take_middle(part[:, :-4], part[:, 2:-2], part[:, 4:])
        level = _take_middle(level[:-4], level[2:-2], level[4:])
        value = part[2:-2, 2:-2]
        away = np.maximum(value, level) - np.minimum(value, level)
        typical = max(_measure_typical(away), least)
        far, near = (_fit_type(math.floor, n * typical, away.dtype) for n in (_FAR, _NEAR))
        far = np.flatnonzero((away > far) | ((away > near) & (value == low)))
        if len(far) <= away.size // 8:
            row, col = np.divmod(far, away.shape[1])
            at = np.concatenate([at, np.stack([row + top, col], axis=1)])
    patches, ranked, sigma = _measure_around(wide, at + 2, least)
    value, level = patches[:, 2, 2].astype(np.float32), ranked[:, _MIDDLE]
    other = np.where(value > level, level - ranked[:, 0], ranked[:, -1] - level)
    away = np.abs(value - level)
    found = (away > np.where(value == low, _NEAR, _FAR) * sigma) & (away > other)
    with np.errstate(divide="ignore"):  # floats may have no noise
        return at[found], (value[found] - level[found]) / sigma[found]


def _fit_type(rounded: Callable[[float], int], value: float, dtype: np.dtype[Any]) -> Any:
    """Return a limit for px of a type: integers are compared much faster with integers."""
    if dtype.kind not in "ui" or not math.isfinite(value):
        return value
    ends = np.iinfo(dtype)
    return dtype.type(min(max(rounded(value), ends.min), ends.max))


def _measure_typical(away: Array) -> float:
    """Return the smaller of two medians: of the means of rows, and of those of columns.

    Lost rows and columns are few; sums of integers are the same on every processor.
    """
    some = away[::2, ::2].astype(np.float64)
    ranked = (np.sort(some.mean(axis=k)) for k in (0, 1))
    return min(float((one[(len(one) - 1) // 2] + one[len(one) // 2]) / 2) for one in ranked)


def _take_middle(a: Array, b: Array, c: Array) -> Array:
    return np.asarray(np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c)))


def _measure_around(image: Array, at: Ints, least: float) -> tuple[Floats32, Floats32, Floats32]:
    """Return the 5 x 5 px around places (N, 2) [row, col], sorted as well, and their noise."""
    patches = np.lib.stride_tricks.sliding_window_view(image, (5, 5))[*(at - 2).T]
    ranked = np.sort(patches.reshape(len(at), 25).astype(np.float32), axis=1)  # 8 times faster
    sigma = (ranked[:, _HIGH] - ranked[:, _LOW]) / np.float32(_SIGMAS)
    return patches, ranked, np.maximum(sigma, np.float32(least))


def _depart_in_post(post: Pixels, xy: Floats, signs: Floats32, least: float) -> Floats:
    """Return by how many sigma post departs at places (N, 2) (x, y) in a direction, (N,).

    The most of 3 x 3 px. inf where post has no such px.
    """
    out = np.full(len(xy), np.inf)
    inside = np.flatnonzero(((xy > 2) & (xy < np.array(post.shape[::-1]) - 3)).all(axis=1))
    at = np.rint(xy[inside, ::-1]).astype(np.intp)
    if not len(at) or np.prod(np.ptp(at, axis=0) + 5) > _MOST_POST * DEFECT_TILE**2:
        return out
    (y0, x0), (y1, x1) = (at.min(axis=0) - 2).tolist(), (at.max(axis=0) + 3).tolist()
    block = post.read(Window(y0, y1, x0, x1))
    patches, ranked, sigma = _measure_around(block, at - (y0, x0), least)
    core = patches[:, 1:4, 1:4].reshape(-1, 9) - ranked[:, _MIDDLE, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        most = (signs[inside, None] * core).max(axis=1) / sigma
    out[inside] = np.where(np.isfinite(most), most, np.inf)
    return out
