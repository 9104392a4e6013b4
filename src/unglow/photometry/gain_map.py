"""Uneven light: a smooth relative gain over the frame of post.

Lamps and flat fields differ between sessions, so that post = m * (gain * pre + c1) + c0, where
m(x, y) is near 1 and c0, the camera's own offset in post, is not multiplied by light. m is a
polynomial of low degree in x and y: a sum of products of Legendre polynomials over the frame.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from unglow.photometry.saved import Saved

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from unglow.core.windows import Window
    from unglow.photometry.saved import ArrayAxes

    Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class GainMap(Saved):
    """A relative gain m over the frame of post, with a mean of 1 over the section.

    Attributes
    ----------
    shape
        (rows, columns) of post, px.
    coefficients
        (degree + 1, degree + 1) float64, [i, j]: of the Legendre polynomial i along y and j along
        x, both of which run from -1 to 1 over the pixel centres of the frame.
    limits
        Least and greatest m: what the section showed. Next to it a polynomial may run away.
    dark
        c0, the offset of post that light does not multiply, grey levels.
    """

    PARAMETERS = (("shape", (int, int)), ("limits", (float, float)), ("dark", (float,)))
    ARRAYS: ClassVar[ArrayAxes] = {"coefficients": ("float64", "degrees", "degrees")}

    shape: tuple[int, int]
    coefficients: Floats
    limits: tuple[float, float]
    dark: float

    @property
    def digest(self) -> str:
        """SHA-256 of everything that the map is."""
        numbers = np.array([*self.shape, *self.limits, self.dark, *self.coefficients.ravel()])
        return hashlib.sha256(numbers.astype("<f8").tobytes()).hexdigest()

    def line(self, light: Floats, gain: float, offset: float) -> tuple[Floats, Floats]:
        """Return gain and offset where m is ``light`` (any shape), of those where it is 1."""
        return light * gain, self.dark + light * (offset - self.dark)

    def evaluate(self, points_xy: Floats) -> Floats:
        """Return m at points (N, 2) (x, y) of post, (N,)."""
        rows, cols = self.shape
        along_y = legendre(points_xy[:, 1], rows, len(self.coefficients))
        along_x = legendre(points_xy[:, 0], cols, len(self.coefficients))
        total = np.zeros(len(points_xy))
        for line, y in zip(self.coefficients, along_y, strict=True):
            for factor, x in zip(line, along_x, strict=True):
                total += factor * y * x
        return np.clip(total, *self.limits)

    def evaluate_window(self, window: Window, step: int = 1) -> NDArray[np.float32]:
        """Return m at the pixels of a window, ``window.shape``; a px is the same in any window.

        ``step`` is the side of these px, level-0 px.
        """
        rows, cols = self.shape
        degrees, middle = len(self.coefficients), (step - 1) / 2
        along_y = legendre(step * np.arange(window.y0, window.y1) + middle, rows, degrees)
        along_x = legendre(step * np.arange(window.x0, window.x1) + middle, cols, degrees).astype(
            np.float32
        )
        total = np.zeros(window.shape, np.float32)
        for j, x in enumerate(along_x):
            down = np.zeros(window.shape[0])
            for i, y in enumerate(along_y):
                down += self.coefficients[i, j] * y
            total += down.astype(np.float32)[:, None] * x
        return np.clip(total, np.float32(self.limits[0]), np.float32(self.limits[1]), out=total)


def legendre(positions: NDArray[np.generic], side: int, count: int) -> Floats:
    """Return the Legendre polynomials 0 to count - 1 at positions along a side, (count, N).

    The side's first pixel centre is -1 and its last one 1.
    """
    t = 2 * np.asarray(positions, dtype=np.float64) / max(side - 1, 1) - 1
    found = [np.ones_like(t), t]
    for n in range(1, count - 1):
        found.append(((2 * n + 1) * t * found[n] - n * found[n - 1]) / (n + 1))
    return np.stack(found[:count])


_NONE = GainMap((0, 0), np.zeros((0, 0)), (0.0, 0.0), 0.0)


def save(path: Path | str, found: GainMap | None) -> None:
    """Write a gain map as ``.npz``; None is written too, without coefficients."""
    (found or _NONE).save(path)


def load(path: Path | str) -> GainMap | None:
    """Read what `save` wrote; StoreError if it is damaged or from another version."""
    found = GainMap.load(path)
    return found if found.coefficients.size else None
