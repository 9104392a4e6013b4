"""A map that is given: that of another dye of the same sample, or none, where nothing moved.

Nothing is fitted, everything is checked. Sample blocks are matched against the entire map,
displacement field included, so what they leave is what these images say against it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.own_memory import release_pages
from unglow.core.progress import step
from unglow.core.reasons import explain
from unglow.registration.block_placement import block_size, sample_corners
from unglow.registration.block_table import block_table
from unglow.registration.coarse_map import SURE, Candidate, score_guess
from unglow.registration.models import residuals
from unglow.registration.pair import Pair, convert_blocks_to_full, convert_to_post_px
from unglow.registration.phase_correlation import Matches, block_shifts, matches_of
from unglow.registration.quality import (
    NEIGHBOURS,
    agreement,
    compute_confirmed_reach,
    compute_uncovered_share,
    nearest,
)
from unglow.registration.settings import DECLARED
from unglow.registration.verdict import (
    MIN_SIGNIFICANCE,
    Evidence,
    Registration,
    judge,
    list_warnings,
    reject,
)
from unglow.transform import (
    Quantiles,
    ResidualShift,
    Transform,
    apply_matrix,
    convert_to_level,
    inside_frame,
)

if TYPE_CHECKING:
    from unglow.core.arrays import Bools, Floats
    from unglow.core.windows import Pixels
    from unglow.registration.settings import RegisterSettings


log = logging.getLogger(__name__)

METHOD, UNMOVED = "reused", "declared"
"""What found a map: another dye, or the user's word that nothing moved."""
_FAR = 10.0
"""Images that lie this many times ``suspect_px`` from the map refute it."""
_RIVAL = 1.15
"""So do images that match this many times better at another place."""


@dataclass(frozen=True, eq=False)
class SharedMap:
    """A map that is given.

    Attributes
    ----------
    dye
        Whose it is: another dye of the same sample, or cycles of a slide; empty if nothing moved.
    transform
        The map.
    remedy
        What helps where the images refute it, for cycles of a slide.
    """

    dye: str
    transform: Transform
    remedy: str = ""

    @property
    def method(self) -> str:
        """What found the map."""
        return METHOD if self.dye else UNMOVED


def make_identity(shape: tuple[int, int]) -> SharedMap:
    """Return the map of images of a shape, (rows, columns), that are said to lie on each other."""
    return SharedMap(
        "",
        Transform(
            "ok",
            shape,
            shape,
            matrix=np.eye(3),
            model=DECLARED,
            scale=1.0,
            rotation_deg=0.0,
            shift_px=(0.0, 0.0),
        ),
    )


def make_cycle_map(cycles: str, transform: Transform | None, shape: tuple[int, int]) -> SharedMap:
    """Return the map between two cycles of a slide, or of one cycle (None), whose channels agree.

    ``shape`` is that of all images, (rows, columns).
    """
    if transform is not None:
        remedy = "See the registration of these cycles, and set register.on to what both show."
        return SharedMap(f"cycles {cycles}", transform, remedy)
    remedy = "Both channels are of one cycle: correct what lies between their filters."
    return SharedMap("their cycle", make_identity(shape).transform, remedy)


@dataclass(frozen=True, slots=True)
class _Check:
    """What this dye's images say about a map.

    Attributes
    ----------
    coarse
        The map on the thumbnails, with its score there.
    matches, left
        Blocks, and (N, 2) float64 measured minus mapped pre positions, px.
    agreeing
        (N,) bool: blocks that agree with the map or with their neighbours.
    points
        (P, 2) float64 (x, y) of the section that pre shows as well, level-0 px.
    evidence
        For the warnings that any map gets. Whether scale, shear and margin are odd was judged where
        the map was found.
    """

    coarse: Candidate
    matches: Matches
    left: Floats
    agreeing: Bools
    points: Floats
    evidence: Evidence

    @property
    def shift(self) -> ResidualShift:
        """What agreeing blocks leave."""
        return ResidualShift.from_residuals(self.left[self.agreeing])

    @property
    def match_elsewhere(self) -> bool:
        """Whether the images clearly match better at a place far from the map."""
        best = self.coarse
        clear = best.significance * best.rival >= MIN_SIGNIFICANCE * best.score
        return clear and best.rival > _RIVAL * best.score

    @property
    def error(self) -> Floats:
        """(P,) float64 error of the map over the section, px; none if no block agrees.

        Mean residuals of the six nearest blocks: neighbours share the error and not the noise, of
        which a sixth of the variance is left.
        """
        if not self.agreeing.any():
            return np.zeros(0)
        around = nearest(self.points, self.matches.post[self.agreeing], NEIGHBOURS)
        mean = self.left[self.agreeing][around].mean(axis=1)
        return np.asarray(np.hypot(*mean.T), dtype=np.float64)


