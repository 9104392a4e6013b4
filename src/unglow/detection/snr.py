"""Signal-to-noise ratio of the filtered difference.

The difference is filtered with a Gaussian h of a microbe's width. The variance of the result has
three parts: noise of post; noise of pre as resampling and filter leave it
(`unglow.photometry.resampled_noise`), both times what the pair scatters more than such noise
(`NoiseModel.spread`); and what an error of the map makes of the structures of pre
(`unglow.detection.coarse_grid`), all over the filter equally.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.kernels import kernel, lay_rows
from unglow.core.windows import Window, strips
from unglow.detection.coarse_grid import CoarseGrid
from unglow.detection.images import Images
from unglow.photometry.imaging import blur_image, compute_share, filter_both
from unglow.photometry.resampled_noise import FilteredVariance
from unglow.review.polygons import mask_over

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unglow.core.arrays import Bytes, Floats, Floats32
    from unglow.core.windows import Pixels
    from unglow.detection.settings import DetectSettings
    from unglow.photometry.imaging import Blur, GainMap, NoiseModel
    from unglow.review.polygons import Region
    from unglow.spoilt.places import SpoiltMask
    from unglow.transform import Transform


UNUSABLE = ("no_data", "saturated", "misregistered", "spoilt")
"""Why a px cannot be used, as `Significance.reasons` numbers it from 1 on; the first one counts."""
SPOILT = UNUSABLE.index("spoilt") + 1
EXCLUDED = len(UNUSABLE) + 1
"""Value in `Significance.reasons` for a px in a region that is excluded, whatever else it is."""
_LEAST_WEIGHT = 0.5
"""Share of the filter that has to lie on usable px."""
_BAND_PX = 1 << 18
"""px that are computed together: float32 of some images of them stay in the cache of a core."""
SPAN = 3
"""How far an error of the map is looked for around a px, px; greater errors count like this one."""
_INNER = (slice(SPAN, -SPAN), slice(SPAN, -SPAN))


@dataclass(frozen=True, eq=False)
class Scene:
    """The images of a pair in the frame of post, and what is known about them.

    Attributes
    ----------
    post, pre, difference
        Raw post, aligned pre and the difference; px without data are NaN in the latter two.
    gain
        Of the scale method that made the difference.
    noise
        Variance of single raw px.
    transform
        Map from post to pre.
    error
        Estimated error of that map.
    saturation
        Largest value of raw post and of raw pre: px there are saturated, or as good as.
    settings
        Filter, and the largest error of the map.
    background
        What is left of the background in the difference, grey levels.
    gain_map
        What the gain is multiplied by at each px; None for 1.
    blur
        What one of the images went through before the subtraction; None for nothing.
    excluded
        Regions that are excluded: their px are not used, and have no ratio.
    spoilt
        Spoilt places of post, whose px are not used either; None for none.
    unclear
        Places that are dense stain or dirt: what is found there is marked; None for none.
    """

    post: Pixels
    pre: Pixels
    difference: Pixels
    gain: float
    noise: NoiseModel
    transform: Transform
    error: CoarseGrid
    saturation: tuple[float, float]
    settings: DetectSettings
    background: CoarseGrid = field(default_factory=lambda: CoarseGrid.constant(0.0))
    gain_map: GainMap | None = None
    blur: Blur | None = None
    excluded: tuple[Region, ...] = ()
    spoilt: SpoiltMask | None = None
    unclear: SpoiltMask | None = None

    def taps_of(self, image: str) -> Floats:
        """Weights along one axis that ``post`` or ``pre`` go through: the blur, and the filter."""
        taps = self.settings.taps
        return taps if self.blur is None else np.convolve(taps, self.blur.select_taps(image))

    @property
    def margin(self) -> int:
        """How far around a px the images are looked at for its ratio, px."""
        reach = self.blur.reach if self.blur is not None and self.blur.image == "pre" else 0
        return compute_margin(self.settings) + reach

    def subtract(self, images: Images, window: Window) -> Floats32:
        """Return aligned pre as it was subtracted, over a part of the window of images."""
        around: Floats32 = images.cut(window).pixels[1]
        if self.blur is None or self.blur.image != "pre":
            return around
        reach, taps = self.blur.reach, self.blur.taps
        around = images.cut(window.grow(reach)).pixels[1]
        if not np.isnan(around).any():  # as below, in less time
            return filter_both(around, taps.astype(np.float32))
        return blur_image(around, taps)[reach:-reach, reach:-reach]

    def gain_over(self, window: Window) -> Floats32:
        """Gain at the px of a window that may leave the image, ``window.shape`` or (1, 1)."""
        factor = (
            np.ones((1, 1), "f4")
            if self.gain_map is None
            else self.gain_map.evaluate_window(window)
        )
        return factor * np.float32(self.gain)

    def gain_at(self, points_xy: Floats) -> Floats32:
        """Gain at points (N, 2) (x, y), (N,)."""
        n = len(points_xy)
        factor = np.ones(n) if self.gain_map is None else self.gain_map.evaluate(points_xy)
        return (factor * self.gain).astype(np.float32)


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
        Of ``window``, uint8: 0 for a usable px, 1 + its index in `UNUSABLE`, or `EXCLUDED`.
    """

    window: Window
    snr: Floats32
    noise_share: Floats32
    images: Images
    reasons: Bytes


