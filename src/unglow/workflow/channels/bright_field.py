"""Whether an image is bright-field: what absorbs is dark on a bright background.

Two things have to agree. Most of the image lies nearer to its brightest than to its darkest level;
and the dark part is the textured one. In fluorescence the dark part is smooth glass or tissue that
does not glow, however much of the image the section fills, and the bright part has the texture.
On 7 bright-field images of 6 instruments the darkest 2 % of the px change by 8 to 32 % of the range
within 4 px, 5 to 150 times as much as the brightest quarter; on 12 images of fluorescence and on
phantoms by less than 1 %, at most 0.11 times as much.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.windows import Window

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from unglow.core.windows import Pixels

# Px between the two of a pair that tell texture.
_APART = 4
# What is below the background is less than this part of what is above the darkest.
_NEARER = 0.8
# Percentiles that bound the dark part and the bright part.
_DARK, _BRIGHT = 2.0, 75.0
# The dark part changes by so many times what the bright part does, and by so much of the range.
_TIMES, _LEAST = 3.0, 0.02
# Squares of a store that are looked at: so many per side of the image, of so many px.
_PER_SIDE, _SIDE = 8, 128


def is_bright_field(blocks: Iterable[NDArray[Any]]) -> bool:
    """Say whether an image is bright-field, from sampled blocks (rows, cols) of its signal.

    Values that are not finite are left out. In doubt it is not.
    """
    pairs = [_pairs(block) for block in blocks if block.shape[1] > _APART]
    if not pairs:
        return False
    left, right = np.concatenate(pairs, axis=1)
    known = np.isfinite(left) & np.isfinite(right)
    left, right = left[known], right[known]
    if not left.size:
        return False
    lowest, low, high, highest = np.percentile(left, (0.1, 1.0, 99.0, 99.9))
    span = float(highest - lowest)
    below, above = np.maximum(high - left, 0).mean(), np.maximum(left - low, 0).mean()
    if span <= 0 or below >= _NEARER * above:
        return False
    sums, steps = left + right, np.abs(left - right)
    dark, bright = np.percentile(sums, (_DARK, _BRIGHT))
    texture = float(steps[sums <= dark].mean())
    return texture > _TIMES * float(steps[sums >= bright].mean()) + _LEAST * span


def sampled(pixels: Pixels) -> Iterator[NDArray[Any]]:
    """Yield squares spread over an image, (rows, cols)."""
    rows, cols = pixels.shape
    tops, lefts = (
        sorted({int(x) for x in np.linspace(0, max(0, n - _SIDE), _PER_SIDE)}) for n in (rows, cols)
    )
    for y in tops:
        for x in lefts:
            yield pixels.read(Window(y, min(y + _SIDE, rows), x, min(x + _SIDE, cols)), 0)


def _pairs(block: NDArray[Any]) -> NDArray[np.float32]:
    """Return px of every other row and column, and those `_APART` to their right: (2, pairs)."""
    with np.errstate(over="ignore", invalid="ignore"):  # not finite, so left out
        values = block[::2].astype(np.float32)
    left = values[:, :-_APART:2]
    return np.stack([left.ravel(), values[:, _APART::2][:, : left.shape[1]].ravel()])
