"""Images at one resolution, read window by window, and the map between two of them.

What matches blocks needs no more than this, and so does without the library of the search.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unglow.transform import apply_matrix

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from unglow.core.windows import Pixels, Window
    from unglow.transform.displacement import Displacement

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Plane:
    """One image at one resolution, to be read window by window.

    Attributes
    ----------
    read
        Returns the pixels of a window inside the plane.
    shape
        (rows, columns).
    floor
        Grey level just below the background, or deeper; square roots are taken above it.
    """

    read: Callable[[Window], NDArray[Any]]
    shape: tuple[int, int]
    floor: float

    @classmethod
    def from_level(cls, pixels: Pixels, level: int, floor: float) -> Plane:
        """Return a stored pyramid level."""
        return cls(lambda window: pixels.read(window, level), pixels.level_shape(level), floor)


@dataclass(frozen=True, slots=True)
class PlanePair:
    """Post and pre at one resolution, and the map between them in px of that resolution.

    Attributes
    ----------
    post, pre
        The images.
    matrix
        (3, 3) float64, post (x, y, 1) to pre.
    sign
        -1 if the contrast is reversed.
    workers
        Threads for matching, on which no result depends.
    displacement
        Field that is added to the matrix's positions; None for none.
    """

    post: Plane
    pre: Plane
    matrix: Floats
    sign: int = 1
    workers: int = 1
    displacement: Displacement | None = None

    def map(self, points: Floats) -> Floats:
        """Map points (N, 2) of post to pre."""
        mapped = apply_matrix(self.matrix, points)
        return mapped if self.displacement is None else mapped + self.displacement.evaluate(points)
