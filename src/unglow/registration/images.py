"""Small versions of the images: what the coarse search sees, and where the section is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cv2
import numpy as np

from unglow.core.windows import Pixels, Window, halve
from unglow.registration.blocks.phase_correlation import Plane

if TYPE_CHECKING:
    from numpy.typing import NDArray

MIN_SIDE = 128
_BAND_PX = 1 << 22
_TEXTURE_SHARE = 0.12
"""Texture below this share of the image's strongest texture counts as background."""


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """One image on the coarse level.

    Attributes
    ----------
    image
        (rows, cols) float32, mean grey levels, finite.
    level
        Its pyramid level.
    detail
        (rows, cols) float32, the image without its slow changes, of even local contrast; 0 outside
        the section.
    section
        (rows, cols) bool: where there is texture to register.
    floor
        Grey level just below the background.
    saturated
        Share (0..1) of pixels at the highest value.
    """

    image: NDArray[np.float32]
    level: int
    detail: NDArray[np.float32]
    section: NDArray[np.bool_]
    floor: float
    saturated: float

    @property
    def plane(self) -> Plane:
        """The thumbnail for block matching."""
        return Plane(lambda window: self.image[window.slices], self.image.shape, self.floor)


def thumbnail(pixels: Pixels, level: int) -> Thumbnail:
    """Read a pyramid level (or average a finer one down to it) and find the section on it."""
    image = read_level(pixels, level)
    finite = np.isfinite(image)
    low, high = np.quantile(image[finite], (0.001, 0.998)) if finite.any() else (0.0, 0.0)
    image = np.where(finite, image, np.float32(low))
    floor = float(low - 0.02 * (high - low))
    detail, section = _detail(np.sqrt(np.clip(image - floor, 0, None)), finite)
    top = image == image.max()
    return Thumbnail(image, level, detail, section, floor, float(top.mean()))


def unusable(name: str, shape: tuple[int, int], thumb: Thumbnail) -> str | None:
    """Return one sentence if an image cannot be registered at all.

    Parameters
    ----------
    name
        ``post`` or ``pre``.
    shape
        (rows, columns) of level 0.
    thumb
        The image on the coarse level.
    """
    rows, cols = shape
    if min(shape) < MIN_SIDE:
        return (
            f"The {name}-stain image of {cols} x {rows} px is too small to be registered "
            f"(at least {MIN_SIDE} px per side are needed)."
        )
    if float(np.ptp(thumb.image)) == 0:
        return f"The {name}-stain image is empty: all its pixels have the same value."
    if float(thumb.section.mean()) * min(thumb.image.shape) < 1:
        if thumb.saturated > 0.5:
            return (
                f"{100 * thumb.saturated:.0f} % of the {name}-stain image is saturated, and "
                "the rest has too little texture."
            )
        return f"The {name}-stain image has no texture to register by."
    return None


def read_level(pixels: Pixels, level: int) -> NDArray[np.float32]:
    """Pixels of a pyramid level as float32; a missing level is averaged from the last, by bands."""
    stored = min(level, pixels.levels - 1)
    rows, cols = pixels.level_shape(stored)
    factor = 2 ** (level - stored)
    step = max(1, _BAND_PX // (max(cols, 1) * factor)) * factor
    bands = []
    for y0 in range(0, rows // factor * factor, step):
        band = pixels.read(Window(y0, min(y0 + step, rows // factor * factor), 0, cols), stored)
        for _ in range(level - stored):
            band = halve(band)
        bands.append(band.astype(np.float32))
    return np.concatenate(bands) if bands else np.zeros((0, cols // factor), np.float32)


def _detail(
    image: NDArray[np.float32], finite: NDArray[np.bool_]
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Band-passed image of even local contrast, and the mask of where it has texture."""
    band = blur(image, 1.0) - blur(image, 6.0)
    energy = np.sqrt(blur(band * band, 10.0))
    reference = float(np.quantile(energy, 0.98)) if energy.size else 0.0
    section = finite & (energy > max(_TEXTURE_SHARE * reference, 1e-6))
    # a few bright spots must not outweigh the rest
    even = np.clip(band / (energy + np.float32(0.02 * reference + 1e-12)), -3, 3)
    return np.where(section, even, np.float32(0)), section


def blur(image: NDArray[np.float32], sigma: float) -> NDArray[np.float32]:
    """Gaussian blur, sigma in px, edges reflected."""
    blurred = cv2.GaussianBlur(image, (0, 0), sigma, borderType=cv2.BORDER_REFLECT)
    return np.asarray(blurred, dtype=np.float32)
