"""Scaling a pair whose images are not equally sharp: measure, blur the sharper one, scale again.

Texture that only one image shows bends gain and noise: it looks like noise of that image. So both
are estimated once more, from cells of images that match.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from unglow.core.progress import step
from unglow.core.records import to_record
from unglow.core.rounding import round_digits
from unglow.core.windows import grid
from unglow.images.zarr.reader import ChunkCache
from unglow.photometry import spectra
from unglow.photometry.cell_moments import CellMoments
from unglow.photometry.gain.estimate import Evidence, estimate
from unglow.photometry.gain.warnings import level_warnings
from unglow.photometry.imaging import WIDEST, NoiseModel, Sharpness, blur_image
from unglow.photometry.spectra import COUNTS, RADII, SQUARES

if TYPE_CHECKING:
    from unglow.core.arrays import Floats, Floats32
    from unglow.core.windows import Pixels, Window
    from unglow.photometry.gain.scale import Scale, ScaleSettings
    from unglow.photometry.imaging import Blur
    from unglow.photometry.spectra import Spectra


LEAST_PX = 0.3
"""Widths below this are left alone: resampling alone makes 0.2 px."""
LEAST_GAIN = 0.02
"""Part by which the residual power of held-out blocks has to fall, noise included."""
LEAST_BLOCKS = 12
"""Fewest blocks that give a width."""
# The width has to differ from 0, and the residual power of held-out blocks to fall, by this many
# standard errors.
_SIGMAS, _HELD_OUT_SIGMAS = 4.0, 3.0
# Groups of blocks that are excluded one after another for the standard error, and sets that are
# held out.
_GROUPS, _FOLDS = 10, 4
# Noise and widths are fitted one after another so often; a width in this many steps of at most so
# much (px^2), until a step is shorter than the last one.
_ROUNDS, _STEPS, _LONGEST, _LAST = 4, 30, 0.5, 1e-7
# A determinant below this share of the product of the diagonal is 0; and keeps sums above 0.
_SINGULAR, _TINY = 1e-12, 1e-300
# Frequencies are used as far as both images have more texture than noise, but at least this many.
_FEWEST = 5
# Texture is extrapolated to where the Gaussian is exp(-2); noise is looked for in the last third.
_FADED, _NOISY = 2.0, 2 / 3
# Least and largest noise as parts of what the model predicts.
_NOISE_RANGE = 1e-2, 1e3
# Residuals that are this many times the usual ones are stain, and count less.
_STAINED = 1.5
_MOST = WIDEST**2


def compare(spectra: Spectra, gain: float) -> Sharpness | None:
    """Compare the sharpness of a pair in blocks all over the section; None if they are too few.

    ``gain`` is that of the background, to weigh blocks with.
    """
    if len(spectra) < LEAST_BLOCKS:
        return None
    weights = _weigh_frequencies(spectra, gain)
    group = np.arange(len(spectra)) % _GROUPS
    kept = np.concatenate([np.ones((1, len(group)), bool), group != np.arange(_GROUPS)[:, None]])
    fits = _fit(spectra.sums(weights * kept))
    scatter = np.std([fits.low[1:], fits.high[1:]], axis=1) * math.sqrt(_GROUPS - 1)
    s, error = float(fits.s[0]), float(scatter.max())
    ratio, sigmas = _score_held_out(spectra, weights)
    worth = (
        fits.low[0] * fits.high[0] > 0
        and LEAST_PX**2 <= abs(s) < _MOST
        and abs(s) > _SIGMAS * error
        and ratio <= 1 - LEAST_GAIN
        and sigmas <= -_HELD_OUT_SIGMAS
    )
    sharper: Literal["pre", "post"] = "pre" if s > 0 else "post"
    return Sharpness(
        width_px=round_digits(math.copysign(math.sqrt(abs(s)), s), 5),
        error_px=round_digits(math.sqrt(abs(s) + error) - math.sqrt(abs(s)), 5),
        blurred=sharper if worth else None,
        held_out=round_digits(ratio, 5),
        blocks=len(spectra),
    )


@dataclass(frozen=True, eq=False, slots=True)
class _Fits:
    """Gains and the two values of s of M fits, and (M, 2) the noise of post and pre.

    The noise is over that of the model.
    """

    gain: Floats
    low: Floats
    high: Floats
    noise: Floats

    @property
    def s(self) -> Floats:
        return (self.low + self.high) / 2


def _weigh_frequencies(spectra: Spectra, gain: float) -> Floats:
    """Weigh blocks by the noise that is expected of them, and less where there is stain."""
    expected = (spectra.post_noise + gain**2 * spectra.pre_noise).mean(axis=1)
    rest = (spectra.post - 2 * gain * spectra.raw + gain**2 * spectra.pre).mean(axis=1) / expected
    rest /= max(float(np.median(rest)), np.finfo(float).tiny)
    return np.asarray(1 / (expected * np.maximum(1, rest / _STAINED)))


def _fit(sums: Spectra) -> _Fits:
    """Fit both ratios to sums over blocks, and the noise that is left at high frequencies.

    The sums are (M, bins), one row for each fit.
    """
    noise = np.ones((len(sums), 2))
    for _ in range(_ROUNDS):
        of_post, of_pre = noise[:, :1] * sums.post_noise, noise[:, 1:] * sums.pre_noise
        post, pre = sums.post - of_post, sums.pre - of_pre
        used = np.cumprod((post > of_post) & (pre > of_pre), axis=1)
        used[:, :_FEWEST] = 1
        gain, high = _ratio(sums.shared, pre, used * COUNTS / (sums.post * sums.pre))
        _, low = _ratio(post, sums.shared, used * COUNTS / sums.post**2)
        fits = _Fits(gain, low, high, noise)
        noise = _noise(sums, gain, fits.s)
    return fits


def _ratio(above: Floats, below: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Fit above = gain * exp(-s v) * below, v half the squared frequency, by Gauss and Newton.

    All are (M, bins), gain and s (M,). A fit that does not say both stays where it is.
    """
    few = slice(_FEWEST)
    across = (weights * below * above)[:, few].sum(axis=1)
    gain = across / np.maximum((weights * below * below)[:, few].sum(axis=1), _TINY)
    s, moves = np.zeros(len(gain)), np.ones(len(gain), bool)
    for _ in range(_STEPS):
        shape = np.exp(-s[:, None] * SQUARES) * below
        slope = -SQUARES * gain[:, None] * shape
        left = weights * (above - gain[:, None] * shape)
        (aa, ab, bb), (a, b) = (
            [(one * other).sum(axis=1) for one, other in pairs]
            for pairs in (
                ((weights * shape, shape), (weights * shape, slope), (weights * slope, slope)),
                ((left, shape), (left, slope)),
            )
        )
        determinant = aa * bb - ab * ab
        moves &= determinant > _SINGULAR * aa * bb
        determinant = np.where(moves, determinant, np.inf)
        gain = gain + (bb * a - ab * b) / determinant
        step = (aa * b - ab * a) / determinant
        s = np.clip(s + np.clip(step, -_LONGEST, _LONGEST), -_MOST, _MOST)
        moves &= np.abs(step) >= _LAST
        if not moves.any():
            break
    return gain, s


