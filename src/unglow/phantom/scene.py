"""The section: an irregular outline on black and a rock-like texture, at any point.

Brightness is in grey levels of the uint8 image before gain and offset. The texture mixes domains
(minerals of different brightness and grain), crystals inside them, noise of 3.6 to 7000 px, thin
dark cracks and dark pores; some domains are nearly flat, as in real sections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unglow.core.kernels import kernel
from unglow.phantom.texture import add_noise, derive_key, domains

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.phantom.spec import PhantomSpec

# The part of the frame that the section covers.
COVERAGE = 0.65
_EDGE_PX = 5.0


class Scene:
    """The section of one phantom, a function of continuous post coordinates.

    Parameters
    ----------
    spec
        What to make; only its shape and seed matter here.
    """

    def __init__(self, spec: PhantomSpec) -> None:
        self._keys = [derive_key(spec.seed, 1, n) for n in range(40)]
        rows, cols = spec.shape
        self._centre = (cols - 1) / 2.0, (rows - 1) / 2.0
        self._axes = 0.47 * cols, 0.47 * rows
        self._size = float(min(self._axes))
        self._level = 0.0
        self._level = self._settle_level()

    def _settle_level(self) -> float:
        """Return the height whose contour encloses the coverage wanted."""
        (cx, cy), (ax, ay) = self._centre, self._axes
        y, x = np.mgrid[-1.0:1.0:160j, -1.0:1.0:160j]
        x, y = cx + x.ravel() * ax / 0.94, cy + y.ravel() * ay / 0.94
        return float(np.round(np.quantile(self._height(x, y), 1.0 - COVERAGE), 3))

    def _height(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return roughly the distance inside the outline in px, without its finest teeth."""
        height = np.empty(x.size)
        x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)
        kernel("oval")(x, y, x.size, *self._centre, *self._axes, height)
        for n, (part, amplitude) in enumerate(((0.9, 0.085), (0.33, 0.04), (0.11, 0.018))):
            add_noise(x, y, part * self._size, self._keys[n], amplitude * self._size, height)
        return height

    def coverage(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return 1 inside the section, 0 outside, and between at its soft edge; (N,) -> (N,)."""
        out = self._height(x, y) - self._level
        # Teeth matter near the edge only; the band is far wider than they are tall.
        near = np.flatnonzero(np.abs(out) < 60.0)
        if near.size:
            teeth = np.zeros(near.size)
            add_noise(x[near], y[near], 45.0, self._keys[3], 6.0, teeth)
            add_noise(x[near], y[near], 11.0, self._keys[4], 1.6, teeth)
            out[near] += teeth
        t = np.clip(out / _EDGE_PX + 0.5, 0.0, 1.0)
        return np.asarray(t * t * (3.0 - 2.0 * t))

    def texture(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the brightness of the section's material, (N,) -> (N,) levels, positive."""
        k = self._keys
        wx = self._noise(x, y, (700.0, k[21], 80.0), (130.0, k[5], 20.0), (34.0, k[6], 5.0))
        wy = self._noise(x, y, (700.0, k[22], 80.0), (130.0, k[7], 20.0), (34.0, k[8], 5.0))
        wx += x
        wy += y
        minerals, crystals = np.empty((4, x.size)), np.empty((4, x.size))
        domains(wx, wy, 190.0, 5.0, k[9], minerals)
        domains(wx, wy, 36.0, 4.0, k[10], crystals)
        zones = self._noise(x, y, (7000.0, k[23], 0.1), (1600.0, k[11], 0.17), (430.0, k[12], 0.13))
        medium = self._noise(x, y, (170.0, k[13], 1.0))
        crack = self._noise(x, y, (330.0, k[14], 1.0), (60.0, k[15], 0.12))
        fine = self._noise(
            x, y, (75.0, k[16], 0.45), (33.0, k[17], 0.5), (15.0, k[18], 0.6), (7.2, k[19], 0.6)
        )
        add_noise(x, y, 3.6, k[20], 0.4, fine)
        out = np.empty(x.size)
        kernel("mix_textures")(minerals, crystals, zones, medium, crack, fine, x.size, out)
        return out

    def background(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the section without grains and microbes at post coordinates.

        Parameters
        ----------
        x, y
            float64 arrays of one shape, px.

        Returns
        -------
        Levels, float64, of that shape; exactly 0 outside the section.
        """
        flat_x, flat_y = np.ravel(x), np.ravel(y)
        out = self.coverage(flat_x, flat_y)
        inside = np.flatnonzero(out)
        if inside.size:
            out[inside] *= self.texture(flat_x[inside], flat_y[inside])
        return out.reshape(np.shape(x))

    @staticmethod
    def _noise(
        x: NDArray[np.float64],
        y: NDArray[np.float64],
        *octaves: tuple[float, np.uint64, float],
    ) -> NDArray[np.float64]:
        out = np.zeros(x.size)
        for spacing, key, amplitude in octaves:
            add_noise(x, y, spacing, key, amplitude, out)
        return out
