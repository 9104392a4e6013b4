"""User hints: landmarks and an initial matrix, as a start instead of the search and as a check."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.reasons import explain
from unglow.registration.coarse_map import (
    SURE,
    best_of,
    is_plausible,
    judge_guesses,
    score_guess,
    singular_values,
)
from unglow.registration.models import find_consensus, fit, fit_robust
from unglow.registration.pair import HALF_OCTAVE
from unglow.registration.settings import LARGEST_SCALE
from unglow.registration.verdict import judge
from unglow.transform import LandmarkResiduals, apply_matrix, convert_to_level
from unglow.transform.transform import octaves_of

if TYPE_CHECKING:
    from unglow.core.arrays import Floats
    from unglow.registration.coarse_map import Candidate, Guess
    from unglow.registration.pair import Pair
    from unglow.registration.settings import RegisterSettings
    from unglow.transform import Transform
    from unglow.transform.landmarks import Landmarks

    Matrix = Floats
    Points = Floats

LANDMARKS, INITIAL = "landmarks", "initial"
"""Names of the two hints as the method of a coarse map."""
CLICK_SHARE = 0.01
"""A map may miss a landmark by this share of the diagonal of post, which is about 15 px of a screen
that shows the entire image: more than a person's clicks are off by."""
CLICK_PX = 10.0
"""It may always miss one by this much, px."""
_MODELS = (("affine", 3), ("similarity", 2))
"""Models that are fitted to landmarks, and how many each needs."""
_SCALE_ROOM = 1.1
"""The scale that hints ask for may exceed what is accepted by this factor: clicks are rough."""


@dataclass(frozen=True, eq=False)
class UserHints:
    """What a user says about the map from post to pre, level-0 px.

    Attributes
    ----------
    landmarks
        Places in both images.
    initial
        (3, 3) float64, post (x, y, 1) to pre.
    """

    landmarks: Landmarks | None = None
    initial: Matrix | None = None


def plan_hinted_search(pair: Pair, hints: UserHints) -> tuple[int, float]:
    """Return the octaves at which a pair is seen as hints ask for it, and the largest scale there.

    They are those of the pair, which is seen as it is, unless the hints ask for more than is
    ordinary.
    """
    matrix = _collect_hinted_maps(hints)[0][1]
    scale = float(np.sqrt(np.prod(singular_values(matrix, pair.section_points().mean(axis=0)))))
    most = _SCALE_ROOM * pair.reach
    if not np.isfinite(scale) or 1 / most <= scale <= most:
        return 0, pair.reach
    furthest = octaves_of(LARGEST_SCALE)
    return int(np.clip(octaves_of(scale), -furthest, furthest)), HALF_OCTAVE


def _collect_hinted_maps(hints: UserHints) -> list[Guess]:
    """Return method and (3, 3) matrix, level-0 px, of everything that a user says."""
    maps: list[Guess] = []
    if hints.landmarks is not None:
        maps += [(LANDMARKS, matrix) for matrix in landmark_maps(hints.landmarks)]
    if hints.initial is not None:
        maps.append((INITIAL, hints.initial))
    return maps


def start_from_hints(pair: Pair, hints: UserHints) -> Candidate | None:
    """Improve the hints on the thumbnails, and take what scores best.

    Returns
    -------
    The start, in thumbnail px; None if nothing of it is a modest scaling with little shear. Where
    landmarks lead, no other place is a rival of the one that a person has pointed at.
    """
    maps = [(method, pair.scale_map(matrix)) for method, matrix in _collect_hinted_maps(hints)]
    centre = pair.post_thumb.section_points().mean(axis=0)
    most = _SCALE_ROOM * pair.reach
    guesses = [(method, convert_to_level(matrix, pair.post_thumb.level)) for method, matrix in maps]
    guesses = [(method, matrix) for method, matrix in guesses if is_plausible(matrix, centre, most)]
    if not guesses:
        return None
    start = judge_guesses(pair, guesses)
    if start is None or start.significance < SURE:
        # the thumbnails have too little in common to improve on a person
        start = best_of([score_guess(pair, guesses[0])], pair.post_thumb)
    if start is not None and start.method == LANDMARKS:
        start = replace(start, margin=math.inf)
    return start


def click_limit(shape: tuple[int, ...], scale: float) -> float:
    """How far a person's click may be off where post of (rows, columns) is in pre, px of pre."""
    return max(CLICK_PX, CLICK_SHARE * math.hypot(*shape)) * 2.0 ** max(0, octaves_of(scale))


def landmark_maps(landmarks: Landmarks) -> list[Matrix]:
    """Return the matrices of `landmark_fits`."""
    return [matrix for _, matrix in landmark_fits(landmarks)]


