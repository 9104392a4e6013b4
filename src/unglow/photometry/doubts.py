"""What makes a gain doubtful that every method would report without a word."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.photometry.statistics import JointStatistics

# Of noise around 0 alone, the 10 % quantile is 0.55 of the 1 % quantile; below an offset, nearly 1.
_LIKE = 0.7
# More of the pixels with a ratio at the largest value of post than this are no longer grains.
_SATURATED = 0.05


def doubts(stats: JointStatistics) -> list[str]:
    """Return a sentence for each property of the pixels that falsifies every ratio."""
    told = []
    for name, axis in (("post", 0), ("pre", 1)):
        level = _negative_level(stats, axis)
        if level is not None:
            told.append(
                f"The dark pixels of {name} lie near {level:g} and not near 0, which makes every "
                "ratio wrong: export both images with their offset taken off."
            )
    counts = stats.n
    if counts["post_at_maximum"] > _SATURATED * counts["ratio"]:
        share = 100 * counts["post_at_maximum"] / counts["pixels"]
        told.append(
            f"{share:.0f} % of the post pixels have its largest value ({stats.top:g}), so it is "
            "probably saturated and the gain too low: expose it shorter."
        )
    return told


def _negative_level(stats: JointStatistics, axis: int) -> float | None:
    """Return the level of the dark pixels if it is clearly negative, and not noise around 0."""
    marginal = stats.joint.sum(axis=axis)
    if not marginal.any():
        return None
    lowest, low = (_quantile(stats.centres, marginal, q) for q in (0.01, 0.1))
    clear = low + stats.width / 2 < -stats.grey_level  # where the whole bin lies
    return low if clear and low < _LIKE * lowest else None


def _quantile(values: NDArray[np.float64], counts: NDArray[np.int64], q: float) -> float:
    below = np.cumsum(counts)
    return float(values[np.searchsorted(below, q * below[-1])])
