"""Scaling a pair whose images are not equally sharp: measure, blur the sharper one, scale again.

Texture that only one image shows bends gain and noise: it looks like noise of that image. So both
are estimated once more, from cells of images that match.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.progress import step
from unglow.core.windows import grid
from unglow.io.zarr.chunk_cache import ChunkCache
from unglow.photometry.blur import blurred
from unglow.photometry.cell_moments import BinSamples
from unglow.photometry.focus import sharpness, spectra
from unglow.photometry.gain.estimate import Evidence, estimate
from unglow.photometry.noise.model import NoiseModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.core.windows import Pixels, Window
    from unglow.photometry.blur import Blur
    from unglow.photometry.focus.sharpness import Sharpness
    from unglow.photometry.gain.scale import Scale, ScaleSettings

PIECE = 512
"""Side of the pieces that cells of matching images are taken from: a chunk of a store, px."""
PIECES = 512
"""At most so many pieces are read, on a lattice all over the image."""


@dataclass(frozen=True, eq=False, slots=True)
class Images:
    """Raw post, and pre in its frame (NaN without data)."""

    post: Pixels
    pre: Pixels


def estimate_matched(evidence: Evidence, images: Images, settings: ScaleSettings) -> Scale:
    """Estimate gain and offset as `estimate` does, of images as sharp as each other.

    Parameters
    ----------
    evidence
        Of the images as they are.
    images
        The pixels, of which a bounded number of blocks is read.
    settings
        ``match_blur: never`` leaves sharpness alone.

    Returns
    -------
    The scale, with the sharpness where it could be told.
    """
    plain = estimate(evidence, settings)
    if settings.match_blur == "never":
        return plain
    found = _sharpness(evidence, images, plain)
    blur = None if found is None else found.blur
    if blur is None or evidence.bins is None:
        return replace(plain, sharpness=found)
    bins = matched_bins(evidence.bins, images, blur)
    matched = estimate(replace(evidence, bins=bins, blur=blur), settings)
    if matched.default != plain.default or "noise" not in matched.chosen.details:
        # too little is left of a small overlap
        return replace(plain, sharpness=replace(found, blurred=None) if found else None)
    return replace(matched, sharpness=found)


def _sharpness(evidence: Evidence, images: Images, scale: Scale) -> Sharpness | None:
    """Compare the images in blocks all over the section; None where that cannot be done."""
    noise, gain = scale.chosen.details.get("noise"), scale.chosen.gain
    bins, transform = evidence.bins, evidence.transform
    if noise is None or gain is None or bins is None or transform is None:
        return None
    post, pre = (ChunkCache(image, kept=1) for image in (images.post, images.pre))
    measured = spectra.measure(
        (post.read, pre.read),
        spectra.textured(bins),
        bins.tops,
        NoiseModel.from_json(noise),
        transform,
    )
    return sharpness.find(measured, gain)


@step("match focus")
def matched_bins(bins: BinSamples, images: Images, blur: Blur) -> BinSamples:
    """Take the cells once more, of images of which one is blurred.

    Saturated px have no weight in the blur, nor are they used. Cells at the edges of pieces, which
    the blur would need other px for, stay empty; of images of more than `PIECES` pieces, so do
    those of pieces that are not read.
    """
    made = BinSamples.create(bins.shape, bins.tops)
    pieces = list(grid(bins.shape, (PIECE, PIECE)))
    for window in pieces[:: -(-len(pieces) // PIECES)]:
        blocks = {
            "post": np.array(images.post.read(window), np.float32),
            "pre": np.array(images.pre.read(window), np.float32),
        }
        for block, top in zip(blocks.values(), bins.tops, strict=True):
            block[block >= top] = np.nan
        block = blurred(blocks[blur.image], blur.taps)
        _cut(block, window, bins.shape, blur.reach)
        blocks[blur.image] = block
        made.add(blocks["post"], blocks["pre"], (window.y0, window.x0))
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
