"""Images of a pair that no stage writes, or not always: computed window by window."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.windows import Window
from unglow.detection.coarse_grid import CoarseGrid
from unglow.io.zarr import plan_layout
from unglow.workflow.stages.snr import ratio_over

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from unglow.detection.snr import Scene
    from unglow.photometry.gain_map import GainMap

SNR_LEVELS = 3
"""Of the signal-to-noise ratio: a px of a coarser level would take too many of level 0."""
_CELL = 512
"""Side of the parts of level 0 that are in memory at a time, px."""


@dataclass(frozen=True, eq=False)
class Ratio:
    """The signal-to-noise ratio of a pair, level 0 as ``snr.ome.zarr`` has it to the bit.

    A px of a coarser level is the one of its 2 x 2 or 4 x 4 px that is farthest from 0, with its
    sign: means would hide sources, which are a few px wide, and maxima would hide those of the
    negated difference, which show what chance alone does.

    Attributes
    ----------
    scene
        Returns the pair, put together when the first px is asked for.
    shape
        Rows and columns of post.
    """

    scene: Callable[[], Scene]
    shape: tuple[int, int]

    @property
    def levels(self) -> int:
        """Number of levels, level 0 included."""
        return min(SNR_LEVELS, plan_layout(self.shape, "float32").levels)

    def read(self, window: Window, level: int = 0) -> NDArray[np.float32]:
        """Pixels of a window that lies inside the level; NaN where there is none."""
        step = 1 << level
        out = np.empty(window.shape, np.float32)
        side = _CELL // step
        for y0 in range(window.y0, window.y1, side):
            for x0 in range(window.x0, window.x1, side):
                part = Window(y0, min(y0 + side, window.y1), x0, min(x0 + side, window.x1))
                fine = Window(*(n * step for n in (part.y0, part.y1, part.x0, part.x1)))
                at = part.shift(-window.y0, -window.x0).slices
                out[at] = farthest_from_0(ratio_over(self.scene(), fine), step)
        return out


def farthest_from_0(image: NDArray[np.float32], step: int) -> NDArray[np.float32]:
    """Return of each ``step`` x ``step`` px the value farthest from 0; NaN where all are NaN.

    Both sides of the image are multiples of ``step``. Of two as far away it is the one above 0.
    """
    parts = [image[i::step, k::step] for i in range(step) for k in range(step)]
    high, low = reduce(np.fmax, parts), reduce(np.fmin, parts)
    return np.where(-low > high, low, high)


@dataclass(frozen=True, eq=False)
class GridImage:
    """Values on a coarse grid over post as an image.

    Attributes
    ----------
    grid
        The values, at level-0 px.
    shape
        Rows and columns of post.
    """

    grid: CoarseGrid
    shape: tuple[int, int]

    @property
    def levels(self) -> int:
        """Number of levels, level 0 included."""
        return plan_layout(self.shape, "float32").levels

    def read(self, window: Window, level: int = 0) -> NDArray[np.float32]:
        """Pixels of a window of a level: the values at their centres."""
        grid, step = self.grid, 1 << level
        first = (grid.first_px - (step - 1) / 2) / step
        return CoarseGrid(grid.values, grid.spacing_px / step, first).evaluate_window(window)


@dataclass(frozen=True, eq=False)
class GainMapImage:
    """A gain map as an image; ``shape`` is that of post."""

    gain_map: GainMap
    shape: tuple[int, int]

    @property
    def levels(self) -> int:
        """Number of levels, level 0 included."""
        return plan_layout(self.shape, "float32").levels

    def read(self, window: Window, level: int = 0) -> NDArray[np.float32]:
        """Pixels of a window of a level: the values at their centres."""
        return self.gain_map.evaluate_window(window, 1 << level)
