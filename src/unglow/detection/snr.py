"""Signal-to-noise ratio of the filtered difference: what stands out, in units of what it may be.

The difference is filtered with a Gaussian h of a microbe's width. The variance of the result has
three parts: noise of post; noise of pre as resampling and filter leave it
(`unglow.photometry.resampled`), both times what the pair scatters more than such noise
(`NoiseModel.spread`); and what an error of the map makes of the structures of pre
(`unglow.detection.shifts`), all over the filter alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from unglow.blocks import Window
from unglow.detection.lattice import Lattice
from unglow.detection.shifts import SPAN, squared_shift
from unglow.kernels import kernel
from unglow.photometry.resampled import filtered_variance_factor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from unglow.detection.map_error import MapError
    from unglow.detection.settings import DetectSettings
    from unglow.photometry import Blur, GainMap
    from unglow.photometry.noise import NoiseModel
    from unglow.transform import Transform

    Floats = NDArray[np.float32]

LEAST_WEIGHT = 0.5
"""Share of the filter that has to lie on usable px."""


_INNER = (slice(SPAN, -SPAN), slice(SPAN, -SPAN))
_BAND = 128


class Readable(Protocol):
    """An image that is read window by window."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        ...

    def read(self, window: Window) -> NDArray[Any]:
        """Pixels of a window that lies inside."""
        ...


@dataclass(frozen=True, eq=False)
class Scene:
    """The images of a pair in the frame of post, and what is known about them.

    Attributes
    ----------
    post, pre, difference
        Raw post, aligned pre, and what is left of post; px without data are NaN in the latter two.
    gain
        Of the scale method that made the difference.
    noise
        Variance of single raw px.
    transform
        Map from post to pre.
    error
        Estimated error of that map.
    tops
        Largest value of raw post and of raw pre: px there are saturated, or as good as.
    settings
        Filter, and the largest error of the map.
    background
        What is left of the background in the difference, grey levels.
    light
        What the gain is multiplied by from place to place; None for 1.
    blur
        What one of the images went through before the subtraction; None for nothing.
    """

    post: Readable
    pre: Readable
    difference: Readable
    gain: float
    noise: NoiseModel
    transform: Transform
    error: MapError
    tops: tuple[float, float]
    settings: DetectSettings
    background: Lattice = field(default_factory=lambda: Lattice.constant(0.0))
    light: GainMap | None = None
    blur: Blur | None = None

    def taps_of(self, image: str) -> NDArray[np.float64]:
        """Weights along one axis that ``post`` or ``pre`` go through: the blur, and the filter."""
        taps = self.settings.taps
        return taps if self.blur is None else np.convolve(taps, self.blur.of(image))

    def subtracted(self, images: Images) -> Floats:
        """Return aligned pre as it was subtracted, over the window of images."""
        whole: Floats = images.pixels[1]
        if self.blur is None or self.blur.image != "pre":
            return whole
        out = np.full_like(whole, np.nan)
        inside = images.window.clip(self.pre.shape)
        at = inside.shift(-images.window.y0, -images.window.x0).slices
        out[at] = self.blur.over(self.pre.read, self.pre.shape, inside)
        return out

    def gain_over(self, window: Window) -> Floats:
        """Gain at the px of a window that may leave the image, ``window.shape`` or (1, 1)."""
        one = np.ones((1, 1), np.float32) if self.light is None else self.light.over(window)
        return one * np.float32(self.gain)

    def gain_at(self, points_xy: NDArray[np.float64]) -> Floats:
        """Gain at points (N, 2) (x, y), (N,)."""
        light = np.ones(len(points_xy)) if self.light is None else self.light.at(points_xy)
        return (light * self.gain).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Masked:
    """Numbers of px that could not be used, and why; each px counts once, for the first reason."""

    no_data: int = 0
    saturated: int = 0
    misregistered: int = 0

    def __add__(self, other: Masked) -> Masked:
        return Masked(
            self.no_data + other.no_data,
            self.saturated + other.saturated,
            self.misregistered + other.misregistered,
        )