def compute_margin(settings: DetectSettings) -> int:
    """Return how far around a px the images are looked at as they were subtracted, px."""
    return settings.reach + SPAN


def significance(
    scene: Scene, window: Window, images: Images | None = None, level: float = -1.0
) -> Significance:
    """Compute the signal-to-noise ratio of a window; a px has the same bits in every window.

    Parameters
    ----------
    scene
        The pair.
    window
        Part of the post grid, inside the image.
    images
        Pixels of the window and a margin of `Scene.margin` or more; None to read them.
        Changed: what is left of the background is taken off the difference, and px that cannot be
        used become NaN.
    level
        Ratios between this and its negative need not be right: something else between these two is
        given for some of them, in less time. Negative: all are right.
    """
    around = compute_margin(scene.settings)
    if images is None:
        images = Images.read(scene, window.grow(scene.margin))
    outer = images.window
    post, pre, difference = images.pixels
    reasons = np.empty(outer.shape, dtype=np.uint8)
    for band in _bands(outer):
        at = band.shift(-outer.y0, -outer.x0).slices
        _mask_unusable(scene, band, (post[at], pre[at], difference[at]), reasons[at])
    subtracted = window.grow(around)
    pre = scene.subtract(images, subtracted)
    filters = _Filters.from_scene(scene, window)
    snr, share = (np.empty(window.shape, dtype=np.float32) for _ in range(2))
    for band in _bands(window):
        at = band.grow(around).shift(-outer.y0, -outer.x0).slices
        of_pre = band.grow(around).shift(-subtracted.y0, -subtracted.x0).slices
        out = band.shift(-window.y0, -window.x0).slices
        parts = (post[at], pre[of_pre], difference[at]), reasons[at], (snr[out], share[out])
        _ratio(scene, filters, band, *parts, level)
    inner = reasons[window.shift(-outer.y0, -outer.x0).slices]
    if scene.excluded or scene.spoilt is not None:
        snr[inner >= SPOILT] = np.nan
    return Significance(window, snr, share, images, inner)


