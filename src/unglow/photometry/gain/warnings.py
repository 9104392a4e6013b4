"""What makes a gain doubtful that every method would report without a word."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.photometry.joint_histogram import JointStatistics

# Of noise around 0 alone, the 10 % quantile is 0.55 of the 1 % quantile; below an offset, nearly 1.
_LIKE = 0.7
# More of the pixels with a ratio at the largest value of post than this are no longer grains.
_SATURATED = 0.05
# Residuals that scatter by more than this times what noise explains are not noise.
_SCATTERED = 3.0
# A pedestal that changes the gain by less than this is within what a pure ratio promises.
_DISAGREE = 0.1
# Fewer pixels of one pre level than this have no median worth having.
_LEAST = 50


def doubts(stats: JointStatistics, gain: float | None, method: str) -> list[str]:
    """Return a sentence for each property of the pixels that falsifies the gain of a method.

    Parameters
    ----------
    stats
        Of the pair.
    gain
        What it gave; that of a ratio is compared with how post grows with pre.
    method
        ``linear``, which finds offsets itself, ``manual``, or one that rests on ratios.
    """
    told = []
    growth = None if method in ("linear", "manual") else _growth_above_pedestal(stats)
    if gain is not None and growth is not None and abs(gain / growth - 1) > _DISAGREE:
        told.append(
            f"Even the darkest pixels of both images are clearly above 0, and above them post "
            f"grows {growth:.3g} times as fast as pre while the gain is {gain:.3g}: probably a "
            "camera offset: use the linear method, or take it off both images."
        )
    for name, axis in () if method == "linear" else (("post", 0), ("pre", 1)):
        level = _negative_level(stats, axis)
        if level is not None:
            told.append(
                f"The dark pixels of {name} lie near {level:g} and not near 0, which makes every "
                "ratio wrong: use the linear method, or take the offset off both images."
            )
    counts = stats.n
    if counts["post_at_maximum"] > _SATURATED * counts["ratio"]:
        wrong = "difference there" if method == "linear" else "gain"
        share = 100 * counts["post_at_maximum"] / counts["pixels"]
        told.append(
            f"{share:.0f} % of the post pixels have its largest value ({stats.top:g}), so it is "
            f"probably saturated and the {wrong} too low: expose it shorter."
        )
    return told


def doubts_of_match(spread: float | None) -> list[str]:
    """Return a sentence if pre does not show the background of post.

    Parameters
    ----------
    spread
        Of what is left of the background, over what the noise of both images explains; None where
        it is not known.
    """
    if spread is None or spread <= _SCATTERED:
        return []
    told = (
        f"What is left of the background scatters {spread:.2g} times as much as noise "
        "explains: pre shows another background than post (another focus, bleaching, stain all "
        "over), so believe gain and faint candidates only after a look at the difference."
    )
    return [told]


def _negative_level(stats: JointStatistics, axis: int) -> float | None:
    """Return the level of the dark pixels if it is clearly negative, and not noise around 0."""
    marginal = stats.joint.sum(axis=axis)
    if not marginal.any():
        return None
    lowest, low = (_quantile(stats.centres, marginal, q) for q in (0.01, 0.1))
    clear = low + stats.width / 2 < -stats.grey_level  # where the whole bin lies
    return low if clear and low < _LIKE * lowest else None


def _growth_above_pedestal(stats: JointStatistics) -> float | None:
    """Return the slope of post over pre where both have a pedestal, None where they have none.

    A least-squares line through the median of post at each level of pre, from the 30 % to the 98 %
    quantile of pre: the median hardly feels stain, and a line feels no pedestal.
    """
    if not stats.joint.any():
        return None
    for axis in (0, 1):
        darkest = _quantile(stats.centres, stats.joint.sum(axis=axis), 0.01)
        if darkest - stats.width / 2 <= 2 * stats.grey_level:
            return None
    counts = stats.joint.sum(axis=1)
    low, high = (_quantile(stats.centres, counts, q) for q in (0.3, 0.98))
    used = (stats.centres >= low) & (stats.centres <= high) & (counts >= _LEAST)
    if used.sum() < 3:
        return None
    medians = [_quantile(stats.centres, row, 0.5) for row in stats.joint[used]]
    slope = float(np.polyfit(stats.centres[used], medians, 1, w=np.sqrt(counts[used]))[0])
    return slope if slope > 0 else None


def _quantile(values: NDArray[np.float64], counts: NDArray[np.int64], q: float) -> float:
    below = np.cumsum(counts)
    return float(values[np.searchsorted(below, q * below[-1])])
