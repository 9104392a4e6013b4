"""The verdict on a global map: its model, its error, and what blocks say for and against it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.progress import step
from unglow.registration.block_table import block_table
from unglow.registration.coarse_map import singular_values
from unglow.registration.deformed_pair import follow_deformation, is_deformed
from unglow.registration.inverse_consistency import global_consistency
from unglow.registration.models import choose_model, fit_robust, measure_distances, residuals
from unglow.registration.quality import (
    agreement,
    compute_confirmed_reach,
    compute_uncovered_share,
    locate_error,
    map_error,
    nearest,
)
from unglow.registration.settings import MODELS
from unglow.registration.verdict import (
    Evidence,
    Registration,
    judge,
    list_rejections,
    list_warnings,
    reject,
    way_back_warnings,
)
from unglow.transform import Quantiles, Transform, apply_matrix, inside_frame, jacobians, to_level0

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.core.arrays import Bools, Floats
    from unglow.registration.coarse_map import Candidate
    from unglow.registration.pair import Pair
    from unglow.registration.phase_correlation import Matches

    Matrix = Floats

_BLURRED_GAIN = 1.0
"""There a richer model has to gain this much, px squared: see `_compare_richer`."""
_LEAST_HEARD = 1.0
"""There a block speaks against a map if its peak is twice as high as the next one: on glass chance
alone reaches 1.8 times, and is off by anything."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Sample blocks of ``size`` px, and which of them (N,) are held out of all fits.

    Of blurred images only those with a clear peak: how many more there were is ``unclear``.
    """

    matches: Matches
    held_out: Bools
    size: int
    unclear: int | None = None


def reject_pair(
    pair: Pair,
    reasons: list[str],
    start: Candidate | None = None,
    blocks: NDArray[np.void] | None = None,
) -> Registration:
    """Return the refusal of a pair, with what is known of the coarse map and the blocks."""
    details = {} if start is None else _start_fields(start)
    inliers = 0 if blocks is None else int(blocks["used"].sum())
    return reject(pair.post.shape, pair.pre.shape, reasons, blocks, inliers=inliers, **details)


def _start_fields(start: Candidate) -> dict[str, Any]:
    """Return what a `Transform` says about the coarse map."""
    return {
        "coarse_method": start.method,
        "significance": start.significance,
        "margin": start.margin,
    }


@step("judge")
def conclude(pair: Pair, samples: Samples, start: Candidate, coarse: Matrix) -> Registration:
    """Choose the model, gather the evidence, give the verdict."""
    matches, held_out, settings = samples.matches, samples.held_out, pair.settings
    model, pair, agreeing = _choose(pair, samples)
    points, unit = pair.section_points(), 2.0**pair.blurred
    if pair.blurred and len(matches):  # further away is glass, whose noise passes for texture
        closest = matches.post[nearest(points, matches.post, 1)[:, 0]]
        points = points[np.hypot(*(points - closest).T) <= samples.size / 2]
    seen = inside_frame(apply_matrix(pair.matrix, points), pair.pre.shape)
    centre = points[seen].mean(axis=0) if seen.any() else points.mean(axis=0)
    largest, smallest = singular_values(pair.matrix, centre)
    left = residuals(pair.matrix, matches.post, matches.pre)
    lengths = np.hypot(*left.T)
    residual = Quantiles.from_lengths(unit * lengths[held_out & agreeing])
    evidence = Evidence(
        measured=len(matches),
        agreeing=int(agreeing.sum()),
        overlap=float(seen.mean()),
        uncovered=compute_uncovered_share(
            points[seen], matches.post[agreeing], compute_confirmed_reach(points, samples.size)
        ),
        scale=2.0**pair.octaves * float(np.sqrt(largest * smallest)),
        shear=largest / smallest,
        margin=np.inf if pair.blurred else start.margin,  # outlines have likenesses: blocks decide
        unclear=samples.unclear,
    )
    before = residuals(coarse, matches.post, matches.pre)
    blocks = block_table(matches, before, left, used=agreeing, held_out=held_out)
    reasons = list_rejections(evidence, settings)
    if reasons:
        return reject_pair(pair, reasons, start, blocks)
    fitted = agreeing & ~held_out
    errors = map_error(
        *(model, matches, fitted, agreeing, pair.matrix, points[seen]),
        size=samples.size,
        least=_LEAST_HEARD if pair.blurred else 0.0,
    )
    error = errors.quantiles
    away = _compare_richer(pair, model, matches, agreeing, points[seen])
    error = Quantiles(
        unit * float(np.hypot(error.median, away.median)),
        unit * float(np.hypot(error.p95, away.p95)),
    )
    jacobian = jacobians(pair.matrix, centre[None])[0]
    up_post, up_pre = map(to_level0, pair.coarser)
    shift = apply_matrix(up_pre @ pair.matrix, centre[None]) - apply_matrix(up_post, centre[None])
    found = Transform(
        status="ok",
        post_shape=pair.post.shape,
        pre_shape=pair.pre.shape,
        matrix=pair.matrix,
        model=model,
        residual_px=residual,
        error_px=error,
        inliers=evidence.agreeing,
        blocks=len(matches),
        overlap=evidence.overlap,
        scale=evidence.scale,
        rotation_deg=float(np.rad2deg(np.arctan2(jacobian[1, 0], jacobian[0, 0]))),
        shift_px=(float(shift[0, 0]), float(shift[0, 1])),
        **_start_fields(start),
    )
    follows = settings.field == "auto" and not pair.blurred
    if follows and is_deformed(pair, matches, agreeing, samples.size):
        followed = follow_deformation(pair, matches, samples.size, found, coarse, evidence)
        if followed is not None:
            return followed
    way_back = global_consistency(pair, found, samples.size, points[seen]).quantiles
    way_back = Quantiles(unit * way_back.median, unit * way_back.p95)
    if pair.blurred and not way_back.p95 <= unit:  # one outline alone leads elsewhere
        return reject_pair(pair, way_back_warnings(way_back.p95, settings), start, blocks)
    reasons = list_warnings(evidence, error.p95, settings) + way_back_warnings(
        way_back.p95, settings
    )
    if not any(pair.coarser):
        local = locate_error(points[seen], errors.lengths, pair.post.shape, samples.size)
        found = replace(found, local_error=local)
    return Registration(judge(replace(found, forward_backward_px=way_back), reasons), blocks)


def _compare_richer(
    pair: Pair, model: str, matches: Matches, agreeing: Bools, points: Floats
) -> Quantiles:
    """Return what blocks cannot say of a map's error, px.

    New signal along an outline turns a blurred section a little, and few blocks cannot say which it
    is. So the truth is as likely the next richer model: the mean square is half of the way.
    """
    richer = MODELS[MODELS.index(model) + 1 :]
    if not pair.blurred or not richer:
        return Quantiles(pair.unseen_px, pair.unseen_px)
    matrix, _ = fit_robust(richer[0], matches.post, matches.pre, agreeing, matches.weights)
    return Quantiles.from_lengths(measure_distances(pair.matrix, matrix, points) / np.sqrt(2))


def _choose(pair: Pair, samples: Samples) -> tuple[str, Pair, Bools]:
    """Choose the model; its name, the pair mapped by it, and the blocks (N,) that agree with it."""
    matches = samples.matches
    models = MODELS if pair.settings.model == "auto" else (pair.settings.model,)
    agreeing = agreement(matches, pair.matrix)
    try:
        model, matrix = choose_model(
            matches.post,
            matches.pre,
            agreeing,
            samples.held_out,
            models,
            matches.weights,
            _BLURRED_GAIN if pair.blurred else 0.0,
        )
    except np.linalg.LinAlgError:
        return models[0], pair, np.zeros_like(agreeing)
    return model, pair.replace_map(matrix), agreement(matches, matrix)
