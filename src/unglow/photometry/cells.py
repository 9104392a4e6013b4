"""Cells without a missing or saturated px that fits rest on, and the noise retained in them.

Resampling and blurring retain only a part of the noise of single px.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from unglow.memory import CELL
from unglow.photometry.resampled_noise import (
    cell_noise,
    compute_filtered_noise,
    departures,
    interpolate_phase,
    round_jacobian,
    shift_weights,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from unglow.core.arrays import Bools, Floats, Floats32
    from unglow.photometry.cell_moments import CellMoments
    from unglow.photometry.imaging import Blur
    from unglow.transform import Transform


T = TypeVar("T")

WHITE = (CELL * CELL - 1) / (CELL * CELL)
"""Expected variance inside a cell of white noise of variance 1."""
MOST_GAIN, MOST_NOISE = 1 << 15, 1 << 16
"""Most cells of either fit; more are thinned out, as 32768 give a variance to 0.2 %."""
FAR_PX = 1.0
"""Cells where the map may be off by more than this are excluded from the fit of the gain, px."""
# Phases per axis of the tables of retained noise. A blur leaves little of how it depends on the
# phase, and its tables are large.
_PHASES, _BLURRED_PHASES = 16, 4


@dataclass(frozen=True, slots=True)
class Retained(Generic[T]):
    """What is retained of white noise of variance 1 in single raw px.

    Attributes
    ----------
    within, scatter
        Expectation of the variance inside a cell, and the variance of that.
    mean
        Variance of a cell's mean: 1/16 without resampling.
    slope
        Sum of the squared central differences along both axes.
    """

    within: T
    scatter: T
    mean: T
    slope: T


def tabulate_pre_retention(jacobian: Floats, blur: Blur | None) -> Retained[Floats]:
    """Return tables by phase, (phases, phases) each, of resampled pre.

    That of the slope is averaged over the four middle px of a cell.
    """
    return _tabulate_pre_retention(jacobian.tobytes(), blur)


@lru_cache(maxsize=4)
def _tabulate_pre_retention(local: bytes, blur: Blur | None) -> Retained[Floats]:
    jacobian = np.frombuffer(local).reshape(2, 2)
    taps = np.ones(1) if blur is None else blur.select_taps("pre")
    phases = _PHASES if len(taps) == 1 else _BLURRED_PHASES
    within, scatter = cell_noise(jacobian, CELL, phases, taps)
    mean = shift_weights(taps, CELL).mean(axis=0)
    slope = np.convolve(taps, [-0.5, 0.0, 0.5])
    wide = np.pad(taps, (len(slope) - len(taps)) // 2)
    across, down = np.outer(wide, slope), np.outer(slope, wide)
    slopes = compute_filtered_noise(jacobian, across, phases)
    slopes += compute_filtered_noise(jacobian, down, phases)
    y, x = np.indices(slopes.shape) / len(slopes)
    shifts = [jacobian @ at for at in product((-0.5, 0.5), repeat=2)]
    return Retained(
        within,
        scatter,
        compute_filtered_noise(jacobian, np.outer(mean, mean), phases),
        np.mean([interpolate_phase(slopes, x + dx, y + dy) for dx, dy in shifts], axis=0),
    )


def tabulate_post_retention(blur: Blur | None) -> Retained[float]:
    """Return what is retained in post, which is not resampled."""
    taps = np.ones(1) if blur is None else blur.select_taps("post")
    mixing = departures(taps, CELL)
    products = mixing @ mixing.T
    means = shift_weights(taps, CELL).mean(axis=0)
    slope = np.convolve(taps, [-0.5, 0.0, 0.5])
    return Retained(
        within=float(np.trace(products)) / CELL**2,
        scatter=2 * float((products * products).sum()) / CELL**4,
        mean=float((means * means).sum() ** 2),
        slope=2 * float((slope * slope).sum() * (taps * taps).sum()),
    )


@dataclass(frozen=True, eq=False, slots=True)
class Cells:
    """Chosen cells, (N,) float64 each.

    Attributes
    ----------
    pre, post
        Means, grey levels.
    pre_var, post_var, cov
        Population variances and covariance within the cell, grey levels^2.
    gradient
        Mean of gx^2 + gy^2 of aligned pre, noise included, (grey levels / px)^2.
    pre_within, pre_scatter, pre_mean, pre_slope
        Noise that is `Retained` in pre.
    post_within, post_mean
        Noise retained in post: within a cell as a part of what it is without a blur, and of the
        mean.
    xy
        (N, 2) centres in post (x, y), px.
    """

    pre: Floats
    post: Floats
    pre_var: Floats
    post_var: Floats
    cov: Floats
    gradient: Floats
    pre_within: Floats
    pre_scatter: Floats
    pre_mean: Floats
    pre_slope: Floats
    post_within: Floats
    post_mean: Floats
    xy: Floats

    @classmethod
    def from_moments(
        cls,
        moments: CellMoments,
        chosen: Bools,
        transform: Transform,
        blur: Blur | None = None,
        post_transform: Transform | None = None,
    ) -> Cells:
        """Return the cells of a lattice for which a flag, (ny, nx), is set.

        Parameters
        ----------
        moments
            Of the pair.
        chosen
            `find_aligned_cells` or `choose_surrounded`.
        transform
            Map from post to pre, not a failed one.
        blur
            What made the images of the cells match, if anything did.
        post_transform
            Map that post was resampled by as well; None where it was not.
        """
        names = ("pre", "post", "pre_var", "post_var", "cov", "gradient")
        values = {name: getattr(moments, name)[chosen].astype(np.float64) for name in names}
        xy = moments.centres_xy[chosen.ravel()]
        rows, cols = moments.shape
        centre = (cols - 1) / 2, (rows - 1) / 2
        jacobian = round_jacobian(transform, centre)
        x, y = transform.map(xy).T
        tables, in_post = tabulate_pre_retention(jacobian, blur), tabulate_post_retention(blur)
        every = np.stack([getattr(tables, f.name) for f in fields(tables)])
        pre_within, pre_scatter, pre_mean, pre_slope = interpolate_phase(every, x, y)
        post_within = np.full(len(xy), in_post.within / WHITE)
        post_mean = np.full(len(xy), in_post.mean)
        if post_transform is not None:
            moved = tabulate_pre_retention(round_jacobian(post_transform, centre), blur)
            at = post_transform.map(xy).T
            post_within = interpolate_phase(moved.within, *at) / WHITE
            post_mean = interpolate_phase(moved.mean, *at)
        return cls(
            **values,
            pre_within=pre_within,
            pre_scatter=pre_scatter,
            pre_mean=pre_mean,
            pre_slope=pre_slope,
            post_within=post_within,
            post_mean=post_mean,
            xy=xy,
        )

    def __len__(self) -> int:
        return len(self.pre)

    def select(self, chosen: Bools | slice) -> Cells:
        """Return some of the cells."""
        return Cells(*(getattr(self, f.name)[chosen] for f in fields(self)))


def find_aligned_cells(moments: CellMoments, transform: Transform) -> Bools:
    """Choose whole cells where the map is off by 1 px at most, for the fit of the gain."""
    far = (map_error_px(transform, moments.centres_xy) > FAR_PX).reshape(moments.count.shape)
    chosen = np.flatnonzero(_hold_image(moments) & ~far)
    thinned = np.zeros(moments.count.size, bool)
    thinned[chosen[:: max(1, -(-len(chosen) // MOST_GAIN))]] = True
    return thinned.reshape(moments.count.shape)


def _hold_image(moments: CellMoments) -> Bools:
    """Return the entire cells but for those all of whose px have the lowest value of an image.

    These were not imaged, or not stored, or are cut off at 0.
    """
    there = moments.count == CELL**2
    for mean, variance in ((moments.post, moments.post_var), (moments.pre, moments.pre_var)):
        brighter = there & ((variance > 0) | (mean > np.nanmin(mean, initial=np.inf)))
        there = brighter if brighter.any() else there  # of a flat image, all
    return np.asarray(there)


def map_error_px(transform: Transform, xy: Floats) -> Floats:
    """Estimated error of the map near points, (N, 2) to (N,) px; NaN where it is not known.

    Where it is the same everywhere, it chooses no cell: 0.
    """
    known = transform.error_grid
    if known is None:
        return np.zeros(len(xy))
    error, side, first = known
    limits = np.array(error.shape[::-1]) - 1
    near = np.clip(np.rint((xy - first) / side).astype(np.intp), 0, limits)
    return np.asarray(error[near[:, 1], near[:, 0]], dtype=np.float64)


def choose_surrounded(moments: CellMoments, around: Floats) -> Bools:
    """Choose whole cells that have a gradient, as have others ``around``, for the noise.

    They are thinned out on the lattice.
    """
    known = np.isfinite(moments.gradient) & np.isfinite(around)
    usable = _hold_image(moments) & known
    step = 1
    while usable[::step, ::step].sum() > MOST_NOISE:
        step += 1
    thinned = np.zeros_like(usable)
    thinned[::step, ::step] = usable[::step, ::step]
    return thinned


GROUPS = 64
"""Groups of equal count by the gradient around a cell."""
LEAST_CELLS = 200
"""Fewer cells than this give no noise."""


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
        Of post's own noise, and of the noise of the difference (see `unglow.photometry.noise_fit`).
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
            group=_group_by_size(around[chosen]),
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

    def select(self, chosen: Bools | slice) -> NoiseCells:
        """Return some of the cells."""
        return NoiseCells(*(getattr(self, f.name)[chosen] for f in fields(self)))


def _neighbours(values: Floats32) -> Floats:
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


def _group_by_size(values: Floats) -> NDArray[np.intp]:
    """Put values (N,) by size into `GROUPS` numbered groups of equal count."""
    rank = np.empty(len(values), np.intp)
    rank[np.argsort(values, kind="stable")] = np.arange(len(values))
    return rank * GROUPS // len(values)
