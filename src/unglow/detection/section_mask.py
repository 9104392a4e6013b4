"""Mask of the section, on a small version of the image."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unglow.core import shapes
from unglow.core.windows import Window, coarse_level
from unglow.memory import SECTION_PX
from unglow.review.polygons import find_held_px, mask_over

if TYPE_CHECKING:
    from unglow.core.arrays import Bools, Floats, Floats32, Ints
    from unglow.core.windows import Pixels
    from unglow.review.polygons import Region


_COARSE_PX = math.isqrt(SECTION_PX)
_FINE, _BROAD, _ENERGY = 1.0, 6.0, 3.0
"""Standard deviations of Gaussians, px of the small image: texture is what is between the first
two, and its energy is averaged over the third."""
_TEXTURE = 0.12
"""Texture below this share of the image's strongest counts as glass."""
_RISE = 0.15
"""The section starts where this share of its brightness above the glass is reached,"""
_CLEAR = 6.0
"""but no nearer to glass than this many of its standard deviations."""
_EVEN, _NO_LIGHT = 20.0, 0.1
"""Where brightness alone finds glass, the section is brighter by this many standard deviations of
glass, and glass is brighter than the darkest px by no more than this part of that;"""
_GRAIN, _GRAINY = 3.0, 2.2
"""or what differs on glass fades by this factor if it is seen this many times coarser: noise by
that factor itself (2.6 to 2.8 measured), tissue by 0.3 to 1.7."""
_MOST = 0.7
"""The section is brighter than glass in this share of textured px, or texture alone decides."""
_LEAST_GLASS = 0.002
"""With less than this share of the image there is no glass."""
_LEAST_PIECE = 0.002
"""Pieces below this share of the image are no section."""
_POINTS = 4
"""Points along the side of a block that show how much of it is on the section."""
_SIGMA_OF_MAD = 1.4826
"""Standard deviation of normal noise over its median absolute deviation."""


