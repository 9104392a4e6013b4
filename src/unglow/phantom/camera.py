"""A camera: smooth illumination, photon shot noise, read noise, rounding and clipping.

The noise of a pixel depends on its row, its column and a key, never on the block it is made in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.phantom.texture import compiled, lattice_hash

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.blocks import Window

_TWO_PI = 2.0 * math.pi
_KEY_STEP = np.uint64(0x9E3779B97F4A7C15)
_S16, _S32 = np.uint64(16), np.uint64(32)
_LOW16, _LOW32 = np.uint64(0xFFFF), np.uint64(0xFFFFFFFF)


@dataclass(frozen=True)
class Shading:
    """Illumination of one image: 1 + amplitude * cos(1.7 u + phase_x) * cos(1.7 v + phase_y).

    u and v run from -1 to 1 over the columns and rows of that image's own frame.
    """

    amplitude: float
    phase_x: float
    phase_y: float
    shape: tuple[int, int]

    def over(self, window: Window) -> NDArray[np.float64]:
        """Return the illumination of the pixels of a window, (rows, cols)."""
        rows, cols = self.shape
        v = 2.0 * np.arange(window.y0, window.y1) / (rows - 1) - 1.0
        u = 2.0 * np.arange(window.x0, window.x1) / (cols - 1) - 1.0
        along, down = np.cos(1.7 * u + self.phase_x), np.cos(1.7 * v + self.phase_y)
        return np.asarray(1.0 + self.amplitude * along[None, :] * down[:, None], dtype=np.float64)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types, with the formula."""
        return {
            "amplitude": self.amplitude,
            "phase_x": self.phase_x,
            "phase_y": self.phase_y,
            "shape": list(self.shape),
            "formula": "1 + amplitude * cos(1.7 u + phase_x) * cos(1.7 v + phase_y)",
        }


@dataclass(frozen=True)
class Camera:
    """How levels become counts.

    Attributes
    ----------
    electrons_per_level
        Photoelectrons per level; 0 means no shot noise.
    read_noise
        Standard deviation in levels.
    counts_per_level
        Stored counts per level.
    dtype
        Unsigned integer type of the counts, which also clips them.
    """

    electrons_per_level: float
    read_noise: float
    counts_per_level: int
    dtype: np.dtype[Any]

    def expose(
        self, light: NDArray[np.float64], offset: float, window: Window, key: np.uint64
    ) -> NDArray[Any]:
        """Return the counts for ``light`` (rows, cols; levels without offset) in a window."""
        counts = np.empty(light.shape, dtype=self.dtype)
        _expose(
            light,
            (window.y0, window.x0),
            key,
            (self.electrons_per_level, self.read_noise, offset),
            (float(self.counts_per_level), float(np.iinfo(self.dtype).max)),
            counts,
        )
        return counts

    def dark_table(self, offset: float) -> NDArray[Any]:
        """Return 65536 equally probable counts of a pixel that sees no light."""
        normal = NormalDist()
        quantile = np.array([normal.inv_cdf((n + 0.5) / 65536) for n in range(65536)])
        counts = np.rint((quantile * self.read_noise + offset) * self.counts_per_level)
        return counts.clip(0, np.iinfo(self.dtype).max).astype(self.dtype)


def fill_dark(table: NDArray[Any], window: Window, key: np.uint64, channels: NDArray[Any]) -> None:
    """Fill the first and last of (rows, cols, 3) channels of a window with dark counts."""
    _fill_dark(table, (window.y0, window.x0), key, channels)


@compiled
def _poisson(mean: float, normal: float, bits: np.uint64) -> float:
    """Draw from a Poisson distribution.

    From a mean of 16 on, a normal variate goes through the Cornish-Fisher expansion of the
    quantiles to third order, whose error is far below one count; below, fresh bits are inverted.
    """
    if mean >= 16.0:
        root = math.sqrt(mean)
        n2 = normal * normal
        value = mean + root * normal + (n2 - 1.0) / 6.0 + normal * (1.0 - n2) / (72.0 * root)
        return max(0.0, math.floor(value + 0.5))
    uniform = (float(lattice_hash(0, 0, bits) >> _S32) + 0.5) / 2**32
    term = math.exp(-mean)
    total, k = term, 0.0
    while uniform > total and k < 100.0:
        k += 1.0
        term *= mean / k
        total += term
    return k


@compiled
def _expose(
    light: NDArray[np.float64],
    corner: tuple[int, int],
    key: np.uint64,
    noise: tuple[float, float, float],
    store: tuple[float, float],
    out: NDArray[Any],
) -> None:
    electrons, read, offset = noise
    scale, highest = store
    for i in range(light.shape[0]):
        for j in range(light.shape[1]):
            level = light[i, j]
            if electrons > 0.0 or read > 0.0:
                h = lattice_hash(corner[1] + j, corner[0] + i, key)
                radius = math.sqrt(-2.0 * math.log((float(h & _LOW32) + 0.5) / 2**32))
                angle = _TWO_PI * float(h >> _S32) / 2**32
                if electrons > 0.0 and level > 0.0:
                    # Box and Muller: the sine serves the photons, the cosine the read-out.
                    photons = _poisson(level * electrons, radius * math.sin(angle), h ^ _KEY_STEP)
                    level = photons / electrons
                level += read * radius * math.cos(angle)
            value = math.floor((level + offset) * scale + 0.5)
            out[i, j] = min(highest, max(0.0, value))


@compiled
def _fill_dark(
    table: NDArray[Any], corner: tuple[int, int], key: np.uint64, out: NDArray[Any]
) -> None:
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            h = lattice_hash(corner[1] + j, corner[0] + i, key)
            out[i, j, 0] = table[h & _LOW16]
            out[i, j, 2] = table[(h >> _S16) & _LOW16]
