"""Sources in a signal-to-noise image, by sep (SExtractor's detection), the same for any tiling.

sep gives a px on the slope between two sources to one of them by a throw of dice whose seed is the
same in each call (`rand_r` in its deblend.c), so what it throws depends on the sources before. A
family of sources that touch is therefore extracted in a call of its own.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import cv2
import numpy as np
import sep

from unglow.core.kernels import kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from unglow.core.arrays import Array, Bools, Floats32

    Ints = NDArray[np.int32]
    from unglow.core.windows import Window


@dataclass(frozen=True, eq=False)
class Components:
    """Components of an image, in the order of their first px.

    Attributes
    ----------
    image
        (rows, cols) float32; NaN is out nowhere.
    runs
        (R, 3) int32: row, first column, column after the last.
    labels
        (R,) int32: which component a run belongs to.
    boxes
        (N, 4) int32: first row, first column, row and column after the last.
    """

    image: Floats32
    runs: Ints
    labels: Ints
    boxes: Ints

    def __len__(self) -> int:
        return len(self.boxes)

    @classmethod
    def from_image(cls, image: Floats32, level: float) -> Self:
        """Find the components above a level."""
        image = np.ascontiguousarray(image)
        count = np.zeros(1, dtype=np.int64)
        where = image, *image.shape, level
        kernel("count_runs")(*where, count)
        runs = np.empty((int(count[0]), 3), dtype=np.int32)
        labels = np.empty(len(runs), dtype=np.int32)
        kernel("connect_runs")(*where, runs, labels, len(runs))
        return cls(image, runs, labels, _boxes(runs, labels))

    @property
    def longest(self) -> Ints:
        """Longer side of each box, px."""
        sides = self.boxes[:, 2:] - self.boxes[:, :2]
        return np.asarray(sides.max(axis=1))

    @property
    def px(self) -> int:
        """Number of px of all components."""
        return int((self.runs[:, 2] - self.runs[:, 1]).sum(dtype=np.int64))

    def keep(self, chosen: Bools) -> Self:
        """Return some of the components, chosen by (N,) bool."""
        numbers = np.cumsum(chosen, dtype=np.int32) - np.int32(1)
        runs = chosen[self.labels]
        labels = numbers[self.labels[runs]]
        return type(self)(self.image, self.runs[runs], labels, self.boxes[chosen])

    def parts(self, rows: int) -> Iterator[Self]:
        """Divide them, so that `column` is not much longer than ``rows``."""
        heights = self.boxes[:, 2] - self.boxes[:, 0] + 1
        part = (np.cumsum(heights) - heights) // rows
        for number in np.unique(part):
            yield self.keep(part == number)

    def column(self) -> tuple[Floats32, Ints]:
        """Put the components below each other, a row of zeros after each.

        Returns
        -------
        The image, (sum of heights + N, greatest width + 1) float32, 0 between components, and the
        row at which each of them starts, (N,).
        """
        heights = self.boxes[:, 2] - self.boxes[:, 0] + 1
        tops = np.cumsum(heights, dtype=np.int32) - heights
        width = int((self.boxes[:, 3] - self.boxes[:, 1]).max(initial=0)) + 1
        out = np.zeros((int(heights.sum()), width), dtype=np.float32)
        self._copy(out, np.stack([tops - self.boxes[:, 0], -self.boxes[:, 1]], axis=1))
        return out, tops

    def cut_out(self) -> tuple[Floats32, tuple[int, int]]:
        """Return the part of the image that has them, 0 elsewhere, and where it starts."""
        top, left = (int(n) for n in self.boxes[:, :2].min(axis=0))
        bottom, right = (int(n) for n in self.boxes[:, 2:].max(axis=0))
        out = np.zeros((bottom - top, right - left), dtype=np.float32)
        self._copy(out, np.tile(np.array([-top, -left]), (len(self), 1)))
        return out, (top, left)

    def _copy(self, out: Floats32, moves: NDArray[np.int64]) -> None:
        """Copy all px into another image, those of each component moved by (rows, columns)."""
        by_run = np.ascontiguousarray(moves[self.labels], dtype=np.int32)
        runs, width = np.ascontiguousarray(self.runs), self.image.shape[1]
        kernel("copy_runs")(self.image, width, runs, by_run, len(runs), out, out.shape[1])


def _boxes(runs: Ints, labels: Ints) -> Ints:
    count = int(labels.max(initial=-1)) + 1
    boxes = np.empty((count, 4), dtype=np.int32)
    boxes[:, :2], boxes[:, 2:] = np.iinfo(np.int32).max, 0
    for column, values in ((0, runs[:, 0]), (1, runs[:, 1])):
        np.minimum.at(boxes[:, column], labels, values)
    for column, values in ((2, runs[:, 0] + 1), (3, runs[:, 2])):
        np.maximum.at(boxes[:, column], labels, values)
    return boxes


HALO = 64
"""Sources are found complete that reach no further than this, px, and read so far around a tile."""
DEBLENDED, UNSPLIT, EXTENDED = 1, 2, 4
"""Flags: one of several that touch; too many touch to be deblended; on a larger structure."""
_CONTRAST = 0.005
"""A source is deblended if it has this share of the flux of what touches it: sep's own value."""
_LEVELS = 32
"""Levels at which sources are deblended: sep's own value. At a single one nothing is."""
_DOUBLINGS = 8
"""The threshold is doubled at most so often, less one: to 128 times the lowest."""
_ROWS = 16384
"""About this many rows of components are extracted at a time."""
_ROOM = 1000
"""Entries of sep's buffer also those for px above the level and for a row."""
_AROUND = np.ones((3, 3), np.uint8)
_SEP_NAMES = {"x": "x", "y": "y", "col": "xcpeak", "row": "ycpeak", "area": "npix",
              "a": "a", "b": "b", "theta": "theta", "xx": "x2", "yy": "y2"}  # fmt: skip
