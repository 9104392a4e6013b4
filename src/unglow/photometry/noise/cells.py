"""What the fit of the noise needs to know of the cells of a pair."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from unglow.photometry.noise.cell_variance import post_noise, pre_noise
from unglow.photometry.noise.resampling import at_phase, rounded_jacobian
from unglow.photometry.sizes import CELL

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from unglow.photometry.blur import Blur
    from unglow.photometry.cell_moments import BinSamples
    from unglow.transform import Transform

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]

GROUPS = 64
"""Groups of equal count by the gradient around a cell."""
LEAST_CELLS = 200
# So many cells tell a variance to 0.2 %.
_AT_MOST = 1 << 16


@dataclass(slots=True)
class NoiseCells:
    """Whole cells, (N,) each, in grey levels of post: variances of pre are multiplied with gain^2.

    Attributes
    ----------
    post, pre
        Means, each in its own image's levels.
    rest
        Mean of post - (gain * pre + offset).
    p, v
        Of post's own noise, and of the noise of the difference (see `unglow.photometry.noise.fit`).
    gradient
        Squared gradient of pre.
    group
        Number of the cell's group by the gradient around it.
    kept, scatter
        Expectation of the variance inside the cell of pre's noise, and the variance of it, for
        raw px of variance 1.
    mean_kept, slope_kept
        Variance of the cell's mean, and the squared gradient, that such noise gives.
    post_kept, post_scatter, post_mean
        The same of post's noise.
    """

    post: Floats
    pre: Floats
    rest: Floats
    p: Floats
    v: Floats
    gradient: Floats
    group: NDArray[np.intp]
    kept: Floats
    scatter: Floats
    mean_kept: Floats
    slope_kept: Floats
    post_kept: Floats
    post_scatter: Floats
    post_mean: Floats

    def take(self, which: Flags) -> NoiseCells:
        """Return those for which a flag, (N,), is set."""
        return NoiseCells(*(getattr(self, name)[which] for name in NoiseCells.__slots__))


def whole_cells(
    bins: BinSamples,
    gain: ArrayLike,
    offset: ArrayLike,
    transform: Transform,
    blur: Blur | None = None,
) -> NoiseCells:
    """Take the cells whose px are all usable, at most `_AT_MOST` from all over the lattice."""
    around = _neighbours(bins.gradient)
    usable = (bins.count == CELL**2) & np.isfinite(bins.gradient) & np.isfinite(around)
    step = 1
    while usable[::step, ::step].sum() > _AT_MOST:
        step += 1
    thin = np.zeros_like(usable)
    thin[::step, ::step] = True
    usable &= thin
    if usable.sum() < LEAST_CELLS:
        raise ValueError(
            f"only {usable.sum()} cells of {CELL} x {CELL} px have unsaturated data in both images"
        )
    g, o = (
        np.broadcast_to(np.asarray(v, np.float64), usable.shape)[usable] for v in (gain, offset)
    )
    post, pre, post_var, pre_var, cov, gradient = (
        getattr(bins, name)[usable].astype(np.float64)
        for name in ("post", "pre", "post_var", "pre_var", "cov", "gradient")
    )
    x, y = transform.map(bins.centres_xy[usable.ravel()]).T
    rows, cols = bins.shape
    local = rounded_jacobian(transform, ((cols - 1) / 2, (rows - 1) / 2))
    tables, of_post = pre_noise(local, blur), post_noise(blur)
    square = g * g
    return NoiseCells(
        post=post,
        pre=pre,
        rest=post - (g * pre + o),
        p=post_var - g * cov,
        v=post_var - 2 * g * cov + square * pre_var,
        gradient=square * gradient,
        group=_groups(around[usable]),
        kept=square * at_phase(tables.within, x, y),
        scatter=square**2 * at_phase(tables.scatter, x, y),
        mean_kept=square * at_phase(tables.mean, x, y),
        slope_kept=square * _slope_noise(local, tables.slope, x, y),
        post_kept=np.full(len(x), of_post.within),
        post_scatter=np.full(len(x), of_post.scatter),
        post_mean=np.full(len(x), of_post.mean),
    )


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


def _slope_noise(local: Floats, table: Floats, x: Floats, y: Floats) -> Floats:
    """Return the squared gradient that white noise of variance 1 shows in cells around x, y."""
    total = np.zeros_like(x)
    for at in product((-0.5, 0.5), repeat=2):
        dx, dy = local @ at
        total += at_phase(table, x + dx, y + dy)
    return total / 4
