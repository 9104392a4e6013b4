"""The channel that shows most, of a cycle whose stain of nuclei is not known by its name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.io.raw_images import survey_blocks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from unglow.io.tiff import TiffHeader
    from unglow.multiplexed.slide import Slide

# Means over squares of this side, px, vary by what is seen and hardly by noise.
_SQUARE = 8


def with_richest(slide: Slide, headers: Sequence[TiffHeader], cycles: Iterable[int]) -> Slide:
    """Return a slide whose `registered_on` holds a channel for each of some cycles.

    Where names do not tell, it is the one whose structures stand out most from its noise, in a
    sample of blocks.

    Raises
    ------
    InputError
        An image cannot be read.
    """
    unknown = set(cycles) - set(slide.registered_on)
    if not unknown:
        return slide
    contrasts: dict[str, float] = {}
    for image, header in enumerate(headers):
        numbers = {one.number: one for one in slide.channels if one.image == image}
        if any(one.cycle in unknown for one in numbers.values()):
            blocks = np.concatenate([_contrast(block) for block in survey_blocks(header)])
            medians = np.median(blocks, axis=0)
            contrasts |= {one.name: medians[number] for number, one in numbers.items()}
    chosen = {
        cycle: max(
            (one.name for one in slide.channels if one.cycle == cycle),
            key=lambda name: contrasts[name],
        )
        for cycle in sorted(unknown)
    }
    return replace(slide, registered_on={**slide.registered_on, **chosen})


def _contrast(block: NDArray[Any]) -> NDArray[np.float64]:
    """Return how far squares differ, in standard deviations of noise, (1, channels)."""
    channels, rows, cols = block.shape
    pixels = block[:, : rows - rows % _SQUARE, : cols - cols % _SQUARE].astype(np.float64)
    squares = pixels.reshape(channels, rows // _SQUARE, _SQUARE, cols // _SQUARE, _SQUARE)
    seen = squares.mean(axis=(2, 4)).std(axis=(1, 2))
    noise = np.abs(np.diff(pixels, axis=2)).mean(axis=(1, 2))
    contrast: NDArray[np.float64] = seen / (noise + 1e-6)
    return contrast[None]