# sep keeps the size of its buffer for the entire process, and the interpreter lock while it works.
_sep = threading.Lock()
_log = logging.getLogger(__name__)

SOURCE = np.dtype(
    [
        ("x", "f8"),
        ("y", "f8"),
        ("col", "i4"),
        ("row", "i4"),
        ("snr", "f4"),
        ("above", "f4"),
        ("area", "i4"),
        ("a", "f4"),
        ("b", "f4"),
        ("theta", "f4"),
        ("xx", "f8"),
        ("yy", "f8"),
        ("flags", "u2"),
    ]
)
"""A source: barycentre (x, y) and second moments of its signal-to-noise ratio, the px of its peak
and the ratio there, by how much it stands out, px above the threshold, ellipse (px, rad from x
towards y), flags. What is on a larger structure stands out by what its peak is above the level
from which on it is apart from that; anything else by the full ratio."""


def find(
    snr: Floats32, threshold: float, window: Window, core: Window
) -> tuple[NDArray[np.void], int]:
    """Find the sources whose peak is in the core of a tile.

    Components above the threshold with sides of at most `HALO` px are sources, deblended where
    several touch. In what is larger they are looked for above twice the threshold, and so on, and
    kept if they stand out from that by the threshold: a crowd, or a diffuse haze with microbes
    on it, hides nothing. All of this is the same for each tile that holds the component complete,
    and a tile whose core has a part of it does.

    Parameters
    ----------
    snr
        (rows, cols) float32 of ``window``; NaN where there is none.
    threshold
        Lowest signal-to-noise ratio.
    window
        The core with `HALO` px around it, as far as the image goes.
    core
        The part whose sources are wanted.

    Returns
    -------
    (N,) `SOURCE` in coordinates of the entire image, and the number of px of the core that are
    above the threshold and in no source: too large a structure.
    """
    inner = core.shift(-window.y0, -window.x0)
    image, corner, level = snr, (0, 0), np.float32(threshold)
    parts = []
    for step in range(_DOUBLINGS):
        components = Components.from_image(image, float(level))
        whole = components.longest <= HALO
        flags = EXTENDED if step else 0
        sources = _extract_each(components.keep(whole), float(level), corner, flags)
        sources["above"] = sources["snr"] - (level if step else np.float32(0))
        parts.append(sources)
        larger = components.keep(~whole)
        if not len(larger):
            break
        image, begin = larger.cut_out()
        corner = corner[0] + begin[0], corner[1] + begin[1]
        level = level * np.float32(2)
    sources = np.concatenate(parts)
    sources = sources[sources["above"] > threshold]
    in_core = (sources["row"] >= inner.y0) & (sources["row"] < inner.y1)
    in_core &= (sources["col"] >= inner.x0) & (sources["col"] < inner.x1)
    sources = sources[in_core]
    for name, first in (("x", window.x0), ("col", window.x0), ("y", window.y0), ("row", window.y0)):
        sources[name] += first
    for name in ("x", "y"):
        sources[name] = np.round(sources[name], 3)
    order = np.lexsort((sources["col"], sources["row"]))
    # what is left in the image is too large at every level
    part = inner.shift(-corner[0], -corner[1]).clip(image.shape).slices
    extended_px = int(np.count_nonzero(image[part])) if len(larger) else 0
    return sources[order], extended_px


