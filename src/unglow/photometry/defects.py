"""Px of pre that do not show the section: hot and dead px, tracks, lost rows, saturated px.

Resampling would spread them, so they are found in pre's own px and become no data before it. A px
is suspicious if it departs from the 5 x 5 px around it by far more than noise, and by more than
any of them to the other side. It is a defect if post does not show it: a sharp grain of the section
is in both images. This is done in fixed tiles, so that the tiling of later work changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

from unglow.core.progress import step
from unglow.core.windows import Window, cells, grid, map_bounded
from unglow.io.stored_values import measure_step
from unglow.memory import DEFECT_TILE, MOST_DEFECTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.core.windows import Pixels
    from unglow.transform import Transform

    Floats = NDArray[np.float32]
    Ints = NDArray[np.intp]

_FAR = 8.0
"""A suspicious px departs by this many standard deviations of the noise around it."""
_LOW, _MIDDLE, _HIGH, _SIGMAS = 6, 12, 18, 1.3
"""Of 25 sorted px: their median, and two that are this many standard deviations of noise apart."""
_SHOWN = 1 / 3
"""Post shows a px if one of 3 x 3 px there departs by this part of that, each in its own noise."""
_LINE = 0.1
"""A row or column of a tile is lost if this part of it are defects."""
_PILE, _PILE_PX, _BELOW = 2, 16, 1 / 256
"""Pre is saturated if its largest value has this many times as many px as the values just below (a
step, or this part of its range), and this many."""
_MOST_POST = 8
"""At most this many tiles of post are read for a tile of pre."""
_STEPS = np.arange(-2, 3)
_SHARED = ("u1", "u2", "i2")
"""Types whose medians need no floats."""


@dataclass(frozen=True, eq=False)
class Defects:
    """Px of an image that are not data.

    Attributes
    ----------
    tiles
        Row and column of a tile of `DEFECT_TILE` px to the flat numbers of its defects, and the
        rows and columns in it that are lost.
    top
        px with this value or more are saturated; inf if none are.
    saturated_px
        How many these are.
    """

    tiles: dict[tuple[int, int], tuple[NDArray[np.uint32], Ints, Ints]]
    top: float
    saturated_px: int

    def mask(self, block: Floats, window: Window) -> None:
        """Set defects in the px of a window to NaN, in place."""
        if self.saturated_px:
            block[block >= np.float32(self.top)] = np.nan
        for tile, part in cells(window, (DEFECT_TILE, DEFECT_TILE)):
            if tile in self.tiles:
                px, rows, cols = self.tiles[tile]
                lost = np.zeros((DEFECT_TILE, DEFECT_TILE), np.bool_)
                lost.flat[px] = lost[rows] = lost[:, cols] = True
                inside = part.shift(-tile[0] * DEFECT_TILE, -tile[1] * DEFECT_TILE)
                block[part.shift(-window.y0, -window.x0).slices][lost[inside.slices]] = np.nan


@step("defects")
def find_defects(
    images: tuple[Pixels, Pixels],
    transform: Transform,
    pre_range: tuple[float, float],
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
    integer
        Whether the images hold integer grey levels: noise is then half a level at least.
    workers
        Tiles in flight.
    """
    post, pre = images
    least, (low, top) = 0.5 * integer, pre_range
    below = top - max(measure_step(pre), _BELOW * (top - low))
    windows = list(grid(pre.shape, (DEFECT_TILE, DEFECT_TILE)))

    def search(window: Window) -> tuple[Window, Ints, Ints]:
        block = pre.read(window)
        piled = np.array([np.count_nonzero(block >= value) for value in (top, below)])
        at, departs = _find_suspicious(block, least)
        if len(at):
            xy = transform.inverse_map(at[:, ::-1] + np.array([window.x0, window.y0]))
            at = at[_depart_in_post(post, xy, np.sign(departs), least) < _SHOWN * np.abs(departs)]
        return window, at, piled

    tiles, piled = {}, np.zeros(2, np.int64)
    for window, at, counts in map_bounded(search, windows, workers):
        piled += counts
        rows, cols = (
            np.flatnonzero(np.bincount(at[:, axis]) > _LINE * window.shape[1 - axis])
            for axis in (0, 1)
        )
        px = at[~(np.isin(at[:, 0], rows) | np.isin(at[:, 1], cols))] @ [DEFECT_TILE, 1]
        if len(at) and len(px) <= MOST_DEFECTS // len(windows):
            tile = window.y0 // DEFECT_TILE, window.x0 // DEFECT_TILE
            tiles[tile] = px.astype(np.uint32), rows, cols
    at_top, near = int(piled[0]), int(piled[1] - piled[0])
    is_saturated = at_top >= max(_PILE_PX, _PILE * near + 1)
    return Defects(tiles, top if is_saturated else np.inf, at_top if is_saturated else 0)


def _find_suspicious(block: NDArray[Any], least: float) -> tuple[Ints, Floats]:
    """Return the suspicious px of a tile, (N, 2) [row, col], and how many sigma they depart."""
    none = np.zeros((0, 2), np.intp), np.zeros(0, np.float32)
    if min(block.shape) < len(_STEPS):
        return none
    if not (block.dtype.isnative and block.dtype.str[1:] in _SHARED):
        block = np.nan_to_num(block.astype(np.float32))
    wide = cv2.copyMakeBorder(block, 2, 2, 2, 2, cv2.BORDER_REFLECT_101)
    away = cv2.absdiff(block, cv2.medianBlur(wide, 3)[2:-2, 2:-2])
    flat = np.flatnonzero(away > _FAR * max(cv2.mean(away)[0], least))
    if not 0 < len(flat) <= block.size // 8:
        return none
    at = np.stack(np.divmod(flat, block.shape[1]), axis=1)
    patches, level, sigma = _measure_around(wide, at + 2, least)
    value = block[at[:, 0], at[:, 1]].astype(np.float32)
    other = np.where(
        value > level, level - patches.min(axis=(1, 2)), patches.max(axis=(1, 2)) - level
    )
    away = np.abs(value - level)
    found = (away > _FAR * sigma) & (away > other)
    return at[found], ((value - level) / sigma)[found]


def _measure_around(image: NDArray[Any], at: Ints, least: float) -> tuple[Floats, Floats, Floats]:
    """Return the 5 x 5 px around places (N, 2) [row, col], (N, 5, 5), with median and noise."""
    rows, cols = at[:, 0, None, None] + _STEPS[:, None], at[:, 1, None, None] + _STEPS
    patches = image[rows, cols]
    ranked = np.sort(patches.reshape(len(at), 25), axis=1).astype(np.float32)
    sigma = (ranked[:, _HIGH] - ranked[:, _LOW]) / np.float32(_SIGMAS)
    return patches, ranked[:, _MIDDLE], np.maximum(sigma, np.float32(least))


def _depart_in_post(
    post: Pixels, xy: NDArray[np.float64], signs: Floats, least: float
) -> NDArray[np.float64]:
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
    patches, level, sigma = _measure_around(block, at - (y0, x0), least)
    core = patches[:, 1:4, 1:4].reshape(-1, 9) - level[:, None]
    most = (signs[inside, None] * core).max(axis=1) / sigma
    out[inside] = np.where(np.isfinite(most), most, np.inf)
    return out
