"""An image in memory with its pyramid, as jobs read stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unglow.core.windows import Window, halve

if TYPE_CHECKING:
    from numpy.typing import NDArray


class ArrayPixels:
    """An image in memory as `unglow.core.windows.Pixels`."""

    def __init__(self, array: NDArray[Any], levels: int = 1) -> None:
        self._levels: list[NDArray[Any]] = [array]
        for _ in range(1, levels):
            self._levels.append(halve(self._levels[-1]))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of level 0."""
        return self.level_shape(0)

    @property
    def levels(self) -> int:
        """Number of pyramid levels."""
        return len(self._levels)

    def level_shape(self, level: int) -> tuple[int, int]:
        """Rows and columns of a level."""
        rows, cols = self._levels[level].shape
        return rows, cols

    def read(self, window: Window, level: int = 0) -> NDArray[Any]:
        """Pixels of a window."""
        return self._levels[level][window.slices]
