"""Location of seams to a px: where one strip's map stops fitting the images and the next starts."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.windows import Window
from unglow.registration.blocks.phase_correlation import filter_band, read_mapped_blocks
from unglow.transform.displacement import Displacement

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.registration.blocks.dense import DenseMatches
    from unglow.registration.pair import Pair
    from unglow.transform.scanner_strips import Strips

    Floats = NDArray[np.float64]

_WINDOWS = 8
"""Windows that are looked at along each seam."""
_RIM_PX = 16
"""They continue this far beyond where the seam is sought, at least."""


def locate(
    pair: Pair, strips: Strips, smooth: Displacement, blocks: DenseMatches, reach: float
) -> tuple[Strips, float]:
    """Move seams to where the images say, by at most ``reach`` px.

    Across each seam, windows of pre are warped with the displacements of both strips. The seam is
    where one stops and the other starts to resemble post.

    Parameters
    ----------
    strips
        Strips with rough seams and known offsets.
    smooth
        The field without strips.
    blocks
        Say where there is texture.

    Returns
    -------
    The strips with better seams, and how much worse than seams of their own the windows fit them,
    0 to 1: straight lines of the wrong image do not follow the seams. It is the median over the
    seams, since one that is not a seam would decide.
    """
    seams, lost = strips.seams.copy(), []
    across = strips.project(blocks.post, smooth.evaluate(blocks.post))
    for k, seam in enumerate(strips.seams):
        middle = (strips.seams[:-1] + strips.seams[1:]) / 2
        low = max([seam - reach, *middle[k - 1 : k]])
        high = min([seam + reach, *middle[k : k + 1]])
        side = min(2 * 2 ** math.ceil(math.log2(reach + _RIM_PX)), *pair.post.shape)
        first, last = math.floor(low), math.ceil(high)
        every = [
            _gain(pair, strips, smooth, k, corner, side, (first, last))
            for corner in _corners(pair, strips, blocks, across, seam, side)
        ]
        gains = [gain for gain in every if gain is not None]
        if gains:
            total = np.sum(gains, axis=0)
            seams[k] = first + int(total.argmax()) + 0.5
            own = sum(float(gain.max()) for gain in gains)
            lost.append((own - float(total.max())) / max(own - float(total.min()), 1e-12))
    seams = np.maximum.accumulate(seams + 1e-6 * np.arange(len(seams)))
    return replace(strips, seams=seams), float(np.median(lost)) if lost else 1.0


def _corners(
    pair: Pair, strips: Strips, blocks: DenseMatches, across: Floats, seam: float, side: int
) -> NDArray[np.int64]:
    """First pixels (x, y) of windows along a seam, evenly spread over where there is texture."""
    near = np.flatnonzero((np.abs(across - seam) <= blocks.step) & (blocks.weights > 0))
    order = near[np.argsort(blocks.post[near, 1 - strips.axis], kind="stable")]
    chosen = order[np.linspace(0, len(order) - 1, min(_WINDOWS, len(order))).astype(np.int64)]
    slope = strips.frame[strips.axis, :2]
    move = (seam - across[chosen])[:, None] * slope / float(slope @ slope)
    corners = np.rint(blocks.post[chosen] + move - (side - 1) / 2).astype(np.int64)
    last = np.array(pair.post.shape[::-1]) - side
    return np.unique(np.clip(corners, 0, np.maximum(last, 0)), axis=0)


def _gain(
    pair: Pair,
    strips: Strips,
    smooth: Displacement,
    k: int,
    corner: NDArray[np.int64],
    side: int,
    span: tuple[int, int],
) -> Floats | None:
    """How well a window fits with seam ``k`` after each integer px of a span, up to a constant.

    With the seam after px p, px up to p take the displacement of the strip before, the others that
    of the strip after.
    """
    x, y = (int(v) for v in corner)
    window = Window(y, y + side, x, x + side)
    products = []
    for offset in strips.offsets[k : k + 2]:
        moved = Displacement(smooth.spacing_px, smooth.coefficients + offset[:, None, None])
        both = read_mapped_blocks(pair.select_level(0, moved), side, corner)
        if both is None:
            return None
        post, pre = (filter_band(v) for v in both)
        power = float(np.sqrt(np.mean(post * post) * np.mean(pre * pre)))
        products.append(post * pre / max(power, 1e-12))
    better = pair.sign * (products[0] - products[1]).ravel()
    first, last = span
    index = np.clip(_positions(strips, smooth, window) - first, 0, last - first + 1)
    sums = np.bincount(index, better, last - first + 2)
    return np.asarray(np.cumsum(sums)[:-1], dtype=np.float64)


def _positions(strips: Strips, smooth: Displacement, window: Window) -> NDArray[np.int64]:
    """Nearest integer px across the strips of all pixels of a window, in row order."""
    rows, cols = (n - 1 for n in window.shape)  # seams hardly bend in a window
    corners = np.array([(x, y) for y in (0, rows) for x in (0, cols)], dtype=np.float64)
    corners += np.array([window.x0, window.y0])
    at = strips.project(corners, smooth.evaluate(corners)).reshape(2, 2)
    down, right = (np.linspace(0, 1, n) for n in window.shape)
    left = at[0, 0] + (at[1, 0] - at[0, 0]) * down
    slope = (at[0, 1] - at[0, 0]) + (at[1, 1] - at[1, 0] - at[0, 1] + at[0, 0]) * down
    positions = np.rint(left[:, None] + slope[:, None] * right)
    return np.asarray(positions.ravel(), dtype=np.int64)
