"""Signal-to-noise ratio of the filtered difference: what stands out, in units of what it may be.

The difference is filtered with a Gaussian h of a microbe's width. The variance of the result has
three parts: noise of post; noise of pre as resampling and filter leave it
(`unglow.photometry.resampled`), both times what the pair scatters more than such noise
(`NoiseModel.spread`); and what an error of the map makes of the structures of pre
(`unglow.detection.shifts`), all over the filter alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from scipy import ndimage

from unglow.detection.lattice import Lattice
from unglow.detection.shifts import SPAN, squared_shift
from unglow.photometry.resampled import filtered_variance_factor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.blocks import Window
    from unglow.detection.map_error import MapError
    from unglow.detection.settings import DetectSettings
    from unglow.photometry import GainMap
    from unglow.photometry.noise import NoiseModel
    from unglow.transform import Transform

    Floats = NDArray[np.float32]

LEAST_WEIGHT = 0.5
"""Share of the filter that has to lie on usable px."""


_INNER = (slice(SPAN, -SPAN), slice(SPAN, -SPAN))


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
    post, pre, difference, error
        Of ``window`` and ``margin`` px around it, float32; NaN outside of the image, and where the
        px could not be used also in ``difference``.
    margin
        px around the window.
    reasons
        Of ``window``, uint8: 0 for a usable px, or 1 + its place in the fields of `Masked`.
    """

    window: Window
    snr: Floats
    noise_share: Floats
    post: Floats
    pre: Floats
    difference: Floats
    error: Floats
    margin: int
    reasons: NDArray[np.uint8]


def significance(scene: Scene, window: Window, margin: int = 0) -> Significance:
    """Compute the signal-to-noise ratio of a window; a px has the same bits in every window.

    Parameters
    ----------
    scene
        The pair.
    window
        Part of the post grid, inside the image.
    margin
        px around the window that the images of the result shall hold.
    """
    taps = scene.settings.taps
    rim = len(taps) // 2 + SPAN
    margin = max(margin, rim)
    outer = window.grow(margin)
    post, pre, left = (_padded(image, outer) for image in (scene.post, scene.pre, scene.difference))
    left -= scene.background.over(outer)
    error = scene.error.over(outer)
    reasons = _unusable(scene, post, pre, left, error)
    left[reasons > 0] = np.nan
    cut = (
        slice(margin - rim, margin - rim + window.shape[0] + 2 * rim),
        slice(margin - rim, margin - rim + window.shape[1] + 2 * rim),
    )
    part = _Filtered.of(taps, post[cut], pre[cut], left[cut], reasons[cut] > 0)
    inner = slice(margin, margin + window.shape[0]), slice(margin, margin + window.shape[1])
    factor = filtered_variance_factor(scene.transform, window, np.outer(taps, taps))
    snr, share = part.ratio(scene, scene.gain_over(window), factor, error[inner])
    return Significance(
        window, snr, share, post, pre, left, error, margin, np.ascontiguousarray(reasons[inner])
    )


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
    ) -> _Filtered:
        rim = len(taps) // 2
        narrow = taps * taps
        total = narrow.sum()
        weight = squares = None
        if bad.any():
            post, pre, left = (np.where(bad, np.float32(0), a) for a in (post, pre, left))
            # 1 minus what is lost: exactly 1 where nothing is, as where nothing is computed
            lost = bad.astype(np.float32)
            weight = 1 - _smooth(lost, taps, rim)
            squares = 1 - _smooth(lost, narrow / total, rim)
        return cls(
            _smooth(left, taps, rim)[_INNER],
            _smooth(post, narrow / total, rim)[_INNER],
            _smooth(pre, taps, rim),
            weight,
            squares,
            np.float32(total * total),
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
            seen, less = (v[_INNER] for v in (weight, self.squares))
            less = np.maximum(less, np.float32(1e-6))
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


def _smooth(image: Floats, taps: NDArray[np.float64], cut: int) -> Floats:
    """Filter both axes and cut off the rim, which zeros from outside have reached."""
    half = np.empty_like(image)
    ndimage.correlate1d(image, taps, axis=0, output=half, mode="constant")
    out = np.empty_like(image)
    ndimage.correlate1d(half, taps, axis=1, output=out, mode="constant")
    return out[cut:-cut, cut:-cut]


def _padded(image: Readable, window: Window) -> Floats:
    """Read a window as float32, with NaN outside of the image."""
    inside = window.clip(image.shape)
    if inside == window:
        return np.array(image.read(window), dtype=np.float32)
    out = np.full(window.shape, np.nan, dtype=np.float32)
    if inside.size:
        out[inside.shift(-window.y0, -window.x0).slices] = image.read(inside)
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
