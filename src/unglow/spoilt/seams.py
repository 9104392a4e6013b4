"""Seams: straight lines along rows or columns, which imaging makes and a section does not.

What is left of post over its standard deviation is averaged along parts of 256 px of every row and
column. A seam is a line that is brighter than the lines 4 and 5 px away on both sides, or darker
than both, in more than one such part of its row or column: the end of data and steps between tiles
differ from one side alone, and a fibre leaves its row.

Pre may be turned against post: its seams are found on its own rows and columns before it is warped,
by the square roots of its px, whose noise is even. Structures of the section scatter more than the
difference does, so only strong seams stand out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

import numpy as np

from unglow.core.archive import Saved
from unglow.core.kernels import kernel, lay_rows
from unglow.core.reasons import explain
from unglow.core.windows import find_runs
from unglow.memory import BLOCK, SEGMENT, count_blocks, part_length
from unglow.spoilt.block_scores import Expectation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from unglow.core.archive import ArrayAxes
    from unglow.core.arrays import Array, Floats32, Ints
    from unglow.core.windows import Window


SEAM = "seam"
"""The reason of a seam in artefacts.geojson."""
MARGIN = 3
"""This many px on either side of a seam are excluded with it: the search filter reaches there."""
_MARGIN_OF_PRE = 1
"""The same for pre, whose px next to those also lack data when it is warped."""
_NEAR, _FAR = 4, 5
"""A line is compared with the lines this far away, px; without these, at an end, it is none."""
_VISIBLE, _MOST, _ENOUGH, _LIKELY = 3.0, 9.0, 12.0, 5.0
"""Parts that differ by more than the first, in units of their scatter, are visible. Each counts at
most the second, and together they are as much as the third, or the last where a grid of seams has a
line: without seams no part differed by more than 3.3 in the differences of phantoms and real
images, 5.8 in pre."""
_ALONE, _EACH = 4.0, 3.0
"""Of an image with few parts, less is enough: the first, and the second for each part."""
_LEAST_SHARE = 0.25
"""Of the px of a part that have data: the end of data may cross it."""
_LEAST_SCATTER, _LEAST_PART = 0.05, 1e-3
"""The scatter of a difference is taken to be at least the first, somewhat less than noise makes of
256 px; that of a raw image at least this part of the largest mean: they are rounded."""
_GHOST = 4
"""A line that is compared with one that differs by this many times as much is not a seam."""
_LARGEST = 6e4
"""Scores are cut at this: float16 ends a little above."""
_SIGMA_OF_MAD = 1.4826
_WIDE = 8
"""Overlaps of tiles are looked for in means of this many lines,"""
_GRID = 3
"""and are at least this many, in equal distances: what is wide may also be of the section."""
_EVEN, _LEAST_STEP = 2, 32
"""Distances that differ by this number of lines or less are equal; smaller ones than the second are
not a grid, for any places would be."""


@dataclass(eq=False, slots=True)
class LineMeans(Saved):
    """Means of what is left of post, in standard deviations, along parts of its rows and columns.

    Attributes
    ----------
    shape
        (rows, columns) of post, px.
    rows
        (rows, parts across) float16: of each part of a row; NaN where less than `_LEAST_SHARE` of
        its px have data.
    cols
        (parts down, columns) float16: the same of each column.
    """

    PARAMETERS = (("shape", (int, int)),)
    ARRAYS: ClassVar[ArrayAxes] = {
        "rows": ("float16", "height", "across"),
        "cols": ("float16", "down", "width"),
    }
    LEVEL = 1  # noisy numbers

    shape: tuple[int, int]
    rows: NDArray[np.float16]
    cols: NDArray[np.float16]

    def __post_init__(self) -> None:
        """Refuse lines that do not cover the image, which a damaged file may hold."""
        down, across = count_blocks(self.shape, self.length)
        if (self.rows.shape, self.cols.shape) != ((self.shape[0], across), (down, self.shape[1])):
            raise ValueError(f"lines of {self.rows.shape} and {self.cols.shape} in {self.shape}")

    @property
    def length(self) -> int:
        """Length of a part, px."""
        return part_length(self.shape)

    @classmethod
    def create(cls, shape: tuple[int, int]) -> Self:
        """Return lines without data for an image of (rows, columns)."""
        down, across = count_blocks(shape, part_length(shape))
        sizes = (shape[0], across), (down, shape[1])
        return cls(shape, *(np.full(size, np.nan, np.float16) for size in sizes))

    def store_window(self, strips: Sequence[Floats32], columns: Floats32, window: Window) -> None:
        """Take the sums of a window that starts with a part; windows may come from several threads.

        ``strips`` are what `sum_lines` returns for strips of the window, from its first rows on,
        and ``columns`` (segments down, 2, columns) what it has added to.
        """
        rows = self._average(np.moveaxis(np.concatenate(strips), 2, 0), 2)
        cols = self._average(np.moveaxis(columns, 1, 0), 1)
        top, left = window.y0 // self.length, window.x0 // self.length
        self.rows[window.y0 : window.y1, left : left + rows.shape[1]] = rows
        self.cols[top : top + len(cols), window.x0 : window.x1] = cols

    def add_raw(self, block: Floats32, window: Window, ends: tuple[float, float]) -> None:
        """Take a window of a raw image, whose smallest and largest value are ``ends``."""
        # a px over its noise is its square root, which is 2 for the largest
        shot = max(ends[1] - ends[0], 1e-6) / 4
        noise = np.array([0, shot, 0, 0, 1e-6 * shot, 0, np.inf, 0, 0, 0], np.float32)
        columns = np.zeros((count_blocks(block.shape, SEGMENT)[0], 2, block.shape[1]), np.float32)
        parts = (block[k * SEGMENT :][:SEGMENT] - np.float32(ends[0]) for k in range(len(columns)))
        each = zip(parts, columns, strict=True)
        sums = [sum_lines(2 * part, part, Expectation(noise), own) for part, own in each]
        self.store_window(sums, columns, window)

    def _average(self, sums: Floats32, axis: int) -> Floats32:
        """Return means of sums and numbers of px (2, ...), segments of an axis joined to parts."""
        starts = np.arange(0, sums.shape[axis], self.length // SEGMENT)
        total, count = np.add.reduceat(sums, starts, axis=axis)
        few = count < _LEAST_SHARE * self.length
        return np.where(few, np.float32(np.nan), total / np.maximum(count, 1))


def sum_lines(post: Floats32, left: Floats32, expected: Expectation, columns: Floats32) -> Floats32:
    """Return sum and number of px of each part of a row of a strip, (rows, segments, 2) float32.

    Parameters
    ----------
    post, left, expected
        As `unglow.spoilt.block_scores.score_strip` takes them.
    columns
        (2, cols) float32: sum and number of px of each column, which those of the strip are added
        to.
    """
    rows, cols = post.shape
    sums = np.empty((rows, -(-cols // SEGMENT), 2), np.float32)
    images = *lay_rows(post), *lay_rows(left)
    kernel("line_sums")(*images, rows, cols, expected.numbers, sums, columns)
    return sums


class Seam(NamedTuple):
    """A seam, with the px next to it.

    Attributes
    ----------
    axis
        0 if it lies along a row, 1 along a column.
    place
        The row or column of its middle.
    strength
        The largest score of a part, in units of its scatter.
    boxes
        (n, 4) int64: first row, last + 1, first column, last + 1 of each stretch that is excluded.
    """

    axis: int
    place: float
    strength: float
    boxes: Ints

    @property
    def area_px(self) -> int:
        """How many px are excluded."""
        return int(np.prod(self.boxes[:, 1::2] - self.boxes[:, ::2], axis=1).sum())

    @property
    def points(self) -> tuple[Ints, Ints]:
        """Columns and rows (n,) of points along it, `BLOCK` px apart."""
        ends = np.roll(self.boxes, 2 * self.axis, axis=1)[:, 2:]
        along = np.concatenate([np.arange(a, b, BLOCK) for a, b in ends.tolist()])
        across = np.full_like(along, round(self.place))
        return (across, along) if self.axis else (along, across)


@dataclass(frozen=True)
class Seams:
    """The seams of a pair.

    Attributes
    ----------
    lines
        Those along rows, then those along columns, in their order.
    share
        Share of the section that they take, 0 to 1.
    """

    lines: tuple[Seam, ...] = ()
    share: float = 0.0

    @cached_property
    def _boxes(self) -> Ints:
        return np.concatenate([np.zeros((0, 4), np.int64), *(seam.boxes for seam in self.lines)])

    def find_boxes(self, window: Window) -> Ints:
        """Return the boxes (n, 4) that have px in a window."""
        y0, y1, x0, x1 = self._boxes.T
        there = (y0 < window.y1) & (y1 > window.y0) & (x0 < window.x1) & (x1 > window.x0)
        return np.asarray(self._boxes[there], np.int64)

    def mark(self, out: Array, window: Window, step: int, value: float) -> None:
        """Set px of seams to a value, in place.

        ``out`` is a part of a pyramid level whose px are ``step`` px wide, ``window`` that part in
        px of level 0.
        """
        for y0, y1, x0, x1 in self.find_boxes(window).tolist():
            top, left = max(0, y0 - window.y0) // step, max(0, x0 - window.x0) // step
            out[top : -((window.y0 - y1) // step), left : -((window.x0 - x1) // step)] = value


def find_seams(lines: LineMeans, *, of_raw: bool = False) -> list[Seam]:
    """Find the seams of an image: those along rows, then those along columns, in their order.

    Those of a raw image, of which only the strong parts are seen, reach from end to end.
    """
    found: list[Seam] = []
    for axis, means in enumerate((lines.rows, lines.cols.T)):
        wide = means[: len(means) // _WIDE * _WIDE].reshape(-1, _WIDE, means.shape[1])
        found += list(_find_along(means, axis, lines.shape, of_raw=of_raw)) or _find_along(
            wide.mean(axis=1), axis, lines.shape, of_raw=of_raw, width=_WIDE
        )
    return found


def _find_along(
    means: NDArray[np.float16],
    axis: int,
    shape: tuple[int, int],
    *,
    of_raw: bool,
    width: int = 1,
) -> Iterator[Seam]:
    """Yield the seams among lines (n, parts) of some px; wide ones are a grid, or none."""
    if not means.size:
        return
    length = part_length(shape)
    margin = max(width - 1, _MARGIN_OF_PRE if of_raw else MARGIN)
    sizes = np.zeros(means.shape, np.float16)
    totals = np.zeros((2, len(means)), np.float32)
    for k, part in enumerate(means.T):
        score = _score(part, 0.0 if of_raw else _LEAST_SCATTER / width**0.5)
        sizes[:, k] = np.minimum(np.abs(score), _LARGEST)
        both = np.stack([score, -score])
        totals += np.where(both > _VISIBLE, np.minimum(both, _MOST), 0)
    best = totals.max(axis=0)
    parts = np.count_nonzero(np.isfinite(means).any(axis=0))
    found = best >= (_ENOUGH if of_raw else min(_ENOUGH, _ALONE + _EACH * parts))
    peaks = sizes.max(axis=1)
    for apart in (-_FAR, -_NEAR, _NEAR, _FAR):  # next to a strong seam one side alone counts
        found &= np.roll(peaks, apart) < _GHOST * peaks
    places = [(a + b - 1) / 2 for a, b in find_runs(found)]
    first, step = _find_grid(places)
    if width > 1 and (not step or len(places) < _GRID):
        return
    if step:
        apart = np.abs((np.arange(len(best)) - first + step / 2) % step - step / 2)
        found |= (apart <= _EVEN) & (best >= _LIKELY)
        found |= (apart <= 1 / 2) & (of_raw and len(places) >= _GRID)
    for first, end in find_runs(found):
        own = sizes[first:end].max(axis=0)
        # what is next to a visible part may be cut by the end of the seam, or by that of data
        reached = np.convolve(np.pad(own > _VISIBLE, 1), np.ones(3), "valid") > -of_raw
        ends = np.minimum(np.array(find_runs(reached)) * length, shape[1 - axis])
        sides = np.clip([first * width - margin, end * width + margin], 0, shape[axis])
        boxes = np.roll(np.hstack([np.tile(sides, (len(ends), 1)), ends]), 2 * axis, axis=1)
        yield Seam(axis, ((first + end) * width - 1) / 2, float(own.max()), boxes)


def _find_grid(places: Sequence[float]) -> tuple[float, float]:
    """Return the first place and the step of a grid of lines, 0 for none.

    Some of its lines may be missing, where it is dark.
    """
    apart = np.diff(places)
    least = apart.min(initial=np.inf)
    number = np.round(apart / least)
    if not _LEAST_STEP <= least < np.inf or (abs(apart - least * number) > _EVEN * number).any():
        return 0.0, 0.0
    return places[0], float(apart.sum() / number.sum())


def _score(means: NDArray[np.float16], least: float) -> Floats32:
    """Return by how much each of (n,) lines differs from those on both sides; 0 if from one alone.

    In units of the scatter of such differences, ``least`` or more; negative where it is darker.
    """
    n = len(means)
    own = means.astype(np.float32)
    wide = np.pad(own, _FAR, constant_values=np.nan)
    above, below = (
        own - (wide[_FAR + s * _NEAR :][:n] + wide[_FAR + s * _FAR :][:n]) / 2 for s in (-1, 1)
    )
    known = np.isfinite(above) & np.isfinite(below)
    if not known.any():
        return np.zeros(n, np.float32)
    away = np.abs(above[known & (above != 0)])  # what is equal has no noise: there is no light
    least = max(least, _LEAST_PART * float(np.abs(means[known]).max()), 1e-6)
    scatter = max(least, _SIGMA_OF_MAD * float(np.median(away))) if away.size else least
    size = np.where(above * below > 0, np.minimum(np.abs(above), np.abs(below)), 0)
    return np.where(known, np.sign(above) * size / scatter, 0).astype(np.float32)


def describe_seams(seams: Sequence[Seam], image: str) -> list[str]:
    """Return a note on what was excluded of ``post`` or ``pre``; none for no seams."""
    if not seams:
        return []
    places = [[seam.place for seam in seams if seam.axis == axis] for axis in (0, 1)]
    steps = [_find_grid(those)[1] if len(those) >= _GRID else 0 for those in places if those]
    if not all(steps):
        return [explain("lines", image=image, count=len(seams))]
    apart = " and ".join(dict.fromkeys(f"{one:.0f}" for one in steps))
    return [explain("seams", image=image, count=len(seams), apart=apart)]
