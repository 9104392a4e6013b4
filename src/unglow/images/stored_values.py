"""What the pixels of a store mean: grey levels and their range, and where there are no data.

Writers exclude tiles and chunks without a section on purpose; a copy that was cut off lacks them
as well. Others write one value there (`unglow.images.constant_places`). `ingest` finds both, and
keeps them as rectangles in the attributes of the store. There are no data there, and never 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import msgspec
import numpy as np

from unglow.core.records import to_record
from unglow.core.windows import SamePixels, Window, merge_runs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from unglow.core.arrays import Array, Bools, Floats32, Ints
    from unglow.core.windows import Pixels


GREY_STEP = 1 / 32
"""What is computed from integer grey levels is rounded to multiples of this."""
_STEP_PX, _EVEN = 127, 0.05
"""How far around the middle px grey levels are looked at, and to which part of their step they are
multiples of it."""


def quantise(block: Floats32, step: float = GREY_STEP) -> Floats32:
    """Round to multiples of ``step`` grey levels, in place; NaN stays NaN. Returns ``block``.

    Half a step is far below the noise of integer sources and more than halves the stored size. With
    a power of two for ``step`` the results are exact.
    """
    np.multiply(block, np.float32(1 / step), out=block)
    np.rint(block, out=block)
    np.multiply(block, np.float32(step), out=block)
    return block


def has_grey_levels(attributes: Mapping[str, Any]) -> bool:
    """Say whether a raw store with these attributes holds integer grey levels.

    What is derived from them may be rounded.
    """
    return bool(attributes["grey_levels"] == "integer")


def value_range(attributes: Mapping[str, Any]) -> tuple[float, float]:
    """Return the exact smallest and largest value of a raw store with these attributes."""
    statistics = attributes["statistics"]
    return float(statistics["min"]), float(statistics["max"])


def grey_level(ranges: tuple[tuple[float, float], ...], *, integer: bool) -> float:
    """Return one grey level: 1 for integers alone, 1/4096 of the wider range for real ones."""
    if integer:
        return 1.0
    widest = max(high - low for low, high in ranges)
    level = 2.0 ** math.floor(math.log2(widest / 4096)) if widest > 0 else 0.5
    return 0.5 if level == 1 else level


def measure_step(image: Pixels) -> float:
    """Return the distance of the grey levels that occur in the middle of an image; 0 for none.

    Of 8 bit stored as multiples of 257 it is 257, and of real numbers it is that of the integers
    that they were.
    """
    rows, cols = (n // 2 for n in image.shape)
    block = image.read(Window(rows, rows + 1, cols, cols + 1).grow(_STEP_PX).clip(image.shape))
    apart = np.diff(np.unique(block[np.isfinite(block)]).astype(np.float64))
    if not apart.size:
        return 0.0
    steps = apart / apart.min()
    return float(apart.min()) if np.abs(steps - np.rint(steps)).max() < _EVEN else 0.0


_BELOW, _PILE, _PILE_PX = 1 / 256, 2, 16


def find_below_top(ends: tuple[float, float], step: float) -> float:
    """Return the level from which on px lie just below the largest value, or have it.

    It is a step of the grey levels lower, or 1/256 of the range of values, whichever is more.
    """
    return ends[1] - max(step, _BELOW * (ends[1] - ends[0]))


def is_pile(at_top: int, from_below: int) -> bool:
    """Say whether the px at the largest value are a pile: saturated, and not the brightest ones.

    They are 16 at least, and more than twice as many as those just below (`find_below_top`);
    ``from_below`` counts both.
    """
    return at_top >= _PILE_PX and at_top > _PILE * (from_below - at_top)


ATTRIBUTE = "not_stored"
"""Of the root of a store; absent where everything is stored."""
MOST_RECTANGLES = 4096
"""Where merged neighbours are still more rectangles than this, fewer and larger ones cover them,
and what they cover next to counts as not stored too."""

_CELL = 16
"""Rectangles of constant px have sides of multiples of this many px."""

MOST_SHARE, LEAST_SHARE = 0.2, 0.001
"""What is lost of a section is too much above the former share, and no reason for a warning below
the latter."""


class _Attribute(msgspec.Struct):
    """Of the root of a store, as `MissingTiles.to_json` writes it."""

    file: str
    unit: str
    count: int
    of: int
    share: float
    rectangles_px: list[tuple[int, int, int, int]]
    values: tuple[float, ...] = ()


@dataclass(frozen=True)
class MissingTiles:
    """Where an image has no data: what it does not store, and what has one value instead.

    Attributes
    ----------
    file
        Name of the image, without directory.
    unit
        ``tiles``, ``strips`` or ``chunks``.
    count, units
        How many of them are not stored, of how many; 0 if only ``values`` are instead of data.
    share
        Share (0 to 1) of the px of level 0 that the rectangles cover.
    rectangles
        Level-0 px; no two share a px.
    values
        What constant px have that were not imaged, in ascending order.
    """

    file: str
    unit: str
    count: int
    units: int
    share: float
    rectangles: tuple[Window, ...]
    values: tuple[float, ...] = ()

    @classmethod
    def from_grid(
        cls, missing: Bools, unit: tuple[int, int], shape: tuple[int, int], file: str, kind: str
    ) -> Self | None:
        """Return the missing parts of a grid, or None if there are none.

        Parameters
        ----------
        missing
            (down, across) bool: which tiles, strips or chunks are not stored.
        unit
            (rows, columns) of one of them, px.
        shape
            (rows, columns) of level 0, px.
        file, kind
            Name of the image; ``tiles``, ``strips`` or ``chunks``.
        """
        count = int(np.count_nonzero(missing))
        if not count:
            return None
        grid, side = missing, unit
        found = list(merge_runs(grid))
        while len(found) > MOST_RECTANGLES:
            grid, side = _coarsen(grid), (2 * side[0], 2 * side[1])
            found = list(merge_runs(grid))
        rows, cols = side
        rectangles = tuple(
            Window(w.y0 * rows, w.y1 * rows, w.x0 * cols, w.x1 * cols).clip(shape) for w in found
        )
        share = sum(w.size for w in rectangles) / math.prod(shape)
        return cls(file, kind, count, missing.size, share, rectangles)

    @classmethod
    def join(
        cls,
        stored: MissingTiles | None,
        constant: Mapping[Window, float],
        shape: tuple[int, int],
        file: str,
    ) -> MissingTiles | None:
        """Add constant places that were not imaged, with their values, to what is not stored."""
        if not constant:
            return stored
        base = stored or cls(file, "px", 0, 0, 0.0, ())
        rectangles = (*base.rectangles, *sorted(constant))
        share = sum(w.size for w in rectangles) / math.prod(shape)
        if len(rectangles) > MOST_RECTANGLES:
            grid = np.zeros([-(-n // _CELL) for n in shape], np.bool_)
            for w in rectangles:
                grid[w.y0 // _CELL : -(-w.y1 // _CELL), w.x0 // _CELL : -(-w.x1 // _CELL)] = True
            coarse = cls.from_grid(grid, (_CELL, _CELL), shape, file, "px")
            rectangles, share = (coarse.rectangles, coarse.share) if coarse else ((), 0.0)
        values = tuple(sorted(set(constant.values())))
        return replace(base, rectangles=rectangles, share=share, values=values)

    @classmethod
    def from_attributes(cls, attributes: Mapping[str, Any]) -> Self | None:
        """Return what the attributes of a store say; None if everything is stored.

        RecordError if they cannot be what `to_json` gave.
        """
        entry = attributes.get(ATTRIBUTE)
        if entry is None:
            return None
        one = to_record(entry, _Attribute)
        rectangles = tuple(Window(y0, y1, x0, x1) for y0, x0, y1, x1 in one.rectangles_px)
        return cls(one.file, one.unit, one.count, one.of, one.share, rectangles, one.values)

    def to_json(self) -> dict[str, Any]:
        """Return the attribute; rectangles are [y0, x0, y1, x1]."""
        return {
            "file": self.file,
            "unit": self.unit,
            "count": self.count,
            "of": self.units,
            "share": self.share,
            "rectangles_px": [[w.y0, w.x0, w.y1, w.x1] for w in self.rectangles],
            **({"values": list(self.values)} if self.values else {}),
        }

    @property
    def description(self) -> str:
        """How many parts are not stored, and what is there instead, without a full stop."""
        parts = []
        if self.count:
            are = "is" if self.count == 1 else "are"
            parts = [f"{self.count} of {self.units} {self.unit} of {self.file} {are} not stored"]
        if self.values:
            values = " or ".join(f"{value:g}" for value in self.values[:3])
            parts += ["all is {} around x {:g}, y {:g}".format(values, *self.place)]
        return ", and ".join(parts)

    @property
    def place(self) -> tuple[float, float]:
        """Centre (x, y) of the largest rectangle, level-0 px."""
        largest = max(self.rectangles, key=lambda w: w.size)
        return (largest.x0 + largest.x1) / 2, (largest.y0 + largest.y1) / 2

    def clip_to(self, window: Window, level: int = 0, grown: int = 0) -> Iterator[Window]:
        """Yield the parts of the rectangles in a window of a level, in px from its corner.

        A px of a coarse level is one of them if any of its level-0 px is. ``grown`` px of level 0
        around each rectangle are taken with it.
        """
        side = 2**level
        y0, y1, x0, x1 = self._edges
        y0, y1 = (y0 - grown) // side, -(-(y1 + grown) // side)
        x0, x1 = (x0 - grown) // side, -(-(x1 + grown) // side)
        near = (y0 < window.y1) & (y1 > window.y0) & (x0 < window.x1) & (x1 > window.x0)
        for edges in zip(*(edge[near].tolist() for edge in (y0, y1, x0, x1)), strict=True):
            yield Window(*edges).common(window).shift(-window.y0, -window.x0)

    @cached_property
    def _edges(self) -> Ints:
        """Edges of all rectangles: (4, count), rows and columns y0, y1, x0, x1."""
        edges = [(w.y0, w.y1, w.x0, w.x1) for w in self.rectangles]
        return np.array(edges, np.int64).reshape(-1, 4).T

    def mask(self, window: Window, level: int = 0) -> Bools:
        """Return which px of a window of a level have no data, ``window.shape`` bool."""
        out = np.zeros(window.shape, np.bool_)
        for part in self.clip_to(window, level):
            out[part.slices] = True
        return out


class StoredPixels(SamePixels):
    """An image whose px that are not stored are NaN, as `unglow.core.windows.Pixels`.

    Parameters
    ----------
    image
        The image with its pyramid, any real dtype.
    not_stored
        What it does not store.
    """

    def __init__(self, image: Pixels, not_stored: MissingTiles) -> None:
        super().__init__(image)
        self._not_stored = not_stored

    def read(self, window: Window, level: int = 0) -> Array:
        """Return px of a window inside the level, as floats that hold the stored values."""
        block = self._image.read(window, level)
        out = block.astype(np.result_type(block.dtype, np.float32))
        for part in self._not_stored.clip_to(window, level):
            out[part.slices] = np.nan
        return out


def mask_not_stored(image: Pixels, attributes: Mapping[str, Any]) -> Pixels:
    """Return an image without data where the attributes of its store say that nothing is stored."""
    not_stored = MissingTiles.from_attributes(attributes)
    return image if not_stored is None else StoredPixels(image, not_stored)


def _coarsen(grid: Bools) -> Bools:
    """Return a grid of half the cells along each axis: true where any of four is."""
    even = np.pad(grid, [(0, n % 2) for n in grid.shape])
    return np.asarray(even[::2, ::2] | even[1::2, ::2] | even[::2, 1::2] | even[1::2, 1::2])