@dataclass(frozen=True, eq=False)
class Significance:
    """The signal-to-noise ratio of a window, with what it was computed from.

    Attributes
    ----------
    window
        Part of the post grid, inside the image.
    snr
        ``window.shape`` float32; NaN where there is none.
    noise_share
        ``window.shape`` float32: noise part of the variance, without the error of the map, 0 to 1.
    images
        Of ``window`` and some px around it, background taken off the difference, which is NaN where
        a px could not be used.
    reasons
        Of ``window``, uint8: 0 for a usable px, or 1 + its place in the fields of `Masked`.
    """

    window: Window
    snr: Floats
    noise_share: Floats
    images: Images
    reasons: NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Images:
    """The pixels of a pair in a window that may leave the image.

    Attributes
    ----------
    window
        Part of the post grid.
    pixels
        (3, rows, cols) float32: post, pre and difference; NaN outside of the image.
    """

    window: Window
    pixels: Floats

    @classmethod
    def read(cls, scene: Scene, window: Window, frame: Window | None = None) -> Self:
        """Read a window, into a larger frame if there is one; the rest of that is not filled."""
        frame = window if frame is None else frame
        pixels = np.empty((3, *frame.shape), dtype=np.float32)
        inside = window.clip(scene.post.shape)
        if frame.clip(scene.post.shape) != frame:
            pixels.fill(np.nan)
        if inside.size:
            at = inside.shift(-frame.y0, -frame.x0).slices
            for part, image in zip(pixels, (scene.post, scene.pre, scene.difference), strict=True):
                part[at] = image.read(inside)
        return cls(frame, pixels)

    def cut(self, window: Window) -> Images:
        """Return a part, which shares its px with the whole."""
        at = window.shift(-self.window.y0, -self.window.x0).slices
        return Images(window, self.pixels[:, *at])


def around_px(settings: DetectSettings) -> int:
    """Return how far around a px the images are looked at for its ratio, px."""
    return settings.reach + SPAN


def significance(scene: Scene, window: Window) -> Significance:
    """Compute the signal-to-noise ratio of a window; a px has the same bits in every window.

    Parameters
    ----------
    scene
        The pair.
    window
        Part of the post grid, inside the image.
    """
    outer = window.grow(around_px(scene.settings))
    return significance_of(scene, window, Images.read(scene, outer))


def significance_of(scene: Scene, window: Window, images: Images) -> Significance:
    """Compute the signal-to-noise ratio of a window whose px have been read.

    Parameters
    ----------
    scene
        The pair.
    window
        Part of the post grid, inside the image.
    images
        Of the window and at least `around_px` around it, as far on every side. Changed: what is
        left of the background is taken off the difference, and px that cannot be used become NaN.
    """
    taps, outer = scene.settings.taps, images.window
    post, pre, left = images.pixels
    reasons = np.empty(outer.shape, dtype=np.uint8)
    for band in _bands(outer):
        at = band.shift(-outer.y0, -outer.x0).slices
        left[at] -= scene.background.over(band)
        reasons[at] = _unusable(scene, post[at], pre[at], left[at], scene.error.over(band))
        left[at][reasons[at] > 0] = np.nan
    pre = scene.subtracted(images)
    of_post, of_pre = scene.taps_of("post"), scene.taps_of("pre")
    snr, share = (np.empty(window.shape, dtype=np.float32) for _ in range(2))
    for band in _bands(window):
        at = band.grow(around_px(scene.settings)).shift(-outer.y0, -outer.x0).slices
        part = _Filtered.of(taps, post[at], pre[at], left[at], reasons[at] > 0, of_post)
        factor = filtered_variance_factor(scene.transform, band, np.outer(of_pre, of_pre))
        here = band.shift(-window.y0, -window.x0).slices
        snr[here], share[here] = part.ratio(
            scene, scene.gain_over(band), factor, scene.error.over(band)
        )
    inner = window.shift(-outer.y0, -outer.x0).slices
    return Significance(window, snr, share, images, reasons[inner])


