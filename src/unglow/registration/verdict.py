"""The verdict on a registration: ok, suspect or failed, and the sentences that say why.

A map is rejected where the evidence speaks against it (status ``failed``), and gets a warning where
a person should look (``suspect``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.registration.block_table import BLOCK_DTYPE
from unglow.registration.settings import LARGEST_SCALE, ORDINARY_SCALE
from unglow.transform import Transform

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from unglow.registration.settings import RegisterSettings

    Size = tuple[float, float] | None

MIN_SIGNIFICANCE = 12.0
"""Of a coarse map: unrelated images reach about 8, true pairs 30 to 200."""
_MIN_AGREEING, _MIN_SHARE = 10, 0.25
"""This many blocks, and this share of the measured ones, have to agree."""
_MIN_BLURRED, _MIN_CLEAR = 25, 0.2
"""Of blurred images, this many blocks and this share of all, unclear ones too: the same embryo
reaches 36 and 0.28, another one of the same form 18 and 0.11."""
_FEW_SHARE = 0.6
"""A smaller share of agreeing blocks is a warning."""
_UNCOVERED = 0.15
"""A larger share of the section without an agreeing block nearby is a warning."""
_MARGIN = 1.15
"""A coarse map has to score this many times higher than any other place."""
_MOST_SHEAR, _ODD_SHEAR = 1.15, 1.05
"""Ratio of a map's two magnifications: no microscope has the former, few have the latter."""
_AT_LIMIT = 0.96
"""A scale beyond this share of the accepted range is a warning."""
_STEEP = 0.15
"""A field of one section hardly changes areas by more than this share."""
_PIXEL_SIZE_ERROR = 1.05
"""Pixel sizes in headers are hardly better than this factor."""

MIRRORED = (
    "The pre-stain image is a mirror image of the post-stain image: if the section was turned "
    "over, set mirror: true; if not, one of the files was flipped when it was saved."
)


@dataclass(frozen=True, eq=False)
class Registration:
    """A transform and the sample blocks (`block_table.BLOCK_DTYPE`) that it rests on."""

    transform: Transform
    blocks: NDArray[np.void]

    @property
    def agreeing(self) -> float:
        """Share (0..1) of the blocks that agree with the map."""
        return float(self.blocks["used"].mean()) if len(self.blocks) else 0.0


@dataclass(frozen=True, slots=True)
class Evidence:
    """What `list_rejections` and `list_warnings` look at; lengths in level-0 px.

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
    unclear
        Number of further blocks of blurred images, which show nothing clearly; None of others.
    """

    measured: int
    agreeing: int
    residual_p95: float
    overlap: float
    uncovered: float
    scale: float
    shear: float
    margin: float
    unclear: int | None = None

    @property
    def enough_agree(self) -> bool:
        """Whether this many blocks agree that the images can be said to show the same."""
        least = max(_MIN_AGREEING, _MIN_SHARE * self.measured)
        if self.unclear is not None:  # outlines that are alike make a few blocks agree
            least = max(_MIN_BLURRED, _MIN_CLEAR * (self.measured + self.unclear))
        return self.agreeing >= least


def agree_few(found: Registration) -> bool:
    """Whether few of the blocks agree with a global map, which then rests on little."""
    return found.transform.displacement is None and found.agreeing < _FEW_SHARE


def reject(
    post_shape: tuple[int, int],
    pre_shape: tuple[int, int],
    reasons: Sequence[str],
    blocks: NDArray[np.void] | None = None,
    **details: Any,
) -> Registration:
    """Return the refusal of a pair: no map, the reasons, and the blocks that were measured.

    ``details`` are further fields of the `Transform`.
    """
    table = np.zeros(0, BLOCK_DTYPE) if blocks is None else blocks
    details["blocks"] = len(table)
    return Registration(
        Transform("failed", post_shape, pre_shape, tuple(reasons), **details), table
    )


def judge(found: Transform, reasons: Sequence[str]) -> Transform:
    """Add reasons to a transform: a map that was ok is suspect with any of them."""
    status = "suspect" if reasons and not found.has_failed else found.status
    return replace(found, status=status, reasons=(*found.reasons, *reasons))


def describe_unlike(settings: RegisterSettings) -> str:
    """Return the sentence about two images that no map was found for."""
    return (
        "No position, rotation or magnification that is searched (pre "
        f"{1 / settings.max_scale:.2f} to {settings.max_scale:.2f} times as large as post in px, "
        "setting max_scale) makes the two images resemble each other: they may show different "
        "sections or places, differ more in magnification, or have too little texture in common."
    )


