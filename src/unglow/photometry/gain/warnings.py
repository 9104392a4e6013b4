"""Warnings about a gain that every method would report without a word."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unglow.core.reasons import explain
from unglow.memory import CELL
from unglow.photometry.gain.scale import METHODS
from unglow.photometry.imaging import ROUNDING

if TYPE_CHECKING:
    from unglow.core.arrays import Floats, Ints
    from unglow.photometry.cell_moments import CellMoments
    from unglow.photometry.joint_histogram import JointStatistics

# Dark pixels: the darkest 1 % and 10 % of an image. Of noise around 0 alone, the 10 % quantile is
# 0.55 of the 1 % quantile; below an offset, nearly 1.
_DARKEST, _DARK, _SIMILAR = 0.01, 0.1, 0.7
# More of the pixels with a ratio at the largest value of post than this are no longer grains.
_SATURATED = 0.05
# Nor does a smaller share of all pixels: where most have no ratio, a single one is 5 % of the rest.
_LEAST_SATURATED = 0.001
# Residuals that scatter by more than this times what noise explains are not noise.
_SCATTERED = 3.0
# A pedestal that changes the gain by less than this part of it is within what a ratio promises.
_DISAGREE = 0.1
# The slope above a pedestal is fitted between these quantiles of pre, to the medians of post at
# levels of pre that have this many pixels.
_SLOPE_RANGE, _LEAST_PIXELS = (0.3, 0.98), 50
# Of a copy: cells whose variance (steps between levels, squared) is below this say nothing; this
# many cells are needed.
_VARIATION, _LEAST_CELLS = 0.5, 200
# Noise of a fifth of a grey level in each image makes 1.5 times what rounding does.
_COPY = 1.25
# Where levels are not rounded: what interpolation may leave of a copy, as a part of the variance.
_INTERPOLATED = 1e-4
# Below this many grey levels, two exposures of a camera may differ by rounding alone.
_FEW_LEVELS = 64
# Where pre is at its darkest level, post may be darker than at the next level by this many times
# what noise makes of 45 % of the px, and by this many bins: in this share of the px at most, where
# the next level has enough of them.
_NOISE_TAIL, _TAIL, _BINS, _MOST_LOST, _ENOUGH = 2, 0.05, 2, 0.003, 200
_SAME_NOISE = "They have the same noise px by px, which two exposures never have."


def pixel_warnings(stats: JointStatistics, gain: float | None, method: str) -> list[str]:
    """Return a reason for each property of the pixels that falsifies the gain of a method.

    The gain of a ratio is compared with how post grows with pre.
    """
    about = METHODS[method]
    found: list[str] = []
    growth = _growth_above_pedestal(stats) if about.takes_ratios else None
    if gain is not None and growth is not None and abs(gain / growth - 1) > _DISAGREE:
        found.append(explain("pedestal", growth=growth, gain=gain))
    for name, axis in () if about.finds_offset else (("post", 0), ("pre", 1)):
        level = _negative_level(stats, axis)
        if level is not None:
            found.append(explain("negative", name=name, level=level))
    counts = stats.n
    at_top = counts["post_at_maximum"]
    if at_top > max(_SATURATED * counts["ratio"], _LEAST_SATURATED * counts["pixels"]):
        wrong = "its difference there" if about.finds_offset else "the gain"
        percent = 100 * at_top / counts["pixels"]
        numbers = {"percent": percent, "digits": 0 if percent >= 1 else 1, "top": stats.top}
        found.append(explain("saturated", wrong=wrong, **numbers))
    return found


def level_warnings(stats: JointStatistics) -> list[str]:
    """Return a reason if pre has lost its darkest grey levels.

    Post still has them: where pre is at its darkest level, it is darker than at the next one by
    more than noise.
    """
    first = int(stats.joint.any(axis=1).argmax())
    darkest, after = stats.joint[first], stats.joint[first + 1 : first + 2].sum(axis=0)
    if after.sum() < _ENOUGH:
        return []
    bins = np.arange(len(after), dtype=np.float64)
    low, middle = (int(_quantile(bins, after, q)) for q in (_TAIL, 0.5))
    limit = middle - _NOISE_TAIL * (middle - low) - _BINS
    share = darkest[: max(0, limit)].sum() / stats.joint.sum()
    return [explain("pre_dark_end", percent=100 * share)] if share > _MOST_LOST else []


def background_warnings(spread: float | None) -> list[str]:
    """Return a reason if pre does not show the background of post.

    ``spread`` is that of what is left of the background, over what the noise of both images
    explains; None where it is not known.
    """
    scattered = spread is not None and spread > _SCATTERED
    return [explain("scatter", spread=spread)] if scattered else []


def copy_warnings(moments: CellMoments, *, integer: bool) -> list[str]:
    """Return a reason if the images look like one exposure.

    A camera's noise is below a fifth of a level only where an image has few of them.
    """
    if not is_copy(moments, integer=integer):
        return []
    ranges = (np.ptp(np.nanquantile(m, (0.01, 0.99))) for m in (moments.post, moments.pre))
    few = integer and min(ranges) < _FEW_LEVELS
    return [explain("rounding") if few else explain("copy", why=_SAME_NOISE)]


def is_copy(moments: CellMoments, *, integer: bool) -> bool:
    """Say whether the images of a pair differ by a gain, an offset and rounding alone.

    What post does not share with pre inside a cell holds the noise of both images; of a copy,
    rescaled or shifted by integer px, it holds rounding alone. Each cell has a line of its own, so
    that uneven light does not matter. False where fewer than 200 cells have any variation.
    """
    px, least = CELL * CELL, _VARIATION if integer else 0.0
    usable = (moments.count == px) & (moments.post_var > least) & (moments.pre_var > least)
    if np.count_nonzero(usable) < _LEAST_CELLS:
        return False
    post, pre, both = (
        getattr(moments, name)[usable].astype(np.float64) for name in ("post_var", "pre_var", "cov")
    )
    alone = (post - both**2 / pre) * px / (px - 2)
    rounding = ROUNDING * (1 + post / pre) if integer else 0.0
    return bool(np.median(alone / (rounding + _INTERPOLATED * post)) < _COPY)


def _negative_level(stats: JointStatistics, axis: int) -> float | None:
    """Return the level of the dark pixels if it is clearly negative, and not noise around 0."""
    marginal = stats.joint.sum(axis=axis)
    if not marginal.any():
        return None
    lowest, low = (_quantile(stats.centres, marginal, q) for q in (_DARKEST, _DARK))
    clear = low + stats.width / 2 < -stats.grey_level  # where the entire bin is
    return low if clear and low < _SIMILAR * lowest else None


def _growth_above_pedestal(stats: JointStatistics) -> float | None:
    """Return the slope of post over pre where both have a pedestal, None where they have none.

    A least-squares line through the median of post at each level of pre: the median hardly feels
    stain, and a line feels no pedestal.
    """
    if not stats.joint.any():
        return None
    for axis in (0, 1):
        darkest = _quantile(stats.centres, stats.joint.sum(axis=axis), _DARKEST)
        if darkest - stats.width / 2 <= 2 * stats.grey_level:
            return None
    counts = stats.joint.sum(axis=1)
    low, high = (_quantile(stats.centres, counts, q) for q in _SLOPE_RANGE)
    used = (stats.centres >= low) & (stats.centres <= high) & (counts >= _LEAST_PIXELS)
    if used.sum() < 3:
        return None
    medians = [_quantile(stats.centres, row, 0.5) for row in stats.joint[used]]
    slope = float(np.polyfit(stats.centres[used], medians, 1, w=np.sqrt(counts[used]))[0])
    return slope if slope > 0 else None


def _quantile(values: Floats, counts: Ints, q: float) -> float:
    below = np.cumsum(counts)
    return float(values[np.searchsorted(below, q * below[-1])])
