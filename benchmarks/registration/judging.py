"""Errors of a found map against the truth, and what is said of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from registration.bases import Base
    from registration.geometry import Points, Warp
    from unglow.transform import Transform

BORDER_PX = 130.0
SEAM_PX = 100.0
_POINTS = 160


@dataclass(frozen=True)
class Errors:
    """Distances between found and true place in pre, px; NaN where there is no map.

    ``inside`` is of points further than `BORDER_PX` from the border of either image, ``seam`` of
    those further than `SEAM_PX` from every seam.
    """

    points: int
    overlap: float
    median: float
    p95: float
    most: float
    inside_p95: float
    inside_most: float
    seam_median: float
    seam_p95: float


def section_points(base: Base, shape: tuple[int, int]) -> Points:
    """Spread points (N, 2) over the textured section of post, on a grid."""
    step = max(8, max(shape) // _POINTS)
    y, x = np.mgrid[step // 2 : shape[0] : step, step // 2 : shape[1] : step].astype(np.float64)
    points = np.column_stack([x.ravel(), y.ravel()])
    return points[base.section(points)]


def inside(points: Points, shape: tuple[int, int], margin: float = 0.0) -> NDArray[np.bool_]:
    """Say which points (N, 2) lie in a frame, ``margin`` px from its border."""
    is_in = (points >= margin) & (points <= np.array(shape[::-1]) - 1 - margin)
    return np.asarray(is_in.all(axis=1), np.bool_)


def errors(found: Transform, warp: Warp, points: Points) -> Errors:
    """Compare a found map with the truth at section points (N, 2) of post."""
    truth = warp.to_pre(points)
    seen = inside(truth, found.pre_shape)
    at, truth = points[seen], truth[seen]
    off = np.hypot(*(found.map(at) - truth).T)
    core = inside(at, found.post_shape, BORDER_PX) & inside(truth, found.pre_shape, BORDER_PX)
    away = warp.from_seam(truth) > SEAM_PX
    return Errors(
        points=len(at),
        overlap=float(seen.mean()) if len(seen) else 0.0,
        median=_quantile(off, 0.5),
        p95=_quantile(off, 0.95),
        most=_quantile(off, 1.0),
        inside_p95=_quantile(off[core], 0.95),
        inside_most=_quantile(off[core], 1.0),
        seam_median=_quantile(off[away], 0.5),
        seam_p95=_quantile(off[away], 0.95),
    )


def _quantile(values: NDArray[np.float64], share: float) -> float:
    if not len(values) or not np.isfinite(values).all():
        return float("nan")
    return float(np.quantile(values, share))