def _extract_each(
    components: Components, level: float, corner: tuple[int, int], flags: int
) -> NDArray[np.void]:
    """Extract components of an image that starts at ``corner``, [row, col]."""
    tables = [np.zeros(0, SOURCE)]
    for part in components.parts(_ROWS):
        single = _single(part)
        # in what falls off from one peak nothing is found at any level
        for chosen, levels in ((single, 1), (~single, _LEVELS)):
            taken = part.keep(chosen)
            if not len(taken):
                continue
            table, owner = _column_sources(taken, level, flags, levels)
            for name, axis in (("x", 1), ("col", 1), ("y", 0), ("row", 0)):
                table[name] += taken.boxes[owner, axis] + corner[axis]
            tables.append(table)
    return np.concatenate(tables)


def _single(part: Components) -> Bools:
    """Return which components have one px that is as bright as all around it, (N,)."""
    column, tops = part.column()
    peaks = (column > 0) & (column == cv2.dilate(column, _AROUND))
    owner = np.searchsorted(tops, np.nonzero(peaks)[0], side="right") - 1
    return np.asarray(np.bincount(owner, minlength=len(part)) == 1)


def _column_sources(
    part: Components, level: float, flags: int, levels: int
) -> tuple[NDArray[np.void], NDArray[np.intp]]:
    """Extract components, families of several sources one by one.

    Returns
    -------
    Sources in coordinates that start with the box of their component, and which that is.
    """
    column, tops = part.column()
    try:
        found = _sep_extract(column, level, part.px, levels)
    except _TooCrowdedError:
        found = _sep_extract(column, level, part.px, 1)
        alone = np.zeros(len(found), dtype=np.bool_)
    else:
        alone = (found["flag"] & sep.OBJ_MERGED) == 0
    owner = np.searchsorted(tops, found["ycpeak"], side="right") - 1
    tables, owners = [_table(found[alone], column, flags)], [owner[alone]]
    for name in ("y", "row"):
        tables[0][name] -= tops[owners[0]]
    for family in np.unique(owner[~alone]):
        rows, cols = part.boxes[family, 2:] - part.boxes[family, :2]
        stamp = column[tops[family] : tops[family] + rows, :cols]
        tables.append(_family(stamp, level, flags))
        owners.append(np.full(len(tables[-1]), family))
    return np.concatenate(tables), np.concatenate(owners)


def _family(stamp: Floats32, level: float, flags: int) -> NDArray[np.void]:
    """Extract one component, deblended if that is possible."""
    size = int(np.count_nonzero(stamp))
    try:
        found = _sep_extract(stamp, level, size, _LEVELS)
        flags |= DEBLENDED if len(found) > 1 else 0
    except _TooCrowdedError:
        found = _sep_extract(stamp, level, size, 1)
        flags |= UNSPLIT
    return _table(found, stamp, flags)


class _TooCrowdedError(Exception):
    """More sources touch than sep can deblend."""


def _sep_extract(image: Floats32, level: float, above: int, levels: int) -> NDArray[np.void]:
    """Call sep on an image that holds ``above`` px above the level, without filter and cleaning."""
    with _sep:
        sep.set_extract_pixstack(above + image.shape[1] + _ROOM)
        try:
            found: NDArray[np.void] = sep.extract(
                np.ascontiguousarray(image),
                level,
                minarea=1,
                filter_kernel=None,
                deblend_nthresh=levels,
                deblend_cont=_CONTRAST,
                clean=False,
            )
        except MemoryError:
            raise
        except Exception as error:  # sep knows no other class
            if "deblend" not in str(error):
                raise
            _log.info("sep: %s", error)
            raise _TooCrowdedError from error
    return found


def _table(found: Array, image: Floats32, flags: int) -> NDArray[np.void]:
    """Return sep's table as `SOURCE`, in coordinates of the image that it was given."""
    out = np.zeros(len(found), SOURCE)
    for name, of_sep in _SEP_NAMES.items():
        out[name] = found[of_sep]
    out["snr"] = image[found["ycpeak"], found["xcpeak"]]
    out["flags"] = flags
    return out
