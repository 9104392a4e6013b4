"""The residual shift of a marker: what its own pixels say against the map of its cycle.

Blocks are matched against the background as the map brings it, as registration matches them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.multiplexed.sizes import BLOCK
from unglow.registration.blocks.phase_correlation import (
    MIN_PEAK_RATIO,
    Matches,
    block_shifts,
    matches_of,
)
from unglow.registration.planes import Plane, PlanePair
from unglow.registration.quality import agreement
from unglow.transform import ResidualShift, apply_matrix

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from unglow.core.windows import Window
    from unglow.multiplexed.sample import Sample
    from unglow.transform import Transform

    Read = Callable[[Window], NDArray[Any]]

_ACROSS = 7
"""So many blocks across and down the image, at most."""
_LEAST = 6
"""Fewer blocks that agree tell nothing."""


def chosen_blocks(sample: Sample, texture: NDArray[np.float32]) -> NDArray[np.int64]:
    """Choose blocks: of each cell of a grid the one where the background has most texture.

    ``texture`` is that of `unglow.multiplexed.ranges.Look`. Cycles lie so near to each other that
    it hardly matters in whose frame.

    Returns
    -------
    (N, 2) corners (x, y) in the slide, multiples of `BLOCK` px, in row order.
    """
    rows, cols = texture.shape
    y, x = (v.ravel() for v in np.indices(texture.shape))
    cell = (y * _ACROSS // max(rows, 1)) * _ACROSS + x * _ACROSS // max(cols, 1)
    merit = texture.ravel()
    order = np.lexsort((-merit, cell))
    best = np.sort(order[np.flatnonzero(np.diff(cell[order], prepend=-1))])
    best = best[merit[best] > 0]
    corners = np.asarray(np.column_stack([x[best], y[best]]) * BLOCK, np.float64)
    return np.asarray(sample.in_slide(corners), np.int64)


@dataclass(frozen=True, eq=False, slots=True)
class BlockMatcher:
    """Matches blocks of a marker against its background.

    Attributes
    ----------
    shape
        (rows, columns) of both.
    transform
        Map from marker to background.
    floors
        Grey levels just below the background, of the marker and of its background.
    """

    shape: tuple[int, int]
    transform: Transform
    floors: tuple[float, float]

    def match(self, corners: NDArray[np.int64], marker: Read, background: Read) -> Matches:
        """Return where blocks lie in the background; both are read window by window."""
        planes = PlanePair(
            Plane(marker, self.shape, self.floors[0]),
            Plane(background, self.shape, self.floors[1]),
            self.transform.matrix,
            displacement=self.transform.displacement,
        )
        return matches_of(planes, corners, BLOCK, block_shifts(planes, corners, BLOCK))

    def shift(self, parts: Sequence[Matches]) -> ResidualShift:
        """Return what the blocks that agree have in common; NaN if too few do."""
        found = Matches(
            np.concatenate([np.zeros((0, 2)), *(one.post for one in parts)]),
            np.concatenate([np.zeros((0, 2)), *(one.pre for one in parts)]),
            np.concatenate([np.zeros(0), *(one.peak_ratio for one in parts)]),
        )
        found = found.keep(found.peak_ratio >= MIN_PEAK_RATIO)
        left = found.pre - self.transform.map(found.post)
        plain = apply_matrix(self.transform.matrix, found.post)
        good = agreement(Matches(found.post, plain + left, found.peak_ratio), self.transform.matrix)
        if np.count_nonzero(good) < _LEAST:
            return ResidualShift(np.nan, np.nan, np.nan, int(np.count_nonzero(good)))
        return ResidualShift.of(left[good])


def shift_doubt(shift: ResidualShift, suspect_px: float) -> str | None:
    """Return a sentence if a shift is beyond what is accepted, and not zero within its error."""
    if not (shift.length_px > suspect_px and shift.is_certain):
        return None
    return (
        f"The background lies {shift.length_px:.2f} px (x {shift.x_px:+.2f}, y {shift.y_px:+.2f}, "
        f"error {shift.error_px:.2f}, {shift.blocks} blocks) beside this marker (setting "
        "suspect_px: "
        f"{suspect_px:g}): its channel is shifted against the one that its cycle was registered "
        "on, or something moved; look at what is left of edges."
    )
