"""Whether a map may be believed, and how well it is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unglow.registration.models import MEDIAN_OF_SQUARES, fit_robust, residuals
from unglow.registration.settings import LARGEST_SCALE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.registration.blocks.phase_correlation import Matches
    from unglow.registration.settings import RegisterSettings

    Points = NDArray[np.float64]
    Matrix = NDArray[np.float64]
    Mask = NDArray[np.bool_]

AGREE_PX = 2.0
"""Blocks within this distance of the map, or of two of their neighbours, agree. A block of
unrelated images does so by chance in less than one case of a hundred."""
MIN_AGREEING = 10
MIN_SHARE = 0.25
_FEW_SHARE = 0.6
_NEIGHBOURS = 6
_GROUPS = 10
_UNCOVERED = 0.15
_WILD = 25.0
# Pixel sizes in headers are hardly better than this.
_ROOM = 1.05
_MARGIN = 1.15
_DISTANCES = 1 << 18
_REACH_BLOCKS, _REACH_SHARE = 1.5, 0.12


@dataclass(frozen=True, slots=True)
class Evidence:
    """What `refusals` and `doubts` look at; lengths in level-0 px.

    Attributes
    ----------
    measured, agreeing
        Numbers of sample blocks.
    residual_p95
        95th percentile of the held-out residuals.
    overlap
        Share of the post section inside pre.
    uncovered
        Share of the overlapping section without an agreeing block nearby.
    scale, shear
        Of the map at the section's centre; shear is the ratio of its two magnifications.
    margin
        Score of the coarse map over that of its best rival.
    """

    measured: int
    agreeing: int
    residual_p95: float
    overlap: float
    uncovered: float
    scale: float
    shear: float
    margin: float


def agreement(matches: Matches, matrix: Matrix) -> Mask:
    """Mark the matches that agree with the map or, where the section is deformed, with neighbours.

    Returns
    -------
    (N,) bool.
    """
    off = residuals(matrix, matches.post, matches.pre)
    good = np.hypot(*off.T) <= AGREE_PX
    if len(matches) > _NEIGHBOURS and np.isfinite(off).all():
        around = nearest(matches.post, matches.post, _NEIGHBOURS + 1)[:, 1:]
        steps = np.hypot(*np.moveaxis(off[around] - off[:, None], -1, 0))
        good |= (steps <= AGREE_PX).sum(axis=1) >= 2
    return np.asarray(good, dtype=np.bool_)


def nearest(points: Points, among: Points, count: int) -> NDArray[np.intp]:
    """Index of the ``count`` nearest of ``among`` for each of ``points``, nearest first.

    Of two at the same distance the first one of ``among`` comes first.

    Parameters
    ----------
    points, among
        (P, 2) and (N, 2), finite.

    Returns
    -------
    (P, min(count, N)) intp.
    """
    found = np.zeros((len(points), min(count, len(among))), np.intp)
    step = max(1, _DISTANCES // max(1, len(among)))
    for k in range(0, len(points), step):  # in parts, so that memory stays put
        some = points[k : k + step]
        squares = (some[:, :1] - among[:, 0]) ** 2 + (some[:, 1:] - among[:, 1]) ** 2
        rows = np.arange(len(some))
        for n in range(found.shape[1]):  # a few passes, where sorting takes fifteen
            found[k : k + step, n] = at = squares.argmin(axis=1)
            squares[rows, at] = np.inf
    return found


def map_error(
    model: str, matches: Matches, fitted: Mask, agreeing: Mask, matrix: Matrix, points: Points
) -> NDArray[np.float64]:
    """Estimate the error of the map at points of the section, block noise removed.

    Two parts are added in squares. *Uncertainty of the fit*: the delete-a-group jackknife (Efron &
    Tibshirani 1993, chapter 11) over ten groups of neighbouring blocks, evaluated at the points
    themselves. *Misfit*: what the model cannot follow. Block noise is independent from block to
    block while misfit is shared by neighbours, so the mean residual of the six nearest other blocks
    estimates it; its noise (from the part of the variance that neighbours do not share) is taken
    off by shrinking, so that misfit is zero where residuals are nothing but noise.

    Parameters
    ----------
    model
        The model that was fitted.
    matches
        All N measured blocks.
    fitted, agreeing
        (N,) the blocks of the fit, and all that agree.
    matrix
        (3, 3) the final map.
    points
        (P, 2) points (x, y) of the section.

    Returns
    -------
    (P,) float64, px; infinite if the fit hangs on a single group.
    """
    used = matches.keep(agreeing)
    variance = _jackknife(model, matches.keep(fitted), matrix, points)
    if len(used) <= _NEIGHBOURS:
        return np.sqrt(variance)
    off = residuals(matrix, used.post, used.pre)
    around = nearest(used.post, used.post, _NEIGHBOURS + 1)[:, 1:]
    misfit = shared_squares(off, used.trust, off[around], used.trust[around])
    at = nearest(points, used.post, 1)[:, 0]
    return np.asarray(np.sqrt(variance + misfit[at]), dtype=np.float64)


def shared_squares(
    off: Points,
    trust: NDArray[np.float64],
    around: NDArray[np.float64],
    others: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Estimate the squared misfit of a map around each block from what neighbours share.

    Block noise is independent from block to block while misfit is shared by neighbours, so the mean
    residual of those around a block estimates it. How much of its square is misfit and how much
    noise is known from the section as a whole: misfit is zero where residuals are only noise.

    Parameters
    ----------
    off, trust
        (N, 2) residuals, px, and (N,) inverse variances up to a factor.
    around, others
        (N, K, 2) and (N, K) those of the K blocks around each; 0 trust for none.

    Returns
    -------
    (N,) float64, px squared.
    """
    total = others.sum(axis=1)
    good = (total > 0) & (trust > 0)
    if not good.any():
        return np.zeros(len(off))
    unit = float(np.median(trust[good]))
    mine, total = trust / unit, np.maximum(total / unit, 1e-9)
    shared = (np.nan_to_num(around) * (others / unit)[..., None]).sum(axis=1) / total[:, None]
    squares = (shared**2).sum(axis=1)
    own = (off**2).sum(axis=1) * mine
    typical = float(np.median(own[good]))
    # a few wild blocks decide nothing
    tame = np.sqrt(np.minimum(1, _WILD * max(typical, 1e-12) / np.maximum(own, 1e-30)))
    noise = typical / MEDIAN_OF_SQUARES * 2
    weights = np.where(good, mine * total, 0.0)
    products = tame * (np.nan_to_num(off) * shared).sum(axis=1)
    # the mean product of a residual with its neighbours' has no contribution from noise
    common = max(float((weights * products).sum() / weights.sum()), 0.0)
    share = common / (common + noise / total) if common > 0 else np.zeros(len(off))
    return np.where(good, share * squares, common)