def _bands(window: Window) -> Iterator[Window]:
    """Cut a window into strips of about `_BAND_PX`."""
    return strips(window, max(1, _BAND_PX // max(1, window.shape[1])))


@dataclass(frozen=True, eq=False)
class _Filters:
    """The filter of a window, and what it makes of noise.

    Attributes
    ----------
    taps, squares
        The filter and its squares, (2 r + 1,) along one axis, sum 1.
    pre_factor
        Share of pre's variance that resampling and filters leave.
    numbers
        (7,) float32: of the noise, as ``kernels.h`` has it.
    """

    taps: Floats32
    squares: Floats32
    pre_factor: FilteredVariance
    numbers: Floats32

    @classmethod
    def from_scene(cls, scene: Scene, window: Window) -> _Filters:
        taps, noise = scene.settings.taps, scene.noise
        of_post, of_pre = scene.taps_of("post"), scene.taps_of("pre")
        squares = taps * taps
        numbers = (
            *(noise.post_read, noise.post_shot, noise.pre_read, noise.pre_shot, noise.least),
            *(noise.spread**2, (of_post * of_post).sum() ** 2),
        )
        return cls(
            taps.astype(np.float32),
            (squares / squares.sum()).astype(np.float32),
            FilteredVariance.from_transform(scene.transform, window, np.outer(of_pre, of_pre)),
            np.array(numbers, dtype=np.float32),
        )


def _ratio(
    scene: Scene,
    filters: _Filters,
    band: Window,
    images: tuple[Floats32, Floats32, Floats32],
    reasons: Bytes,
    out: tuple[Floats32, Floats32],
    level: float,
) -> None:
    """Fill in the ratio and the share of noise of a band, (rows, cols) each.

    ``images`` are post, pre and the difference. They and ``reasons`` have a margin of
    `compute_margin` px on every side.
    """
    post, pre, difference = images
    of_reasons = reasons if reasons.any() else None
    pre = _filter_usable(pre, of_reasons, filters.taps)
    if of_reasons is not None:
        weight = compute_share(reasons, filters.taps, _LEAST_WEIGHT)
        squares = compute_share(reasons[_INNER], filters.squares)
        pre /= weight
    else:
        weight = np.broadcast_to(np.ones(pre.shape[1], dtype=np.float32), pre.shape)
        squares = weight[_INNER]
    inner = None if of_reasons is None else reasons[_INNER]
    gain = scene.gain_over(band)
    if gain.size == 1:
        gain = np.broadcast_to(np.repeat(gain[0], band.shape[1]), band.shape)
    error = scene.error.evaluate_window(band)
    room = np.empty((2, band.shape[1])), np.empty((2, band.shape[1]), dtype=np.float32)
    kernel("significance")(
        _filter_usable(difference[_INNER], inner, filters.taps),
        _filter_usable(post[_INNER], inner, filters.squares),
        pre,
        *(a for image in (weight, squares, gain, error) for a in lay_rows(image)),
        *filters.pre_factor.arguments(band),
        filters.numbers,
        level,
        *room,
        np.empty(-(-weight.shape[1] // 64), dtype=np.int64),
        *out,
        *band.shape,
    )


def _filter_usable(image: Floats32, reasons: Bytes | None, taps: Floats32) -> Floats32:
    """Filter an image with 0 for px that cannot be used; no reasons where all can be."""
    if reasons is not None:
        out = np.empty(image.shape, dtype=np.float32)
        kernel("usable_px")(*lay_rows(image), *lay_rows(reasons), out, *out.shape)
        image = out
    return filter_both(image, taps)


def _mask_unusable(
    scene: Scene,
    band: Window,
    images: tuple[Floats32, Floats32, Floats32],
    reasons: Bytes,
) -> None:
    """Take the background off the difference, and find px of a band that cannot be used, in place.

    A px of post that is saturated where its background is not is brighter than measured, and is
    used: otherwise the brightest microbes would be lost.
    """
    grids = [grid.evaluate_window(band) for grid in (scene.background, scene.error)]
    limits = np.array([*scene.saturation, scene.settings.max_error_px], dtype=np.float32)
    kernel("judge")(
        *(a for image in images for a in lay_rows(image)),
        *(a for grid in grids for a in lay_rows(grid)),
        limits,
        reasons,
        *band.shape,
    )
    if scene.spoilt is not None and scene.spoilt.touches(band):
        inside = scene.spoilt.mask_window(band) & (reasons == 0)
        reasons[inside] = SPOILT
        images[2][inside] = np.nan
    if scene.excluded:
        inside = mask_over(scene.excluded, band)
        reasons[inside] = EXCLUDED
        images[2][inside] = np.nan
