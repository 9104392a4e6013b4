"""Spoilt places as a search leaves them out: over windows, at single px, on a pyramid level."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.core.windows import Window

    Bools = NDArray[np.bool_]
    Ints = NDArray[np.int64]

NEAR_PX = 12
"""What lies this close to a spoilt place is listed and not counted, px: the edge of a place may go
on a little beyond its blocks."""


@dataclass(frozen=True, eq=False)
class SpoiltMask:
    """The px of post that are spoilt: those of whole blocks.

    Attributes
    ----------
    blocks
        (ny, nx): which blocks are spoilt.
    side
        Side of a block, px, larger than `NEAR_PX`.
    """

    blocks: Bools
    side: int

    @cached_property
    def _near_blocks(self) -> Bools:
        """Blocks that are spoilt or beside one that is: all others are near nothing."""
        padded = np.pad(self.blocks, 1)
        out = np.zeros_like(self.blocks)
        rows, cols = out.shape
        for down in range(3):
            for across in range(3):
                out |= padded[down : down + rows, across : across + cols]
        return out

    def touches(self, window: Window) -> bool:
        """Whether a window has spoilt px."""
        return bool(self.blocks[self._span(window)].any())

    def mask_window(self, window: Window, step: int = 1) -> Bools:
        """Return which px of a window that may leave the image are spoilt, (rows, cols).

        Of every ``step`` rows and columns the first one, for a pyramid level of such px.
        """
        rows, cols = (
            self._index(np.arange(start, stop, step), n)
            for start, stop, n in zip(
                (window.y0, window.x0), (window.y1, window.x1), self.blocks.shape, strict=True
            )
        )
        return np.asarray(self.blocks[rows[:, None], cols[None, :]])

    def is_near(self, col: Ints, row: Ints) -> Bools:
        """Return which px (N,) are spoilt or at most `NEAR_PX` along either axis from such a px."""
        near = np.zeros(len(col), np.bool_)
        for down in (-NEAR_PX, 0, NEAR_PX):
            for across in (-NEAR_PX, 0, NEAR_PX):
                rows = self._index(row + down, self.blocks.shape[0])
                cols = self._index(col + across, self.blocks.shape[1])
                near |= self.blocks[rows, cols]
        return near

    def mask_near(self, window: Window) -> Bools:
        """Return which px of a window are `near`, ``window.shape``."""
        near = np.zeros(window.shape, np.bool_)
        if not self._near_blocks[self._span(window)].any():
            return near
        for down in (-NEAR_PX, 0, NEAR_PX):
            for across in (-NEAR_PX, 0, NEAR_PX):
                near |= self.mask_window(window.shift(down, across))
        return near

    def _index(self, at: Ints, blocks: int) -> Ints:
        return np.clip(at // self.side, 0, blocks - 1)

    def _span(self, window: Window) -> tuple[slice, slice]:
        """Return the blocks that a window lies in."""
        rows, cols = self.blocks.shape
        y0, x0 = max(0, window.y0 // self.side), max(0, window.x0 // self.side)
        return (
            slice(min(y0, rows - 1), max(1, min(rows, -(-window.y1 // self.side)))),
            slice(min(x0, cols - 1), max(1, min(cols, -(-window.x1 // self.side)))),
        )
