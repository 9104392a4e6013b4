"""Taking over the map of another dye of the same sample: nothing is fitted, everything is checked.

Sample blocks are matched against the whole map, displacement field included, so what they leave is
what this dye's images say against it.
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
from unglow.registration.blocks.phase_correlation import Matches, Plane, block_shifts
from unglow.registration.blocks.placement import Frames, block_size, sample_corners
from unglow.registration.coarse.coarse import SURE, Candidate, held_to, scored, section_points
from unglow.registration.images import thumbnail
from unglow.registration.models import residuals
from unglow.registration.quality import (
    AGREE_PX,
    MIN_AGREEING,
    MIN_SHARE,
    Evidence,
    agreement,
    confirmed_reach,
    doubts,
    inside_frame,
    nearest,
    uncovered_share,
)
from unglow.registration.register import MIN_SIGNIFICANCE, Registration
from unglow.transform import Quantiles, Transform, apply_matrix, at_level, to_level0

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.core.windows import Pixels
    from unglow.registration.settings import RegisterSettings

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

log = logging.getLogger(__name__)

METHOD = "reused"
_FAR = 10.0
"""Images that lie this many times ``suspect_px`` from the map refute it."""
_RIVAL = 1.15
_NEIGHBOURS = 6


@dataclass(frozen=True, eq=False)
class Source:
    """The map of another dye of the same sample, and the dye's name."""

    dye: str
    transform: Transform


@dataclass(frozen=True, slots=True)
class _Check:
    """What this dye's images say about a map.

    Attributes
    ----------
    coarse
        The map on the thumbnails, with its score there.
    matches, off
        Blocks, and (N, 2) float64 measured minus mapped pre positions, px.
    agreeing
        (N,) bool: blocks that agree with the map or with their neighbours.
    points
        (P, 2) float64 (x, y) of the section that pre shows as well, level-0 px.
    overlap
        Share of the section that those are.
    reach
        How far from a block the map still counts as confirmed, px.
    """

    coarse: Candidate
    matches: Matches
    off: Floats
    agreeing: Mask
    points: Floats
    overlap: float
    reach: float

    @property
    def shift(self) -> Floats:
        """(2,) median (x, y) of what agreeing blocks leave, px."""
        return np.asarray(np.median(self.off[self.agreeing], axis=0), dtype=np.float64)

    @property
    def telling(self) -> bool:
        """Whether enough blocks agree with the map, or with each other, to say anything."""
        return int(self.agreeing.sum()) >= max(MIN_AGREEING, MIN_SHARE * len(self.agreeing))

    @property
    def elsewhere(self) -> bool:
        """Whether the images clearly match better at a place far from the map."""
        best = self.coarse
        clear = best.significance * best.rival >= MIN_SIGNIFICANCE * best.score
        return clear and best.rival > _RIVAL * best.score


@step("check map")
def reuse(
    post: Pixels, pre: Pixels, source: Source, settings: RegisterSettings, *, workers: int = 1
) -> Registration:
    """Take over a map, and say whether these images agree with it.

    Parameters
    ----------
    post, pre
        As for `unglow.registration.register.register`.
    source
        Whose map it is.
    settings
        Of them count ``coarse_px``, ``block_px``, ``blocks`` and ``suspect_px``.
    workers
        Threads. The result has the same bytes for any number.

    Returns
    -------
    The map with residuals and errors in these images; no block took part in a fit, so all count as
    held out. Status ``failed`` if there is no map, if the images have other shapes or refute it;
    ``suspect`` if they lie beside it or cannot confirm it.
    """
    refused = _refused(source, post.shape, pre.shape)
    if refused is not None:
        return _failed(post, pre, source, refused, np.zeros(0, BLOCK_DTYPE))
    release_pages()  # as `register` does
    check = _checked(post, pre, source.transform, settings, workers)
    log.info("the map of %s, significance %.1f", source.dye, check.coarse.significance)
    seen = check.matches
    table = block_table(
        seen.post,
        seen.pre,
        residuals(source.transform.matrix, seen.post, seen.pre),
        check.off,
        seen.quality,
        used=check.agreeing,
        held_out=np.ones(len(seen), dtype=bool),
    )
    refused = _refuted(check, source, settings)
    if refused is not None:
        return _failed(post, pre, source, refused, table)
    return Registration(_judged(check, source, settings), table)


def _refused(source: Source, post_shape: tuple[int, int], pre_shape: tuple[int, int]) -> str | None:
    """Say why there is no map to take over."""
    theirs = source.transform
    if theirs.failed:
        told = " ".join(theirs.reasons)
        return f"The map was to come from {source.dye}, whose registration failed: {told}"
    for role, mine, its in (
        ("post", post_shape, theirs.post_shape),
        ("pre", pre_shape, theirs.pre_shape),
    ):
        if mine != its:
            return (
                f"The map was to come from {source.dye}, whose {role}-stain image has "
                f"{its[1]} x {its[0]} px and not {mine[1]} x {mine[0]} px: only images of the same "
                "frame share a map."
            )
    return None


def _failed(
    post: Pixels, pre: Pixels, source: Source, reason: str, table: NDArray[np.void]
) -> Registration:
    refused = Transform(
        "failed",
        post.shape,
        pre.shape,
        (reason,),
        blocks=len(table),
        coarse_method=METHOD,
        source=source.dye,
    )
    return Registration(refused, table)


