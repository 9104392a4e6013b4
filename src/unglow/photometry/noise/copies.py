"""Whether post and pre are one exposure: the same noise in both, px by px.

Two exposures never have the same noise. What post does not share with pre inside a cell of 4 x 4 px
holds the noise of both images; of a copy, rescaled or shifted by whole px, it holds rounding alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unglow.photometry.noise.model import ROUNDING
from unglow.photometry.sizes import CELL

if TYPE_CHECKING:
    from unglow.photometry.cell_moments import BinSamples

_PX = CELL * CELL
# Cells whose px differ by less than this say nothing: a variance, in steps between levels squared.
_LIVELY = 0.5
_LEAST = 200
# Noise of a fifth of a grey level in each image makes 1.5 times what rounding does.
_MORE = 1.25
# Where levels are not rounded: what interpolation may leave, as a part of the variance.
_EXACT = 1e-4

ONE_EXPOSURE = (
    "Post and pre have the same noise px by px, which two exposures never have: one is probably a "
    "copy of the other, so that the difference shows nothing. Look which files were exported."
)


def is_copy(bins: BinSamples, *, integer: bool) -> bool:
    """Say whether the images of a pair differ by a gain, an offset and rounding alone.

    Each cell has a line of its own, so that uneven light does not matter, nor stain that is not
    there in a copy. False where fewer than 200 cells have any variation.
    """
    lively = _LIVELY if integer else 0.0
    usable = (bins.count == _PX) & (bins.post_var > lively) & (bins.pre_var > lively)
    if np.count_nonzero(usable) < _LEAST:
        return False
    post, pre, both = (
        getattr(bins, name)[usable].astype(np.float64) for name in ("post_var", "pre_var", "cov")
    )
    alone = (post - both**2 / pre) * _PX / (_PX - 2)
    rounding = ROUNDING * (1 + post / pre) if integer else 0.0
    return bool(np.median(alone / (rounding + _EXACT * post)) < _MORE)
