"""What of a slide is measured and shown: windows, gains to expect, colours."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.windows import Window

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from unglow.core.arrays import Floats
    from unglow.images.slide_plan import Channel, Slide
    from unglow.transform import Transform


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
    def from_shape(cls, shape: tuple[int, int]) -> Sample:
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

    def to_slide(self, points_xy: Floats) -> Floats:
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


def read_maps(slide: Slide, paths: Sequence[str]) -> Maps:
    """Read the map of each move from ``transform.json``, in the order of the moves."""
    from unglow import transform  # jobs alone need it

    return {move: transform.load(Path(path)) for move, path in zip(slide.moves, paths, strict=True)}
