"""Images on the coarse level: what the search sees, and where the section is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.windows import Coarser, Window, strips
from unglow.transform import apply_matrix

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from unglow.core.arrays import Array, Bools, Floats, Floats32
    from unglow.core.windows import Pixels
    from unglow.transform.displacement import Displacement


@dataclass(frozen=True, slots=True)
class Plane:
    """One image at one resolution, to be read window by window.

    Attributes
    ----------
    read
        Returns the pixels of a window inside the plane.
    shape
        (rows, columns).
    floor
        Grey level just below the background, or deeper; square roots are taken above it.
    """

    read: Callable[[Window], Array]
    shape: tuple[int, int]
    floor: float

    @classmethod
    def from_level(cls, pixels: Pixels, level: int, floor: float) -> Plane:
        """Return a stored pyramid level."""
        return cls(lambda window: pixels.read(window, level), pixels.level_shape(level), floor)


@dataclass(frozen=True, slots=True)
class PlanePair:
    """Post and pre at one resolution, and the map between them in px of that resolution.

    Attributes
    ----------
    post, pre
        The images.
    matrix
        (3, 3) float64, post (x, y, 1) to pre.
    sign
        -1 if the contrast is reversed.
    workers
        Threads for matching, on which no result depends.
    displacement
        Field that is added to the matrix's positions; None for none.
    """

    post: Plane
    pre: Plane
    matrix: Floats
    sign: int = 1
    workers: int = 1
    displacement: Displacement | None = None

    def map(self, points: Floats) -> Floats:
        """Map points (N, 2) of post to pre."""
        mapped = apply_matrix(self.matrix, points)
        return mapped if self.displacement is None else mapped + self.displacement.evaluate(points)


MIN_SIDE = 128
"""Least side of an image, px of level 0: two of the smallest blocks."""
_BAND_PX = 1 << 22
"""Px of a level read at a time, about; bounds the memory."""
_DARK_SHARE, _BRIGHT_SHARE = 0.001, 0.998
"""Quantiles of the grey levels that represent the background and for the brightest structures."""
_BELOW_BACKGROUND = 0.02
"""The floor is this share of the range of grey levels below the background."""
_LOWERED = 10.0
"""Blocks take square roots above a level that is this many times the section's brightness below its
floor. It leaves edges nearly straight; new signal is bent all the same."""
_FINE_PX, _BROAD_PX, _AROUND_PX = 1.0, 6.0, 10.0
"""Sigmas of the band pass of the texture, and of the average of its energy, px of the thumbnail."""
_TEXTURE_SHARE = 0.12
"""Texture below this share of the image's strongest texture counts as background."""
_MOST_CONTRAST = 3.0
"""Detail is clipped at this many times its local standard deviation: a few bright spots must not
outweigh the rest."""


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
        Grey level just below the background: the search takes square roots above it.
    block_floor
        That of blocks, far below it. The root of a soft edge is further out than that of a sharp
        one, by up to a quarter of its width: of two images of unequal focus, or of which one is an
        average of finer px, the rim of the section would lie elsewhere in each.
    saturated
        Share (0..1) of pixels at the highest value.
    """

    image: Floats32
    level: int
    detail: Floats32
    section: Bools
    floor: float
    block_floor: float
    saturated: float

    @property
    def plane(self) -> Plane:
        """The thumbnail for block matching."""
        return Plane(lambda window: self.image[window.slices], self.image.shape, self.floor)

    def section_points(self) -> Floats:
        """About 2000 points (x, y) of the section at most, thumbnail px, evenly spread."""
        rows, cols = np.nonzero(self.section)
        step = max(1, round(np.sqrt(len(rows) / 2000)))
        even = (rows % step == 0) & (cols % step == 0)
        return np.column_stack([cols[even], rows[even]]).astype(np.float64)


def thumbnail(pixels: Pixels, level: int) -> Thumbnail:
    """Read a pyramid level (or average a finer one down to it) and find the section on it."""
    image = read_level(pixels, level)
    finite = np.isfinite(image)
    low, high = (
        np.quantile(image[finite], (_DARK_SHARE, _BRIGHT_SHARE)) if finite.any() else (0.0, 0.0)
    )
    image = np.where(finite, image, np.float32(low))
    floor = float(low - _BELOW_BACKGROUND * (high - low))
    detail, section = _detail(np.sqrt(np.clip(image - floor, 0, None)), finite)
    brightness = float(np.median(image[section])) - floor if section.any() else 0.0
    top = image == image.max()
    return Thumbnail(
        image,
        level,
        detail,
        section,
        floor,
        block_floor=floor - _LOWERED * brightness,
        saturated=float(top.mean()),
    )


def explain_unusable(name: str, shape: tuple[int, int], thumb: Thumbnail) -> str | None:
    """Return one sentence if the image ``name`` (post or pre) cannot be registered at all.

    ``shape`` is (rows, columns) of level 0, ``thumb`` the image on the coarse level.
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


