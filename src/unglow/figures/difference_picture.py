"""A difference as a picture in which stain stands out: colours in units of noise, spoilt places.

Noise is black over a dim picture of the section, what is brighter in post goes from brown to white,
what is darker is dark blue: hues and brightness that the colour-blind distinguish. The cycles of a
slide have a picture too, with the same hatching of spoilt places.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from unglow.core.windows import Window
from unglow.images.artefacts import ARTEFACTS, read_places
from unglow.review.polygons import Polygon

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from unglow.core.arrays import Bools, Bytes, Floats, Floats32
    from unglow.images.artefacts import SavedPlace
    from unglow.results.stack import StackImage


BLACK_TO = 2.0
"""Differences up to this many times their noise are black."""
NO_DATA = (201, 204, 209)
"""Light grey, RGB."""
HATCH = (43, 180, 85)
"""Green, RGB: stands out from black, orange, blue and grey."""
# A spot this many times as bright as noise has the brightest colour, or more in a bright image.
_LEAST_TOP = 15.0
_BRIGHTEST = 99.98  # percentile
_BRIGHTNESSES = 16
_MAD_TO_SIGMA = 1.4826
# Noise is at least this part of the typical one: where px are cut off at 0 there is none.
_LEAST_NOISE = 0.2
_ENOUGH = 1 << 16
# From the darkest blue over black to white, equally far apart on each side.
_NEGATIVE = ((38, 104, 176), (12, 52, 104))
_POSITIVE = ((0, 0, 0), (110, 40, 10), (222, 100, 16), (255, 190, 60), (255, 250, 225))
_HATCH_PX = 7
_ROWS = 64  # drawn together, which takes little memory
_CYCLES = np.array([(255, 138, 31), (0, 117, 224)], np.float32)
"""Colours of the reference and of another cycle, RGB: they add up to white."""
_STRETCHED = (1.0, 99.7)
"""Quantiles, %, between which nuclei are stretched."""
_DIM = 44  # brightest grey of the section under the colours
_PLACES = (*np.linspace(-1, 0, len(_NEGATIVE) + 1)[:-1], *np.linspace(0, 1, len(_POSITIVE)))
_TABLE = np.rint(
    [
        np.interp(np.linspace(-1, 1, 511), _PLACES, channel)
        for channel in zip(*_NEGATIVE, *_POSITIVE, strict=True)
    ]
).T.astype(np.uint8)


@dataclass(frozen=True, eq=False, slots=True)
class NoiseColours:
    """Colours of a difference in units of its noise, which depends on the background.

    Attributes
    ----------
    background
        (n,) brightness of the background, grey levels, rising.
    noise
        (n,) standard deviation of the difference where the background is that bright.
    top
        Multiple of the noise that has the brightest colour.
    """

    background: Floats
    noise: Floats
    top: float

    @classmethod
    def from_difference(cls, difference: Floats32, background: Floats32 | None = None) -> Self:
        """Measure the noise of an overview, both (rows, cols); NaN is left out.

        Without a background, noise is the same everywhere.
        """
        every = max(1, round((difference.size / _ENOUGH) ** 0.5))
        values = difference[::every, ::every]
        bright = np.zeros_like(values) if background is None else background[::every, ::every]
        known = np.isfinite(values) & np.isfinite(bright)
        values, bright = values[known], bright[known]
        if not values.size:
            return cls(np.zeros(1), np.ones(1), _LEAST_TOP)
        ends = np.unique(np.quantile(bright, np.linspace(0, 1, _BRIGHTNESSES + 1)[1:-1]))
        group = np.searchsorted(ends, bright, side="right")
        parts = [group == n for n in range(len(ends) + 1) if (group == n).any()]
        at = np.array([float(np.median(bright[part])) for part in parts])
        away = [np.abs(values[part] - np.median(values[part])) for part in parts]
        noise = np.array([_MAD_TO_SIGMA * float(np.median(one)) for one in away])
        typical = float(np.median(noise[noise > 0])) if (noise > 0).any() else 1.0
        colours = cls(at, np.maximum(noise, _LEAST_NOISE * typical), _LEAST_TOP)
        top = float(np.percentile(colours.normalise(values, bright), _BRIGHTEST))
        return cls(colours.background, colours.noise, max(top, _LEAST_TOP))

    def normalise(self, difference: Floats32, background: Floats32 | None = None) -> Floats32:
        """Return a difference in units of its noise; NaN stays."""
        noise = np.interp(0.0 if background is None else background, self.background, self.noise)
        return np.asarray(difference / noise, np.float32)

    def pixels(self, difference: Floats32, background: Floats32 | None = None) -> Bytes:
        """Return RGB of a difference, (rows, cols, 3), over the dim background if it is given."""
        out = np.empty((*difference.shape, 3), np.uint8)
        for start in range(0, len(out), _ROWS):
            rows = slice(start, start + _ROWS)
            below = None if background is None else background[rows]
            out[rows] = self.shades(self.normalise(difference[rows], below))
            if below is not None:
                np.maximum(out[rows], self._dim(below)[..., None], out=out[rows])
        return out

    def _dim(self, background: Floats32) -> Bytes:
        span = max(float(self.background[-1] - self.background[0]), 1e-6)
        unit = np.clip((background - self.background[0]) / span, 0, 1)
        return np.asarray(np.nan_to_num(_DIM * np.sqrt(unit)), np.uint8)

    def shades(self, in_noise: Floats32) -> Bytes:
        """Return RGB of multiples of noise of any shape, (..., 3); `NO_DATA` for NaN."""
        out = _TABLE[np.rint(255 + 255 * np.nan_to_num(self.place(in_noise))).astype(np.intp)]
        out[np.isnan(in_noise)] = NO_DATA
        return out

    def place(self, in_noise: Floats32 | float) -> Floats:
        """Return where multiples of noise are on the scale of colours, -1 to 1: logarithmic."""
        size = np.maximum(np.abs(in_noise), BLACK_TO) / BLACK_TO
        share = np.minimum(np.log(size) / np.log(self.top / BLACK_TO), 1)
        return np.asarray(np.copysign(share, in_noise))


@dataclass(frozen=True, eq=False, slots=True)
class Painted:
    """An overview of a difference, RGB (rows, cols, 3), and which colours it has."""

    colours: NoiseColours
    pixels: Bytes


def paint(
    difference: Floats32, background: Floats32 | None, spoilt: Sequence[SavedPlace], step: int
) -> Painted:
    """Return an overview (``step`` level-0 px per px) in colours that spoilt places do not rule."""
    left_out = spoilt_px(spoilt, difference.shape, step)
    colours = NoiseColours.from_difference(
        np.where(left_out, np.float32(np.nan), difference), background
    )
    return Painted(colours, colours.pixels(difference, background))


def spoilt_px(places: Sequence[SavedPlace], shape: tuple[int, int], step: int) -> Bools:
    """Return which px of an overview (rows, cols), ``step`` level-0 px each, are in places."""
    out = np.zeros(shape, np.bool_)
    for place in places:
        for rings in place.polygons:
            polygon = Polygon.from_rings([ring[:-1] / step - 0.5 for ring in rings])
            window = polygon.box.clip(shape)
            out[window.slices] |= polygon.to_mask(window)
    return out


def hatch(pixels: Bytes, spoilt: Bools) -> Bytes:
    """Return RGB with oblique lines over spoilt px, and a line around them."""
    row, col = np.ogrid[: spoilt.shape[0], : spoilt.shape[1]]
    inner = spoilt.copy()
    for axis in (0, 1):
        for by in (-1, 1):
            inner &= np.roll(spoilt, by, axis)
    out = pixels.copy()
    out[spoilt & (((row + col) % _HATCH_PX == 0) | ~inner)] = HATCH
    return out


def draw_cycles(place: Path, longest: int) -> Iterator[tuple[str, Bytes]]:
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
    from unglow.results.slide_files import SlideRecord, usable  # slides
    from unglow.results.stack import find_stack, open_stack  # tifffile

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
            both = sum(one * colour for one, colour in zip(drawn, _CYCLES, strict=True))
            pixels = np.rint(both).astype(np.uint8)
            some = [one for one in places if one.cycle == cycle]
            step = 1 << _choose_level(own, longest)
            found = hatch(pixels, spoilt_px(some, pixels.shape[:2], step))
            yield f"cycle {cycle}", np.ascontiguousarray(found[..., ::-1])


def _choose_level(image: StackImage, longest: int) -> int:
    """Return the coarsest level with a side of at least ``longest`` px, or 0."""
    fine = (n for n in range(image.levels) if max(image.level_shape(n)) >= longest)
    return max(fine, default=0)


def _stretch(image: StackImage, longest: int) -> Floats32:
    """Return a small image from 0 to 1, with 0 where there is no data."""
    level = _choose_level(image, longest)
    pixels = image.read(Window.from_shape(image.level_shape(level)), level)
    finite = pixels[np.isfinite(pixels)]
    low, high = np.percentile(finite, _STRETCHED) if finite.size else (0.0, 1.0)
    return np.clip(np.nan_to_num((pixels - low) / max(high - low, 1e-6)), 0, 1).astype(np.float32)
