"""The verdict on a pair that a displacement field explains."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.progress import step
from unglow.registration.block_table import block_table
from unglow.registration.coarse.coarse import section_points
from unglow.registration.field.fit import find_deformation, usable, with_error
from unglow.registration.field.folding import pinch
from unglow.registration.field.inverse_consistency import field_closure
from unglow.registration.field.uncertainty import (
    at_points,
    distances,
    error_map,
    length_quantile,
    raised,
    torn,
)
from unglow.registration.models import residuals
from unglow.registration.quality import AGREE_PX, confirmed_reach, doubts, inside_frame
from unglow.transform import Quantiles, Transform, apply_matrix, to_level0

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.registration.blocks.dense import Images
    from unglow.registration.blocks.phase_correlation import Matches
    from unglow.registration.field.fit import Deformation
    from unglow.registration.quality import Evidence
    from unglow.registration.settings import RegisterSettings

    Floats = NDArray[np.float64]

MOST_ROWS = 5000
"""Blocks in the table; of more, every n-th one."""
_STEEP = 0.15
_TEXTURE = 0.25


@step("field")
def bent(
    images: Images,
    matches: Matches,
    size: int,
    found: Transform,
    coarse: Floats,
    evidence: Evidence,
    settings: RegisterSettings,
) -> tuple[Transform, NDArray[np.void]] | None:
    """Follow a deformed section with a field; None if the field is not better than none.

    Parameters
    ----------
    images, matches
        The pair, and its sample blocks, measured against the global model.
    size
        Side of the sample blocks, px.
    found
        What is known without a field.
    coarse
        (3, 3) coarse map, for the table of blocks.
    evidence
        What the global model is judged by.
    settings
        See `RegisterSettings`.

    Returns
    -------
    The transform, and the table of the dense blocks.
    """
    deformation = find_deformation(images, size)
    if deformation is None or not usable(images, deformation):
        return None
    deformation = with_error(deformation, error_map(deformation))
    closure = field_closure(images, found, deformation)
    deformation = with_error(deformation, raised(deformation.field, closure))
    field, blocks = deformation.field, deformation.blocks
    points = textured_points(images)
    mapped = apply_matrix(found.matrix, points) + field.at(points)
    seen = inside_frame(mapped, images.pre_shape)
    said = at_points(field, field.error_px, points[seen])
    error = Quantiles(*(length_quantile(said, share) for share in (0.5, 0.95)))
    lengths = np.hypot(*deformation.off.T)
    residual = Quantiles.of(lengths[blocks.held_out & deformation.agreeing])
    sampled = residuals(found.matrix, matches.post, matches.pre) - field.at(matches.post)
    away = at_points(field, distances(deformation).astype(np.float32), points[seen])
    evidence = replace(
        evidence,
        agreeing=int((np.hypot(*sampled.T) <= AGREE_PX).sum()),
        residual_p95=residual.p95,
        uncovered=float((away > confirmed_reach(points, size)).mean()),
    )
    reasons = doubts(evidence, error.p95, settings) + closure.doubts(settings)
    reasons += _field_doubts(deformation, images, settings)
    transform = replace(
        found,
        status="suspect" if reasons else "ok",
        reasons=tuple(reasons),
        displacement=field,
        residual_px=residual,
        error_px=error,
        forward_backward_px=closure.quantiles,
        inliers=int((lengths <= AGREE_PX).sum()),
        blocks=len(blocks),
    )
    return transform, _table(deformation, coarse)


def textured_points(images: Images) -> Floats:
    """Points (x, y) of post, level-0 px, evenly spread over where the texture itself is.

    The section of a thumbnail reaches beyond its outermost texture, by as much as texture is
    averaged there; a global map is as good there as inside, a field is not.
    """
    points = section_points(images.post)
    at = points.astype(np.int64)
    detail = np.abs(images.post.detail)
    known = detail[at[:, 1], at[:, 0]] > _TEXTURE
    chosen = points[known] if known.any() else points
    return apply_matrix(to_level0(images.post.level), chosen)


def _field_doubts(found: Deformation, images: Images, settings: RegisterSettings) -> list[str]:
    """Sentences that say where the field may be wrong."""
    out = []
    count, place = torn(found, settings.suspect_px)
    if count:
        out.append(
            f"{count} blocks around ({place[0]:.0f}, {place[1]:.0f}) and elsewhere lie more than "
            f"{settings.suspect_px:g} px from where the field puts them (setting suspect_px), and "
            "so do their neighbours: the section may be torn there, or it is dirt on the glass."
        )
    low, high = pinch(found.field, images.matrix)
    if low < 1 - _STEEP or high > 1 + _STEEP:
        out.append(
            f"The field changes areas by a factor of {low:.2f} to {high:.2f}, which is much for "
            "one section: it may be torn or folded, check the overlay."
        )
    return out


def _table(found: Deformation, coarse: Floats) -> NDArray[np.void]:
    blocks = found.blocks
    keep = slice(None, None, max(1, -(-len(blocks) // MOST_ROWS)))
    post, pre = blocks.post[keep], blocks.pre[keep]
    return block_table(
        post,
        pre,
        residuals(coarse, post, pre),
        found.off[keep],
        blocks.quality[keep],
        used=found.agreeing[keep],
        held_out=blocks.held_out[keep],
    )