def _checked(
    post: Pixels, pre: Pixels, theirs: Transform, settings: RegisterSettings, workers: int
) -> _Check:
    """Look at a map on thumbnails, and match full-resolution blocks against it."""
    level = coarse_level((post.shape, pre.shape), settings.coarse_px)
    thumbs = thumbnail(post, level), thumbnail(pre, level)
    with held_to(workers):
        coarse = scored(*thumbs, Candidate(METHOD, at_level(theirs.matrix, level)))
    release_pages("cv2")
    size = block_size(post.shape, float(thumbs[0].section.mean()), settings.block_px)
    frames = Frames(*thumbs, post.shape, pre.shape, theirs.matrix)
    corners, _ = sample_corners(frames, size, settings.blocks)
    # thumbnails that do not fit do not tell either whether the contrast is reversed
    signs = (coarse.sign,) if coarse.significance >= SURE else (1, -1)
    planes = (
        Plane(post.read, post.shape, thumbs[0].floor),
        Plane(pre.read, pre.shape, thumbs[1].floor),
    )
    matches = _matched(planes, theirs, corners, size, signs, workers)
    plain = apply_matrix(theirs.matrix, matches.post)
    off = matches.pre - theirs.map(matches.post)
    points = apply_matrix(to_level0(level), section_points(thumbs[0]))
    seen = inside_frame(theirs.map(points), pre.shape)
    return _Check(
        coarse=coarse,
        matches=matches,
        off=off,
        agreeing=agreement(replace(matches, pre=plain + off), theirs.matrix),
        points=points[seen],
        overlap=float(seen.mean()) if len(points) else np.nan,
        reach=confirmed_reach(points, size),
    )


def _matched(
    planes: tuple[Plane, Plane],
    theirs: Transform,
    corners: NDArray[np.int64],
    size: int,
    signs: tuple[int, ...],
    workers: int,
) -> Matches:
    """Match blocks against a whole map, with the sign of the contrast that gives higher peaks."""
    tried = [
        block_shifts(
            *planes,
            matrix=theirs.matrix,
            corners=corners,
            size=size,
            field=theirs.displacement,
            sign=sign,
            workers=workers,
        )
        for sign in signs
    ]
    shifts = max(tried, key=lambda found: float(np.nansum(found[:, 2])))
    known = np.isfinite(shifts[:, 2])
    centres = np.asarray(corners[known] + (size - 1) / 2, dtype=np.float64)
    return Matches(centres, theirs.map(centres - shifts[known, :2]), shifts[known, 2])


def _refuted(check: _Check, source: Source, settings: RegisterSettings) -> str | None:
    """Say why the images show that the map is wrong; None if they do not."""
    if check.elsewhere:
        return (
            f"The images match better at another place than where the map of {source.dye} puts "
            "them: let this dye register itself (register_from: its own name)."
        )
    if check.telling and np.hypot(*check.shift) > _FAR * settings.suspect_px:
        return _shifted(check, source.dye, settings)
    return None


def _judged(check: _Check, source: Source, settings: RegisterSettings) -> Transform:
    """Return the map with what is known of it in these images."""
    lengths = np.hypot(*check.off.T)
    residual = Quantiles.of(lengths[check.agreeing])
    error = Quantiles.of(_error(check))
    agreeing = check.matches.post[check.agreeing]
    evidence = Evidence(
        measured=len(check.matches),
        agreeing=len(agreeing),
        residual_p95=residual.p95,
        overlap=check.overlap,
        uncovered=uncovered_share(check.points, agreeing, check.reach),
        scale=1.0,  # whether scale and shear are odd was judged where the map was found
        shear=1.0,
        margin=np.inf,
    )
    reasons = _doubts(check, evidence, error.p95, source, settings)
    return replace(
        source.transform,
        status="suspect" if reasons else "ok",
        reasons=tuple(reasons),
        residual_px=residual,
        error_px=error,
        forward_backward_px=Quantiles(),  # that of the source says nothing about these images
        inliers=int((lengths <= AGREE_PX).sum()),
        blocks=len(check.matches),
        overlap=check.overlap,
        coarse_method=METHOD,
        significance=check.coarse.significance,
        margin=np.nan,
        landmarks=None,
        source=source.dye,
    )


def _error(check: _Check) -> Floats:
    """Estimate the error of the map over the section: mean residuals of the six nearest blocks.

    Neighbours share the error and not the noise, of which a sixth of the variance is left.

    Returns
    -------
    (P,) float64, px; none if no block agrees.
    """
    post, off = check.matches.post[check.agreeing], check.off[check.agreeing]
    if not len(post):
        return np.zeros(0)
    around = nearest(check.points, post, _NEIGHBOURS)
    return np.asarray(np.hypot(*off[around].mean(axis=1).T), dtype=np.float64)


def _doubts(
    check: _Check, evidence: Evidence, error_p95: float, source: Source, settings: RegisterSettings
) -> list[str]:
    """Sentences that say what to check before the map is believed for this dye."""
    out = []
    if not check.telling:
        out.append(
            f"Only {evidence.agreeing} of {evidence.measured} sample blocks say anything about the "
            f"map of {source.dye}, so that these images neither confirm nor refute it: check the "
            "overlay."
        )
    elif np.hypot(*check.shift) > settings.suspect_px:
        out.append(_shifted(check, source.dye, settings))
    else:
        out += doubts(evidence, error_p95, settings)
    if source.transform.status == "suspect":
        out.append(f"The map is that of {source.dye}, which is suspect itself: see its reasons.")
    return out


def _shifted(check: _Check, dye: str, settings: RegisterSettings) -> str:
    x, y = check.shift
    return (
        f"The images lie {np.hypot(x, y):.1f} px (x {x:+.1f}, y {y:+.1f}) from where the map of "
        f"{dye} puts them (setting suspect_px: {settings.suspect_px:g}): something moved between "
        "the two dyes, so let this one register itself (register_from: its own name)."
    )