def _jackknife(model: str, fitted: Matches, matrix: Matrix, points: Points) -> NDArray[np.float64]:
    """Variance (px squared, both axes) of the mapped points from leaving out groups of blocks."""
    count = len(fitted)
    groups = min(_GROUPS, count)
    group = np.arange(count) * groups // max(count, 1)
    moved = []
    for left_out in range(groups):
        keep = group != left_out
        part = fitted.keep(keep)
        try:
            start = np.ones(len(part), dtype=bool)
            other, _ = fit_robust(model, part.post, part.pre, start, part.trust)
        except np.linalg.LinAlgError:
            return np.full(len(points), np.inf)
        moved.append(residuals(other, points, points) - residuals(matrix, points, points))
    spread = np.array(moved)
    spread -= spread.mean(axis=0)
    variance: NDArray[np.float64] = (groups - 1) / groups * (spread**2).sum(axis=(0, 2))
    return variance


def inside_frame(points: Points, shape: tuple[int, int]) -> Mask:
    """Mark the points (N, 2) (x, y) that lie on a pixel of a frame (rows, columns), (N,).

    A pixel reaches half a px beyond its centre; NaN lies on none.
    """
    last = np.array(shape)[::-1] - 0.5
    return np.asarray(((points >= -0.5) & (points <= last)).all(axis=1), dtype=np.bool_)


def confirmed_reach(points: Points, size: int) -> float:
    """How far from a block that agrees a map still counts as confirmed, px.

    Parameters
    ----------
    points
        (N, 2) points (x, y) of the section, level-0 px.
    size
        Side of the sample blocks, px.

    Returns
    -------
    One and a half blocks, or 12 % of the diagonal of the section if that is more.
    """
    across = float(np.hypot(*np.ptp(points, axis=0))) if len(points) else 0.0
    return max(_REACH_BLOCKS * size, _REACH_SHARE * across)


def uncovered_share(points: Points, blocks: Points, reach: float) -> float:
    """Share of ``points`` further than ``reach`` px from every one of ``blocks``."""
    if not len(blocks) or not len(points):
        return 1.0
    closest = blocks[nearest(points, blocks, 1)[:, 0]]
    return float((np.hypot(*(points - closest).T) > reach).mean())