def _noise(sums: Spectra, gain: Floats, s: Floats) -> Floats:
    """Return the power not shared at high frequencies, over the noise of the model, (M, 2)."""
    seen = np.abs(s)[:, None] * SQUARES <= _FADED
    radii = RADII / np.where(seen, RADII, RADII[_FEWEST]).max(axis=1, keepdims=True)
    counts = COUNTS * ((radii <= 1) & (radii >= _NOISY))
    transfer = gain[:, None] * np.exp(-s[:, None] * SQUARES)
    of_post = (counts * (sums.post - transfer * sums.shared)).sum(axis=1)
    of_pre = (counts * (sums.pre - sums.shared / transfer)).sum(axis=1)
    post = of_post / (counts * sums.post_noise).sum(axis=1)
    pre = of_pre / (counts * sums.pre_noise).sum(axis=1)
    return np.asarray(np.clip(np.stack([post, pre], axis=1), *_NOISE_RANGE))


def _score_held_out(spectra: Spectra, weights: Floats) -> tuple[float, float]:
    """Residual power of blocks kept out of the fit, with the blur over without.

    Blurring lowers noise as well, which proves nothing: power is counted above the noise of each
    choice, and the noise of the images as they are is added to both.

    Returns
    -------
    The ratio, and the difference over blocks in standard errors.
    """
    fold = np.arange(len(spectra)) % _FOLDS
    sums = spectra.sums(weights * (fold != np.arange(_FOLDS)[:, None]))
    fits = _fit(sums)
    pre = sums.pre - fits.noise[:, 1:] * sums.pre_noise
    low = slice(2 * _FEWEST)
    gains = (sums.raw * COUNTS)[:, low].sum(axis=1) / (pre * COUNTS)[:, low].sum(axis=1)
    plain, matched, noise = (np.zeros(len(spectra)) for _ in range(3))
    for k, (gain, own) in enumerate(zip(gains, fits.noise, strict=True)):
        out = fold == k
        tested = spectra.select(out)
        plain[out] = _excess(tested, gain, 0.0, own)
        matched[out] = _excess(tested, fits.gain[k], fits.s[k], own)
        of_post, of_pre = tested.post_noise * own[0], tested.pre_noise * own[1]
        noise[out] = (of_post + gain**2 * of_pre) @ COUNTS
    change = weights * (matched - plain)
    total = float((weights * (plain + noise)).sum())
    scatter = float(change.std()) * math.sqrt(len(change))
    return (
        1 + float(change.sum()) / max(total, np.finfo(float).tiny),
        float(change.sum()) / max(scatter, np.finfo(float).tiny),
    )


