"""Partners of points: the nearest, one to one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

REACH_PX = 2.0
"""Two positions of one candidate are no further apart, px."""


def nearest(
    points: NDArray[np.float64], others: NDArray[np.float64], reach: float = REACH_PX
) -> list[int | None]:
    """Return the partner of each point among ``others``, the nearest pairs first.

    Parameters
    ----------
    points, others
        (N, 2) and (M, 2) positions (x, y).
    reach
        Partners are no further apart.

    Returns
    -------
    N indices, none of them twice; None for a point that has no partner.
    """
    if not len(points) or not len(others):
        return [None] * len(points)
    order = np.argsort(others[:, 1], kind="stable")
    rows = others[order, 1]
    begins = np.searchsorted(rows, points[:, 1] - reach, side="left")
    ends = np.searchsorted(rows, points[:, 1] + reach, side="right")
    pairs: list[tuple[float, int, int]] = []
    for k, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
        close = order[begin:end]
        apart = np.hypot(*(others[close] - points[k]).T)
        pairs += [(float(d), k, int(m)) for d, m in zip(apart, close, strict=True) if d <= reach]
    partners: list[int | None] = [None] * len(points)
    taken: set[int] = set()
    for _, k, m in sorted(pairs):
        if partners[k] is None and m not in taken:
            partners[k] = m
            taken.add(m)
    return partners
