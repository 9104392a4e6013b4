"""Small views of large images for figures: overviews from the pyramid, crops at full resolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.progress import step
from unglow.core.windows import Window

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.core.windows import Pixels

LONGEST_PX = 1200
"""Longest side of an overview, px."""
CROP_PX = 128
"""Side of a crop at full resolution, px."""
_TRIED = 200
"""Brightest pixels that are looked at for each position that is asked for."""


@dataclass(frozen=True, slots=True)
class Overview:
    """An entire image at one pyramid level; pixel j is at 2**level * j + (2**level - 1) / 2."""

    image: NDArray[np.float32]
    level: int

    @property
    def step(self) -> int:
        """Level-0 px per px of the overview."""
        return int(2**self.level)

    def to_level0(self, index: NDArray[np.float64]) -> NDArray[np.float64]:
        """Level-0 coordinates of overview coordinates (any shape)."""
        return np.asarray(self.step * index + (self.step - 1) / 2)


def find_fitting_level(pixels: Pixels, longest_px: int = LONGEST_PX) -> int:
    """Return the finest level whose longest side is at most ``longest_px`` (or the coarsest)."""
    for level in range(pixels.levels):
        if max(pixels.level_shape(level)) <= longest_px:
            return level
    return pixels.levels - 1


@step("read")
def overview(pixels: Pixels, level: int | None = None) -> Overview:
    """Read an entire image at a level (by default one that fits a figure) as float32."""
    chosen = find_fitting_level(pixels) if level is None else min(level, pixels.levels - 1)
    window = Window.from_shape(pixels.level_shape(chosen))
    return Overview(pixels.read(window, chosen).astype(np.float32, copy=False), chosen)


def read_same_pixels(pixels: Pixels, shape: tuple[int, int], level: int) -> NDArray[np.float32]:
    """Read an image on the grid of another one as if nothing had moved.

    Parameters
    ----------
    pixels
        Image to read, of any size.
    shape
        (rows, cols) of the result at ``level``; NaN where the image does not reach.
    level
        Pyramid level of the other image. Coarser than this image's last level: that one is used.
    """
    out = np.full(shape, np.nan, np.float32)
    own = min(level, pixels.levels - 1)
    stride = 2 ** (level - own)
    source = pixels.read(Window.from_shape(pixels.level_shape(own)), own)[::stride, ::stride]
    rows, cols = (min(a, b) for a, b in zip(shape, source.shape, strict=True))
    out[:rows, :cols] = source[:rows, :cols]
    return out


def crop(
    pixels: Pixels, centre_xy: tuple[float, float], size: int = CROP_PX
) -> NDArray[np.float32]:
    """Read a square of ``size`` px at full resolution around a point; NaN beyond the image."""
    col, row = (round(v) - size // 2 for v in centre_xy)
    inside = Window(row, row + size, col, col + size).clip(pixels.shape)
    out = np.full((size, size), np.nan, np.float32)
    if inside.size:
        out[inside.shift(-row, -col).slices] = pixels.read(inside)
    return out


def _well_inside(valid: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return where a pixel and its neighbours in rows and columns are valid."""
    padded = np.pad(valid, 1, constant_values=True)
    middle = slice(1, -1)
    inside = valid.copy()
    for rows, cols in ((slice(None, -2), middle), (slice(2, None), middle)):
        inside &= padded[rows, cols] & padded[cols, rows]
    return inside


def texture_near(
    view: Overview, points: NDArray[np.float64], size: int = CROP_PX
) -> NDArray[np.float64]:
    """Return how much there is to see in the overview around points: its mean step between px.

    Of square roots, in which bright places do not rule; unlike a spread it is small where a square
    holds nothing but an edge of the section. A step counts as far as the parallel one next to it
    goes the same way, and against what goes the other way: steps of noise cancel.

    Parameters
    ----------
    view
        An overview; missing data count as no step.
    points
        (N, 2) centres (x, y), level-0 px.
    size
        Side of the squares, level-0 px.

    Returns
    -------
    (N,) float64.
    """
    image = view.image
    lowest = np.nanmin(image, initial=np.inf)
    root = np.sqrt(image - (lowest if np.isfinite(lowest) else 0.0))
    total = np.zeros((image.shape[0] + 1, image.shape[1] + 1))
    for axis in (0, 1):
        step = np.diff(root, axis=axis)
        one, other = (step[:, :-1], step[:, 1:]) if axis == 0 else (step[:-1], step[1:])
        shared = np.minimum(np.abs(one), np.abs(other)) * np.sign(one * other)
        total[2:, 2:] += np.nan_to_num(shared, copy=False)
    for axis in (0, 1):
        np.cumsum(total, axis=axis, out=total)
    half = max(2, size // (2 * view.step))
    middle = (points / view.step).astype(np.intp)
    (left, top), (right, bottom) = (
        np.clip(middle + off, 0, np.array(image.shape[::-1])).T for off in (-half, half)
    )
    inside = total[bottom, right] - total[top, right] - total[bottom, left] + total[top, left]
    return np.asarray(inside / (2 * half) ** 2)


def brightest(view: Overview, count: int, apart_px: int = CROP_PX) -> list[tuple[float, float]]:
    """Return level-0 (x, y) of the brightest spots of an overview, ``apart_px`` apart at least.

    Pixels next to missing data are excluded: they average only what is on this side of the edge.
    """
    pixels = np.flatnonzero(_well_inside(np.isfinite(view.image)))
    values = view.image.ravel()[pixels]
    if len(values) > (most := _TRIED * count):
        some = np.argpartition(values, -most)[-most:]
        pixels, values = pixels[some], values[some]
    spots: list[tuple[float, float]] = []
    for index in pixels[np.argsort(-values, kind="stable")]:
        row, col = divmod(int(index), view.image.shape[1])
        x, y = (float(v) for v in view.to_level0(np.array([col, row], float)))
        if all(max(abs(x - a), abs(y - b)) >= apart_px for a, b in spots):
            spots.append((x, y))
        if len(spots) == count:
            break
    return spots
