"""Registration of a pre-stain to a post-stain image: from thumbnails to full-resolution blocks.

Only pyramid levels of about a thousand pixels and some hundred full-resolution blocks are read, so
time and memory hardly depend on the size of the images.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.own_memory import release_pages
from unglow.core.progress import step
from unglow.registration.block_placement import block_size, sample_corners
from unglow.registration.coarse_map import SURE, Candidate, find_coarse
from unglow.registration.global_map import Samples, conclude, reject_pair
from unglow.registration.images import MIN_SIDE, explain_unusable
from unglow.registration.models import find_consensus, fit_robust, measure_distances
from unglow.registration.pair import Pair, can_match, convert_to_full, most_significant, searches
from unglow.registration.phase_correlation import (
    MIN_PEAK_RATIO,
    block_shifts,
    match_blocks,
    matches_of,
)
from unglow.registration.settings import DECLARED, RegisterSettings
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
    Registration,
    agree_few,
    describe_unlike,
)
from unglow.transform import from_level

if TYPE_CHECKING:
    from unglow.core.arrays import Floats
    from unglow.core.windows import Pixels

    Matrix = Floats

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
        if found.transform.has_failed or (hints is None and agree_few(found)):
            found = _search_blurred(post, pre, settings, workers, found)
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
        return reject_pair(pair, [problem])
    section = float(pair.post_thumb.section.mean())
    attempts = [
        (octaves, reach, partial(_search, least=least))
        for octaves, reach, least in searches(settings, expected_scale)
    ]
    if hints is not None:
        attempts.insert(0, (*plan_hinted_search(pair, hints), partial(_follow_hints, hints=hints)))
    refusals = []
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
            return found
        refusals.append(found)
        if MIRRORED in found.transform.reasons and found.transform.significance >= SURE:
            break
    # what a person points at is what a refusal is about
    pointed = [one for one in refusals if one.transform.coarse_method in (LANDMARKS, INITIAL)]
    return (pointed or [most_significant(refusals)])[0]


def _search_blurred(
    post: Pixels, pre: Pixels, settings: RegisterSettings, workers: int, found: Registration
) -> Registration:
    """Search a map by structures so coarse that noise averages out.

    Returns what was ``found`` at full resolution if they do not match, or say less of it.
    """
    for level in range(1, _MOST_BLURRED + 1):
        if min(*post.shape, *pre.shape) >> level < MIN_SIDE:
            break
        pair = Pair.read(post, pre, settings, workers, blurred=level)
        blurred = _search(pair, MIN_SIGNIFICANCE)
        if blurred is None or blurred.transform.has_failed:
            continue
        if found.transform.has_failed or found.agreeing < blurred.agreeing:
            return convert_to_full(blurred, pair, post, pre)
    return found


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
        return reject_pair(pair, [describe_unlike(pair.settings)], start)
    return _continue_from(pair, start)


def _continue_from(pair: Pair, start: Candidate) -> Registration:
    """Take a start to full resolution and judge it, if it is not mirrored against the settings."""
    if not pair.settings.mirror and np.linalg.det(start.matrix) < 0:
        return reject_pair(pair, [MIRRORED], start)
    log.info("coarse map by %s, significance %.1f", start.method, start.significance)
    level = pair.post_thumb.level
    coarse = from_level(start.matrix, level)
    pair = replace(pair, matrix=coarse, sign=start.sign)
    while level > 1:
        level = (level + 1) // 2
        pair = pair.replace_map(_improve(pair, level))
    pair, samples = _measure(pair)
    return conclude(pair, samples, start, coarse)


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


def _measure(pair: Pair) -> tuple[Pair, Samples]:
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
def _sample(pair: Pair, size: int) -> Samples:
    """Match full-resolution blocks spread over the section."""
    corners, held_out = sample_corners(pair, size, pair.settings.blocks)
    shifts = block_shifts(pair.select_level(0), corners, size)
    unclear = None
    if pair.blurred:  # glass around few structures says nothing against a map
        low = shifts[:, 2] < MIN_PEAK_RATIO
        shifts[low], unclear = np.nan, int(low.sum())
    matches = matches_of(pair.select_level(0), corners, size, shifts)
    return Samples(matches, held_out[np.isfinite(shifts[:, 2])], size, unclear)
