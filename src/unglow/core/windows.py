"""Windows on a pixel grid, grids of blocks, and a thread pool that bounds what is in flight.

Everything that walks over pixels walks over `Window`s, so that memory follows from the block and
from the number in flight, never from the image.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from unglow.core.kernels import PIXEL_TYPES, kernel, lay_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from unglow.core.arrays import Array, Bools, Floats32, Ints


T = TypeVar("T")
R = TypeVar("R")

HALVED_ROWS = 256
"""Rows taken at a time, px: the temporaries stay in cache and far below the size of a shard."""


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """A half-open rectangle of pixels: rows ``y0 <= row < y1``, columns ``x0 <= col < x1``."""

    y0: int
    y1: int
    x0: int
    x1: int

    @classmethod
    def from_shape(cls, shape: tuple[int, int]) -> Window:
        """Return the window that covers an entire image of ``shape`` (rows, columns)."""
        return cls(0, shape[0], 0, shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns); never negative."""
        return max(0, self.y1 - self.y0), max(0, self.x1 - self.x0)

    @property
    def size(self) -> int:
        """Number of pixels."""
        rows, cols = self.shape
        return rows * cols

    @property
    def slices(self) -> tuple[slice, slice]:
        """Index of this window in an array of the entire image."""
        return slice(self.y0, self.y1), slice(self.x0, self.x1)

    def grow(self, halo: int) -> Window:
        """Return the window with ``halo`` px more on every side (it may leave the image)."""
        return Window(self.y0 - halo, self.y1 + halo, self.x0 - halo, self.x1 + halo)

    def clip(self, shape: tuple[int, int]) -> Window:
        """Return the part of the window inside an image of ``shape``; its size is 0 if none is."""
        y0, y1 = (min(max(v, 0), shape[0]) for v in (self.y0, self.y1))
        x0, x1 = (min(max(v, 0), shape[1]) for v in (self.x0, self.x1))
        return Window(y0, max(y0, y1), x0, max(x0, x1))

    def common(self, other: Window) -> Window:
        """Return what two windows share; its size is 0 if that is nothing."""
        y0, x0 = max(self.y0, other.y0), max(self.x0, other.x0)
        y1, x1 = min(self.y1, other.y1), min(self.x1, other.x1)
        return Window(y0, max(y0, y1), x0, max(x0, x1))

    def shift(self, rows: int, cols: int) -> Window:
        """Return the window moved by ``rows`` and ``cols``."""
        return Window(self.y0 + rows, self.y1 + rows, self.x0 + cols, self.x1 + cols)


