"""What pairs are made of: phantoms, which are formulas, and real pixels, which are splines.

Both can be evaluated at any place of post, so that pre needs no resampling of an image by unglow.
A real image is blurred by `BLUR_PX` and interpolated by a spline of order 5, which displaces
structures by less than 0.001 px against Fourier's exact shift (as a test measures it).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import tifffile
from scipy import ndimage

from registration.geometry import pixel_centres
from unglow.core.windows import grid
from unglow.phantom.render import Scene
from unglow.phantom.spec import PhantomSpec
from unglow.phantom.texture import add_spots, draw_grains, find_boxes

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from registration.geometry import Points, Warp

    Levels = NDArray[np.float32]

SCANNERS = {
    "scanner-A": "A_BB_563479_1.svs",
    "scanner-Z": "Z_BB_563479_1.tif",
    "scanner-N1": "N1_BB_563479_1.ndpi",
    "scanner-N2": "N2_BB_563479_1.ndpi",
}
FLUORESCENCE = ("round_fix_mip", "round_mov_mip", "slab40_fix_mip", "slab40_mov_mip")
BLUR_PX = 0.8
_BLOCK = 512
_MONTAGE, _PIECE, _BLEND = 5120, 440, 40
_TEXTURE_WINDOW, _TEXTURE_LEVELS = 49, 4.0
_AROUND_WINDOW, _AROUND_SHARE = 385, 0.15
_BRIGHT_LEVEL = 110.0
_GRAINS_PER_MPX = 60


class Base:
    """A scene in the frame of post, in grey levels of an 8-bit camera, without noise.

    ``shape`` is (rows, columns) of post; ``scene`` has the outline of the section, None for none.
    """

    def __init__(self, shape: tuple[int, int], scene: Scene | None) -> None:
        self.shape, self.scene = shape, scene

    def post(self) -> Levels:
        """Return all of post, (rows, cols) float32 levels."""
        return self._rendered(self.shape, None)

    def pre(self, warp: Warp, shape: tuple[int, int]) -> Levels:
        """Return all of pre as the warp has it, (rows, cols) float32 levels."""
        return self._rendered(shape, warp)

    def section(self, points: Points) -> NDArray[np.bool_]:
        """Say which points (N, 2) of post lie on the section and have texture around them."""
        return self.inside(*points.T) > 0.95

    def inside(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return 1 on the section, 0 off it, for places of post, (N,) to (N,)."""
        return np.ones(len(x)) if self.scene is None else self.scene.coverage(x, y)

    def _rendered(self, shape: tuple[int, int], warp: Warp | None) -> Levels:
        """Return all of an image, post without a warp."""
        raise NotImplementedError


class PhantomBase(Base):
    """The section of `unglow phantom` with its grains.

    Parameters
    ----------
    shape
        (rows, columns) of post.
    seed
        Seed of the phantom.
    """

    def __init__(self, shape: tuple[int, int], seed: int) -> None:
        self.phantom = Scene(PhantomSpec(shape=shape, seed=seed))
        super().__init__(shape, self.phantom)
        count = round(_GRAINS_PER_MPX * shape[0] * shape[1] / 1e6)
        self.grains = draw_grains(count, shape, seed, self.phantom.coverage)

    def _rendered(self, shape: tuple[int, int], warp: Warp | None) -> Levels:
        # a box reaches a little further than a smooth map needs: a seam may cut through a grain
        at, stretch = self.grains.xy, 1.0
        if warp is not None:
            at, stretch = warp.to_pre(at), 2 * warp.stretch()
        areas = find_boxes(self.grains, at, stretch, shape)
        out = np.empty(shape, np.float32)
        for window in grid(shape, (_BLOCK, _BLOCK)):
            points = pixel_centres(window)
            points = points if warp is None else warp.to_post(points)
            x, y = points.T.reshape(2, *window.shape)
            light = self.phantom.background(x, y)
            add_spots(self.grains, areas, window, x, y, light)
            out[window.slices] = light
        return out


@dataclass(frozen=True, eq=False)
class Picture:
    """A real image in levels with dark surroundings: spline coefficients, texture, its own name."""

    coefficients: Levels
    textured: NDArray[np.bool_]

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        rows, cols = self.coefficients.shape
        return rows, cols


