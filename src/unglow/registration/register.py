"""Registration of a pre-stain to a post-stain image: from thumbnails to full-resolution blocks.

Only pyramid levels of about a thousand pixels and some hundred full-resolution blocks are read, so
time and memory hardly depend on the size of the images.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.own_memory import release_pages
from unglow.core.progress import step
from unglow.core.windows import coarse_level
from unglow.registration.block_table import BLOCK_DTYPE, block_table
from unglow.registration.blocks.dense import Images
from unglow.registration.blocks.phase_correlation import Matches, Plane, match_blocks
from unglow.registration.blocks.placement import Frames, block_size, sample_corners
from unglow.registration.coarse.coarse import (
    Candidate,
    Coarse,
    find_coarse,
    section_points,
    singular_values,
)
from unglow.registration.field.deformation_test import is_deformed
from unglow.registration.field.inverse_consistency import global_closure
from unglow.registration.field.verdict import bent
from unglow.registration.images import Thumbnail, thumbnail, unusable
from unglow.registration.models import apart, choose_model, consensus, fit_robust, residuals
from unglow.registration.quality import (
    Evidence,
    agreement,
    confirmed_reach,
    doubts,
    inside_frame,
    map_error,
    refusals,
    uncovered_share,
    unlike,
)
from unglow.registration.settings import MODELS, RegisterSettings
from unglow.registration.user_hints import Given, checked, given_start
from unglow.transform import Quantiles, Transform, apply_matrix, at_level, jacobians, to_level0

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.core.windows import Pixels
    from unglow.registration.field.inverse_consistency import Closure

    Matrix = NDArray[np.float64]

__all__ = ["Given", "RegisterSettings", "Registration", "register"]

log = logging.getLogger(__name__)

MIN_SIGNIFICANCE = 12.0
"""Unrelated images reach about 8, true pairs 30 to 200."""
_MID_BLOCKS = 100
_MOST_PASSES = 2
_SETTLED_PX = 0.1
"""Blocks are measured once more if 5 % of them were mapped further off than this."""
_REACH_PX = 4.0
_MIRRORED = (
    "The pre-stain image is a mirror image of the post-stain image: if the section was turned "
    "over, set mirror: true; if not, one of the files was flipped when it was saved."
)


@dataclass(frozen=True, eq=False)
class Registration:
    """A transform and the sample blocks (`block_table.BLOCK_DTYPE`) that it rests on."""

    transform: Transform
    blocks: NDArray[np.void]


@dataclass(frozen=True, slots=True)
class _Pair:
    """Both images with their thumbnails, and how to work on them."""

    post: Pixels
    pre: Pixels
    post_thumb: Thumbnail
    pre_thumb: Thumbnail
    settings: RegisterSettings
    workers: int

    def planes(self, level: int) -> tuple[Plane, Plane]:
        """Both images at a pyramid level."""
        return _plane(self.post, self.post_thumb, level), _plane(self.pre, self.pre_thumb, level)

    def images(self, matrix: Matrix, sign: int) -> Images:
        """Both images as passes over dense blocks take them."""
        return Images(
            planes=self.planes,
            levels=min(self.post.levels, self.pre.levels),
            post=self.post_thumb,
            pre=self.pre_thumb,
            post_shape=self.post.shape,
            pre_shape=self.pre.shape,
            matrix=matrix,
            sign=sign,
            workers=self.workers,
            strips=self.settings.strips == "auto",
        )


def register(
    post: Pixels,
    pre: Pixels,
    settings: RegisterSettings | None = None,
    *,
    workers: int = 1,
    given: Given | None = None,
) -> Registration:
    """Find the map from post to pre, and say how far it can be trusted.

    Parameters
    ----------
    post, pre
        Single-channel images of any real dtype; NaN is missing data. A pyramid level of at most
        ``settings.coarse_px`` squared px is read whole, of the finer levels only blocks.
    settings
        See `RegisterSettings`.
    workers
        Threads for block matching. The result has the same bytes for any number.
    given
        What a person says about the map. It is the start, if it leads to a map; only if it does not
        is one searched.

    Returns
    -------
    The transform and its sample blocks. An unusable pair gives status ``failed`` and the reasons;
    no exception is raised for it.
    """
    settings = settings or RegisterSettings()
    release_pages()  # what importing them touched is hardly what will be used
    level = coarse_level((post.shape, pre.shape), settings.coarse_px)
    with step("thumbnails"):
        thumbs = thumbnail(post, level), thumbnail(pre, level)
    pair = _Pair(post, pre, *thumbs, settings, workers)
    for name, pixels, thumb in zip(("post", "pre"), (post, pre), thumbs, strict=True):
        problem = unusable(name, pixels.shape, thumb)
        if problem:
            return _failed(pair, [problem])
    if given is None:
        return _searched(pair)
    start = given_start(*thumbs, given, settings, workers)
    release_pages("cv2")
    found = None if start is None else _continued(pair, start)
    if found is None or found.transform.failed:
        searched = _searched(pair)
        found = searched if found is None or not searched.transform.failed else found
    return replace(found, transform=checked(found.transform, given, settings))


def _searched(pair: _Pair) -> Registration:
    """Search for a start, and go on from there."""
    with step("search"):
        coarse = find_coarse(pair.post_thumb, pair.pre_thumb, pair.settings, pair.workers)
    release_pages("cv2")
    if coarse is None or coarse.best.significance < MIN_SIGNIFICANCE:
        best, margin = (coarse.best, coarse.margin) if coarse else (None, np.nan)
        return _failed(pair, [unlike(pair.settings)], best=best, margin=margin)
    return _continued(pair, coarse)


def _continued(pair: _Pair, coarse: Coarse) -> Registration:
    """Take a start to full resolution, if it is not mirrored against the settings."""
    if not pair.settings.mirror and np.linalg.det(coarse.best.matrix) < 0:
        return _failed(pair, [_MIRRORED], best=coarse.best, margin=coarse.margin)
    log.info("coarse map by %s, significance %.1f", coarse.best.method, coarse.best.significance)
    return _refined(pair, coarse.best, coarse.margin)


def _plane(pixels: Pixels, thumb: Thumbnail, level: int) -> Plane:
    if level >= pixels.levels:
        return thumb.plane
    return Plane(lambda window: pixels.read(window, level), pixels.level_shape(level), thumb.floor)


def _failed(
    pair: _Pair,
    reasons: list[str],
    blocks: NDArray[np.void] | None = None,
    best: Candidate | None = None,
    margin: float = float("nan"),
) -> Registration:
    table = np.zeros(0, BLOCK_DTYPE) if blocks is None else blocks
    transform = Transform(
        status="failed",
        reasons=tuple(reasons),
        post_shape=pair.post.shape,
        pre_shape=pair.pre.shape,
        blocks=len(table),
        inliers=int(table["used"].sum()),
        coarse_method=best.method if best else "",
        significance=best.significance if best else np.nan,
        margin=margin,
    )
    return Registration(transform, table)


def _refined(pair: _Pair, best: Candidate, margin: float) -> Registration:
    """Take a coarse candidate to full resolution and judge it."""
    up = to_level0(pair.post_thumb.level)
    coarse = up @ best.matrix @ np.linalg.inv(up)
    matrix = coarse
    level = pair.post_thumb.level
    while level > 1:
        level = (level + 1) // 2
        matrix = _mid_level(pair, matrix, best.sign, level)
    share = float(pair.post_thumb.section.mean())
    size = block_size(pair.post.shape, share, pair.settings.block_px)
    for _ in range(_MOST_PASSES):
        matches, held_out = _measure(pair, matrix, size, best.sign)
        start = consensus(matches.post, matches.pre, _REACH_PX)
        before = matrix
        try:
            fitted = start & ~held_out
            matrix, _ = fit_robust("affine", matches.post, matches.pre, fitted, matches.trust)
        except np.linalg.LinAlgError:
            break
        if np.quantile(apart(before, matrix, matches.post), 0.95) <= _SETTLED_PX:
            break
    return _concluded(pair, best, margin, coarse, matrix, matches, held_out, size)


@step("mid level")
def _mid_level(pair: _Pair, matrix: Matrix, sign: int, level: int) -> Matrix:
    """Improve the map on a level between the thumbnails and full resolution."""
    if level >= min(pair.post.levels, pair.pre.levels):
        return matrix
    size = 128
    shape, other = pair.post.level_shape(level), pair.pre.level_shape(level)
    step = 2**level
    frames = Frames(
        pair.post_thumb,
        pair.pre_thumb,
        (shape[0] * step, shape[1] * step),
        (other[0] * step, other[1] * step),
        matrix,
    )
    corners, _ = sample_corners(frames, size * step, _MID_BLOCKS)
    found = match_blocks(
        *pair.planes(level),
        at_level(matrix, level),
        corners // step,
        size,
        sign=sign,
        workers=pair.workers,
    )
    agree = consensus(found.post, found.pre, _REACH_PX)
    if agree.sum() < max(5, 0.2 * len(found)):
        return matrix
    try:
        better, _ = fit_robust("affine", found.post, found.pre, agree)
    except np.linalg.LinAlgError:
        return matrix
    up = to_level0(level)
    return up @ better @ np.linalg.inv(up)


@step("match")
def _measure(
    pair: _Pair, matrix: Matrix, size: int, sign: int
) -> tuple[Matches, NDArray[np.bool_]]:
    """Match full-resolution blocks; the matches, and which of them are held out."""
    frames = Frames(pair.post_thumb, pair.pre_thumb, pair.post.shape, pair.pre.shape, matrix)
    corners, held_out = sample_corners(frames, size, pair.settings.blocks)
    matches = match_blocks(*pair.planes(0), matrix, corners, size, sign=sign, workers=pair.workers)
    # blocks without content are left out by the matching: find the flags of the others
    flags = {tuple(c): bool(h) for c, h in zip(corners.tolist(), held_out, strict=True)}
    at = np.rint(matches.post - (size - 1) / 2).astype(np.int64).tolist()
    return matches, np.array([flags[tuple(c)] for c in at], dtype=bool)


@step("judge")
def _concluded(
    pair: _Pair,
    best: Candidate,
    margin: float,
    coarse: Matrix,
    matrix: Matrix,
    matches: Matches,
    held_out: NDArray[np.bool_],
    size: int,
) -> Registration:
    """Choose the model, gather the evidence, give the verdict."""
    settings = pair.settings
    models = MODELS if settings.model == "auto" else (settings.model,)
    agreeing = agreement(matches, matrix)
    model = models[0]
    try:
        model, matrix = choose_model(
            matches.post, matches.pre, agreeing, held_out, models, matches.trust
        )
        agreeing = agreement(matches, matrix)
    except np.linalg.LinAlgError:
        agreeing[:] = False
    points = section_points(pair.post_thumb)
    points = apply_matrix(to_level0(pair.post_thumb.level), points)
    mapped = apply_matrix(matrix, points)
    seen = inside_frame(mapped, pair.pre.shape)
    centre = points[seen].mean(axis=0) if seen.any() else points.mean(axis=0)
    largest, smallest = singular_values(matrix, centre)
    off = residuals(matrix, matches.post, matches.pre)
    lengths = np.hypot(*off.T)
    residual = Quantiles.of(lengths[held_out & agreeing])
    evidence = Evidence(
        measured=len(matches),
        agreeing=int(agreeing.sum()),
        residual_p95=residual.p95,
        overlap=float(seen.mean()),
        uncovered=uncovered_share(
            points[seen], matches.post[agreeing], confirmed_reach(points, size)
        ),
        scale=float(np.sqrt(largest * smallest)),
        shear=largest / smallest,
        margin=margin,
    )
    blocks = block_table(
        matches.post,
        matches.pre,
        residuals(coarse, matches.post, matches.pre),
        off,
        matches.quality,
        used=agreeing,
        held_out=held_out,
    )
    refused = refusals(evidence, settings)
    if refused:
        return _failed(pair, refused, blocks, best, margin)
    error = Quantiles.of(
        map_error(model, matches, agreeing & ~held_out, agreeing, matrix, points[seen])
    )
    reasons = doubts(evidence, error.p95, settings)
    jacobian = jacobians(matrix, centre[None])[0]
    shift = apply_matrix(matrix, centre[None])[0] - centre
    transform = Transform(
        status="suspect" if reasons else "ok",
        reasons=tuple(reasons),
        post_shape=pair.post.shape,
        pre_shape=pair.pre.shape,
        matrix=matrix,
        model=model,
        residual_px=residual,
        error_px=error,
        inliers=int((lengths <= 2.0).sum()),
        blocks=len(matches),
        overlap=evidence.overlap,
        scale=evidence.scale,
        rotation_deg=float(np.rad2deg(np.arctan2(jacobian[1, 0], jacobian[0, 0]))),
        shift_px=(float(shift[0]), float(shift[1])),
        coarse_method=best.method,
        significance=best.significance,
        margin=margin,
    )
    images = pair.images(matrix, best.sign)
    if settings.field == "auto" and is_deformed(images, matches, agreeing, matrix, size):
        followed = bent(images, matches, size, transform, coarse, evidence, settings)
        if followed is not None:
            return Registration(*followed)
    closure = global_closure(images, transform, size, settings.blocks, points[seen])
    return Registration(_with_closure(transform, closure, settings), blocks)


def _with_closure(found: Transform, closure: Closure, settings: RegisterSettings) -> Transform:
    """Add what going there and back tells."""
    reasons = (*found.reasons, *closure.doubts(settings))
    return replace(
        found,
        status="suspect" if reasons else "ok",
        reasons=reasons,
        forward_backward_px=closure.quantiles,
    )