def check_headers(
    sizes_um: tuple[Size, Size], found: Transform, settings: RegisterSettings
) -> list[str]:
    """Return a sentence if headers ask for a scale that is not searched, or the images deny it.

    Parameters
    ----------
    sizes_um
        (x, y) size of a px of post and of pre, micrometres; None where a header has none.
    found
        What was found, or the refusal.
    """
    scale = scale_of_sizes(*sizes_um)
    if scale is None:
        return []
    post, pre = (math.sqrt(math.prod(size or ())) for size in sizes_um)
    headers = f"The headers say {post:.4g} um per px for post and {pre:.4g} for pre"
    factor = max(scale, 1 / scale)
    if found.has_failed and factor > settings.max_scale:
        needed = math.ceil(100 * _PIXEL_SIZE_ERROR * factor) / 100
        wider = f", or set max_scale: {needed:.2f}" if needed <= LARGEST_SCALE else ""
        sentence = (
            f"{headers}, so that the section is {scale:.2f} times as large in pre, beyond what is "
            "searched: if they are right, scale one of the images to the pixel size of the "
            f"other{wider}."
        )
        return [sentence]
    if found.has_failed or max(scale / found.scale, found.scale / scale) <= ORDINARY_SCALE:
        return []
    sentence = (
        f"{headers}, which makes the section {scale:.2f} times as large in pre, but in the images "
        f"it is {found.scale:.2f} times as large: one of the headers is wrong, and with it all "
        "lengths in um, or the map is; check the overlay."
    )
    return [sentence]


def scale_of_sizes(post_um: Size, pre_um: Size) -> float | None:
    """Return how many times as large the section should be in pre, px; None if not known."""
    if post_um is None or pre_um is None:
        return None
    return math.sqrt(math.prod(post_um) / math.prod(pre_um))


def coarser_pre(scale: float, side: int) -> str:
    """Return the warning about a pre so coarse that ``side`` px of post were taken together."""
    return (
        f"The section is only {scale:.2f} times as large in pre: structures finer than the px of "
        "pre cannot be subtracted and stay in the difference. It was registered, and lengths in "
        f"the other reasons count, in px of {side} x {side} px of post."
    )


def list_rejections(evidence: Evidence, settings: RegisterSettings) -> list[str]:
    """Sentences that say why there is no usable map; empty if there is one."""
    e = evidence
    out: list[str] = []
    if not 1 / settings.max_scale <= e.scale <= settings.max_scale:
        out.append(
            f"The best map would scale the section by {e.scale:.2f}, outside the accepted range "
            f"{1 / settings.max_scale:.2f} to {settings.max_scale:.2f} (setting max_scale)."
        )
    if not e.shear <= _MOST_SHEAR:
        out.append(
            f"The best map would stretch the section by {100 * (e.shear - 1):.0f} % more along one "
            "direction than along the other, which no microscope does."
        )
    if e.overlap < settings.min_overlap:
        out.append(
            f"Only {100 * e.overlap:.0f} % of the section would lie inside the pre-stain image, "
            f"less than the {100 * settings.min_overlap:.0f} % asked for (setting min_overlap)."
        )
    if e.measured < _MIN_AGREEING:
        out.append(
            f"Only {e.measured} sample blocks with texture fit into what the two images share, and "
            f"at least {_MIN_AGREEING} are needed."
        )
    elif not e.enough_agree:
        out.append(
            f"Only {e.agreeing} of {e.measured} sample blocks show the same structures in both "
            "images at full resolution: they may be different sections, different places, or too "
            "poor in texture."
        )
    return out


def list_warnings(evidence: Evidence, error_p95: float, settings: RegisterSettings) -> list[str]:
    """Sentences that say what to check before a map is believed; empty if nothing is odd.

    ``error_p95`` is the 95th percentile of the estimated error of the map over the section, px.
    """
    e = evidence
    out: list[str] = []
    if not e.residual_p95 <= settings.suspect_px:
        out.append(
            f"5 % of the sample blocks are more than {e.residual_p95:.2f} px from where the map "
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
    if abs(np.log(e.scale)) > np.log(1 + _AT_LIMIT * span):
        out.append(
            f"The scale of {e.scale:.3f} is at the limit of what is accepted (setting max_scale)."
        )
    if e.shear > _ODD_SHEAR:
        out.append(f"The map stretches one direction by {100 * (e.shear - 1):.1f} %.")
    return out


def way_back_warnings(miss_p95: float, settings: RegisterSettings) -> list[str]:
    """Return a sentence if registering pre onto post does not lead back to where one came from.

    ``miss_p95`` is the 95th percentile of the distance over the section, px; NaN if unknown.
    """
    if not miss_p95 > settings.suspect_px:
        return []
    sentence = (
        f"Registration of pre to post and back misses by more than {miss_p95:.1f} px in 5 % of "
        f"the section (setting suspect_px: {settings.suspect_px:g}): check the overlay."
    )
    return [sentence]


def warn_of_tears(count: int, first: NDArray[np.float64], settings: RegisterSettings) -> list[str]:
    """Return a sentence if a field misses ``count`` blocks and their neighbours; one is given."""
    if not count:
        return []
    sentence = (
        f"{count} blocks around ({first[0]:.0f}, {first[1]:.0f}) and elsewhere are more than "
        f"{settings.suspect_px:g} px from where the field puts them (setting suspect_px), and "
        "so do their neighbours: the section may be torn there, or there is dirt on the glass."
    )
    return [sentence]


def area_warnings(low: float, high: float) -> list[str]:
    """Return a sentence if a field changes areas by factors from ``low`` to ``high``, too much."""
    if not (low < 1 - _STEEP or high > 1 + _STEEP):
        return []
    sentence = (
        f"The field changes areas by a factor of {low:.2f} to {high:.2f}, which is much for "
        "one section: it may be torn or folded, check the overlay."
    )
    return [sentence]
