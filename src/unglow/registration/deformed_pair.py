"""A deformed pair: the displacement field it is followed with, its error, and the verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.progress import step
from unglow.registration.block_table import block_table
from unglow.registration.bspline import pinch
from unglow.registration.deformation import add_error_map, find_deformation, is_usable
from unglow.registration.field_uncertainty import (
    count_torn,
    distances,
    error_map,
    length_quantile,
    look_up_values,
    raise_error_map,
)
from unglow.registration.inverse_consistency import field_consistency
from unglow.registration.models import residuals
from unglow.registration.phase_correlation import MIN_PEAK_RATIO, block_shifts
from unglow.registration.quality import (
    AGREE_PX,
    NEIGHBOURS,
    compute_confirmed_reach,
    nearest,
)
from unglow.registration.verdict import (
    Registration,
    area_warnings,
    judge,
    list_warnings,
    warn_of_tears,
    way_back_warnings,
)
from unglow.transform import Quantiles, Transform, apply_matrix, inside_frame, to_level0

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.core.arrays import Bools, Floats
    from unglow.registration.deformation import Deformation
    from unglow.registration.images import Thumbnail
    from unglow.registration.pair import Pair
    from unglow.registration.phase_correlation import Matches
    from unglow.registration.verdict import Evidence


MOST_ROWS = 5000
"""Blocks in the table; of more, every n-th one."""
_TEXTURE = 0.25
"""Detail (standard deviations of its surroundings) above which a thumbnail px is textured."""


@step("field")
def follow_deformation(
    pair: Pair,
    matches: Matches,
    size: int,
    found: Transform,
    coarse: Floats,
    evidence: Evidence,
) -> Registration | None:
    """Follow a deformed section with a field; None if the field is not better than none.

    Parameters
    ----------
    pair, matches, size
        The pair, and its sample blocks of ``size`` px, measured against the global model.
    found, evidence
        What is known without a field, and what the global model is judged by.
    coarse
        (3, 3) coarse map, for the table of blocks.

    Returns
    -------
    The transform, and the table of the dense blocks.
    """
    deformation = find_deformation(pair, size)
    if deformation is None or not is_usable(pair, deformation):
        return None
    deformation = add_error_map(deformation, error_map(deformation))
    way_back = field_consistency(pair, found, deformation)
    errors_px = np.hypot(raise_error_map(deformation.field, way_back), np.float32(pair.unseen_px))
    deformation = add_error_map(deformation, errors_px)
    field, blocks, settings = deformation.field, deformation.blocks, pair.settings
    inner = inner_points(pair)
    inner = inner[inside_frame(pair.select_level(0, field).map(inner), pair.pre.shape)]
    errors = look_up_values(field, field.error_px, inner)
    points = find_textured_points(pair)
    seen = inside_frame(pair.select_level(0, field).map(points), pair.pre.shape)
    error = Quantiles(*(length_quantile(errors, share) for share in (0.5, 0.95)))
    lengths = np.hypot(*deformation.residuals.T)
    residual = Quantiles.from_lengths(lengths[blocks.is_held_out & deformation.is_agreeing])
    sampled = residuals(pair.matrix, matches.post, matches.pre) - field.evaluate(matches.post)
    away = look_up_values(field, distances(deformation).astype(np.float32), points[seen])
    evidence = replace(
        evidence,
        agreeing=int((np.hypot(*sampled.T) <= AGREE_PX).sum()),
        uncovered=float((away > compute_confirmed_reach(points, size)).mean()),
    )
    reasons = [
        *list_warnings(evidence, error.p95, settings),
        *way_back_warnings(way_back.quantiles.p95, settings),
        *warn_of_tears(*count_torn(deformation, settings.suspect_px), settings),
        *area_warnings(*pinch(field, pair.matrix)),
    ]
    transform = replace(
        found,
        displacement=field,
        residual_px=residual,
        error_px=error,
        forward_backward_px=way_back.quantiles,
        inliers=int(deformation.is_agreeing.sum()),
        blocks=len(blocks),
    )
    return Registration(judge(transform, reasons), _table(deformation, coarse))


def find_textured_points(pair: Pair) -> Floats:
    """Points (x, y) of post, level-0 px, evenly spread over where the texture itself is.

    The section of a thumbnail reaches beyond its outermost texture, by as much as texture is
    averaged there; a global map is as good there as inside, a field is not.
    """
    return _find_places(pair.post_thumb, np.abs(pair.post_thumb.detail) > _TEXTURE)


def inner_points(pair: Pair) -> Floats:
    """Points (x, y) of post, level-0 px, on structures of the section: where the error is reported.

    About one in twenty of `find_textured_points` is next to the section: along its edge the band
    pass leaves a rim of opposite sign. So only structures with the same contrast to their
    surroundings as the section has to the background count.
    """
    thumb = pair.post_thumb
    glass = thumb.image[~thumb.section]
    dark = glass.size > 0 and np.median(glass) > np.median(thumb.image[thumb.section])
    return _find_places(thumb, (-thumb.detail if dark else thumb.detail) > _TEXTURE)


def _find_places(thumb: Thumbnail, wanted: Bools) -> Floats:
    """Points (x, y) of the section, level-0 px, on the thumbnail px that are wanted, if any are."""
    points = thumb.section_points()
    at = points.astype(np.int64)
    mask = wanted[at[:, 1], at[:, 0]]
    return apply_matrix(to_level0(thumb.level), points[mask] if mask.any() else points)


def _table(deformation: Deformation, coarse: Floats) -> NDArray[np.void]:
    blocks = deformation.blocks
    table = block_table(
        blocks,
        residuals(coarse, blocks.post, blocks.pre),
        deformation.residuals,
        used=deformation.is_agreeing,
        held_out=blocks.is_held_out,
    )
    return table[:: max(1, -(-len(table) // MOST_ROWS))].copy()


SHARED_PX = 0.02
"""Residuals that neighbours share, px, below which nothing is worth a field."""
_SURE = 2.5
"""Standard errors by which products of residuals have to exceed zero."""
_BOUND = 6.0
"""Residuals are limited to this multiple of their median length: few blocks decide nothing."""
_LEAST_BLOCKS = 2 * NEIGHBOURS
"""Blocks up to this number decide nothing."""
_TOUCHING = 100
"""About this many blocks are measured next to others where these lie far apart."""


def is_deformed(pair: Pair, matches: Matches, agreeing: Bools, size: int) -> bool:
    """Whether residuals of the global model are shared by neighbours, beyond chance and size.

    The noise of blocks is independent from block to block, so the mean product of a residual with
    the mean of its neighbours' is zero unless the model fails to follow the section. Over a large
    section the sample blocks (of ``size`` px) lie further apart than it may be deformed; there,
    blocks are measured that touch some of them. ``agreeing`` (N,) are those that the model fits.
    """
    used = matches.keep(agreeing)
    if len(used) <= _LEAST_BLOCKS:
        return False
    left = residuals(pair.matrix, used.post, used.pre)
    bound = _BOUND * float(np.median(np.hypot(*left.T))) + 1e-9
    around = nearest(used.post, used.post, NEIGHBOURS + 1)[:, 1:]
    own = _limit_lengths(left, bound)
    if _are_shared(own, own[around].mean(axis=1)):
        return True
    apart = np.hypot(*(used.post[around[:, 0]] - used.post).T)
    if np.median(apart) < 2 * size:
        return False
    some = np.arange(0, len(used), max(1, len(used) // _TOUCHING))
    touching = _compute_residuals(pair, used.post[some], size)
    clear = np.isfinite(touching).all(axis=1)
    return _are_shared(own[some[clear]], _limit_lengths(touching[clear], bound))


def _limit_lengths(left: Floats, bound: float) -> Floats:
    """Residuals (N, 2), none longer than a bound."""
    factor: Floats = np.minimum(1, bound / np.maximum(np.hypot(*left.T), 1e-12))
    return left * factor[:, None]


def _are_shared(left: Floats, others: Floats) -> bool:
    """Whether products of residuals (N, 2) are above zero, beyond chance and `SHARED_PX`."""
    if len(left) <= _LEAST_BLOCKS:
        return False
    products = (left * others).sum(axis=1)
    shared = float(products.mean())
    error = float(products.std()) / np.sqrt(len(products))
    return bool(shared > SHARED_PX**2 and shared > _SURE * error)


def _compute_residuals(pair: Pair, centres: Floats, size: int) -> Floats:
    """Residuals (N, 2) of blocks that touch those around centres (N, 2); NaN if not clear."""
    width = pair.post.shape[1]
    corners = np.rint(centres - (size - 1) / 2).astype(np.int64)
    corners[:, 0] += np.where(centres[:, 0] < width / 2, size, -size)
    corners[:, 0] = np.clip(corners[:, 0], 0, width - size)
    planes = pair.select_level(0)
    shifts = block_shifts(planes, corners, size)
    at = np.asarray(corners + (size - 1) / 2, dtype=np.float64)
    left: Floats = planes.map(at - shifts[:, :2]) - planes.map(at)
    with np.errstate(invalid="ignore"):
        return np.where((shifts[:, 2] >= MIN_PEAK_RATIO)[:, None], left, np.nan)
