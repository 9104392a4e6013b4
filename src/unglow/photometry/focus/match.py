"""Scaling a pair whose images are not equally sharp: measure, blur the sharper one, scale again.

Texture that only one image shows bends gain and noise: it looks like noise of that image. So both
are estimated once more, from cells of images that match.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.progress import step
from unglow.core.windows import grid
from unglow.io.zarr.reader import ChunkCache
from unglow.photometry.blur import blur_image
from unglow.photometry.cell_moments import CellMoments
from unglow.photometry.focus import sharpness, spectra
from unglow.photometry.gain.estimate import Evidence, estimate
from unglow.photometry.noise.model import NoiseModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.core.windows import Pixels, Window
    from unglow.photometry.blur import Blur, Sharpness
    from unglow.photometry.gain.scale import Scale, ScaleSettings

BLOCK_PX = 512
"""Side of the blocks that cells of matching images are taken from: a chunk of a store, px."""
BLOCKS = 512
"""At most so many blocks are read, all over the image: 134 Mpx of it."""


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
    plain = estimate(evidence, settings)
    if settings.match_blur == "never":
        return plain
    compared = _sharpness(evidence, images, plain)
    blur = None if compared is None else compared.blur
    if compared is None or blur is None or evidence.bins is None:
        return replace(plain, sharpness=compared)
    bins = take_matched_cells(evidence.bins, images, blur)
    matched = estimate(replace(evidence, bins=bins, blur=blur), settings)
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
        NoiseModel.from_json(noise),
        transform,
    )
    return sharpness.compare(measured, gain)


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


def _cut(block: NDArray[np.float32], window: Window, shape: tuple[int, int], reach: int) -> None:
    """Take the rim away where the image goes on beyond a window, in place."""
    if window.y0 > 0:
        block[:reach] = np.nan
    if window.y1 < shape[0]:
        block[-reach:] = np.nan
    if window.x0 > 0:
        block[:, :reach] = np.nan
    if window.x1 < shape[1]:
        block[:, -reach:] = np.nan
