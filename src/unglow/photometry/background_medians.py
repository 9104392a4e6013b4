"""Medians of the difference in squares: where background is left, and where too much was taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from unglow.core.kernels import kernel
from unglow.photometry.saved import Saved

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.photometry.saved import ArrayAxes

SIDE = 64
"""Side of a square, px; it divides the sides of all shards that are larger."""


@dataclass(eq=False, slots=True)
class BackgroundMedians(Saved):
    """Medians of squares of `SIDE` x `SIDE` px that begin at the first pixel of the image.

    Attributes
    ----------
    shape
        (rows, columns) of the image, px.
    medians
        (ny, nx) float32, grey levels; squares at the end of the image are cut by it. NaN where less
        than half of a square has data.
    """

    PARAMETERS = (("side", (int,)), ("shape", (int, int)))
    ARRAYS: ClassVar[ArrayAxes] = {"medians": ("float32", "ny", "nx")}

    shape: tuple[int, int]
    medians: NDArray[np.float32]
    side: int = SIDE

    def __post_init__(self) -> None:
        """Refuse squares of another size, which a file of another version may hold."""
        if self.side != SIDE:
            raise ValueError(f"squares of {self.side} px")

    @classmethod
    def create(cls, shape: tuple[int, int]) -> BackgroundMedians:
        """Return squares without medians for an image of (rows, columns)."""
        grid = -(-shape[0] // SIDE), -(-shape[1] // SIDE)
        return cls(shape, np.full(grid, np.nan, np.float32))

    def add(self, difference: NDArray[np.float32], origin: tuple[int, int]) -> None:
        """Take the squares of a block (rows, cols); blocks may be added from several threads.

        Parameters
        ----------
        difference
            NaN where there is no data.
        origin
            [row, col] of the first pixel in the image.

        Raises
        ------
        ValueError
            If the block leaves the image or cuts through squares.
        """
        for start, size, whole in zip(origin, difference.shape, self.shape, strict=True):
            stop = start + size
            if start < 0 or stop > whole or start % SIDE or (stop % SIDE and stop != whole):
                raise ValueError(
                    f"a block from {start} to {stop} of {whole} px cuts through squares"
                )
        block = np.ascontiguousarray(difference, dtype=np.float32)
        rows, cols = block.shape
        medians = np.empty((-(-rows // SIDE), -(-cols // SIDE)), np.float32)
        keys = np.empty((SIDE, SIDE), np.int32)
        kernel("square_medians")(block, rows, cols, SIDE, keys, medians)
        top, left = (start // SIDE for start in origin)
        self.medians[top : top + len(medians), left : left + medians.shape[1]] = medians