@dataclass(frozen=True, eq=False)
class Section:
    """The outline of the section, holes filled.

    Attributes
    ----------
    mask
        (rows, cols) bool of a pyramid level.
    distance
        (rows, cols) float32: distance to the outline in level-0 px, negative outside of the
        section; NaN where there is no outline (the section fills the image).
    level
        The pyramid level.
    excluded
        Regions that do not count as section; the outline is where it is without them.
    """

    mask: Bools
    distance: Floats32
    level: int
    excluded: tuple[Region, ...] = ()

    @classmethod
    def from_pixels(cls, pixels: Pixels) -> Section:
        """Find the section in an image (aligned pre: stain on glass is no section)."""
        level = min(coarse_level((pixels.shape,), _COARSE_PX), pixels.levels - 1)
        image = pixels.read(Window.from_shape(pixels.level_shape(level)), level).astype(np.float32)
        return cls.from_mask(section_mask(image), level)

    @classmethod
    def from_mask(cls, mask: Bools, level: int) -> Section:
        """Measure the distances to the outline of a mask of a pyramid level."""
        if mask.all() or not mask.any():
            return cls(mask, np.full(mask.shape, np.nan, dtype=np.float32), level)
        inside = shapes.measure_distance(mask)
        inside -= shapes.measure_distance(~mask)
        # the outline runs between the last px inside and the first outside
        inside -= np.float32(0.5) * np.sign(inside)
        return cls(mask, inside * np.float32(2**level), level)

    def find_dark_level(self, image: Pixels) -> float:
        """Return what a quarter of the section is below, in an image like post; 0 without one."""
        block = image.read(Window.from_shape(image.level_shape(self.level)), self.level)
        values = block[self.mask[: block.shape[0], : block.shape[1]]]
        values = values[np.isfinite(values)]
        return float(np.quantile(values, 0.25)) if values.size else 0.0

    def mask_window(self, window: Window) -> Bools:
        """Return which px of a window of post lie on the section, ``window.shape`` bool."""
        rows = self._cells(np.arange(window.y0, window.y1), 0)
        cols = self._cells(np.arange(window.x0, window.x1), 1)
        lines = self.mask[rows[0] : rows[-1] + 1].take(cols, axis=1)
        inside = np.asarray(lines.take(rows - rows[0], axis=0))
        return inside & ~mask_over(self.excluded, window) if self.excluded else inside

    def contains(self, col: Ints, row: Ints) -> Bools:
        """Return which px (N,) are on the section, as `mask_window` does."""
        inside = np.asarray(self.mask[self._cells(row, 0), self._cells(col, 1)])
        return inside & ~find_held_px(self.excluded, col, row) if self.excluded else inside

    def compute_block_shares(self, shape: tuple[int, int], side: int) -> Floats32:
        """Return the share of each block of ``side`` px of post that lies on the section, (ny, nx).

        From 4 x 4 points of each block; those beyond the image of ``shape`` are of its last px.
        """
        rows, cols = (
            self._cells(
                np.minimum((np.arange(-(-n // side) * _POINTS) * side) // _POINTS, n - 1), k
            )
            for k, n in enumerate(shape)
        )
        points = self.mask[rows[:, None], cols[None, :]]
        blocks = points.reshape(len(rows) // _POINTS, _POINTS, len(cols) // _POINTS, _POINTS)
        return np.asarray(blocks.mean(axis=(1, 3), dtype=np.float32))

    def distance_at(self, x: Floats, y: Floats) -> Floats32:
        """Distance of points (N,) of post to the outline, px; negative outside of the section."""
        scale = 2.0**self.level
        return shapes.interpolate(self.distance, *((v - (scale - 1) / 2) / scale for v in (y, x)))

    def _cells(self, at: Ints, axis: int) -> Ints:
        return np.asarray(np.minimum(at >> self.level, self.mask.shape[axis] - 1), np.int64)


def section_mask(image: Floats32) -> Bools:
    """Find the section: roughly by its texture, its outline by brightness.

    Parameters
    ----------
    image
        (rows, cols) float32, the small image; NaN where there is no data.

    Returns
    -------
    (rows, cols) bool; all true where no glass can be distinguished from the section.
    """
    has_data = np.isfinite(image)
    everything = np.ones(image.shape, dtype=np.bool_)
    if not has_data.any():
        return everything
    textured = _find_texture(image, has_data)
    near = shapes.grow(textured, round(3 * _ENERGY))
    textured &= has_data
    glass = has_data & ~near
    smooth = _smooth_known(image, has_data)
    if np.count_nonzero(glass) < _LEAST_GLASS * glass.size:
        glass = has_data & _find_dark(smooth, has_data)
        textured &= ~glass
    if np.count_nonzero(glass) < _LEAST_GLASS * glass.size or not textured.any():
        return everything
    dark = float(np.median(smooth[glass]))
    spread = _SIGMA_OF_MAD * float(np.median(np.abs(smooth[glass] - dark)))
    rise = float(np.median(np.abs(smooth[textured] - dark)))
    mask = has_data & (np.abs(smooth - dark) > max(_CLEAR * spread, _RISE * rise))
    if np.count_nonzero(mask & textured) < _MOST * np.count_nonzero(textured):
        # much of it is as bright as glass, as tissue between bright cells is
        mask = has_data & shapes.shrink(near, round(3 * _ENERGY))
    mask = shapes.fill_holes(shapes.close_gaps(mask, 2) | mask)
    return shapes.drop_small_pieces(mask, _LEAST_PIECE * mask.size)


def _find_texture(image: Floats32, has_data: Bools) -> Bools:
    """Return which px have texture; what is not known is as bright as the median."""
    filled = np.where(has_data, image, np.median(image[has_data]))
    rooted = np.sqrt(np.maximum(filled - filled.min(), 0))
    band = shapes.blur(rooted, _FINE) - shapes.blur(rooted, _BROAD)
    energy = np.sqrt(shapes.blur(band * band, _ENERGY))
    return energy > max(_TEXTURE * float(np.quantile(energy[has_data], 0.98)), 1e-6)


def _smooth_known(image: Floats32, has_data: Bools) -> Floats32:
    """Return an image under a narrow blur of what is known: glass next to no data stays dark."""
    known = shapes.blur(has_data.astype(np.float32), _FINE)
    light = shapes.blur(np.where(has_data, image, np.float32(0)), _FINE)
    return np.asarray(light / np.maximum(known, np.float32(1e-6)), np.float32)


def _find_dark(smooth: Floats32, has_data: Bools) -> Bools:
    """Find glass by its brightness alone, where noise makes it look textured; often none.

    The darker class of the two that differ most (Otsu 1979), if it is nearly even and all light is
    in the other, or if nothing but noise is in it and the other is no heap of spots.
    """
    values = smooth[has_data]
    darkest, most = float(values.min()), float(np.quantile(values, 0.99))
    counts, edges = np.histogram(values, 256, (darkest, most))
    centres = (edges[:-1] + edges[1:]) / 2
    below, sums = np.cumsum(counts), np.cumsum(counts * centres)
    above = below[-1] - below
    apart = sums / np.maximum(below, 1) - (sums[-1] - sums) / np.maximum(above, 1)
    limit = edges[1 + int(np.argmax(below * above * apart**2))]
    dark, bright = values[values < limit], values[values >= limit]
    if not len(dark) or not len(bright):
        return np.zeros(smooth.shape, dtype=np.bool_)
    level = float(np.median(dark))
    gap = float(np.median(bright)) - level
    spread = _SIGMA_OF_MAD * float(np.median(np.abs(dark - level)))
    is_dark = has_data & (smooth < limit)
    clear = gap > _EVEN * spread and level - darkest < _NO_LIGHT * gap
    if clear or (gap > _CLEAR * spread and _is_noise(smooth, is_dark)):
        return np.asarray(is_dark)
    return np.zeros_like(is_dark)


def _is_noise(smooth: Floats32, dark: Bools) -> bool:
    """Return whether dark px differ by noise and uneven light only, and others are no mere spots.

    Noise fades with averaging.
    """
    coarse = [smooth]
    for wide, narrow in ((_GRAIN, _FINE), (_GRAIN**2, _GRAIN)):
        coarse.append(shapes.blur(coarse[-1], _FINE * math.sqrt(wide**2 - narrow**2)))
    margin = round(_GRAIN**2)
    inside = shapes.shrink(dark, margin)
    whole = shapes.shrink(shapes.fill_holes(~dark), margin)
    if not inside.any() or not whole.any():
        return False
    fine, broad = (
        float(np.median(np.abs(a[inside] - b[inside]))) for a, b in itertools.pairwise(coarse)
    )
    return fine > _GRAINY * broad