def _excess(spectra: Spectra, gain: float, s: float, noise: Floats) -> Floats:
    """Power of the residual above its noise, (N,), where the sharper image is blurred by s."""
    blurred = np.exp(-abs(s) * SQUARES)
    of_post, of_pre = (1.0, gain * blurred) if s > 0 else (blurred, gain)
    power = of_post**2 * (spectra.post - noise[0] * spectra.post_noise)
    power += of_pre**2 * (spectra.pre - noise[1] * spectra.pre_noise)
    power -= 2 * of_post * of_pre * spectra.raw
    return np.asarray(power @ COUNTS)


BLOCK_PX = 512
"""Side of the blocks that cells of matching images are taken from: a chunk of a store, px."""
BLOCKS = 512
"""At most this many blocks are read, all over the image: 134 Mpx of it."""


def estimate_matched(
    evidence: Evidence, images: tuple[Pixels, Pixels], settings: ScaleSettings
) -> Scale:
    """Estimate gain and offset as `estimate` does, of images as sharp as each other.

    Parameters
    ----------
    evidence
        Of the images as they are.
    images
        Raw post, and pre in its frame (NaN without data): a bounded number of blocks is read.
    settings
        ``match_blur: never`` leaves sharpness alone.
    """
    scale = _match(evidence, images, settings)
    lost = [] if settings.bright_field else level_warnings(evidence.stats)
    return replace(scale, reasons=(*lost, *scale.reasons))


def _match(evidence: Evidence, images: tuple[Pixels, Pixels], settings: ScaleSettings) -> Scale:
    """Estimate gain and offset, once more where one of the images has to be blurred."""
    plain = estimate(evidence, settings)
    if settings.match_blur == "never":
        return plain
    compared = _sharpness(evidence, images, plain)
    blur = None if compared is None else compared.blur
    if compared is None or blur is None or evidence.bins is None:
        return replace(plain, sharpness=compared)
    bins = take_matched_cells(evidence.bins, images, blur)
    matched = estimate(replace(evidence, bins=bins, blur=blur), settings, known=plain)
    if matched.default != plain.default or "noise" not in matched.default_result.details:
        # too little is left of a small overlap
        return replace(plain, sharpness=replace(compared, blurred=None))
    return replace(matched, sharpness=compared)


def _sharpness(evidence: Evidence, images: tuple[Pixels, Pixels], scale: Scale) -> Sharpness | None:
    """Compare the images in blocks all over the section; None where that cannot be done."""
    noise, gain = scale.default_result.details.get("noise"), scale.default_result.gain
    bins, transform = evidence.bins, evidence.transform
    if noise is None or gain is None or bins is None or transform is None:
        return None
    post, pre = (ChunkCache(image, kept=1) for image in images)
    measured = spectra.measure(
        (post.read, pre.read),
        spectra.choose_textured(bins),
        bins.tops,
        to_record(noise, NoiseModel),
        transform,
    )
    return compare(measured, gain)


@step("match focus")
def take_matched_cells(bins: CellMoments, images: tuple[Pixels, Pixels], blur: Blur) -> CellMoments:
    """Take the cells once more, of images of which one is blurred.

    Saturated px have no weight in the blur, nor are they used. Cells at the edges of blocks, which
    the blur would need other px for, stay empty; of images of more than `BLOCKS` blocks, so do
    those of blocks that are not read.
    """
    made = CellMoments.create(bins.shape, bins.tops)
    windows = list(grid(bins.shape, (BLOCK_PX, BLOCK_PX)))
    for window in windows[:: -(-len(windows) // BLOCKS)]:
        blocks = [np.array(image.read(window), np.float32) for image in images]
        for block, top in zip(blocks, bins.tops, strict=True):
            block[block >= top] = np.nan
        number = ("post", "pre").index(blur.image)
        blocks[number] = blur_image(blocks[number], blur.taps)
        _cut(blocks[number], window, bins.shape, blur.reach)
        made.add(blocks[0], blocks[1], (window.y0, window.x0))
    return made


def _cut(block: Floats32, window: Window, shape: tuple[int, int], reach: int) -> None:
    """Take the rim away where the image continues beyond a window, in place."""
    if window.y0 > 0:
        block[:reach] = np.nan
    if window.y1 < shape[0]:
        block[-reach:] = np.nan
    if window.x0 > 0:
        block[:, :reach] = np.nan
    if window.x1 < shape[1]:
        block[:, -reach:] = np.nan
