"""What a search finds in the regions that people drew: px by region, candidates by region."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.detection.density import density
from unglow.review.polygons import held_px, px_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.core.windows import Window
    from unglow.review.polygons import Regions


@dataclass(eq=False)
class RegionCounts:
    """Counts of px in regions.

    Attributes
    ----------
    regions
        Those that are left out, and those that are counted in.
    px
        (1 + N,) int64: px that are left out, then the searched px of each of the others.
    """

    regions: Regions
    px: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        """Begin with nothing counted."""
        self.px = np.zeros(1 + len(self.regions.analyse), np.int64)

    def from_tile(
        self, window: Window, excluded: NDArray[np.bool_], searched: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """Return the counts of a tile, of masks (``window.shape``) of the px of either kind."""
        counts = [int(np.count_nonzero(excluded))]
        for region in self.regions.analyse:
            part = window.common(region.box)
            within = searched[part.shift(-window.y0, -window.x0).slices]
            counts.append(int(np.count_nonzero(within & region.over(part))) if part.size else 0)
        return np.array(counts, np.int64)

    def to_json(
        self,
        points_xy: NDArray[np.float64],
        pixel_size_um: tuple[float, float] | None,
    ) -> list[dict[str, Any]]:
        """Return counts and densities of each region that is counted in.

        ``points_xy`` are positions (N, 2) of the candidates that count, which belong to a region
        if the px does that they lie on.
        """
        entries = []
        for region, searched_px in zip(self.regions.analyse, self.px[1:].tolist(), strict=True):
            count = int(np.count_nonzero(region.holds_points(points_xy)))
            found = density(count, searched_px, pixel_size_um)
            entries.append(
                {"name": region.name, "candidates": count, "searched_px": searched_px, **found}
            )
        return entries


def mask_outside(regions: Regions, sources: NDArray[np.void]) -> NDArray[np.void]:
    """Return the sources that do not lie in a region that is left out: by where they are listed."""
    at = np.stack([sources["x"], sources["y"]], axis=1)
    return sources[~held_px(regions.exclude, *px_of(at))]
