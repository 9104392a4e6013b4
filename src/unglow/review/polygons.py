"""Polygons on the pixel grid: a pixel belongs to one if its centre does.

Centres on the left or upper side count, those on the right or lower one do not, so that of two
polygons that share a side each pixel belongs to one. A pixel has the same answer in every window.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from unglow.core.poisson import poisson_density
from unglow.core.rounding import round_digits
from unglow.core.windows import Window

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

    Bools = NDArray[np.bool_]

_AT_ONCE = 1 << 15
"""Approximate number of crossings of sides and rows in memory at a time."""


@dataclass(frozen=True, eq=False)
class Polygon:
    """An outline and the holes in it; a point is inside if a ray from it crosses sides oddly often.

    Attributes
    ----------
    sides
        (N, 4) float64: x and y of both ends of each side, px, pixel centres at integers.
    """

    sides: Floats

    @classmethod
    def from_rings(cls, rings: Iterable[Floats]) -> Self:
        """Return a polygon of rings (N, 2), the last point of each next to its first."""
        sides = [np.hstack([ring, np.roll(ring, -1, axis=0)]) for ring in rings]
        return cls(np.concatenate(sides))

    @property
    def box(self) -> Window:
        """The window of all px whose centres may be inside."""
        xs, ys = self.sides[:, 0::2], self.sides[:, 1::2]
        ends = (ys.min(), ys.max(), xs.min(), xs.max())
        y0, y1, x0, x1 = (int(v) for v in np.ceil(ends))
        return Window(y0, y1, x0, x1)

    def to_mask(self, window: Window) -> Bools:
        """Return which px of a window are inside, ``window.shape`` bool."""
        inside = np.zeros(window.shape, dtype=np.bool_)
        for rows, cols in self._crossings(window.y0, window.y1):
            left = np.maximum(cols - window.x0, 0)
            within = left < inside.shape[1]
            at = (rows[within] - window.y0) * inside.shape[1] + left[within]
            places, counts = np.unique(at, return_counts=True)
            inside.flat[places] ^= counts % 2 == 1
        return np.logical_xor.accumulate(inside, axis=1)

    def holds(self, col: Ints, row: Ints) -> Bools:
        """Return which px (N,) are inside, as `to_mask` does."""
        inside = np.zeros(len(col), dtype=np.bool_)
        if not len(col):
            return inside
        first, span = int(col.min()), int(np.ptp(col)) + 2
        at = row * span + (col - first)
        for rows, cols in self._crossings(int(row.min()), int(row.max()) + 1):
            # of each row those right of all points fall into a column of their own
            keys = np.sort(rows * span + np.clip(cols - first, 0, span - 1))
            before = np.searchsorted(keys, row * span)
            inside ^= (np.searchsorted(keys, at, side="right") - before) % 2 == 1
        return inside

    def _crossings(self, y0: int, y1: int) -> Iterator[tuple[Ints, Ints]]:
        """Yield where sides cross rows ``y0 <= row < y1``: the rows, and the px right of each."""
        ax, ay, bx, by = self.sides.T
        low, high = np.minimum(ay, by), np.maximum(ay, by)
        first = np.maximum(np.ceil(low), y0).astype(np.int64)
        counts = np.minimum(np.ceil(high), y1).astype(np.int64) - first
        chosen = np.flatnonzero(counts > 0)
        for begin, end in _parts(counts[chosen]):
            k = chosen[begin:end]
            side = np.repeat(k, counts[k])
            steps = np.arange(len(side)) - np.repeat(np.cumsum(counts[k]) - counts[k], counts[k])
            rows = first[side] + steps
            slope = (rows - ay[side]) / (by[side] - ay[side])
            x = ax[side] + slope * (bx[side] - ax[side])
            yield rows, np.ceil(x).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Region:
    """A part of post.

    Attributes
    ----------
    kind
        ``exclude`` or ``analyse``.
    name
        What to call it: its name, or else its number in the file.
    polygons
        Their px together are those of the region; pixel centres at integers.
    """

    kind: str
    name: str
    polygons: tuple[Polygon, ...]

    @property
    def box(self) -> Window:
        """The window of all px that may be inside."""
        boxes = [polygon.box for polygon in self.polygons]
        y0, x0 = (min(getattr(box, end) for box in boxes) for end in ("y0", "x0"))
        y1, x1 = (max(getattr(box, end) for box in boxes) for end in ("y1", "x1"))
        return Window(y0, y1, x0, x1)

    def to_mask(self, window: Window) -> Bools:
        """Return which px of a window are inside, ``window.shape`` bool."""
        return mask_over([self], window)

    def holds(self, col: Ints, row: Ints) -> Bools:
        """Return which px (N,) are inside, as `to_mask` does."""
        return find_held_px([self], col, row)

    def holds_points(self, points_xy: Floats) -> Bools:
        """Return which points (N, 2) (x, y) are on px inside."""
        return self.holds(*px_of(points_xy))


@dataclass(frozen=True)
class Regions:
    """The regions of a file.

    Attributes
    ----------
    exclude, analyse
        Regions to leave out, and those to count in.
    notes
        A sentence for what is of another class.
    """

    exclude: tuple[Region, ...] = ()
    analyse: tuple[Region, ...] = ()
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is any region."""
        return bool(self.exclude or self.analyse)


