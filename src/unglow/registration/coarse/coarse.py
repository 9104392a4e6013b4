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
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

from unglow.registration.blocks.phase_correlation import match_blocks
from unglow.registration.coarse.guesses import (
    feature_guess,
    halvings,
    rotation_guesses,
    spectrum_guesses,
)
from unglow.registration.fft import backward, fast_length, forward
from unglow.registration.models import apart, consensus, fit_robust
from unglow.transform import jacobians

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from unglow.registration.images import Thumbnail
    from unglow.registration.settings import RegisterSettings

    Matrix = NDArray[np.float64]
    Guess = tuple[str, Matrix]

SURE = 20.0
"""Significance from which no further guesses are needed."""
SAME_PX = 8.0
_NEAR_PX = 3
_MAX_SHEAR = 1.2


@dataclass(frozen=True, slots=True)
class Candidate:
    """A guess of the map, in thumbnail pixels, and its score.

    Attributes
    ----------
    method
        What found it: ``features``, ``spectrum`` or ``rotations``; ``landmarks`` or ``initial`` if
        a person did; ``reused`` for the map of another dye.
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
    """

    method: str
    matrix: Matrix
    sign: int = 1
    score: float = 0.0
    significance: float = 0.0
    rival: float = 0.0


@dataclass(frozen=True, slots=True)
class Coarse:
    """The best candidate, and its score over the best clearly different one."""

    best: Candidate
    margin: float


def find_coarse(
    post: Thumbnail, pre: Thumbnail, settings: RegisterSettings, workers: int = 1
) -> Coarse | None:
    """Find the map between two thumbnails, or None if there is no plausible guess at all.

    OpenCV is held to ``workers`` threads meanwhile. Reversed contrast is tried always, mirrored
    images if the settings ask for it (a mirrored map may be found even so, and is for the caller to
    refuse).
    """
    with held_to(workers):
        found: list[Candidate] = []
        for guess in (_first_guesses, _finer_guesses, _last_guesses):
            more = guess(post, pre, settings)
            found += _judge(post, pre, more, settings, workers, found)
            if max((c.significance for c in found), default=0.0) >= SURE:
                break
    return _best(found, post)


def judge_guesses(
    post: Thumbnail,
    pre: Thumbnail,
    guesses: list[Guess],
    settings: RegisterSettings,
    workers: int = 1,
) -> Coarse | None:
    """Refine and score guesses (method, matrix in thumbnail px); None if none is plausible."""
    with held_to(workers):
        found = _judge(post, pre, guesses, settings, workers)
    return _best(found, post)


@contextmanager
def held_to(workers: int) -> Iterator[None]:
    """Hold OpenCV to so many threads."""
    threads = cv2.getNumThreads()
    cv2.setNumThreads(workers)
    try:
        yield
    finally:
        cv2.setNumThreads(threads)


def _best(found: list[Candidate], post: Thumbnail) -> Coarse | None:
    """Return the candidate with the highest score, and how far it is above the others."""
    if not found:
        return None
    found.sort(key=lambda c: -c.score)
    best = found[0]
    points = section_points(post)
    others = [c.score for c in found[1:] if _apart(best.matrix, c.matrix, points) > SAME_PX]
    rival = max([best.rival, *others])
    return Coarse(best, best.score / max(rival, 1e-9))


def section_points(post: Thumbnail, count: int = 2000) -> NDArray[np.float64]:
    """At most about ``count`` points (x, y) of the section, in thumbnail pixels, evenly spread."""
    rows, cols = np.nonzero(post.section)
    step = max(1, round(np.sqrt(len(rows) / count)))
    even = (rows % step == 0) & (cols % step == 0)
    return np.column_stack([cols[even], rows[even]]).astype(np.float64)


def plausible(matrix: Matrix, centre: NDArray[np.float64], max_scale: float) -> bool:
    """Whether a map is a modest scaling with little shear where the section is."""
    largest, smallest = singular_values(matrix, centre)
    if not (smallest > 0 and np.isfinite(largest)):
        return False
    scale = float(np.sqrt(largest * smallest))
    return 1 / max_scale <= scale <= max_scale and largest / smallest <= _MAX_SHEAR


def singular_values(matrix: Matrix, at: NDArray[np.float64]) -> tuple[float, float]:
    """Largest and smallest local magnification of a map at a point (x, y)."""
    jacobian = jacobians(matrix, at[None])[0]
    if not np.isfinite(jacobian).all():
        return float("nan"), float("nan")
    largest, smallest = np.linalg.svd(jacobian, compute_uv=False)
    return float(largest), float(smallest)


def _first_guesses(post: Thumbnail, pre: Thumbnail, settings: RegisterSettings) -> list[Guess]:
    guesses: list[Guess] = []
    for seen, mirror in _orientations(pre, settings):
        guesses += [("features", mirror @ m) for m in _maybe(feature_guess(post, seen))]
        spectrum = spectrum_guesses(post, seen, settings.max_scale)
        guesses += [("spectrum", mirror @ m) for m in spectrum]
    return guesses


def _finer_guesses(post: Thumbnail, pre: Thumbnail, settings: RegisterSettings) -> list[Guess]:
    guesses: list[Guess] = []
    if halvings(post, pre):
        for seen, mirror in _orientations(pre, settings):
            found = _maybe(feature_guess(post, seen, whole=True))
            guesses += [("features", mirror @ m) for m in found]
    return guesses


def _last_guesses(post: Thumbnail, pre: Thumbnail, settings: RegisterSettings) -> list[Guess]:
    guesses: list[Guess] = []
    for seen, mirror in _orientations(pre, settings):
        for whole in (False, True) if halvings(post, seen) else (False,):
            found = _maybe(feature_guess(post, seen, -1, whole=whole))
            guesses += [("features", mirror @ m) for m in found]
        turned = rotation_guesses(post, seen, settings.max_scale)
        guesses += [("rotations", mirror @ m) for m in turned]
    return guesses


