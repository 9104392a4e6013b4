"""Counts of a search: sources by significance, and px that were searched, as a small file.

Without the libraries of the search itself, for figures and for pairs that read it of others.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.archive import load_arrays, make_damage_error, save_arrays

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.core.windows import Window

    Counts = NDArray[np.int64]

GRID = 48
"""Squares along the longer side of an image. It is divisible by 2, 3, 4, 6, 8 and 12, so that a
figure may join that many."""


def square_px(shape: tuple[int, int]) -> int:
    """Return the side of the squares of an image of ``shape``, px."""
    return max(1, -(-max(shape) // GRID))


def make_empty_squares(shape: tuple[int, int]) -> Counts:
    """Return a count of 0 for each square of an image of ``shape``, (rows, cols) int64."""
    side = square_px(shape)
    return np.zeros([-(-n // side) for n in shape], np.int64)


def count_per_square(searched: NDArray[np.bool_], window: Window, shape: tuple[int, int]) -> Counts:
    """Count px in the squares of an image.

    Parameters
    ----------
    searched
        ``window.shape`` bool: the px that count.
    window
        Where they are in the image.
    shape
        Rows and columns of the image.

    Returns
    -------
    (rows, cols) int64, a count for each square of the entire image.
    """
    side = square_px(shape)
    firsts, starts = [], []
    for first, end in ((window.y0, window.y1), (window.x0, window.x1)):
        squares = np.arange(first // side, (end - 1) // side + 1)
        starts.append(np.maximum(squares * side - first, 0))
        firsts.append(int(squares[0]))
    down, across = starts
    # sums of rows are many times as fast as `reduceat`, which is left with few numbers
    lines = [part.sum(axis=0, dtype=np.uint32) for part in np.split(searched, down[1:])]
    counts = np.add.reduceat(np.stack(lines), across, axis=1, dtype=np.int64)
    out = make_empty_squares(shape)
    out[tuple(slice(f, f + n) for f, n in zip(firsts, counts.shape, strict=True))] = counts
    return out


@dataclass(frozen=True, eq=False)
class SearchCounts:
    """Counts of a search.

    Attributes
    ----------
    lowest
        Lowest signal-to-noise ratio.
    bright, dark
        (bins,) int64: sources on the section in each step of the ratio, as
        `unglow.detection.rates.Sides` has them; dark are those of the negated difference.
    searched
        (rows, cols) int64: px of the section that were searched, in squares of ``side_px``.
    side_px
        Side of a square, px.
    reason
        Why nothing was searched; empty if something was.
    """

    lowest: float
    bright: Counts
    dark: Counts
    searched: Counts
    side_px: int
    reason: str = ""

    @classmethod
    def make_refused(cls, reason: str) -> SearchCounts:
        """Return the counts of a pair in which nothing was searched."""
        none = np.zeros(0, np.int64)
        return cls(0.0, none, none, np.zeros((0, 0), np.int64), 1, reason)

    @property
    def searched_px(self) -> int:
        """How many px of the section were searched."""
        return int(self.searched.sum())

    def save(self, path: Path | str) -> None:
        """Write search.npz, complete or not at all; equal counts give equal bytes."""
        save_arrays(path, {f.name: np.asarray(getattr(self, f.name)) for f in fields(self)})

    @classmethod
    def load(cls, path: Path | str) -> SearchCounts:
        """Read search.npz.

        Raises
        ------
        StoreError
            If it is damaged.
        """
        arrays = load_arrays(path)
        try:
            lowest, side, reason = (arrays[n].item() for n in ("lowest", "side_px", "reason"))
            bright, dark, searched = (
                arrays[name].astype(np.int64) for name in ("bright", "dark", "searched")
            )
            if bright.ndim != 1 or bright.shape != dark.shape or searched.ndim != 2 or side < 1:
                raise make_damage_error(path)
            return cls(float(lowest), bright, dark, searched, int(side), str(reason))
        except (KeyError, OverflowError, TypeError, ValueError) as error:
            raise make_damage_error(path) from error