@step("check map")
def take_over(
    post: Pixels, pre: Pixels, shared: SharedMap, settings: RegisterSettings, *, workers: int = 1
) -> Registration:
    """Take over a map, and say whether these images agree with it.

    Parameters
    ----------
    post, pre
        As for `unglow.registration.register.register`.
    shared
        Whose map it is.
    settings
        Of them count ``coarse_px``, ``block_px``, ``blocks`` and ``suspect_px``.
    workers
        Threads. The result has the same bytes for any number.

    Returns
    -------
    The map with residuals and errors in these images; no block took part in a fit, so all count as
    held out. Status ``failed`` if there is no map, if the images have other shapes or refute it;
    ``suspect`` if they are next to it or cannot confirm it.
    """
    reason = _explain_unusable(shared, post.shape, pre.shape)
    table = None
    if reason is None:
        release_pages()  # as `register` does
        octaves = shared.transform.octaves
        pair = Pair.read(post, pre, settings, workers, octaves)
        seen = shared.transform.convert_levels(*pair.coarser) if octaves else shared.transform
        pair = pair.replace_map(seen.matrix)
        check = _match_shared(pair, replace(shared, transform=seen))
        log.info("map of %s, significance %.1f", shared.dye or "none", check.coarse.significance)
        matches = check.matches
        table = block_table(
            matches,
            residuals(pair.matrix, matches.post, matches.pre),
            check.left,
            used=check.agreeing,
            held_out=np.ones(len(matches), dtype=bool),
        )
        table = convert_blocks_to_full(table, pair)
        reason = _refutation(check, shared, settings)
        if reason is None:
            return Registration(convert_to_post_px(_judge(check, shared, settings), octaves), table)
    about = {"coarse_method": shared.method, "source": shared.dye}
    return reject(post.shape, pre.shape, [reason], table, **about)


def _explain_unusable(
    shared: SharedMap, post_shape: tuple[int, int], pre_shape: tuple[int, int]
) -> str | None:
    """Say why there is no map to take over."""
    theirs = shared.transform
    if theirs.has_failed:
        return explain("source_failed", dye=shared.dye, why=" ".join(theirs.reasons))
    for role, own, other in (
        ("post", post_shape, theirs.post_shape),
        ("pre", pre_shape, theirs.pre_shape),
    ):
        if own != other:
            mine, wanted = (f"{cols} x {rows}" for rows, cols in (own, other))
            key = "other_frame" if shared.dye else "sizes_differ"
            return explain(key, dye=shared.dye, role=role, own=mine, theirs=wanted)
    return None