def read_level(pixels: Pixels, level: int) -> Floats32:
    """Pixels of a pyramid level as float32; a missing level is averaged from the last, by bands."""
    seen = Coarser(pixels, level)
    step = max(1, _BAND_PX // max(1, seen.shape[1] << 2 * max(0, level - pixels.levels + 1)))
    out = np.empty(seen.shape, np.float32)
    for band in strips(Window.from_shape(seen.shape), step):
        out[band.slices] = seen.read(band)
    return out


def _detail(image: Floats32, finite: Bools) -> tuple[Floats32, Bools]:
    """Band-passed image of even local contrast, and the mask of where it has texture."""
    band = blur(image, _FINE_PX) - blur(image, _BROAD_PX)
    energy = np.sqrt(blur(band * band, _AROUND_PX))
    reference = float(np.quantile(energy, 0.98)) if energy.size else 0.0
    section = finite & (energy > max(_TEXTURE_SHARE * reference, 1e-6))
    even = band / (energy + np.float32(0.02 * reference + 1e-12))
    even = np.clip(even, -_MOST_CONTRAST, _MOST_CONTRAST)
    return np.where(section, even, np.float32(0)), section


def blur(image: Floats32, sigma: float) -> Floats32:
    """Gaussian blur, sigma in px, edges reflected."""
    import cv2

    blurred = cv2.GaussianBlur(image, (0, 0), sigma, borderType=cv2.BORDER_REFLECT)
    return np.asarray(blurred, dtype=np.float32)


def forward(image: Floats32, shape: tuple[int, int]) -> NDArray[np.complex64]:
    """Half spectrum of an image padded with zeros to ``shape``, divided by the number of px.

    Returns
    -------
    (rows, columns // 2 + 1) complex64; zero frequency is the mean.
    """
    rows = image.shape[0]
    spectrum: Any = np.zeros((shape[0], shape[1] // 2 + 1), np.complex64)  # typed as complex128
    np.fft.rfft(image, shape[1], axis=1, norm="forward", out=spectrum[:rows])
    np.fft.fft(spectrum, axis=0, norm="forward", out=spectrum)
    return np.asarray(spectrum, dtype=np.complex64)


def backward(spectrum: NDArray[np.complex64], shape: tuple[int, int]) -> Floats32:
    """Image of ``shape`` with a half spectrum from `forward`; overwrites the spectrum."""
    columns: Any = spectrum
    np.fft.ifft(columns, axis=0, out=columns)
    image = np.asarray(np.fft.irfft(columns, shape[1], axis=1), dtype=np.float32)
    image *= np.float32(shape[0] * shape[1])
    return image


def cross_spectrum(one: Floats32, other: Floats32, shape: tuple[int, int]) -> NDArray[np.complex64]:
    """Half spectrum of the correlation of two images padded to ``shape``, see `forward`."""
    product, factor = forward(one, shape), forward(other, shape)
    product *= np.conj(factor, out=factor)
    return product