def mask_over(regions: Iterable[Region], window: Window) -> Bools:
    """Return which px of a window are in any of the regions, ``window.shape`` bool."""
    inside = np.zeros(window.shape, dtype=np.bool_)
    for region in regions:
        for polygon in region.polygons:
            part = window.common(polygon.box)
            if part.size:
                inside[part.shift(-window.y0, -window.x0).slices] |= polygon.to_mask(part)
    return inside


def find_held_px(regions: Iterable[Region], col: Ints, row: Ints) -> Bools:
    """Return which px (N,) are in any of the regions, as `mask_over` does."""
    inside = np.zeros(len(col), dtype=np.bool_)
    for region in regions:
        for polygon in region.polygons:
            inside |= polygon.holds(col, row)
    return inside


def px_of(points_xy: Floats) -> tuple[Ints, Ints]:
    """Return the px (columns and rows, (N,)) that points (N, 2) (x, y) are on."""
    col, row = np.rint(points_xy).astype(np.int64).reshape(-1, 2).T
    return col, row


def _parts(counts: Ints) -> Iterator[tuple[int, int]]:
    """Yield runs of sides that have no more than `_AT_ONCE` crossings, or are one."""
    ends = np.cumsum(counts)
    begin = 0
    while begin < len(counts):
        done = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, done + _AT_ONCE, side="right")))
        yield begin, end
        begin = end


def density(
    count: int, searched_px: int, pixel_size_um: tuple[float, float] | None
) -> dict[str, Any]:
    """Return area and density with its 95 % Poisson interval; None for what is not known."""
    if pixel_size_um is None or not searched_px:
        return {"area_mm2": None, "density_per_mm2": None, "density_ci95_per_mm2": None}
    area = searched_px * pixel_size_um[0] * pixel_size_um[1] / 1e6
    density_per_mm2, ends = poisson_density(count, area)
    return {
        "area_mm2": round_digits(area),
        "density_per_mm2": density_per_mm2,
        "density_ci95_per_mm2": ends,
    }


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

    def from_tile(self, window: Window, excluded: Bools, searched: Bools) -> NDArray[np.int64]:
        """Return the counts of a tile, of masks (``window.shape``) of the px of either kind."""
        counts = [int(np.count_nonzero(excluded))]
        for region in self.regions.analyse:
            part = window.common(region.box)
            within = searched[part.shift(-window.y0, -window.x0).slices]
            counts.append(int(np.count_nonzero(within & region.to_mask(part))) if part.size else 0)
        return np.array(counts, np.int64)

    def to_json(
        self, points_xy: NDArray[np.float64], pixel_size_um: tuple[float, float] | None
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
    return sources[~find_held_px(regions.exclude, *px_of(at))]
