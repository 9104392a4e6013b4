"""The verdict on a registration: ok, suspect or failed, and the sentences that say why.

A map is rejected where the evidence speaks against it (status ``failed``), and gets a warning where
a person should look (``suspect``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.reasons import explain, split_notes
from unglow.registration.block_table import BLOCK_DTYPE
from unglow.registration.settings import LARGEST_SCALE, ORDINARY_SCALE
from unglow.transform import Transform

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from unglow.core.arrays import Floats
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

MIRRORED = explain("mirrored")


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
        if self.unclear is not None:  # similar outlines make a few blocks agree
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
    """Add reasons to a transform: a map that was ok is suspect with any that is no note."""
    doubts, _ = split_notes(reasons)
    status = "suspect" if doubts and not found.has_failed else found.status
    return replace(found, status=status, reasons=(*found.reasons, *reasons))


def describe_unlike(settings: RegisterSettings) -> str:
    """Return the reason of two images that no map was found for."""
    return explain("unlike", low=1 / settings.max_scale, high=settings.max_scale)


def check_headers(
    sizes_um: tuple[Size, Size], found: Transform, settings: RegisterSettings
) -> list[str]:
    """Return a reason if headers ask for a scale that is not searched, or the images deny it.

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
    factor = max(scale, 1 / scale)
    if found.has_failed and factor > settings.max_scale:
        needed = math.ceil(100 * _PIXEL_SIZE_ERROR * factor) / 100
        wider = f", or set max_scale: {needed:.2f}" if needed <= LARGEST_SCALE else ""
        return [explain("headers_beyond", post=post, pre=pre, scale=scale, wider=wider)]
    if found.has_failed or max(scale / found.scale, found.scale / scale) <= ORDINARY_SCALE:
        return []
    return [explain("headers", post=post, pre=pre, scale=scale, found=found.scale)]


def scale_of_sizes(post_um: Size, pre_um: Size) -> float | None:
    """Return how many times as large the section should be in pre, px; None if not known."""
    if post_um is None or pre_um is None:
        return None
    return math.sqrt(math.prod(post_um) / math.prod(pre_um))


def list_rejections(evidence: Evidence, settings: RegisterSettings) -> list[str]:
    """Reasons why no map can be used; empty if there is one."""
    e, low, high = evidence, 1 / settings.max_scale, settings.max_scale
    out: list[str] = []
    if not low <= e.scale <= high:
        out.append(explain("scale_beyond", scale=e.scale, low=low, high=high))
    if not e.shear <= _MOST_SHEAR:
        out.append(explain("sheared", percent=100 * (e.shear - 1)))
    if e.overlap < settings.min_overlap:
        percents = {"percent": 100 * e.overlap, "least": 100 * settings.min_overlap}
        out.append(explain("small_overlap", **percents))
    if e.measured < _MIN_AGREEING:
        out.append(explain("few_blocks", measured=e.measured, least=_MIN_AGREEING))
    elif not e.enough_agree:
        out.append(explain("different", agreeing=e.agreeing, measured=e.measured))
    return out


def list_warnings(evidence: Evidence, error_p95: float, settings: RegisterSettings) -> list[str]:
    """Reasons to check a map before it is believed; empty if nothing is odd.

    ``error_p95`` is the 95th percentile of the estimated error of the map over the section, px;
    not finite if it is not known.
    """
    e = evidence
    out: list[str] = []
    if not np.isfinite(error_p95):
        out.append(explain("unknown_error", agreeing=e.agreeing, measured=e.measured))
    elif error_p95 > settings.suspect_px:
        out.append(explain("map_error", error=error_p95, limit=settings.suspect_px))
    if e.agreeing < _FEW_SHARE * e.measured:
        out.append(explain("few_agree", agreeing=e.agreeing, measured=e.measured))
    if e.uncovered > _UNCOVERED:
        out.append(explain("uncovered", percent=100 * e.uncovered))
    if e.margin < _MARGIN:
        out.append(explain("rival", margin=e.margin))
    if abs(np.log(e.scale)) > np.log(1 + _AT_LIMIT * (settings.max_scale - 1)):
        out.append(explain("scale_limit", scale=e.scale))
    if e.shear > _ODD_SHEAR:
        out.append(explain("stretched", percent=100 * (e.shear - 1)))
    return out


def way_back_warnings(miss_p95: float, settings: RegisterSettings) -> list[str]:
    """Return a reason if registering pre onto post does not lead back to where one came from.

    ``miss_p95`` is the 95th percentile of the distance over the section, px; NaN if unknown.
    """
    if not miss_p95 > settings.suspect_px:
        return []
    return [explain("way_back", miss=miss_p95, limit=settings.suspect_px)]


def warn_of_tears(count: int, first: Floats, settings: RegisterSettings) -> list[str]:
    """Return a reason if a field misses ``count`` blocks and their neighbours; one is given."""
    at = (float(first[0]), float(first[1])) if count else None
    return [explain("torn", at=at, count=count, limit=settings.suspect_px)] if count else []


def area_warnings(low: float, high: float) -> list[str]:
    """Return a reason if a field changes areas by factors from ``low`` to ``high``, too much."""
    steep = low < 1 - _STEEP or high > 1 + _STEEP
    return [explain("area", low=low, high=high)] if steep else []
