"""Connected components: px above a level that touch, across corners as well.

They are kept as runs, neighbouring px of a row: what stands out takes memory, not the image.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from unglow.core.kernels import kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Ints = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Components:
    """Components of an image, in the order of their first px.

    Attributes
    ----------
    image
        (rows, cols) float32; NaN stands out nowhere.
    runs
        (R, 3) int32: row, first column, column after the last.
    labels
        (R,) int32: which component a run belongs to.
    boxes
        (N, 4) int32: first row, first column, row and column after the last.
    """

    image: Floats
    runs: Ints
    labels: Ints
    boxes: Ints

    def __len__(self) -> int:
        return len(self.boxes)

    @classmethod
    def from_image(cls, image: Floats, level: float) -> Self:
        """Find what is above a level."""
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

    def take(self, chosen: NDArray[np.bool_]) -> Self:
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
            yield self.take(part == number)

    def column(self) -> tuple[Floats, Ints]:
        """Put the components below each other, a row of zeros after each.

        Returns
        -------
        The image, (sum of heights + N, greatest width + 1) float32, 0 between components, and the
        row at which each of them begins, (N,).
        """
        heights = self.boxes[:, 2] - self.boxes[:, 0] + 1
        tops = np.cumsum(heights, dtype=np.int32) - heights
        width = int((self.boxes[:, 3] - self.boxes[:, 1]).max(initial=0)) + 1
        out = np.zeros((int(heights.sum()), width), dtype=np.float32)
        self._copy(out, np.stack([tops - self.boxes[:, 0], -self.boxes[:, 1]], axis=1))
        return out, tops

    def cut_out(self) -> tuple[Floats, tuple[int, int]]:
        """Return the part of the image that has them, 0 elsewhere, and where it begins."""
        top, left = (int(n) for n in self.boxes[:, :2].min(axis=0))
        bottom, right = (int(n) for n in self.boxes[:, 2:].max(axis=0))
        out = np.zeros((bottom - top, right - left), dtype=np.float32)
        self._copy(out, np.tile(np.array([-top, -left]), (len(self), 1)))
        return out, (top, left)

    def _copy(self, out: Floats, moves: NDArray[np.int64]) -> None:
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
