"""Guesses of the map between two thumbnails, by features, by spectra and by trying rotations.

All are in thumbnail pixels (x, y), post to pre, and none of them is trusted: `coarse_map` judges
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

from unglow.core.windows import Window, grid, halve
from unglow.memory import FEATURE_PX
from unglow.registration.images import backward, blur, cross_spectrum
from unglow.transform import from_level

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unglow.core.arrays import Bools, Bytes, Floats, Floats32
    from unglow.registration.images import Thumbnail

    Matrix = Floats

_FEATURES = 2500
"""This many of the strongest features of each image are matched."""
_CONTRAST = 0.01
"""SIFT's threshold; OpenCV's own of 0.04 leaves too few in dim sections."""
_TILE, _TILE_MARGIN = 512, 32
"""Side of the tiles that features are searched on, and the part of it that overlaps, px."""
_RATIO = 0.85
"""A match has to be nearer than this share of the next one's distance (Lowe 2004 takes 0.8)."""
_MIN_MATCHES = 6
"""Twice what an affine map needs."""
_MAGSAC_PX = 2.0
"""Scale of the errors of matches, px."""
_SPECTRUM_PX = 512
"""Longest side of the images that spectra are taken of, px."""
_ANGLES, _RADII = 256, 256
"""Samples of half a turn (0.7 degrees), and of the radius."""
_SPECTRUM_PEAKS, _PEAK_RADIUS = 3, 4
"""Number of peaks to try, and samples around each that the search for the next one skips."""
_LEAST_RADIUS = 8
"""Waves over the image; longer ones are shading."""
_ROTATION_PX = 192
"""Longest side of the images on which all rotations and scales are tried, px."""
_ROTATION_STEP_DEG, _ROTATION_STEP_SCALE = 5.0, 1.08
"""Steps in which they are tried: half a step of either moves the rim of the image by 4 px."""
_ROTATION_PEAKS = 3


def feature_guess(
    post: Thumbnail, pre: Thumbnail, sign: int = 1, *, whole: bool = False
) -> Matrix | None:
    """Affine map from SIFT matches, by MAGSAC; None if fewer than six agree.

    ``sign`` -1 looks for reversed contrast. The thumbnails are halved until neither has more than
    `FEATURE_PX` px, unless ``whole`` asks for more features, of finer structures.
    """
    half = 0 if whole else halvings(post, pre)
    points_post, descriptors_post = _features(*_feature_image(post, half))
    grey, mask = _feature_image(pre, half)
    points_pre, descriptors_pre = _features(grey if sign > 0 else 255 - grey, mask)
    if min(len(points_post), len(points_pre)) < _MIN_MATCHES:
        return None
    pairs = cv2.BFMatcher(cv2.NORM_L2).knnMatch(descriptors_post, descriptors_pre, k=2)
    good = [p[0] for p in pairs if len(p) == 2 and p[0].distance < _RATIO * p[1].distance]
    if len(good) < _MIN_MATCHES:
        return None
    cv2.setRNGSeed(0)
    affine, inside = cv2.estimateAffine2D(
        points_post[[m.queryIdx for m in good]],
        points_pre[[m.trainIdx for m in good]],
        method=cv2.USAC_MAGSAC,
        ransacReprojThreshold=_MAGSAC_PX,
        maxIters=10000,
        confidence=0.999,
    )
    if affine is None or int(inside.sum()) < _MIN_MATCHES or not np.isfinite(affine).all():
        return None
    return from_level(np.vstack([affine, [0.0, 0.0, 1.0]]), half)


def halvings(post: Thumbnail, pre: Thumbnail) -> int:
    """How often both thumbnails are halved before features are searched on them."""
    pixels = max(post.image.size, pre.image.size)
    return max(0, int(np.ceil(np.log2(pixels / FEATURE_PX) / 2)))


def _feature_image(thumb: Thumbnail, half: int) -> tuple[Bytes, Bools]:
    """Grey version of a thumbnail, halved, and where it shows the section."""
    section = thumb.section if not half else _shrink(thumb.section, half) > 0.5
    return _grey(_shrink(thumb.image, half), thumb.floor), section


def _grey(image: Floats32, low: float) -> Bytes:
    """Logarithmic, locally equalised 8-bit version, in which dim and bright parts have features."""
    values = image - np.float32(low)
    np.maximum(values, np.float32(0), out=values)
    values /= np.float32(max(float(image.mean()) - low, 1e-9))
    np.log1p(values, out=values)
    dark, bright = np.quantile(values, (0.01, 0.997))
    values -= np.float32(dark)
    values *= np.float32(255 / max(bright - dark, 1e-9))
    scaled = np.clip(values, 0, 255).astype(np.uint8)
    return np.asarray(cv2.createCLAHE(2.0, (8, 8)).apply(scaled), dtype=np.uint8)


