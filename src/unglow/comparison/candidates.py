"""Candidates of two lists, side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unglow.review.nearest import REACH_PX, nearest

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Matched:
    """Which candidates of two lists are the same.

    Attributes
    ----------
    pairs
        (k, 2) intp, indices into a and b, in the order of a.
    lost, new
        Indices of those in a alone and in b alone, ascending.
    """

    pairs: NDArray[np.intp]
    lost: NDArray[np.intp]
    new: NDArray[np.intp]


def match(a: NDArray[np.float64], b: NDArray[np.float64], radius: float = REACH_PX) -> Matched:
    """Match positions one to one, the nearest pairs first.

    Parameters
    ----------
    a, b
        (N, 2) and (M, 2) positions (x, y), px of post.
    radius
        Partners are no further apart, px.
    """
    partners = np.array([-1 if n is None else n for n in nearest(a, b, radius)], np.intp)
    found = partners >= 0
    return Matched(
        np.column_stack([np.flatnonzero(found), partners[found]]),
        np.flatnonzero(~found),
        np.setdiff1d(np.arange(len(b)), partners[found]),
    )
