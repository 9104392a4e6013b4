"""The cells that a fit may rest on, with what resampling did to their noise."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from unglow.photometry.noise.cell_variance import WHITE, post_noise, pre_noise
from unglow.photometry.noise.resampling import at_phase, rounded_jacobian
from unglow.photometry.sizes import CELL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.photometry.blur import Blur
    from unglow.photometry.cell_moments import BinSamples
    from unglow.transform import Transform

    Floats = NDArray[np.float64]

MOST = 1 << 15
"""More cells than this are thinned out: they would tell nothing new."""
FAR_PX = 1.0
"""Cells where the map may be off by more than this are left out, px."""


@dataclass(frozen=True, eq=False, slots=True)
class Cells:
    """Cells whose pixels are all usable and well aligned.

    Attributes
    ----------
    pre, post
        (N,) means, grey levels.
    pre_var, post_var, cov
        (N,) population variances and covariance within the cell, grey levels^2.
    gradient
        (N,) mean of gx^2 + gy^2 of aligned pre, noise included, (grey levels / px)^2.
    kept_within, kept_mean
        (N,) what resampling leaves of white noise of variance 1 in pre: of the variance within a
        cell, and of the variance of its mean (1/16 for pixels that were not resampled).
    post_within, post_mean
        (N,) what is left of white noise of variance 1 in post, likewise: within a cell as a part of
        what it is without a blur, and of the variance of its mean.
    xy
        (N, 2) centres in post (x, y), px.
    """

    pre: Floats
    post: Floats
    pre_var: Floats
    post_var: Floats
    cov: Floats
    gradient: Floats
    kept_within: Floats
    kept_mean: Floats
    post_within: Floats
    post_mean: Floats
    xy: Floats

    @classmethod
    def of(cls, bins: BinSamples, transform: Transform, blur: Blur | None = None) -> Cells:
        """Choose cells without a saturated or missing pixel where the map is off by 1 px at most.

        Parameters
        ----------
        bins
            Of the pair.
        transform
            Its map, not a failed one.
        blur
            What made the images of the cells match, if anything did.
        """
        xy = bins.centres_xy
        whole = (bins.count == CELL**2).ravel() & ~(_error_px(transform, xy) > FAR_PX)
        chosen = np.flatnonzero(whole)
        chosen = chosen[:: max(1, -(-len(chosen) // MOST))]
        xy = xy[chosen]
        names = ("pre", "post", "pre_var", "post_var", "cov", "gradient")
        values = {name: getattr(bins, name).ravel()[chosen].astype(np.float64) for name in names}
        rows, cols = bins.shape
        jacobian = rounded_jacobian(transform, ((cols - 1) / 2, (rows - 1) / 2))
        in_pre = transform.map(xy)
        tables = pre_noise(jacobian, blur)
        within, mean = (
            at_phase(table, in_pre[:, 0], in_pre[:, 1]) for table in (tables.within, tables.mean)
        )
        post = post_noise(blur)
        return cls(
            **values,
            kept_within=within,
            kept_mean=mean,
            post_within=np.full(len(xy), post.within / WHITE),
            post_mean=np.full(len(xy), post.mean),
            xy=xy,
        )

    def __len__(self) -> int:
        return len(self.pre)

    def at(self, chosen: NDArray[np.bool_]) -> Cells:
        """Return the cells that are chosen, (N,) bool."""
        return Cells(*(getattr(self, f.name)[chosen] for f in fields(self)))

    def every(self, step: int) -> Cells:
        """Return one cell of each ``step``."""
        return Cells(*(getattr(self, f.name)[::step] for f in fields(self)))


def _error_px(transform: Transform, xy: Floats) -> Floats:
    """Estimated error of the map near points, (N, 2) to (N,) px; NaN where it is not known.

    Of a map without a field it is the same everywhere, and tells no place from another: 0.
    """
    field = transform.displacement
    if field is None or not field.error_px.size:
        return np.zeros(len(xy))
    limits = np.array(field.error_px.shape[::-1]) - 1
    near = np.clip(np.rint(xy / field.spacing_px + 1).astype(np.intp), 0, limits)
    return np.asarray(field.error_px[near[:, 1], near[:, 0]], dtype=np.float64)
