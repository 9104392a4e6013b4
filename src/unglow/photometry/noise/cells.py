"""Cells as the fit of the noise takes them: residuals, variances of noise, groups by gradient."""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from unglow.photometry.cells import Cells, choose_surrounded, tabulate_post_retention
from unglow.photometry.sizes import CELL

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from unglow.photometry.blur import Blur
    from unglow.photometry.cell_moments import CellMoments
    from unglow.transform import Transform

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]

GROUPS = 64
"""Groups of equal count by the gradient around a cell."""
LEAST_CELLS = 200
"""Fewer cells than this tell no noise."""


@dataclass(eq=False, slots=True)
class NoiseCells:
    """Whole cells, (N,) each, in grey levels of post: variances of pre are multiplied with gain^2.

    Attributes
    ----------
    post, pre
        Means, each in its own image's levels.
    residual
        Mean of post - (gain * pre + offset).
    p, v
        Of post's own noise, and of the noise of the difference (see `unglow.photometry.noise.fit`).
    gradient
        Squared gradient of pre.
    group
        Number of the cell's group by the gradient around it.
    pre_within, pre_scatter, pre_mean, pre_slope, post_within, post_scatter, post_mean
        Noise of either image that is `unglow.photometry.cells.Retained`.
    """

    post: Floats
    pre: Floats
    residual: Floats
    p: Floats
    v: Floats
    gradient: Floats
    group: NDArray[np.intp]
    pre_within: Floats
    pre_scatter: Floats
    pre_mean: Floats
    pre_slope: Floats
    post_within: Floats
    post_scatter: Floats
    post_mean: Floats

    @classmethod
    def from_moments(
        cls,
        moments: CellMoments,
        gain: ArrayLike,
        offset: ArrayLike,
        transform: Transform,
        blur: Blur | None = None,
    ) -> NoiseCells:
        """Take cells from all over the lattice; parameters as for `fit_noise`.

        Raises
        ------
        ValueError
            If there are too few of them.
        """
        around = _neighbours(moments.gradient)
        chosen = choose_surrounded(moments, around)
        if chosen.sum() < LEAST_CELLS:
            raise ValueError(
                f"only {chosen.sum()} cells of {CELL} x {CELL} px have unsaturated data in both "
                "images"
            )
        g, o = (
            np.broadcast_to(np.asarray(v, np.float64), chosen.shape)[chosen] for v in (gain, offset)
        )
        cells = Cells.from_moments(moments, chosen, transform, blur)
        square, in_post = g * g, tabulate_post_retention(blur)
        return cls(
            post=cells.post,
            pre=cells.pre,
            residual=cells.post - (g * cells.pre + o),
            p=cells.post_var - g * cells.cov,
            v=cells.post_var - 2 * g * cells.cov + square * cells.pre_var,
            gradient=square * cells.gradient,
            group=_groups(around[chosen]),
            pre_within=square * cells.pre_within,
            pre_scatter=square**2 * cells.pre_scatter,
            pre_mean=square * cells.pre_mean,
            pre_slope=square * cells.pre_slope,
            post_within=np.full(len(cells), in_post.within),
            post_scatter=np.full(len(cells), in_post.scatter),
            post_mean=cells.post_mean,
        )

    def __len__(self) -> int:
        return len(self.post)

    def select(self, chosen: Flags) -> NoiseCells:
        """Return some of the cells."""
        return NoiseCells(*(getattr(self, f.name)[chosen] for f in fields(self)))


def _neighbours(values: NDArray[np.float32]) -> Floats:
    """Return the mean of the neighbours of each cell, itself left out; NaN where there is none."""
    padded = np.pad(values.astype(np.float64), 1, constant_values=np.nan)
    rows, cols = values.shape
    total, count = np.zeros(values.shape), np.zeros(values.shape)
    for i, j in product(range(3), range(3)):
        if (i, j) != (1, 1):
            part = padded[i : i + rows, j : j + cols]
            count += np.isfinite(part)
            total += np.nan_to_num(part)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _groups(values: Floats) -> NDArray[np.intp]:
    """Put values (N,) by size into `GROUPS` numbered groups of equal count."""
    rank = np.empty(len(values), np.intp)
    rank[np.argsort(values, kind="stable")] = np.arange(len(values))
    return rank * GROUPS // len(values)
