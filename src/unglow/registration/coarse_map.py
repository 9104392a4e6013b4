"""The coarse map between two thumbnails: several ways to guess it, one score to judge them all.

Guesses come from image features (SIFT with square-rooted descriptors, Lowe 2004 and Arandjelovic &
Zisserman 2012), from the Fourier-Mellin transform (Reddy & Chatterji 1996,
doi:10.1109/83.506761) and, if neither convinces, from a search over rotations and scales. Each
guess is refined by block matching on the thumbnails and scored by the correlation of the two
detail images inside the section, against the same correlation at all wrong shifts.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import cv2
import numpy as np

from unglow.registration.coarse_guesses import (
    feature_guess,
    halvings,
    rotation_guesses,
    spectrum_guesses,
)
from unglow.registration.images import PlanePair, backward, cross_spectrum
from unglow.registration.models import find_consensus, fit_robust, measure_distances
from unglow.registration.phase_correlation import match_blocks
from unglow.registration.settings import ORDINARY_SCALE
from unglow.transform import apply_matrix, inside_frame, jacobians

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from unglow.core.arrays import Array, Floats, Floats32, Ints
    from unglow.registration.images import Thumbnail
    from unglow.registration.pair import Pair

    Matrix = Floats
    Guess = tuple[str, Matrix]

SURE = 20.0
"""Significance from which no further guesses are needed; unrelated images reach about 8."""
_SAME_PX = 8.0
"""Maps that put the section nearer to each other than this are one, px of the thumbnail."""
_NEAR_PX, _AWAY_PX = 3, 24
"""A candidate's score is the best correlation up to the former shift; of all beyond the latter,
none is its own, px of the thumbnail."""
_LEAST_COMMON = 32 * 32
"""px of the thumbnail that both images have to show of the section."""
_MAX_SHEAR = 1.2
"""Greatest ratio of the two magnifications of a guess."""
_GUESS_ROOM, _REFINED_ROOM = 1.1, 1.02
"""The scale of a guess may be beyond what is accepted, before and after it is refined."""
_REFINEMENTS = 2
_CONSENSUS_PX = 3.0
"""Blocks this near to one similarity agree, px of the thumbnail."""
_LEAST_BLOCKS = 5
_LEAST_SECTION = 0.3
"""Share of a block's area that must belong to the section."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A guess of the map, in thumbnail pixels, and its score.

    Attributes
    ----------
    method
        What found it: ``features``, ``spectrum`` or ``rotations``; ``landmarks`` or ``initial`` if
        a person did; ``reused`` for the map of another dye; ``declared`` for images that did not
        move.
    matrix
        (3, 3) float64, post to pre.
    sign
        -1 if the contrast is reversed.
    score
        Correlation (0..1) of the detail images inside the section.
    significance
        Score over the standard deviation of the same correlation at wrong shifts.
    rival
        Highest score at a wrong shift.
    margin
        Score over that of the best clearly different candidate or shift; NaN before `best_of`.
    """

    method: str
    matrix: Matrix
    sign: int = 1
    score: float = 0.0
    significance: float = 0.0
    rival: float = 0.0
    margin: float = float("nan")


def find_coarse(pair: Pair) -> Candidate | None:
    """Find the map between two thumbnails, or None if there is no plausible guess at all.

    Reversed contrast is tried always, mirrored images if the settings ask for it (a mirrored map
    may be found even so, and is for the caller to refuse). Where a magnification is only tried,
    no rotations are.
    """
    with opencv_threads(pair.workers):
        found: list[Candidate] = []
        for ways in _ORDINARY if pair.reach <= ORDINARY_SCALE else _MAGNIFIED:
            found += _judge(pair, _guesses(pair, ways), found)
            if max((c.significance for c in found), default=0.0) >= SURE:
                break
    return best_of(found, pair.post_thumb)


def judge_guesses(pair: Pair, guesses: list[Guess]) -> Candidate | None:
    """Refine and score guesses (method, matrix in thumbnail px); None if none is plausible."""
    with opencv_threads(pair.workers):
        found = _judge(pair, guesses, [])
    return best_of(found, pair.post_thumb)


def score_guess(pair: Pair, guess: Guess) -> Candidate:
    """Score a guess as it is."""
    with opencv_threads(pair.workers):
        return _score(pair, Candidate(*guess))


@contextmanager
def opencv_threads(workers: int) -> Iterator[None]:
    """Hold OpenCV to this many threads."""
    threads = cv2.getNumThreads()
    cv2.setNumThreads(workers)
    try:
        yield
    finally:
        cv2.setNumThreads(threads)


def best_of(candidates: Sequence[Candidate], post: Thumbnail) -> Candidate | None:
    """Return the candidate with the highest score, with its margin over the others."""
    if not candidates:
        return None
    best, *others = sorted(candidates, key=lambda c: -c.score)
    points = post.section_points()
    rivals = [c.score for c in others if _apart(best.matrix, c.matrix, points) > _SAME_PX]
    return replace(best, margin=best.score / max([best.rival, *rivals, 1e-9]))


def is_plausible(matrix: Matrix, centre: Floats, max_scale: float) -> bool:
    """Whether a map is a modest scaling with little shear where the section is."""
    largest, smallest = singular_values(matrix, centre)
    if not (smallest > 0 and np.isfinite(largest)):
        return False
    scale = float(np.sqrt(largest * smallest))
    return 1 / max_scale <= scale <= max_scale and largest / smallest <= _MAX_SHEAR


def singular_values(matrix: Matrix, at: Floats) -> tuple[float, float]:
    """Largest and smallest local magnification of a map at a point (x, y)."""
    jacobian = jacobians(matrix, at[None])[0]
    if not np.isfinite(jacobian).all():
        return float("nan"), float("nan")
    largest, smallest = np.linalg.svd(jacobian, compute_uv=False)
    return float(largest), float(smallest)


def _guesses(
    pair: Pair, ways: Callable[[Thumbnail, Thumbnail, float], list[tuple[str, Matrix | None]]]
) -> list[Guess]:
    """Guesses for pre as it is and, if asked for, mirrored."""
    return [
        (method, mirror @ matrix)
        for seen, mirror in _orientations(pair)
        for method, matrix in ways(pair.post_thumb, seen, pair.reach)
        if matrix is not None
    ]


def _orientations(pair: Pair) -> Iterator[tuple[Thumbnail, Matrix]]:
    """Pre as it is and, if asked for, mirrored; each with the matrix back to pre."""
    pre = pair.pre_thumb
    yield pre, np.eye(3)
    if pair.settings.mirror:
        image, detail = (np.ascontiguousarray(v[:, ::-1]) for v in (pre.image, pre.detail))
        flipped = replace(pre, image=image, detail=detail, section=pre.section[:, ::-1].copy())
        yield flipped, np.array([[-1.0, 0, image.shape[1] - 1], [0, 1, 0], [0, 0, 1]])


def _quick_guesses(
    post: Thumbnail, pre: Thumbnail, max_scale: float
) -> list[tuple[str, Matrix | None]]:
    spectrum = spectrum_guesses(post, pre, max_scale)
    return [("features", feature_guess(post, pre)), *(("spectrum", m) for m in spectrum)]


def _finer_guesses(
    post: Thumbnail, pre: Thumbnail, _max_scale: float
) -> list[tuple[str, Matrix | None]]:
    whole = bool(halvings(post, pre))
    return [("features", feature_guess(post, pre, whole=True))] if whole else []


def _exhaustive_guesses(
    post: Thumbnail, pre: Thumbnail, max_scale: float
) -> list[tuple[str, Matrix | None]]:
    sizes = (False, True) if halvings(post, pre) else (False,)
    features = [feature_guess(post, pre, -1, whole=whole) for whole in sizes]
    turned = rotation_guesses(post, pre, max_scale)
    return [*(("features", m) for m in features), *(("rotations", m) for m in turned)]


def _guess_reversed(
    post: Thumbnail, pre: Thumbnail, _max_scale: float
) -> list[tuple[str, Matrix | None]]:
    return [("features", feature_guess(post, pre, -1))]


_ORDINARY = _quick_guesses, _finer_guesses, _exhaustive_guesses
_MAGNIFIED = _quick_guesses, _guess_reversed
"""One after the other until one is sure; of magnified pairs, many are searched without success."""


def _judge(pair: Pair, guesses: list[Guess], earlier: list[Candidate]) -> list[Candidate]:
    """Refine and score the plausible guesses that do not repeat an earlier one."""
    points = pair.post_thumb.section_points()
    if not len(points):
        return []
    centre, max_scale = points.mean(axis=0), pair.reach
    least = pair.settings.min_overlap
    new: list[Candidate] = []
    for method, matrix in guesses:
        if not is_plausible(matrix, centre, max_scale * _GUESS_ROOM):
            continue
        if any(_apart(matrix, c.matrix, points) < _SAME_PX for c in (*earlier, *new)):
            continue
        candidate = _refine(pair, _score(pair, Candidate(method, matrix)))
        if pair.reach > ORDINARY_SCALE and _measure_overlap(pair, candidate.matrix, points) < least:
            continue  # what little is seen of the section looks more significant than it is
        if is_plausible(candidate.matrix, centre, max_scale * _REFINED_ROOM):
            new.append(candidate)
    return new


def _measure_overlap(pair: Pair, matrix: Matrix, points: Floats) -> float:
    """Share of points (N, 2) of the section that a map puts inside pre."""
    inside = inside_frame(apply_matrix(matrix, points), pair.pre_thumb.image.shape)
    return float(inside.mean())


def _refine(pair: Pair, candidate: Candidate) -> Candidate:
    """Improve a candidate by two rounds of block matching; keep what scores better."""
    post, pre = pair.post_thumb, pair.pre_thumb
    size = _choose_block_size(post.image.shape)
    corners = _corners(post, size)
    for _ in range(_REFINEMENTS):
        planes = PlanePair(post.plane, pre.plane, candidate.matrix, candidate.sign, pair.workers)
        matches = match_blocks(planes, corners, size)
        agree = find_consensus(matches.post, matches.pre, _CONSENSUS_PX)
        if agree.sum() < _LEAST_BLOCKS:
            return candidate
        try:
            matrix, _ = fit_robust("affine", matches.post, matches.pre, agree)
        except np.linalg.LinAlgError:
            return candidate
        better = _score(pair, replace(candidate, matrix=matrix))
        if better.score <= candidate.score:
            return candidate
        candidate = better
    return candidate


def _choose_block_size(shape: tuple[int, ...]) -> int:
    """Side of the blocks that are matched on a thumbnail, px."""
    return 128 if min(shape) >= 512 else 64 if min(shape) >= 160 else 32


def _corners(post: Thumbnail, size: int) -> Ints:
    """Corners (x, y) of blocks that overlap by a third and lie mostly on the section."""
    rows, cols = post.image.shape
    step = size * 2 // 3
    corners = [
        (x, y)
        for y in range(0, rows - size + 1, step)
        for x in range(0, cols - size + 1, step)
        if post.section[y : y + size, x : x + size].mean() > _LEAST_SECTION
    ]
    return np.array(corners, dtype=np.int64).reshape(-1, 2)


def _score(pair: Pair, candidate: Candidate) -> Candidate:
    """Correlate the detail images under a candidate, at the right and at all wrong shifts."""
    post, pre = pair.post_thumb, pair.pre_thumb
    rows, cols = post.image.shape
    b, inside = (
        _resample(source, candidate.matrix, post.image.shape)
        for source in (pre.detail, pre.section.view(np.uint8) * np.uint8(255))
    )
    common = post.section & (inside > 127)
    del inside
    seen = int(common.sum())
    if seen < _LEAST_COMMON:
        return candidate
    a = post.detail.copy()
    power = 1.0
    for image in (a, b):
        mean = image.mean(where=common, dtype=np.float64)
        np.subtract(image, np.float32(mean), out=image)
        np.multiply(image, common, out=image)
        power *= float((image * image).sum(dtype=np.float64))
    size = cv2.getOptimalDFTSize(rows), cv2.getOptimalDFTSize(cols)
    product = cross_spectrum(a, b, size)
    del a, b
    values = backward(product, size)
    values *= np.float32(size[0] * size[1] / max(np.sqrt(power), 1e-12))
    near = _periodic_square(values, _NEAR_PX)
    sign = 1 if values[near].max() >= -values[near].min() else -1
    values *= sign
    score = float(values[near].max())
    values[_periodic_square(values, _AWAY_PX)] = 0
    deviation = float(values.std()) + 1e-9
    if pair.reach > ORDINARY_SCALE:  # far shifts of a small part say nothing: they are all zero
        deviation *= float(np.sqrt(values.size / seen))
    return replace(
        candidate,
        sign=sign,
        score=score,
        significance=score / deviation,
        rival=float(values.max()),
    )


def _resample(source: Array, matrix: Matrix, shape: tuple[int, ...]) -> Array:
    """Pre at the positions of post, by bilinear interpolation; 0 outside."""
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return np.asarray(cv2.warpPerspective(source, matrix, shape[::-1], flags=flags))


def _periodic_square(values: Floats32, radius: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Index of the shifts up to ``radius`` px around zero."""
    rows, cols = (np.arange(-min(radius, n // 4), min(radius, n // 4) + 1) for n in values.shape)
    index = np.ix_(rows, cols)
    return index[0].astype(np.intp), index[1].astype(np.intp)


def _apart(one: Matrix, other: Matrix, points: Floats) -> float:
    """Median distance between where two maps put the section's points, px."""
    return float(np.median(measure_distances(one, other, points)))