def landmark_fits(landmarks: Landmarks) -> list[tuple[str, Matrix]]:
    """Fit an affine map (of three landmarks or more) and a similarity, each robustly.

    Returns
    -------
    Model and (3, 3) matrix, post to pre, level-0 px; first the one that is known with landmarks to
    spare.
    """
    post, pre = landmarks.post, landmarks.pre
    tolerance = CLICK_SHARE * float(np.hypot(*np.ptp(post, axis=0)))
    agree = find_consensus(post, pre, max(tolerance, CLICK_PX))
    everything = np.ones(len(post), dtype=bool)
    start = agree if agree.sum() >= 3 else everything
    models = [(model, least) for model, least in _MODELS if len(post) >= least]
    fits = []
    for model, least in models if len(post) > _MODELS[0][1] else models[::-1]:
        try:
            # as many landmarks as the model needs fit exactly: none of them can be reported to be
            # wrong
            if len(post) == least:
                fits.append((model, fit(model, post, pre, np.ones(len(post)))))
            else:
                fits.append((model, fit_robust(model, post, pre, start)[0]))
        except np.linalg.LinAlgError:  # on one line, for example
            continue
    return fits


def landmark_problem(
    landmarks: Landmarks, matrix: Matrix, shape: tuple[int, int], max_scale: float
) -> str:
    """Say what is wrong with a map that was fitted to landmarks; empty if nothing is.

    ``shape`` is that of post; ``max_scale`` is the setting of the registration.
    """
    missed = _lengths(apply_matrix(matrix, landmarks.post), landmarks)
    problem = _scale_problem(landmarks, matrix, max_scale)
    if problem or missed.max() <= click_limit(shape, _scale_of(landmarks, matrix)):
        return problem
    left = LandmarkResiduals(len(missed), float(np.median(missed)), float(missed.max()))
    return _describe_miss(left, landmarks.names[int(missed.argmax())])


def _scale_problem(landmarks: Landmarks, matrix: Matrix, max_scale: float) -> str:
    scale = _scale_of(landmarks, matrix)
    if 1 / max_scale <= scale <= max_scale:
        return ""
    low, high = 1 / max_scale, max_scale
    return explain("landmarks_scale", scale=scale, low=low, high=high)


def _scale_of(landmarks: Landmarks, matrix: Matrix) -> float:
    return float(np.sqrt(np.prod(singular_values(matrix, landmarks.post.mean(axis=0)))))


def check_hints(found: Transform, hints: UserHints, settings: RegisterSettings) -> Transform:
    """Compare a map with the hints: what it misses landmarks by, and warnings about it."""
    reasons = []
    if hints.landmarks is not None and found.has_failed:
        reasons.append(_explain_failure(hints.landmarks, settings.max_scale))
    elif hints.landmarks is not None:
        missed = _lengths(found.map(hints.landmarks.post), hints.landmarks)
        left = LandmarkResiduals(len(missed), float(np.median(missed)), float(missed.max()))
        found = replace(found, landmarks=left)
        if not left.max_px <= click_limit(found.post_shape, found.scale):
            reasons.append(_describe_miss(left, hints.landmarks.names[int(missed.argmax())]))
    searched = found.coarse_method not in (LANDMARKS, INITIAL)
    if hints.initial is not None and not found.has_failed and searched:
        centre = (np.array(found.post_shape[::-1], dtype=np.float64)[None] - 1) / 2
        off = np.hypot(*(found.map(centre) - apply_matrix(hints.initial, centre))[0])
        reasons.append(explain("initial_unused", off=off))
    return judge(found, reasons)


def _describe_miss(left: LandmarkResiduals, name: str) -> str:
    about = {"most": left.max_px, "median": left.median_px, "count": left.count}
    return explain("landmark_missed", name=name, **about)


def _explain_failure(landmarks: Landmarks, max_scale: float) -> str:
    """Say why landmarks led to no map: what they ask for, or how far they contradict each other."""
    maps = landmark_maps(landmarks)
    lengths = [_lengths(apply_matrix(m, landmarks.post), landmarks) for m in maps]
    best = min(range(len(maps)), key=lambda k: float(lengths[k].max()))
    worst = int(lengths[best].argmax())
    most, name = lengths[best][worst], landmarks.names[worst]
    problem = _scale_problem(landmarks, maps[best], max_scale)
    return problem or explain("landmarks_failed", name=name, most=most)


def _lengths(mapped: Points, landmarks: Landmarks) -> Points:
    """(N,) distances between the landmarks in pre and where a map puts those of post, px."""
    return np.asarray(np.hypot(*(mapped - landmarks.pre).T), dtype=np.float64)
