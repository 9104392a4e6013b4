"""How far the map may be off at every px: what turns an edge of the section into noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.blocks import Window
    from unglow.transform import Transform


@dataclass(frozen=True, eq=False)
class MapError:
    """Estimated error of a map over post, linear between the control points that know it.

    Attributes
    ----------
    values
        (ny, nx) float32, px; NaN where nothing is known. Of one value if it is the same everywhere.
    spacing_px
        Distance of the control points.
    first_px
        x and y of the first one.
    """

    values: NDArray[np.float32]
    spacing_px: float = 1.0
    first_px: float = 0.0

    @classmethod
    def constant(cls, error_px: float) -> MapError:
        """Return the same error everywhere."""
        return cls(np.full((1, 1), error_px, dtype=np.float32))

    @classmethod
    def of(cls, transform: Transform) -> MapError:
        """Return the error of a map: that of its field, or else the 95th percentile overall."""
        field = transform.displacement
        if field is not None and field.error_px.size:
            return cls(field.error_px, field.spacing_px, -field.spacing_px)
        return cls.constant(transform.error_px.p95)

    @property
    def known(self) -> bool:
        """Whether there is a place where it is known."""
        return bool(np.isfinite(self.values).any())

    def over(self, window: Window) -> NDArray[np.float32]:
        """Error at all px of a window, ``window.shape`` float32; NaN where it is not known.

        Beyond the outermost control points theirs go on. A px has the same bits in every window.
        """
        if self.values.size == 1:
            return np.full(window.shape, self.values[0, 0], dtype=np.float32)
        rows, down = self._places(window.y0, window.y1, 0)
        cols, across = self._places(window.x0, window.x1, 1)
        # what has no weight must not spread its NaN, and rows come first everywhere
        lines = _between(self.values[rows], self.values[rows + 1], down[:, None])
        return _between(lines[:, cols], lines[:, cols + 1], across[None, :])

    def at(self, x: NDArray[np.intp], y: NDArray[np.intp]) -> NDArray[np.float32]:
        """Error at single px (N,), as `over` gives it."""
        if self.values.size == 1:
            return np.full(len(x), self.values[0, 0], dtype=np.float32)
        rows, down = self._split(np.asarray(y, dtype=np.float64), 0)
        cols, across = self._split(np.asarray(x, dtype=np.float64), 1)
        v = self.values
        left = _between(v[rows, cols], v[rows + 1, cols], down)
        right = _between(v[rows, cols + 1], v[rows + 1, cols + 1], down)
        return _between(left, right, across)

    def _places(
        self, begin: int, end: int, axis: int
    ) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        return self._split(np.arange(begin, end, dtype=np.float64), axis)

    def _split(
        self, positions: NDArray[np.float64], axis: int
    ) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        last = self.values.shape[axis] - 1
        at = np.clip((positions - self.first_px) / self.spacing_px, 0, last)
        cell = np.minimum(at, last - 1).astype(np.intp)
        return cell, (at - cell).astype(np.float32)


def _between(
    a: NDArray[np.float32], b: NDArray[np.float32], part: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Interpolate; where only one of the two is known, it stands for both."""
    a, b = np.where(np.isnan(a), b, a), np.where(np.isnan(b), a, b)
    return np.asarray(a * (1 - part) + b * part, dtype=np.float32)
