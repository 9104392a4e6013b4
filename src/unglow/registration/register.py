"""Registration of a pre-stain to a post-stain image: from thumbnails to full-resolution blocks.

Only pyramid levels of about a thousand pixels and some hundred full-resolution blocks are read, so
time and memory hardly depend on the size of the images.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.own_memory import release_pages
from unglow.core.progress import step
from unglow.registration.block_placement import block_size, sample_corners
from unglow.registration.block_table import block_table
from unglow.registration.coarse_map import (
    SURE,
    Candidate,
    find_coarse,
    singular_values,
)
from unglow.registration.deformed_pair import follow_deformation, is_deformed
from unglow.registration.images import MIN_SIDE, explain_unusable
from unglow.registration.inverse_consistency import global_consistency
from unglow.registration.models import (
    choose_model,
    find_consensus,
    fit_robust,
    measure_distances,
    residuals,
)
from unglow.registration.pair import Pair, can_match, convert_to_full, most_significant, searches
from unglow.registration.phase_correlation import (
    MIN_PEAK_RATIO,
    Matches,
    block_shifts,
    match_blocks,
    matches_of,
)
from unglow.registration.quality import (
    agreement,
    compute_confirmed_reach,
    compute_uncovered_share,
    map_error,
    nearest,
)
from unglow.registration.settings import DECLARED, MODELS, RegisterSettings
from unglow.registration.shared_map import make_identity, take_over
from unglow.registration.user_hints import (
    INITIAL,
    LANDMARKS,
    UserHints,
    check_hints,
    plan_hinted_search,
    start_from_hints,
)
from unglow.registration.verdict import (
    MIN_SIGNIFICANCE,
    MIRRORED,
    Evidence,
    Registration,
    agree_few,
    describe_unlike,
    judge,
    list_rejections,
    list_warnings,
    reject,
    way_back_warnings,
)
from unglow.transform import (
    Quantiles,
    Transform,
    apply_matrix,
    from_level,
    inside_frame,
    jacobians,
    to_level0,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.core.windows import Pixels

    Matrix = NDArray[np.float64]
    Mask = NDArray[np.bool_]

__all__ = ["RegisterSettings", "Registration", "UserHints", "register"]

log = logging.getLogger(__name__)

_MID_BLOCKS, _MID_SIZE = 100, 128
"""Number of blocks on a level between the thumbnails and full resolution, and their side, px."""
_LEAST_AGREEING, _LEAST_SHARE = 5, 0.2
"""There, this many blocks and this share of them have to agree, or the map stays as it is."""
_MOST_PASSES = 2
_SETTLED_PX = 0.1
"""Blocks are measured once more if 5 % of them were mapped further off than this."""
_CONSENSUS_PX = 4.0
"""Blocks this near to one similarity agree, px of their level."""
_MOST_BLURRED = 2
"""Levels up to which images are averaged whose finest px are mostly noise."""
_BLURRED_GAIN = 1.0
"""There a richer model has to gain this much, px squared: see `_compare_richer`."""
_INLIER_PX = 2.0
"""Blocks this near to the map are inliers."""


@dataclass(frozen=True, slots=True)
class _Samples:
    """Sample blocks of ``size`` px, and which of them (N,) are held out of all fits.

    Of blurred images only those with a clear peak: how many more there were is ``unclear``.
    """

    matches: Matches
    held_out: Mask
    size: int
    unclear: int | None = None


def register(
    post: Pixels,
    pre: Pixels,
    settings: RegisterSettings | None = None,
    *,
    workers: int = 1,
    hints: UserHints | None = None,
    expected_scale: float | None = None,
) -> Registration:
    """Find the map from post to pre, and say how far it can be trusted.

    Parameters
    ----------
    post, pre
        Single-channel images of any real dtype; NaN is missing data. A pyramid level of at most
        ``settings.coarse_px`` squared px is read completely, of the finer levels only blocks.
    settings
        See `RegisterSettings`.
    workers
        Threads for block matching. The result has the same bytes for any number.
    hints
        What the user says about the map. It is the start, if it leads to a map; only if it does not
        is one searched.
    expected_scale
        How many times as large as in post pixel sizes let the section be in pre; searched first.

    Returns
    -------
    The transform and its sample blocks. An unusable pair gives status ``failed`` and the reasons;
    no exception is raised for it.
    """
    settings = settings or RegisterSettings()
    if settings.model == DECLARED:
        found = take_over(post, pre, make_identity(post.shape), settings, workers=workers)
    else:
        release_pages()  # what importing them touched is hardly what will be used
        found = _attempt(post, pre, settings, workers, hints, expected_scale)
    if hints is None:
        return found
    checked = check_hints(found.transform, hints, settings)
    return replace(found, transform=checked)


def _attempt(
    post: Pixels,
    pre: Pixels,
    settings: RegisterSettings,
    workers: int,
    hints: UserHints | None,
    expected_scale: float | None,
) -> Registration:
    """Try hints, then one magnification after the other, until there is a map."""
    pair = Pair.read(post, pre, settings, workers)
    problem = _problem(pair)
    if problem:
        return _reject(pair, [problem])
    section = float(pair.post_thumb.section.mean())
    attempts = [
        (octaves, reach, partial(_search, least=least))
        for octaves, reach, least in searches(settings, expected_scale)
    ]
    if hints is not None:
        attempts.insert(0, (*plan_hinted_search(pair, hints), partial(_follow_hints, hints=hints)))
    refusals, doubtful = [], None
    for octaves, reach, attempt in attempts:
        if octaves and not can_match(post, pre, octaves, settings.min_overlap, section):
            continue
        if (octaves, reach) != (pair.octaves, pair.reach):
            del pair  # the next one takes its memory
            pair = Pair.read(post, pre, settings, workers, octaves, reach)
        found = attempt(pair)
        if found is None:
            continue
        found = convert_to_full(found, pair, post, pre)
        if not found.transform.has_failed:
            if octaves or not agree_few(found):
                return found
            doubtful = found
            break
        refusals.append(found)
        if MIRRORED in found.transform.reasons and found.transform.significance >= SURE:
            break
    del pair
    blurred = _search_blurred(post, pre, settings, workers)
    if blurred is not None and (doubtful is None or blurred.agreeing > doubtful.agreeing):
        return blurred
    if doubtful is not None:
        return doubtful
    # what a person points at is what a refusal is about
    pointed = [one for one in refusals if one.transform.coarse_method in (LANDMARKS, INITIAL)]
    return (pointed or [most_significant(refusals)])[0]


def _search_blurred(
    post: Pixels, pre: Pixels, settings: RegisterSettings, workers: int
) -> Registration | None:
    """Search a map by structures so coarse that noise averages out; None if they are not alike."""
    for level in range(1, _MOST_BLURRED + 1):
        if min(*post.shape, *pre.shape) >> level < MIN_SIDE:
            break
        pair = Pair.read(post, pre, settings, workers, blurred=level)
        found = _search(pair, MIN_SIGNIFICANCE)
        if found is not None and not found.transform.has_failed:
            return convert_to_full(found, pair, post, pre)
    return None


def _problem(pair: Pair) -> str | None:
    """Say why one of the images cannot be registered at all."""
    for name, pixels, thumb in (
        ("post", pair.post, pair.post_thumb),
        ("pre", pair.pre, pair.pre_thumb),
    ):
        problem = explain_unusable(name, pixels.shape, thumb)
        if problem:
            return problem
    return None


def _reject(
    pair: Pair,
    reasons: list[str],
    start: Candidate | None = None,
    blocks: NDArray[np.void] | None = None,
) -> Registration:
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


def _follow_hints(pair: Pair, hints: UserHints) -> Registration | None:
    """Go on from what a user says; None if that leads to no start."""
    start = start_from_hints(pair, hints)
    release_pages("cv2")
    return None if start is None else _continue_from(pair, start)


def _search(pair: Pair, least: float) -> Registration | None:
    """Search for a start of the ``least`` significance, and continue from there.

    None for what cannot be registered seen from a coarser level.
    """
    if pair.octaves and _problem(pair):
        return None
    with step("search"):
        start = find_coarse(pair)
    release_pages("cv2")
    if start is None or start.significance < least:
        return _reject(pair, [describe_unlike(pair.settings)], start)
    return _continue_from(pair, start)


def _continue_from(pair: Pair, start: Candidate) -> Registration:
    """Take a start to full resolution and judge it, if it is not mirrored against the settings."""
    if not pair.settings.mirror and np.linalg.det(start.matrix) < 0:
        return _reject(pair, [MIRRORED], start)
    log.info("coarse map by %s, significance %.1f", start.method, start.significance)
    level = pair.post_thumb.level
    coarse = from_level(start.matrix, level)
    pair = replace(pair, matrix=coarse, sign=start.sign)
    while level > 1:
        level = (level + 1) // 2
        pair = pair.replace_map(_improve(pair, level))
    pair, samples = _measure(pair)
    return _conclude(pair, samples, start, coarse)


@step("mid level")
def _improve(pair: Pair, level: int) -> Matrix:
    """Improve the map on a level between the thumbnails and full resolution."""
    if level >= pair.levels:
        return pair.matrix
    unit = 2**level
    corners, _ = sample_corners(pair, _MID_SIZE * unit, _MID_BLOCKS, level)
    matches = match_blocks(pair.select_level(level), corners // unit, _MID_SIZE)
    agree = find_consensus(matches.post, matches.pre, _CONSENSUS_PX)
    if agree.sum() < max(_LEAST_AGREEING, _LEAST_SHARE * len(matches)):
        return pair.matrix
    try:
        better, _ = fit_robust("affine", matches.post, matches.pre, agree)
    except np.linalg.LinAlgError:
        return pair.matrix
    return from_level(better, level)


def _measure(pair: Pair) -> tuple[Pair, _Samples]:
    """Match full-resolution blocks, once more if the map was too far off, and fit the map."""
    share = float(pair.post_thumb.section.mean())
    size = block_size(pair.post.shape, share, pair.settings.block_px)
    for _ in range(_MOST_PASSES):
        samples = _sample(pair, size)
        matches = samples.matches
        fitted = find_consensus(matches.post, matches.pre, _CONSENSUS_PX) & ~samples.held_out
        try:
            matrix, _ = fit_robust("affine", matches.post, matches.pre, fitted, matches.weights)
        except np.linalg.LinAlgError:
            break
        moved = measure_distances(pair.matrix, matrix, matches.post)
        pair = pair.replace_map(matrix)
        if np.quantile(moved, 0.95) <= _SETTLED_PX:
            break
    return pair, samples


@step("match")
def _sample(pair: Pair, size: int) -> _Samples:
    """Match full-resolution blocks spread over the section."""
    corners, held_out = sample_corners(pair, size, pair.settings.blocks)
    shifts = block_shifts(pair.select_level(0), corners, size)
    unclear = None
    if pair.blurred:  # glass around few structures says nothing against a map
        low = shifts[:, 2] < MIN_PEAK_RATIO
        shifts[low], unclear = np.nan, int(low.sum())
    matches = matches_of(pair.select_level(0), corners, size, shifts)
    return _Samples(matches, held_out[np.isfinite(shifts[:, 2])], size, unclear)


@step("judge")
def _conclude(pair: Pair, samples: _Samples, start: Candidate, coarse: Matrix) -> Registration:
    """Choose the model, gather the evidence, give the verdict."""
    matches, held_out, settings = samples.matches, samples.held_out, pair.settings
    model, pair, agreeing = _choose(pair, samples)
    points, unit = pair.section_points(), 2.0**pair.blurred
    if pair.blurred and len(matches):  # what lies further away is glass, whose noise passes for texture
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
        residual_p95=residual.p95,
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
        return _reject(pair, reasons, start, blocks)
    fitted = agreeing & ~held_out
    error = map_error(
        model, matches, fitted, agreeing, pair.matrix, points[seen], samples.size
    ).quantiles
    away = _compare_richer(pair, model, matches, agreeing, points[seen])
    error = Quantiles(
        unit * float(np.hypot(error.median, away.median)), unit * float(np.hypot(error.p95, away.p95))
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
        inliers=int((lengths <= _INLIER_PX).sum()),
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
    reasons = list_warnings(evidence, error.p95, settings) + way_back_warnings(
        way_back.p95, settings
    )
    return Registration(judge(replace(found, forward_backward_px=way_back), reasons), blocks)


def _compare_richer(
    pair: Pair, model: str, matches: Matches, agreeing: Mask, points: NDArray[np.float64]
) -> Quantiles:
    """Return what blocks cannot say of a map's error, px.

    New signal along an outline turns a blurred section a little, which few blocks cannot tell from
    a turn. So the truth is as likely the next richer model: the mean square is half of the way.
    """
    richer = MODELS[MODELS.index(model) + 1 :]
    if not pair.blurred or not richer:
        return Quantiles(pair.unseen_px, pair.unseen_px)
    matrix, _ = fit_robust(richer[0], matches.post, matches.pre, agreeing, matches.weights)
    return Quantiles.from_lengths(measure_distances(pair.matrix, matrix, points) / np.sqrt(2))


def _choose(pair: Pair, samples: _Samples) -> tuple[str, Pair, Mask]:
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