def _maybe(matrix: Matrix | None) -> list[Matrix]:
    return [] if matrix is None else [matrix]


def _orientations(pre: Thumbnail, settings: RegisterSettings) -> Iterator[tuple[Thumbnail, Matrix]]:
    """Pre as it is and, if asked for, mirrored; each with the matrix back to pre."""
    yield pre, np.eye(3)
    if settings.mirror:
        image, detail = (np.ascontiguousarray(v[:, ::-1]) for v in (pre.image, pre.detail))
        flipped = replace(pre, image=image, detail=detail, section=pre.section[:, ::-1].copy())
        yield flipped, np.array([[-1.0, 0, image.shape[1] - 1], [0, 1, 0], [0, 0, 1]])


def _judge(
    post: Thumbnail,
    pre: Thumbnail,
    guesses: list[Guess],
    settings: RegisterSettings,
    workers: int,
    known: Iterable[Candidate] = (),
) -> list[Candidate]:
    """Refine and score the plausible guesses that do not repeat an earlier one."""
    points = section_points(post)
    if not len(points):
        return []
    centre = points.mean(axis=0)
    done, new = list(known), []
    for method, matrix in guesses:
        if not plausible(matrix, centre, settings.max_scale * 1.1):
            continue
        if any(_apart(matrix, c.matrix, points) < SAME_PX for c in done):
            continue
        candidate = _refine(post, pre, scored(post, pre, Candidate(method, matrix)), workers)
        if plausible(candidate.matrix, centre, settings.max_scale * 1.02):
            done.append(candidate)
            new.append(candidate)
    return new


def _refine(post: Thumbnail, pre: Thumbnail, candidate: Candidate, workers: int) -> Candidate:
    """Improve a candidate by two rounds of block matching; keep what scores better."""
    size = thumb_block(post.image.shape)
    corners = _thumb_corners(post, size)
    for _ in range(2):
        found = match_blocks(
            post.plane,
            pre.plane,
            candidate.matrix,
            corners,
            size,
            sign=candidate.sign,
            workers=workers,
        )
        agree = consensus(found.post, found.pre, 3.0)
        if agree.sum() < 5:
            return candidate
        try:
            matrix, _ = fit_robust("affine", found.post, found.pre, agree)
        except np.linalg.LinAlgError:
            return candidate
        better = scored(post, pre, replace(candidate, matrix=matrix))
        if better.score <= candidate.score:
            return candidate
        candidate = better
    return candidate


def thumb_block(shape: tuple[int, ...]) -> int:
    """Side of the blocks that are matched on a thumbnail, px."""
    return 128 if min(shape) >= 512 else 64 if min(shape) >= 160 else 32


def _thumb_corners(post: Thumbnail, size: int) -> NDArray[np.int64]:
    """Corners (x, y) of blocks that overlap by a third and lie mostly on the section."""
    rows, cols = post.image.shape
    step = size * 2 // 3
    corners = [
        (x, y)
        for y in range(0, rows - size + 1, step)
        for x in range(0, cols - size + 1, step)
        if post.section[y : y + size, x : x + size].mean() > 0.3
    ]
    return np.array(corners, dtype=np.int64).reshape(-1, 2)


def scored(post: Thumbnail, pre: Thumbnail, candidate: Candidate) -> Candidate:
    """Correlate the detail images under a candidate, at the right and at all wrong shifts."""
    rows, cols = post.image.shape
    b, inside = (
        _resampled(source, candidate.matrix, post.image.shape)
        for source in (pre.detail, pre.section.view(np.uint8) * np.uint8(255))
    )
    common = post.section & (inside > 127)
    del inside
    if common.sum() < 32 * 32:
        return candidate
    a = post.detail.copy()
    power = 1.0
    for image in (a, b):
        mean = image.mean(where=common, dtype=np.float64)
        np.subtract(image, np.float32(mean), out=image)
        np.multiply(image, common, out=image)
        power *= float((image * image).sum(dtype=np.float64))
    size = fast_length(rows), fast_length(cols)
    product, other = forward(a, size), forward(b, size)
    del a, b
    product *= np.conj(other, out=other)
    del other
    values = backward(product, size)
    values *= np.float32(size[0] * size[1] / max(np.sqrt(power), 1e-12))
    near = _periodic_square(values, _NEAR_PX)
    sign = 1 if values[near].max() >= -values[near].min() else -1
    values *= sign
    score = float(values[near].max())
    values[_periodic_square(values, 24)] = 0
    deviation = float(values.std()) + 1e-9
    return replace(
        candidate,
        sign=sign,
        score=score,
        significance=score / deviation,
        rival=float(values.max()),
    )


def _resampled(source: NDArray[Any], matrix: Matrix, shape: tuple[int, ...]) -> NDArray[Any]:
    """Pre at the positions of post, by bilinear interpolation; 0 outside."""
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return np.asarray(cv2.warpPerspective(source, matrix, shape[::-1], flags=flags))


def _periodic_square(
    values: NDArray[np.float32], radius: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Index of the shifts up to ``radius`` px around zero."""
    rows, cols = (np.arange(-min(radius, n // 4), min(radius, n // 4) + 1) for n in values.shape)
    index = np.ix_(rows, cols)
    return index[0].astype(np.intp), index[1].astype(np.intp)


def _apart(one: Matrix, other: Matrix, points: NDArray[np.float64]) -> float:
    """Median distance between where two maps put the section's points, px."""
    return float(np.median(apart(one, other, points)))