def unlike(settings: RegisterSettings) -> str:
    """Return the sentence about two images that no map was found for."""
    return (
        "No position, rotation or magnification that is searched (pre "
        f"{1 / settings.max_scale:.2f} to {settings.max_scale:.2f} times as large as post in px, "
        "setting max_scale) makes the two images resemble each other: they may show different "
        "sections or places, differ more in magnification, or have too little texture in common."
    )


def magnified(
    post_um: tuple[float, float] | None,
    pre_um: tuple[float, float] | None,
    settings: RegisterSettings,
) -> str | None:
    """Return a sentence if the pixel sizes that headers give ask for more than is searched.

    Parameters
    ----------
    post_um, pre_um
        (x, y) size of a px, micrometres; None where a header has none.
    settings
        What is searched.
    """
    if post_um is None or pre_um is None:
        return None
    post, pre = (float(np.sqrt(x * y)) for x, y in (post_um, pre_um))
    scale = post / pre
    factor = max(scale, 1 / scale)
    if factor <= settings.max_scale:
        return None
    needed = np.ceil(100 * _ROOM * factor) / 100
    wider = f", or set max_scale: {needed:.2f}" if needed <= LARGEST_SCALE else ""
    return (
        f"The headers say {post:.4g} um per px for post and {pre:.4g} for pre, so that the section "
        f"is {scale:.2f} times as large in pre, beyond what is searched: if they are right, scale "
        f"one of the images to the pixel size of the other{wider}."
    )


def refusals(evidence: Evidence, settings: RegisterSettings) -> list[str]:
    """Sentences that say why there is no usable map; empty if there is one."""
    e = evidence
    out: list[str] = []
    if not 1 / settings.max_scale <= e.scale <= settings.max_scale:
        out.append(
            f"The best map would scale the section by {e.scale:.2f}, outside the accepted range "
            f"{1 / settings.max_scale:.2f} to {settings.max_scale:.2f} (setting max_scale)."
        )
    if not e.shear <= 1.15:
        out.append(
            f"The best map would stretch the section by {100 * (e.shear - 1):.0f} % more along one "
            "direction than along the other, which no microscope does."
        )
    if e.overlap < settings.min_overlap:
        out.append(
            f"Only {100 * e.overlap:.0f} % of the section would lie inside the pre-stain image, "
            f"less than the {100 * settings.min_overlap:.0f} % asked for (setting min_overlap)."
        )
    if e.measured < MIN_AGREEING:
        out.append(
            f"Only {e.measured} sample blocks with texture fit into what the two images share, and "
            f"at least {MIN_AGREEING} are needed."
        )
    elif e.agreeing < max(MIN_AGREEING, MIN_SHARE * e.measured):
        out.append(
            f"Only {e.agreeing} of {e.measured} sample blocks show the same structures in both "
            "images at full resolution: they may be different sections, different places, or too "
            "poor in texture."
        )
    return out


def doubts(evidence: Evidence, error_p95: float, settings: RegisterSettings) -> list[str]:
    """Sentences that say what to check before a map is believed; empty if nothing is odd.

    ``error_p95`` is the 95th percentile of the estimated error of the map over the section, px.
    """
    e = evidence
    out: list[str] = []
    if not e.residual_p95 <= settings.suspect_px:
        out.append(
            f"5 % of the sample blocks lie more than {e.residual_p95:.2f} px from where the map "
            f"puts them (setting suspect_px: {settings.suspect_px:g}): the section may be deformed."
        )
    elif not error_p95 <= settings.suspect_px:
        out.append(
            f"The map is off by about {error_p95:.1f} px or more in 5 % of the section (setting "
            f"suspect_px: {settings.suspect_px:g}): a part of it may have moved on its own."
        )
    if e.agreeing < _FEW_SHARE * e.measured:
        out.append(f"Only {e.agreeing} of {e.measured} sample blocks agree with the map.")
    if e.uncovered > _UNCOVERED:
        out.append(
            f"{100 * e.uncovered:.0f} % of the section has no sample block nearby that confirms "
            "the map there."
        )
    if e.margin < _MARGIN:
        out.append(
            "Another place matches nearly as well, as happens with repeating patterns: check the "
            "overlay."
        )
    span = settings.max_scale - 1
    if abs(np.log(e.scale)) > np.log(1 + 0.96 * span):
        out.append(
            f"The scale of {e.scale:.3f} is at the limit of what is accepted (setting max_scale)."
        )
    if e.shear > 1.05:
        out.append(f"The map stretches one direction by {100 * (e.shear - 1):.1f} %.")
    return out
