"""Medians of the difference in squares: where background is left, and where too much was taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.archive import damaged, load_arrays, of_name, save_arrays
from unglow.core.kernels import kernel

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    from numpy.typing import NDArray

SIDE = 64
"""Side of a square, px; it divides the sides of all shards that are larger."""
_VERSION = 1


@dataclass(eq=False, slots=True)
class BackgroundMedians:
    """Medians of squares of `SIDE` x `SIDE` px that begin at the first pixel of the image.

    Attributes
    ----------
    shape
        (rows, columns) of the image, px.
    medians
        (ny, nx) float32, grey levels; squares at the end of the image are cut by it. NaN where less
        than half of a square has data.
    """

    shape: tuple[int, int]
    medians: NDArray[np.float32]

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
        top, left = (start // SIDE for start in origin)
        found = _medians(np.ascontiguousarray(difference, dtype=np.float32))
        self.medians[top : top + len(found), left : left + found.shape[1]] = found

    def of_rows(self, rows: tuple[int, int]) -> NDArray[np.float32]:
        """Return the medians of the squares of whole blocks: first row of px, row after the last.

        The result shares its values with all others; what it is given, these have.
        """
        return self.medians[rows[0] // SIDE : -(-rows[1] // SIDE)]

    def save(self, path: Path | str, others: Mapping[str, BackgroundMedians] | None = None) -> None:
        """Write an ``.npz``, whole or not at all; equal medians give equal bytes.

        ``others`` go into the same file, by their names.
        """
        beside = {name: other.arrays() for name, other in (others or {}).items()}
        save_arrays(path, self.arrays(), beside)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what `save` writes, by name."""
        return {"parameters": np.array([_VERSION, SIDE, *self.shape]), "medians": self.medians}

    @classmethod
    def load(cls, path: Path | str, name: str | None = None) -> BackgroundMedians:
        """Read what `save` wrote; ``name`` is that of one of the others.

        Raises
        ------
        StoreError
            If the file is damaged or from another version.
        """
        arrays = of_name(load_arrays(path), name)
        try:
            version, side, rows, cols = (int(v) for v in arrays["parameters"])
            if (version, side) != (_VERSION, SIDE):
                raise damaged(path)
            return cls((rows, cols), arrays["medians"])
        except (KeyError, TypeError, ValueError) as error:
            raise damaged(path) from error


def _medians(block: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the medians of the squares of a block without gaps, (down, across)."""
    rows, cols = block.shape
    found = np.empty((-(-rows // SIDE), -(-cols // SIDE)), np.float32)
    kernel("square_medians")(block, rows, cols, SIDE, np.empty((SIDE, SIDE), np.int32), found)
    return found
