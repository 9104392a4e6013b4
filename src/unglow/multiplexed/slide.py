"""A multiplexed slide: its channels, what is subtracted from what, and what of it is measured.

A cycle is one round of staining and imaging: its channels were acquired in one frame. All cycles
are brought into the frame of one of them. Channels that name backgrounds are markers; a background
may serve many of them, in any cycle.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.windows import Window

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.transform import Transform

    Floats = NDArray[np.float64]

FIT, INTERPOLATE = "fit", "interpolate"
"""How gains of several backgrounds are found: fitted, or by exposure times weighted by cycle."""
_NUCLEI = (0, 0, 255)
_COLOURS = (
    *((0, 255, 0), (255, 0, 0), (0, 255, 255), (255, 0, 255)),
    *((255, 255, 0), (255, 128, 0), (128, 255, 128), (160, 96, 255)),
)
# Sizes that results and memory of slides depend on.
BLOCK = 256
"""Side of the blocks that residual shifts are measured on, px."""
WINDOW, ACROSS = 512, 8
"""Slides are measured in windows of this side, px, at most this many across and down the frame:
they hold as many cells as the estimators take, so more would cost time and add nothing."""
OVERVIEW = 512
"""No side of an overview is longer, px."""
OVERVIEWS_PX = 1 << 22
"""Those of all markers have no more px than this together, for one of three kinds."""
ALIGNED_ROWS = 512
"""A background is aligned this many rows at a time, of which there is a copy as float32."""
COMPARED = 1024
"""Cycles are compared in windows of this side, px."""
PART_MPX = 12_000.0
"""Million px of all channels in a part, about: 15 minutes on two cores."""
PART_WINDOW = 2048
"""Parts begin and end at multiples of this, px."""


@dataclass(frozen=True, slots=True)
class Channel:
    """One channel of a slide.

    Attributes
    ----------
    name
        Of the channel, no other of the slide has it.
    image, number
        Which image of the slide it is in, and its number there, both from 0.
    cycle
        From 1.
    exposure
        Exposure time, in the same unit for all channels; None if unknown.
    background
        Name of the channel that is subtracted from it, or the names of several; None for what is
        left as it is, or out.
    removed
        Whether it is left out of the corrected slide.
    """

    name: str
    image: int
    number: int
    cycle: int = 1
    exposure: float | None = None
    background: str | tuple[str, ...] | None = None
    removed: bool = False

    @property
    def backgrounds(self) -> tuple[str, ...]:
        """Names of all that is subtracted from it."""
        one = self.background
        return () if one is None else (one,) if isinstance(one, str) else one


@dataclass(frozen=True, slots=True)
class Slide:
    """One slide.

    Attributes
    ----------
    name
        Of its directory of results.
    images
        Its files, in the order of cycles.
    channels
        In the order of the corrected slide.
    registered_on
        For each cycle the name of the channel that its map is found on.
    reference
        The cycle whose frame is that of the corrected slide; None for that of the first channel.
    paired
        Pairs of cycles that need a map besides: those of markers that candidates are looked for in.
    checked
        Whether neighbouring cycles are registered as well, to check the maps to the reference.
    """

    name: str
    images: tuple[Path, ...]
    channels: tuple[Channel, ...]
    registered_on: Mapping[int, str]
    reference: int | None = None
    paired: tuple[tuple[int, int], ...] = ()
    checked: bool = False

    def channel(self, name: str) -> Channel:
        """Return the channel of a name."""
        return next(one for one in self.channels if one.name == name)

    @property
    def markers(self) -> tuple[Channel, ...]:
        """Channels that something is subtracted from."""
        return tuple(one for one in self.channels if one.background is not None)

    @property
    def subtracted(self) -> dict[str, str]:
        """Names of the markers, with those of their backgrounds, separated by semicolons."""
        return {one.name: ";".join(one.backgrounds) for one in self.markers}

    @property
    def kept(self) -> tuple[Channel, ...]:
        """Channels of the corrected slide, if every cycle has a map."""
        return tuple(one for one in self.channels if not one.removed)

    def backgrounds_of(self, marker: Channel) -> tuple[Channel, ...]:
        """Return the channels that are subtracted from a marker."""
        return tuple(self.channel(name) for name in marker.backgrounds)

    @property
    def frame_cycle(self) -> int:
        """The cycle whose frame is that of the corrected slide."""
        return self.channels[0].cycle if self.reference is None else self.reference

    @property
    def moved_cycles(self) -> tuple[int, ...]:
        """Sorted cycles that are brought into the frame: all that anything is kept of, or taken."""
        needed = {name for one in self.markers for name in one.backgrounds}
        used = {one.cycle for one in self.channels if not one.removed or one.name in needed}
        return tuple(sorted(used - {self.frame_cycle}))

    @property
    def moves(self) -> tuple[tuple[int, int], ...]:
        """Sorted pairs of cycles that need a map from the frame of the first to that of the second.

        From the frame of the slide to each other cycle, then between those that `loops` consist of.
        """
        return tuple(sorted({*self._to_frame, *self.loops, *self.paired}))

    @property
    def _to_frame(self) -> list[tuple[int, int]]:
        return [(self.frame_cycle, cycle) for cycle in self.moved_cycles]

    @property
    def loops(self) -> tuple[tuple[int, int], ...]:
        """Pairs of neighbouring cycles: the maps from the frame to both and between them close."""
        cycles = self.moved_cycles if self.checked else ()
        return tuple(itertools.pairwise(cycles))

    def move_of(self, cycle: int) -> tuple[int, int] | None:
        """Return which of `moves` brings a cycle into the frame; None for that of the frame."""
        return None if cycle == self.frame_cycle else (self.frame_cycle, cycle)

    def moves_of(self, marker: Channel) -> tuple[tuple[int, int], ...]:
        """Return the maps that a marker and its backgrounds are brought by, its own first."""
        cycles = (one.cycle for one in (marker, *self.backgrounds_of(marker)))
        found = dict.fromkeys(self.move_of(cycle) for cycle in cycles)
        return tuple(move for move in found if move is not None)


def choose_colours(slide: Slide) -> list[tuple[int, int, int]]:
    """Return a colour for each kept channel: blue for what cycles are registered on."""
    nuclei = set(slide.registered_on.values())
    others = iter(range(len(slide.kept)))
    return [
        _NUCLEI if one.name in nuclei else _COLOURS[next(others) % len(_COLOURS)]
        for one in slide.kept
    ]


def group_by_background(markers: Iterable[Channel]) -> dict[tuple[str, ...], list[Channel]]:
    """Group markers by their backgrounds, in order of the first."""
    groups: dict[tuple[str, ...], list[Channel]] = {}
    for one in markers:
        groups.setdefault(one.backgrounds, []).append(one)
    return groups


def compute_expected_gains(slide: Slide, marker: Channel) -> tuple[float, ...] | None:
    """Return the gain of each background that exposure times let expect; None if one is unknown.

    With several it is their ratio times a weight: straight lines over the cycles between those of
    the backgrounds on either side, and the nearest one beyond their ends, as Akoya and HuBMAP have
    it (there beyond the ends as well). None also for several of one cycle, which have no weights.
    """
    backgrounds = slide.backgrounds_of(marker)
    times = [one.exposure for one in backgrounds]
    if marker.exposure is None or not all(times):
        return None
    ratios = [marker.exposure / (time or 1.0) for time in times]
    if len(ratios) == 1:
        return (ratios[0],)
    cycles = [one.cycle for one in backgrounds]
    if len({*cycles}) < len(cycles):
        return None
    order = sorted(range(len(cycles)), key=cycles.__getitem__)
    at = [cycles[n] for n in order]
    weights = [float(np.interp(marker.cycle, at, np.eye(len(at))[k])) for k in range(len(at))]
    return tuple(weights[order.index(n)] * ratio for n, ratio in enumerate(ratios))


def compute_expected_gain(slide: Slide, marker: Channel) -> float | None:
    """Return the sum of `compute_expected_gains`."""
    found = compute_expected_gains(slide, marker)
    return None if found is None else float(sum(found))


def bands_of(shape: tuple[int, int], channels: int) -> list[range]:
    """Return the rows of the parts of a slide of (rows, columns); none if it is made in one job."""
    count = math.ceil(shape[0] * shape[1] / 1e6 * channels / PART_MPX)
    windows = -(-shape[0] // PART_WINDOW)
    count = min(count, windows)
    starts = [n * windows // count * PART_WINDOW for n in range(count)]
    ends = [*starts[1:], shape[0]]
    return [range(*ends_) for ends_ in zip(starts, ends, strict=True)] if count > 1 else []


@dataclass(frozen=True, slots=True)
class Sample:
    """Windows of a slide that are measured, spread evenly over its frame.

    Put side by side they are an image of their own, the mosaic.

    Attributes
    ----------
    shape
        (rows, columns) of the slide.
    rows, cols
        First rows and columns of the windows, multiples of `WINDOW` px.
    """

    shape: tuple[int, int]
    rows: tuple[int, ...]
    cols: tuple[int, ...]

    @classmethod
    def of(cls, shape: tuple[int, int]) -> Sample:
        """Return the windows of a slide of (rows, columns): all there are, or 8 x 8."""
        return cls(shape, *(_starts(side) for side in shape))

    @property
    def extent(self) -> tuple[int, int]:
        """Rows and columns of the mosaic."""
        rows, cols = (
            sum(min(WINDOW, side - start) for start in starts)
            for side, starts in zip(self.shape, (self.rows, self.cols), strict=True)
        )
        return rows, cols

    @property
    def windows(self) -> list[tuple[Window, tuple[int, int]]]:
        """Windows in row order, each with [row, col] of its first px in the mosaic."""
        return [
            (Window(y, y + WINDOW, x, x + WINDOW).clip(self.shape), (i * WINDOW, j * WINDOW))
            for i, y in enumerate(self.rows)
            for j, x in enumerate(self.cols)
        ]

    def in_slide(self, points_xy: Floats) -> Floats:
        """Return where points (N, 2) (x, y) of the mosaic lie in the slide."""
        starts = np.array(self.cols), np.array(self.rows)
        moved = [
            of_axis[(at // WINDOW).astype(np.intp)] + at % WINDOW
            for of_axis, at in zip(starts, points_xy.T, strict=True)
        ]
        return np.column_stack(moved).astype(np.float64)


def _starts(side: int) -> tuple[int, ...]:
    """Return where windows begin along a side, px."""
    count = -(-side // WINDOW)
    few = min(count, ACROSS)
    return tuple((2 * k + 1) * count // (2 * few) * WINDOW for k in range(few))


SATURATED = "saturated"
"""Detail of a method: backgrounds that are saturated, by name, with the value from which on."""

Maps = dict[tuple[int, int], "Transform"]
"""The map of each of `Slide.moves`, (x, y) of the first cycle to (x, y) of the second."""