def _bands(window: Window) -> Iterator[Window]:
    """Cut a window into parts of so few rows that what is computed of one stays in the cache."""
    for y0 in range(window.y0, window.y1, _BAND):
        yield Window(y0, min(y0 + _BAND, window.y1), window.x0, window.x1)


@dataclass(frozen=True, eq=False)
class _Filtered:
    """Filtered images of a window; ``pre`` and the weights with `SPAN` px around it."""

    difference: Floats
    post: Floats
    pre: Floats
    weight: Floats | None
    squares: Floats | None
    sum_of_squares: np.float32

    @classmethod
    def of(
        cls,
        taps: NDArray[np.float64],
        post: Floats,
        pre: Floats,
        left: Floats,
        bad: NDArray[np.bool_],
        of_post: NDArray[np.float64],
    ) -> _Filtered:
        narrow = taps * taps
        total = narrow.sum()
        weight = squares = None
        if bad.any():
            post, pre, left = (np.where(bad, np.float32(0), a) for a in (post, pre, left))
            # 1 minus what is lost: exactly 1 where nothing is, as where nothing is computed
            lost = bad.astype(np.float32)
            weight = 1 - _smooth(lost, taps)
            squares = 1 - _smooth(lost[_INNER], narrow / total)
        return cls(
            _smooth(left[_INNER], taps),
            _smooth(post[_INNER], narrow / total),
            _smooth(pre, taps),
            weight,
            squares,
            np.float32((of_post * of_post).sum() ** 2),
        )

    def ratio(
        self, scene: Scene, gain: Floats, factor: Floats, error: Floats
    ) -> tuple[Floats, Floats]:
        """Return the signal-to-noise ratio and the share of noise in its variance."""
        signal, post, pre = self.difference, self.post, self.pre
        spread: Floats = np.full_like(signal, self.sum_of_squares)
        if self.weight is not None and self.squares is not None:
            weight = np.where(self.weight >= LEAST_WEIGHT, self.weight, np.float32(np.nan))
            pre = np.asarray(pre / weight, dtype=np.float32)
            seen = weight[_INNER]
            less = np.maximum(self.squares, np.float32(1e-6))
            signal = np.asarray(signal / seen, dtype=np.float32)
            post = np.asarray(post / less, dtype=np.float32)
            part = np.asarray(less / (seen * seen), dtype=np.float32)
            spread = np.asarray(spread * part, dtype=np.float32)
            factor = np.asarray(factor * part, dtype=np.float32)
        squared = gain * gain
        noise = spread * scene.noise.variance_post(post)
        noise += squared * factor * scene.noise.variance_pre(pre[_INNER])
        noise *= np.float32(scene.noise.spread**2)
        shifted = squared * squared_shift(pre, error)
        variance = noise + shifted
        ratio = np.asarray(signal / np.sqrt(variance), dtype=np.float32)
        return ratio, np.asarray(noise / variance, dtype=np.float32)


def _smooth(image: Floats, taps: NDArray[np.float64]) -> Floats:
    """Filter both axes and cut off the rim; the px of a row have to be neighbours in memory."""
    rows, cols = (n - len(taps) + 1 for n in image.shape)
    weights = taps.astype(np.float32)
    line = np.empty(image.shape[1], dtype=np.float32)
    out = np.empty((rows, cols), dtype=np.float32)
    kernel("filtered")(
        image,
        image.strides[0] // image.itemsize,
        weights,
        len(weights),
        line,
        out,
        rows,
        cols,
    )
    return out


def _unusable(
    scene: Scene, post: Floats, pre: Floats, left: Floats, error: Floats
) -> NDArray[np.uint8]:
    """Tell why px cannot be used: no data, saturated, badly registered.

    A px of post that is saturated where its background is not is brighter than measured, and is
    used: otherwise the brightest microbes would be lost.
    """
    reasons = np.zeros(post.shape, dtype=np.uint8)
    reasons[~(error <= scene.settings.max_error_px)] = 3
    clipped = pre >= scene.tops[1]
    clipped |= (post >= scene.tops[0]) & (left <= 0)
    reasons[clipped] = 2
    reasons[~(np.isfinite(left) & np.isfinite(post))] = 1
    return reasons