class PictureBase(Base):
    """Real pixels: a part of a picture, optionally cut to the outline of a phantom.

    Parameters
    ----------
    picture
        What to show.
    shape
        (rows, columns) of post.
    corner
        (row, column) of the picture at the first pixel of post.
    outline
        Seed of the outline; None shows the picture as it is.
    bright
        Show dark structures on a bright field.
    """

    def __init__(
        self,
        picture: Picture,
        shape: tuple[int, int],
        corner: tuple[int, int],
        outline: int | None = None,
        *,
        bright: bool = False,
    ) -> None:
        scene = None if outline is None else Scene(PhantomSpec(shape=shape, seed=outline))
        super().__init__(shape, scene)
        self.picture, self.corner, self.bright = picture, corner, bright

    def section(self, points: Points) -> NDArray[np.bool_]:
        """Say which points of post lie on the section and have texture around them."""
        row, col = (np.rint(points[:, ::-1] + self.corner)).astype(int).T
        rows, cols = self.picture.shape
        known = (row >= 0) & (col >= 0) & (row < rows) & (col < cols)
        known[known] = self.picture.textured[row[known], col[known]]
        return known & super().section(points)

    def _rendered(self, shape: tuple[int, int], warp: Warp | None) -> Levels:
        out = np.empty(shape, np.float32)
        for window in grid(shape, (_BLOCK, _BLOCK)):
            points = pixel_centres(window)
            points = points if warp is None else warp.to_post(points)
            light = interpolated(self.picture.coefficients, points[:, ::-1] + self.corner)
            if self.bright:
                light = 220.0 - light
            if self.scene is not None:
                light *= self.scene.coverage(*np.ascontiguousarray(points.T))
            out[window.slices] = np.maximum(light, 0).reshape(window.shape)
        return out


def interpolated(coefficients: Levels, places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Evaluate a spline of order 5 at places (N, 2), (row, column); it goes on as in a mirror."""
    low = np.floor(places.min(axis=0)).astype(int) - 8
    high = np.ceil(places.max(axis=0)).astype(int) + 9
    limits = np.array(coefficients.shape)
    if (low >= 0).all() and (high <= limits).all():  # a part is all that has to be looked at
        coefficients = coefficients[low[0] : high[0], low[1] : high[1]]
        places = places - low
    return ndimage.map_coordinates(
        coefficients, places.T, order=5, mode="mirror", prefilter=False, output=np.float64
    )


@lru_cache(maxsize=5)
def picture(name: str, data: Path) -> Picture:
    """Read a real image: a scanner's, or a montage of the two-round fluorescence."""
    if name == "fluorescence":
        levels = montage([_fluorescence(data, one) for one in FLUORESCENCE])
    else:
        levels = scanner(data / "scanners_one_slide" / SCANNERS[name])
    return picture_of(levels)


def picture_of(levels: Levels) -> Picture:
    """Blur levels (rows, cols), find their texture and the coefficients of their spline."""
    blurred = ndimage.gaussian_filter(levels, BLUR_PX, mode="mirror")
    mean = ndimage.uniform_filter(blurred, _TEXTURE_WINDOW)
    square = ndimage.uniform_filter(blurred * blurred, _TEXTURE_WINDOW)
    textured = square - mean * mean > _TEXTURE_LEVELS**2
    # a speck on the glass, far from everything else, is no part of the section
    around = ndimage.uniform_filter(textured.astype(np.float32), _AROUND_WINDOW, mode="nearest")
    textured &= around > _AROUND_SHARE
    coefficients = ndimage.spline_filter(blurred, 5, output=np.float32, mode="mirror")
    return Picture(coefficients, textured)


def scanner(path: Path) -> Levels:
    """Return what is dark on a slide as levels, the glass being 0."""
    colours = tifffile.imread(path).astype(np.float32)
    levels = 255.0 - colours.mean(axis=2)
    return np.clip(levels - np.median(levels), 0, None) * np.float32(1.2) + 1


def _fluorescence(data: Path, name: str) -> Levels:
    image = tifffile.imread(data / "two_round_fluorescence" / f"{name}.tif").astype(np.float32)
    low, high = np.quantile(image, (0.005, 0.99))
    return np.clip((image - low) * (_BRIGHT_LEVEL / (high - low)), 0, None) + 1


def montage(images: list[Levels]) -> Levels:
    """Pave a large square with pieces of small images, turned, flipped and blended at random.

    A mere repetition would match itself at other places, which no real section does.
    """
    rng = np.random.default_rng(7)
    step = _PIECE - _BLEND
    ramp = np.minimum(1, (np.minimum(np.arange(_PIECE), np.arange(_PIECE)[::-1]) + 0.5) / _BLEND)
    weight = np.outer(ramp, ramp).astype(np.float32)
    total = np.zeros((2, _MONTAGE + _PIECE, _MONTAGE + _PIECE), np.float32)
    for top in range(0, _MONTAGE, step):
        for left in range(0, _MONTAGE, step):
            image = images[rng.integers(len(images))]
            row, col = (int(rng.integers(n - _PIECE)) for n in image.shape)
            piece = np.rot90(image[row : row + _PIECE, col : col + _PIECE], int(rng.integers(4)))
            piece = piece[:: rng.choice((-1, 1))] * np.float32(rng.uniform(0.7, 1.3))
            at = slice(top, top + _PIECE), slice(left, left + _PIECE)
            total[0][at] += weight * piece
            total[1][at] += weight
    inner = slice(_BLEND, _MONTAGE)
    return total[0][inner, inner] / total[1][inner, inner]