def _features(grey: Bytes, section: Bools) -> tuple[Floats, Floats32]:
    """Positions (N, 2) and square-rooted descriptors (N, 128) of the strongest features.

    A large image is searched in overlapping tiles: SIFT takes 220 bytes per px of what it sees.
    """
    sift: Any = cv2.SIFT.create(_FEATURES, contrastThreshold=_CONTRAST)  # OpenCV has no type for it
    parts = [(np.zeros((0, 3)), np.zeros((0, 128), np.float32))]
    for core, tile in _tiles(grey.shape):
        mask = section[tile.slices].astype(np.uint8) * 255
        keys, found = sift.detectAndCompute(np.ascontiguousarray(grey[tile.slices]), mask)
        if not keys:
            continue
        at = np.array([(k.pt[0] + tile.x0, k.pt[1] + tile.y0, k.response) for k in keys])
        x, y = np.rint(at[:, 0]), np.rint(at[:, 1])
        own = (x >= core.x0) & (x < core.x1) & (y >= core.y0) & (y < core.y1)
        parts.append((at[own], found[own]))
    table, descriptors = (np.concatenate(part) for part in zip(*parts, strict=True))
    best = np.sort(np.argsort(-table[:, 2], kind="stable")[:_FEATURES])
    table, descriptors = table[best], descriptors[best]
    rooted = np.sqrt(descriptors / (descriptors.sum(axis=1, keepdims=True) + 1e-7))
    return table[:, :2], rooted.astype(np.float32)


def _tiles(shape: tuple[int, ...]) -> Iterator[tuple[Window, Window]]:
    """Windows that tile an image, each with the larger one to search; one for a small image."""
    rows, cols = shape
    if rows * cols <= FEATURE_PX:
        yield Window.from_shape((rows, cols)), Window.from_shape((rows, cols))
        return
    inner = _TILE - 2 * _TILE_MARGIN
    for core in grid((rows, cols), (inner, inner)):
        yield core, core.grow(_TILE_MARGIN).clip((rows, cols))


