"""Values on a coarse grid over post, interpolated at single px and over windows to equal bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from unglow.core.kernels import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.core.windows import Window


@dataclass(frozen=True, eq=False)
class CoarseGrid:
    """Values at points of a regular grid, linear between those that are known.

    Attributes
    ----------
    values
        (ny, nx) float32; NaN where nothing is known. Of one value if it is the same everywhere.
    spacing_px
        Distance of the points.
    first_px
        x and y of the first one.
    """

    values: NDArray[np.float32]
    spacing_px: float = 1.0
    first_px: float = 0.0

    @classmethod
    def constant(cls, value: float) -> Self:
        """Return the same value everywhere."""
        return cls(np.full((1, 1), value, dtype=np.float32))

    @property
    def has_values(self) -> bool:
        """Whether there is a value anywhere."""
        return bool(np.isfinite(self.values).any())

    def evaluate_window(self, window: Window) -> NDArray[np.float32]:
        """Values at all px of a window, ``window.shape`` float32; NaN where nothing is known.

        Beyond the outermost points theirs go on. A px has the same bits in every window.
        """
        if self.values.size == 1:
            return np.full(window.shape, self.values[0, 0], dtype=np.float32)
        rows, down = self._cells(np.arange(window.y0, window.y1), 0)
        cols, across = self._cells(np.arange(window.x0, window.x1), 1)
        out = np.empty(window.shape, dtype=np.float32)
        values = np.ascontiguousarray(self.values, dtype=np.float32)
        line = np.empty(values.shape[1], dtype=np.float32)
        across_and_down = rows, down, len(rows), cols, across, len(cols)
        kernel("interpolate")(values, *values.shape, *across_and_down, line, out)
        return out

    def evaluate(self, x: NDArray[np.intp], y: NDArray[np.intp]) -> NDArray[np.float32]:
        """Values at single px (N,), as `over` gives it."""
        if self.values.size == 1:
            return np.full(len(x), self.values[0, 0], dtype=np.float32)
        rows, down = self._cells(y, 0)
        cols, across = self._cells(x, 1)
        v = self.values
        below = np.minimum(rows + 1, v.shape[0] - 1)
        right = np.minimum(cols + 1, v.shape[1] - 1)
        first = _interpolate(v[rows, cols], v[below, cols], down)
        second = _interpolate(v[rows, right], v[below, right], down)
        return _interpolate(first, second, across)

    def _cells(
        self, px: NDArray[np.intp], axis: int
    ) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        """Return the point before each px along an axis, and the share of the next one, 0 to 1."""
        last = self.values.shape[axis] - 1
        at = np.clip((px - self.first_px) / self.spacing_px, 0, last)
        cell = np.minimum(at, max(0, last - 1)).astype(np.intp)
        return cell, (at - cell).astype(np.float32)


def _interpolate(
    a: NDArray[np.float32], b: NDArray[np.float32], part: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Interpolate; where only one of the two is known, it stands for both."""
    a, b = np.where(np.isnan(a), b, a), np.where(np.isnan(b), a, b)
    return np.asarray(a * (1 - part) + b * part, dtype=np.float32)
