"""A cache of decoded chunks."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.windows import Window, cells
from unglow.io.zarr.layout import CHUNK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.core.windows import Pixels

_LARGE = 4
"""Windows of more px than this many chunks have are of no use to the windows after them."""


class ChunkCache:
    """An image, as `unglow.core.windows.Pixels`, that keeps the chunks that were read last.

    Windows that are smaller than chunks and overlap several of them, as blocks of registration do,
    would have each chunk decoded about five times. Thread-safe.

    Parameters
    ----------
    image
        The image.
    kept
        Chunks that are kept.
    side
        Of a chunk, px.
    """

    def __init__(self, image: Pixels, kept: int, side: int = CHUNK) -> None:
        self._image = image
        self._side = side
        self._chunk = lru_cache(kept)(image.read)  # two threads may read the same one: no harm

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of level 0."""
        return self._image.shape

    @property
    def levels(self) -> int:
        """Number of pyramid levels."""
        return self._image.levels

    def level_shape(self, level: int) -> tuple[int, int]:
        """Rows and columns of a level."""
        return self._image.level_shape(level)

    def read(self, window: Window, level: int = 0) -> NDArray[Any]:
        """Pixels of a window inside the level; large ones are read directly, and not kept."""
        side = self._side
        if window.size > _LARGE * side * side:
            return self._image.read(window, level)
        out: NDArray[Any] | None = None
        for (row, col), part in cells(window, (side, side)):
            top, left = row * side, col * side
            extent = Window(top, top + side, left, left + side).clip(self.level_shape(level))
            chunk = self._chunk(extent, level)
            if out is None:
                out = np.empty(window.shape, chunk.dtype)
            target = part.shift(-window.y0, -window.x0).slices
            out[target] = chunk[part.shift(-top, -left).slices]
        return self._image.read(window, level) if out is None else out
