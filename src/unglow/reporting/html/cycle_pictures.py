"""Pictures of the cycles of a slide for a page: nuclei over those of the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unglow.core.windows import Window
from unglow.multiplexed.results import SlideRecord, usable
from unglow.reporting.difference_picture import hatch, spoilt_px
from unglow.results.stack import find_stack, open_stack
from unglow.spoilt.saved_places import ARTEFACTS, read_places

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.results.stack import StackImage

_COLOURS = np.array([(255, 138, 31), (0, 117, 224)], np.float32)
"""Of the reference and of another cycle, RGB: they add up to white."""
_SHARE = (1.0, 99.7)
"""Quantiles, %, between which nuclei are stretched."""


def draw_cycles(place: Path, longest: int) -> Iterator[tuple[str, NDArray[np.uint8]]]:
    """Yield a picture of each cycle with its name: orange the reference, blue the cycle.

    Parameters
    ----------
    place
        Directory of a slide. Nothing if it was refused, or has no corrected image.
    longest
        Pictures come from the coarsest level with at least this many px per side.

    Yields
    ------
    Name and picture (rows, cols, 3) BGR; where both lie on each other it is grey, and spoilt
    places of the cycle are hatched.
    """
    stack, record = find_stack(place), place / "slide.json"
    if stack is None or not record.is_file():
        return
    known = SlideRecord.load(record)
    if known.reason is not None:
        return
    slide = usable(known.slide, known.cycles)[0]
    images = dict(zip((one.name for one in slide.kept), open_stack(stack), strict=True))
    first = images.get(slide.registered_on.get(slide.frame_cycle, ""))
    places = read_places(place / ARTEFACTS)
    for cycle in slide.moved_cycles:
        own = images.get(slide.registered_on.get(cycle, ""))
        if first is not None and own is not None:
            drawn = (_stretch(one, longest)[..., None] for one in (first, own))
            both = sum(one * colour for one, colour in zip(drawn, _COLOURS, strict=True))
            pixels = np.rint(both).astype(np.uint8)
            some = [one for one in places if one.cycle == cycle]
            step = 1 << _level(own, longest)
            found = hatch(pixels, spoilt_px(some, pixels.shape[:2], step))
            yield f"cycle {cycle}", np.ascontiguousarray(found[..., ::-1])


def _level(image: StackImage, longest: int) -> int:
    """Return the coarsest level with a side of at least ``longest`` px, or 0."""
    fine = (n for n in range(image.levels) if max(image.level_shape(n)) >= longest)
    return max(fine, default=0)


def _stretch(image: StackImage, longest: int) -> NDArray[np.float32]:
    """Return a small image from 0 to 1, with 0 where there is no data."""
    level = _level(image, longest)
    pixels = image.read(Window.from_shape(image.level_shape(level)), level)
    finite = pixels[np.isfinite(pixels)]
    low, high = np.percentile(finite, _SHARE) if finite.size else (0.0, 1.0)
    return np.clip(np.nan_to_num((pixels - low) / max(high - low, 1e-6)), 0, 1).astype(np.float32)