def _match_shared(pair: Pair, shared: SharedMap) -> _Check:
    """Look at a map on thumbnails, and match full-resolution blocks against it."""
    theirs = shared.transform
    coarse = score_guess(
        pair, (shared.method, convert_to_level(theirs.matrix, pair.post_thumb.level))
    )
    release_pages("cv2")
    share = float(pair.post_thumb.section.mean())
    size = block_size(pair.post.shape, share, pair.settings.block_px)
    corners, _ = sample_corners(pair, size, pair.settings.blocks)
    # thumbnails that do not fit do not show either whether the contrast is reversed
    signs = (coarse.sign,) if coarse.significance >= SURE else (1, -1)
    planes = [replace(pair, sign=sign).select_level(0, theirs.displacement) for sign in signs]
    shifts = [block_shifts(one, corners, size) for one in planes]
    best = max(shifts, key=lambda found: float(np.nansum(found[:, 2])))
    matches = matches_of(planes[0], corners, size, best)
    left = matches.pre - theirs.map(matches.post)
    plain = apply_matrix(theirs.matrix, matches.post)
    agreeing = agreement(replace(matches, pre=plain + left), theirs.matrix)
    points = pair.section_points()
    seen = inside_frame(theirs.map(points), pair.pre.shape)
    evidence = Evidence(
        measured=len(matches),
        agreeing=int(agreeing.sum()),
        overlap=float(seen.mean()) if len(points) else np.nan,
        uncovered=compute_uncovered_share(
            points[seen], matches.post[agreeing], compute_confirmed_reach(points, size)
        ),
        scale=1.0,
        shear=1.0,
        margin=np.inf,
    )
    return _Check(coarse, matches, left, agreeing, points[seen], evidence)


def _refutation(check: _Check, shared: SharedMap, settings: RegisterSettings) -> str | None:
    """Say why the images show that the map is wrong; None if they do not."""
    if check.match_elsewhere:
        remedy = "Let this dye register itself (register_from: its own name)."
        return explain("elsewhere", **_describe_map(shared, remedy))
    if check.evidence.enough_agree and check.shift.length_px > _FAR * settings.suspect_px:
        return _shift_map(check, shared, settings)
    return None


def _judge(check: _Check, shared: SharedMap, settings: RegisterSettings) -> Transform:
    """Return the map with its quality in these images."""
    lengths = np.hypot(*check.left.T)
    error = Quantiles.from_lengths(check.error)
    found = replace(
        shared.transform,
        status="ok",
        reasons=(),
        residual_px=Quantiles.from_lengths(lengths[check.agreeing]),
        error_px=error,
        forward_backward_px=Quantiles(),  # that of the other dye says nothing about these images
        inliers=check.evidence.agreeing,
        blocks=len(check.matches),
        overlap=check.evidence.overlap,
        coarse_method=shared.method,
        significance=check.coarse.significance,
        margin=np.nan,
        landmarks=None,
        local_error=None,  # nor does this: theirs may be off where the other dye's are not
        source=shared.dye,
        residual_shift=None if shared.dye or not check.agreeing.any() else check.shift,
    )
    return judge(found, _warnings(check, error.p95, shared, settings))


def _warnings(
    check: _Check, error_p95: float, shared: SharedMap, settings: RegisterSettings
) -> list[str]:
    """Sentences that say what to check before the map is believed for this dye."""
    evidence = check.evidence
    beyond = check.agreeing.any() and check.shift.length_px > settings.suspect_px
    if not evidence.enough_agree:
        numbers = {"agreeing": evidence.agreeing, "measured": evidence.measured}
        reasons: list[str] = [explain("undecided", **numbers, **_describe_map(shared))]
    elif beyond and (shared.dye or check.shift.is_certain):
        reasons = [_shift_map(check, shared, settings)]
    else:
        reasons = list_warnings(evidence, error_p95, settings)
    if shared.transform.status == "suspect":
        reasons.append(explain("source_suspect", dye=shared.dye))
    return reasons


def _shift_map(check: _Check, shared: SharedMap, settings: RegisterSettings) -> str:
    shift = check.shift
    lengths = {"length": shift.length_px, "x": shift.x_px, "y": shift.y_px, "error": shift.error_px}
    remedy = "Something moved between the two dyes: set register_from to its own name."
    about = _describe_map(shared, remedy)
    return explain("moved", limit=settings.suspect_px, **lengths, **about)


def _describe_map(shared: SharedMap, remedy: str = "") -> dict[str, str]:
    """Return what reasons call a shared map, and what helps if it is wrong."""
    if not shared.dye:
        return {"map": "register.model: none", "remedy": "Set register.model: auto."}
    return {"map": f"the map of {shared.dye}", "remedy": shared.remedy or remedy}