def spectrum_guesses(post: Thumbnail, pre: Thumbnail, max_scale: float) -> list[Matrix]:
    """Similarities from the Fourier-Mellin transform, each also turned by 180 degrees."""
    half = max(0, int(np.ceil(np.log2(max(*post.image.shape, *pre.image.shape) / _SPECTRUM_PX))))
    a, b = (_shrink(t.detail, half) for t in (post, pre))
    size = max(*a.shape, *b.shape)
    polar_a, polar_b = (_log_polar(image, size) for image in (a, b))
    log_step = np.log(size / 2) / _RADII
    product = cross_spectrum(polar_a, polar_b, polar_a.shape)
    product /= np.abs(product) + 1e-3 * np.abs(product).mean() + 1e-20
    values = _soften(backward(product, polar_a.shape))
    columns = np.arange(_RADII)
    shifts = np.where(columns > _RADII // 2, columns - _RADII, columns)
    values[:, np.abs(shifts) * log_step > np.log(max_scale * 1.1)] = -np.inf
    guesses = []
    for _ in range(_SPECTRUM_PEAKS):
        row, col = divmod(int(values.argmax()), _RADII)
        scale = float(np.exp(shifts[col] * log_step))
        angle = -180.0 * row / _ANGLES
        guesses += [_find_shift(a, b, angle + turn, scale) for turn in (0.0, 180.0)]
        around = np.arange(-_PEAK_RADIUS, _PEAK_RADIUS + 1)
        values[np.ix_((row + around) % _ANGLES, (col + around) % _RADII)] = -np.inf
    guesses.sort(key=lambda g: -g[0])
    return [from_level(matrix, half) for _, matrix in guesses[:_SPECTRUM_PEAKS]]


def _log_polar(image: Floats32, size: int) -> Floats32:
    """Log-polar magnitude spectrum over half a turn, (angles, radii), tapered along the radius."""
    rows, cols = image.shape
    taper = np.hanning(rows + 2)[1:-1, None] * np.hanning(cols + 2)[1:-1]
    padded = np.zeros((size, size), np.float32)
    padded[:rows, :cols] = image * taper
    magnitude = np.abs(np.fft.fft2(padded, norm="forward")) * np.float32(size * size)
    spectrum = np.fft.fftshift(np.log1p(magnitude).astype(np.float32))
    centre = (float(size // 2), float(size // 2))
    flags = cv2.WARP_POLAR_LOG | cv2.INTER_LINEAR
    whole_turn = cv2.warpPolar(spectrum, (_RADII, 2 * _ANGLES), centre, size / 2, flags)
    polar = np.asarray(whole_turn[:_ANGLES], dtype=np.float32)
    polar = polar - polar.mean(axis=0, keepdims=True)  # what the band-pass alone makes
    radius = np.exp(np.arange(_RADII) * np.log(size / 2) / _RADII)
    return np.asarray(polar * (np.hanning(_RADII) * (radius > _LEAST_RADIUS)), dtype=np.float32)


def rotation_guesses(post: Thumbnail, pre: Thumbnail, max_scale: float) -> list[Matrix]:
    """Best similarities among all rotations and scales, by plain correlation of small versions."""
    longest = max(*post.image.shape, *pre.image.shape)
    half = max(0, int(np.ceil(np.log2(longest / _ROTATION_PX))))
    a, b = (_broad_detail(t, half) for t in (post, pre))
    count = max(1, int(np.ceil(np.log(max_scale) / np.log(_ROTATION_STEP_SCALE))))
    scales = [max_scale ** (k / count) for k in range(-count, count + 1)]
    guesses = [
        _find_shift(a, b, angle, scale, whiten=False)
        for scale in scales
        for angle in np.arange(0.0, 360.0, _ROTATION_STEP_DEG)
    ]
    guesses.sort(key=lambda g: -g[0])
    return [from_level(matrix, half) for _, matrix in guesses[:_ROTATION_PEAKS]]


def _broad_detail(thumb: Thumbnail, half: int) -> Floats32:
    """Shrunken image of even local contrast, with structures wide enough for coarse steps."""
    small = _shrink(np.sqrt(np.clip(thumb.image - thumb.floor, 0, None)), half)
    band = blur(small, 1.5) - blur(small, 8.0)
    energy = np.sqrt(blur(band * band, 12.0))
    even = np.clip(band / (energy + np.float32(0.05 * float(energy.max()) + 1e-12)), -3, 3)
    section = _shrink(thumb.section, half) > 0.3
    return np.where(section, even, np.float32(0))


def _find_shift(
    a: Floats32, b: Floats32, angle_deg: float, scale: float, *, whiten: bool = True
) -> tuple[float, Matrix]:
    """Find the shift for a given rotation and scale; (strength, post-to-pre matrix).

    The rotation turns the post x axis from x towards y; strength is the height of the peak (of
    either sign) in standard deviations.
    """
    turned = _rotate_about_centres(a.shape, b.shape, angle_deg, scale)
    warped = cv2.warpAffine(
        b, turned[:2], a.shape[::-1], flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    )
    rows, cols = (cv2.getOptimalDFTSize(2 * n) for n in a.shape)
    product = cross_spectrum(a, np.asarray(warped, dtype=np.float32), (rows, cols))
    if whiten:
        magnitude = np.abs(product)
        product /= magnitude + 1e-2 * magnitude.mean() + 1e-20
    values = _soften(backward(product, (rows, cols)))
    peak = int(np.abs(values).argmax())
    row, col = divmod(peak, cols)
    dy, dx = (k - n if k > n // 2 else k for k, n in ((row, rows), (col, cols)))
    # post(x) matches warped(x - d), so the shift comes off before the rotation
    back = np.array([[1.0, 0, -dx], [0, 1, -dy], [0, 0, 1]])
    strength = float(abs(values.flat[peak])) / (float(values.std()) + 1e-12)
    return strength, turned @ back


def _rotate_about_centres(
    post_shape: tuple[int, ...], pre_shape: tuple[int, ...], angle_deg: float, scale: float
) -> Matrix:
    """Similarity that takes the centre of post to the centre of pre."""
    angle = np.deg2rad(angle_deg)
    cos, sin = scale * np.cos(angle), scale * np.sin(angle)
    (y, x), (v, u) = (((n - 1) / 2 for n in shape) for shape in (post_shape, pre_shape))
    return np.array(
        [[cos, -sin, u - cos * x + sin * y], [sin, cos, v - sin * x - cos * y], [0, 0, 1]]
    )


def _soften(values: Floats32) -> Floats32:
    """Blur a periodic correlation a little, so that a peak between samples is not missed."""
    padded = np.pad(values.astype(np.float32), 4, mode="wrap")
    return np.asarray(cv2.GaussianBlur(padded, (0, 0), 1.0)[4:-4, 4:-4], dtype=np.float32)


def _shrink(image: Floats32 | Bools, times: int) -> Floats32:
    for _ in range(times):
        image = halve(image)
    return np.asarray(image, dtype=np.float32)