class Pixels(Protocol):
    """A single-channel image with a pyramid, read window by window (a store, or an array in tests).

    Level ``k`` has ``floor(n / 2**k)`` px per side; its pixel ``j`` is at the level-0 coordinate
    ``2**k * j + (2**k - 1) / 2``.
    """

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of level 0."""
        ...

    @property
    def levels(self) -> int:
        """Number of pyramid levels, level 0 included."""
        ...

    def level_shape(self, level: int) -> tuple[int, int]:
        """Rows and columns of a level."""
        ...

    def read(self, window: Window, level: int = 0) -> Array:
        """Pixels of a window that is inside the level, in the stored dtype; thread-safe."""
        ...


def halve(block: Array) -> Floats32:
    """Average 2 x 2 px, ignoring NaN; an odd last row or column is dropped.

    Parameters
    ----------
    block
        (rows, cols), any real dtype.

    Returns
    -------
    (rows // 2, cols // 2) float32; NaN where all four pixels are NaN.
    """
    return np.asarray(halve_stored(block.astype(np.float32, copy=False)), dtype=np.float32)


def halve_stored(block: Array) -> Array:
    """Average 2 x 2 px and keep the dtype; an odd last row or column is dropped.

    Parameters
    ----------
    block
        (rows, cols) of a stored dtype.

    Returns
    -------
    (rows // 2, cols // 2) of the same dtype. Integers are rounded half to even. Floating pixels are
    averaged in float32 and ignore NaN; the mean of four NaN is NaN.
    """
    out = np.empty((block.shape[0] // 2, block.shape[1] // 2), dtype=block.dtype)
    if not out.size:
        return out
    kind = PIXEL_TYPES.get(f"{block.dtype.kind}{block.dtype.itemsize}")
    if kind is not None and block.dtype.isnative and block.dtype != np.float64:
        kernel("halve")(*lay_rows(block), kind, out, *out.shape)
        return out
    integer = np.issubdtype(block.dtype, np.integer)
    for top in range(0, out.shape[0], HALVED_ROWS // 2):
        strip = block[2 * top : 2 * top + HALVED_ROWS]
        rows = slice(top, top + HALVED_ROWS // 2)
        out[rows] = _halve_wide(strip) if integer else halve(strip)
    return out


def _halve_wide(block: Array) -> Ints:
    """Average 2 x 2 px of integers exactly, half to even."""
    rows, cols = (n // 2 * 2 for n in block.shape)
    quads = (block[i:rows:2, j:cols:2].astype(np.int64) for i in (0, 1) for j in (0, 1))
    total = sum(quads, np.zeros((), dtype=np.int64))
    mean, rest = total >> 2, total & 3
    mean += (rest == 3) | ((rest == 2) & (mean & 1 == 1))
    return np.asarray(mean)


class SamePixels:
    """An image that is read in another way: size and levels are those of the image behind it."""

    def __init__(self, image: Pixels) -> None:
        self._image = image
        self.shape, self.levels = image.shape, image.levels

    def level_shape(self, level: int) -> tuple[int, int]:
        """Rows and columns of a level."""
        return self._image.level_shape(level)


class Coarser:
    """An image seen from one of its pyramid levels on, which is averaged where it is not stored."""

    def __init__(self, pixels: Pixels, level: int) -> None:
        self._pixels, self._level = pixels, level
        self.shape, self.levels = self.level_shape(0), max(1, pixels.levels - level)

    def level_shape(self, level: int) -> tuple[int, int]:
        """Rows and columns of a level, counted from this one."""
        rows, cols = self._pixels.shape
        return rows >> (level + self._level), cols >> (level + self._level)

    def read(self, window: Window, level: int = 0) -> Array:
        """Pixels of a window; float32 where they are averaged here."""
        wanted = level + self._level
        stored = min(wanted, self._pixels.levels - 1)
        factor = 2 ** (wanted - stored)
        y0, y1, x0, x1 = (factor * v for v in (window.y0, window.y1, window.x0, window.x1))
        block = self._pixels.read(Window(y0, y1, x0, x1), stored)
        for _ in range(wanted - stored):
            block = halve(block)
        return block


def coarse_level(shapes: tuple[tuple[int, int], ...], side: int) -> int:
    """Return the first pyramid level with no more than ``side`` x ``side`` px in either image.

    The area counts, so that a long strip keeps enough rows to recognise; no side exceeds
    8 * ``side`` all the same.
    """
    level = 0
    while any(
        (rows >> level) * (cols >> level) > side * side or max(rows, cols) >> level > 8 * side
        for rows, cols in shapes
    ):
        level += 1
    return level


def grid(shape: tuple[int, int], block: tuple[int, int]) -> Iterator[Window]:
    """Yield windows of ``block`` (rows, cols) that tile ``shape`` in row order."""
    for y0 in range(0, shape[0], block[0]):
        for x0 in range(0, shape[1], block[1]):
            yield Window(y0, min(y0 + block[0], shape[0]), x0, min(x0 + block[1], shape[1]))


def cells(window: Window, cell: tuple[int, int]) -> Iterator[tuple[tuple[int, int], Window]]:
    """Yield (row, column) of each cell of a grid that a window touches, and its part of it.

    The grid starts at the first px of the image; ``cell`` is (rows, columns) px.
    """
    if not window.size:
        return
    for row in range(window.y0 // cell[0], (window.y1 - 1) // cell[0] + 1):
        y0, y1 = max(window.y0, row * cell[0]), min(window.y1, (row + 1) * cell[0])
        for col in range(window.x0 // cell[1], (window.x1 - 1) // cell[1] + 1):
            x0, x1 = max(window.x0, col * cell[1]), min(window.x1, (col + 1) * cell[1])
            yield (row, col), Window(y0, y1, x0, x1)


def strips(window: Window, height: int) -> Iterator[Window]:
    """Yield a window in strips of ``height`` rows, from its first row on; the last may be lower."""
    for y0 in range(window.y0, window.y1, height):
        yield Window(y0, min(y0 + height, window.y1), window.x0, window.x1)


def map_bounded(func: Callable[[T], R], items: Iterable[T], workers: int) -> Iterator[R]:
    """Yield ``func(item)`` in the order of ``items``, with at most ``workers`` of them in flight.

    Unlike ``Executor.map`` it takes no more than one item ahead of the workers and keeps no more
    finished results than workers, so memory stays put however long ``items`` is. With one worker
    everything runs in the calling thread. The first exception ends the map.
    """
    if workers <= 1:
        yield from (func(item) for item in items)
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="unglow") as pool:
        pending: deque[Future[R]] = deque()
        try:
            for item in items:
                if len(pending) >= workers:
                    yield pending.popleft().result()
                pending.append(pool.submit(func, item))
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


def merge_runs(mask: Bools) -> Iterator[Window]:
    """Yield rectangles, in px, that cover the true px of a mask; equal rows share one."""
    open_runs: dict[tuple[int, ...], int] = {}
    for y in range(mask.shape[0] + 1):
        runs = set(map(tuple, find_runs(mask[y]))) if y < mask.shape[0] else set()
        for run in sorted(open_runs.keys() - runs):
            yield Window(open_runs.pop(run), y, *run)
        for run in runs - open_runs.keys():
            open_runs[run] = y


def find_runs(row: Bools) -> list[list[int]]:
    """Return first and last + 1 of each run of true in a row."""
    return np.flatnonzero(np.diff(np.pad(row, 1))).reshape(-1, 2).tolist()
