"""What a person says about the map: as a start instead of the search, and as a check of the end."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from unglow.registration.coarse.coarse import (
    SURE,
    Candidate,
    Coarse,
    held_to,
    judge_guesses,
    plausible,
    scored,
    section_points,
    singular_values,
)
from unglow.registration.models import consensus, fit, fit_robust
from unglow.transform import LandmarkMisfit, apply_matrix, at_level

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.registration.coarse.coarse import Guess
    from unglow.registration.images import Thumbnail
    from unglow.registration.settings import RegisterSettings
    from unglow.transform import Transform
    from unglow.transform.landmarks import Landmarks

    Matrix = NDArray[np.float64]
    Points = NDArray[np.float64]

CLICK_SHARE = 0.01
"""A map may miss a landmark by this share of the diagonal of post, which is about 15 px of a screen
that shows the whole image: more than a person's clicks are off by."""
CLICK_PX = 10.0
"""It may always miss one by this much, px."""
_MODELS = (("affine", 3), ("similarity", 2))
LANDMARKS, INITIAL = "landmarks", "initial"


@dataclass(frozen=True, eq=False)
class Given:
    """What a person knows of the map from post to pre, level-0 px.

    Attributes
    ----------
    landmarks
        Places in both images.
    initial
        (3, 3) float64, post (x, y, 1) to pre.
    """

    landmarks: Landmarks | None = None
    initial: Matrix | None = None


def given_start(
    post: Thumbnail, pre: Thumbnail, given: Given, settings: RegisterSettings, workers: int = 1
) -> Coarse | None:
    """Improve what is given on the thumbnails, and take what scores best.

    Returns
    -------
    The start, in thumbnail px; None if nothing of it is a modest scaling with little shear. Where
    landmarks lead, no other place is a rival of the one that a person has pointed at.
    """
    found: list[Guess] = []
    if given.landmarks is not None:
        found += [(LANDMARKS, matrix) for matrix in landmark_maps(given.landmarks)]
    if given.initial is not None:
        found.append((INITIAL, given.initial))
    centre = section_points(post).mean(axis=0)
    guesses = [
        (method, at_level(matrix, post.level))
        for method, matrix in found
        if plausible(at_level(matrix, post.level), centre, 1.1 * settings.max_scale)
    ]
    if not guesses:
        return None
    start = judge_guesses(post, pre, guesses, settings, workers)
    if start is None or start.best.significance < SURE:
        # the thumbnails have too little in common to improve on a person
        with held_to(workers):
            best = scored(post, pre, Candidate(*guesses[0]))
        start = Coarse(best, best.score / max(best.rival, 1e-9))
    return replace(start, margin=math.inf) if start.best.method == LANDMARKS else start


def click_limit(shape: tuple[int, ...]) -> float:
    """How far a person's click may be off in an image of (rows, columns), px."""
    return max(CLICK_PX, CLICK_SHARE * math.hypot(*shape))


def landmark_maps(landmarks: Landmarks) -> list[Matrix]:
    """Fit an affine map (of three landmarks or more) and a similarity, each robustly.

    Returns
    -------
    (3, 3) matrices, post to pre, level-0 px; first the one that is known with landmarks to spare.
    """
    post, pre = landmarks.post, landmarks.pre
    tolerance = CLICK_SHARE * float(np.hypot(*np.ptp(post, axis=0)))
    agree = consensus(post, pre, max(tolerance, CLICK_PX))
    everything = np.ones(len(post), dtype=bool)
    start = agree if agree.sum() >= 3 else everything
    models = [(model, least) for model, least in _MODELS if len(post) >= least]
    maps = []
    for model, least in models if len(post) > _MODELS[0][1] else models[::-1]:
        try:
            # as many landmarks as the model needs fit exactly: none of them can be told to be wrong
            exact = len(post) == least
            maps.append(
                fit(model, post, pre, np.ones(len(post)))
                if exact
                else fit_robust(model, post, pre, start)[0]
            )
        except np.linalg.LinAlgError:  # on one line, for example
            continue
    return maps


def checked(found: Transform, given: Given, settings: RegisterSettings) -> Transform:
    """Compare a map with what was given: what it misses the landmarks by, and doubts about it."""
    doubts = []
    misfit = None
    if given.landmarks is not None and found.failed:
        doubts.append(_unhelpful(given.landmarks, settings.max_scale))
    elif given.landmarks is not None:
        misfit, told = _missed(found, given.landmarks)
        doubts += told
    if given.initial is not None and not found.failed and _searched(found):
        off = _distance(found, given.initial)
        doubts.append(
            "The initial transform led to no map, so that one was searched, which differs from it "
            f"by {off:.0f} px at the centre of the image: check the overlay."
        )
    status = "suspect" if doubts and found.status == "ok" else found.status
    return replace(found, status=status, reasons=(*found.reasons, *doubts), landmarks=misfit)


def _searched(found: Transform) -> bool:
    return found.coarse_method not in (LANDMARKS, INITIAL)


def _missed(found: Transform, landmarks: Landmarks) -> tuple[LandmarkMisfit, list[str]]:
    """Measure how far a map misses the landmarks; a sentence if that is much."""
    lengths = _lengths(found.map(landmarks.post), landmarks)
    worst = int(lengths.argmax())
    misfit = LandmarkMisfit(len(landmarks), float(np.median(lengths)), float(lengths[worst]))
    if misfit.max_px <= click_limit(found.post_shape):
        return misfit, []
    told = (
        f"The map misses landmark {landmarks.names[worst]} by {misfit.max_px:.0f} px (the median "
        f"of {len(landmarks)} landmarks is {misfit.median_px:.0f} px), more than clicks are off "
        "by: correct or remove it if it is wrong, and check the overlay."
    )
    return misfit, [told]


def _unhelpful(landmarks: Landmarks, max_scale: float) -> str:
    """Say why landmarks led to no map: what they ask for, or how far they contradict each other."""
    maps = landmark_maps(landmarks)
    lengths = [_lengths(apply_matrix(m, landmarks.post), landmarks) for m in maps]
    best = min(range(len(maps)), key=lambda k: float(lengths[k].max()))
    worst = int(lengths[best].argmax())
    scale = float(np.sqrt(np.prod(singular_values(maps[best], landmarks.post.mean(axis=0)))))
    if not 1 / max_scale <= scale <= max_scale:
        return (
            f"The landmarks ask for a scale of {scale:.2f}, outside the accepted range "
            f"{1 / max_scale:.2f} to {max_scale:.2f} (setting max_scale)."
        )
    return (
        "The landmarks led to no map either: the one that fits them best misses landmark "
        f"{landmarks.names[worst]} by {lengths[best][worst]:.0f} px; see whether each of them is "
        "the same place in both images."
    )


def _lengths(mapped: Points, landmarks: Landmarks) -> Points:
    """(N,) distances between the landmarks in pre and where a map puts those of post, px."""
    return np.asarray(np.hypot(*(mapped - landmarks.pre).T), dtype=np.float64)


def _distance(found: Transform, initial: Matrix) -> float:
    """Distance between where a map and a matrix put the centre of post, px."""
    centre = (np.array(found.post_shape[::-1], dtype=np.float64)[None] - 1) / 2
    return float(np.hypot(*(found.map(centre) - apply_matrix(initial, centre))[0]))
