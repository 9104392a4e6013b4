"""Tiles of a pair with their surroundings; every px is read from its store once.

Stores are read in blocks that hold complete chunks, one next to and below the other. A tile is
what a block gives when the px that it needs to the right and below are not there yet: it is
further up and to the left than its block, and what it needs of earlier blocks has been kept. Wide
images are read panel by panel, for what is kept of the rows above is as wide as a panel.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.poisson import poisson_density
from unglow.core.rounding import round_digits
from unglow.core.windows import Window
from unglow.detection.snr import Images
from unglow.memory.sizes import DETECT_PANEL
from unglow.review.polygons import held_px, px_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from unglow.detection.snr import Scene

    Floats = NDArray[np.float32]
    from unglow.review.polygons import Regions


def tiles(scene: Scene, side: int, around: int) -> Iterator[tuple[Window, Images]]:
    """Yield the windows that tile post, each with its images and ``around`` px more on every side.

    Parameters
    ----------
    scene
        The pair.
    side
        Of a block, px; best a multiple of the side of a chunk.
    around
        px that a tile needs on every side; those outside of the image are NaN.
    """
    cols = scene.post.shape[1]
    width = max(1, DETECT_PANEL // side) * side
    for left in range(0, cols, width):
        yield from _panel(scene, side, around, (left, min(left + width, cols)))


def _panel(
    scene: Scene, side: int, around: int, panel: tuple[int, int]
) -> Iterator[tuple[Window, Images]]:
    """Yield the tiles of the columns of a panel, in row order."""
    shape = scene.post.shape
    # of the rows that were read last, with what the first block of the next panel reads again
    first = panel[0] - 2 * around
    above = np.full((3, 2 * around, panel[1] - first), np.nan, dtype=np.float32)
    for number in range(-(-shape[0] // side)):
        rows = number * side, min((number + 1) * side, shape[0])
        top = rows[0] if number else max(0, rows[0] - 2 * around)
        carried: Floats | None = None
        for x0 in range(panel[0], panel[1], side):
            cols = x0, min(x0 + side, panel[1])
            block = Window(top, rows[1], max(0, first) if carried is None else x0, cols[1])
            frame = Window(rows[0] - 2 * around, rows[1], cols[0] - 2 * around, cols[1])
            images = Images.read(scene, block, _grow(frame, around, shape))
            part = images.cut(frame).pixels
            known = slice(frame.x0 - first, frame.x1 - first)
            if number:
                part[:, : 2 * around] = above[:, :, known]
            if carried is not None:
                part[:, :, : 2 * around] = carried
            carried = part[:, :, -2 * around :].copy()
            # the next block still needs the last columns of the rows above
            done = frame.x1 - (0 if cols[1] == panel[1] else 2 * around)
            above[:, :, frame.x0 - first : done - first] = part[:, -2 * around :, : done - frame.x0]
            core = _core(rows, cols, around, shape)
            if core.size:
                yield core, images


def _grow(frame: Window, around: int, shape: tuple[int, int]) -> Window:
    """Add what tiles at the lower and right end of the image need outside of it."""
    y1, x1 = (
        end + (around if end == n else 0)
        for end, n in zip((frame.y1, frame.x1), shape, strict=True)
    )
    return Window(frame.y0, y1, frame.x0, x1)


def _core(
    rows: tuple[int, int], cols: tuple[int, int], around: int, shape: tuple[int, int]
) -> Window:
    """Return the tile whose surroundings are known once a block is read."""
    (y0, y1), (x0, x1) = (
        (max(0, begin - around), end - (0 if end == n else around))
        for (begin, end), n in zip((rows, cols), shape, strict=True)
    )
    return Window(y0, y1, x0, x1)


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
