"""A camera: smooth illumination, photon shot noise, read noise, rounding and clipping.

The noise of a pixel depends on its row, its column and a key, never on the block it is made in.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.kernels import kernel, pixel_type

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.core.windows import Window


@dataclass(frozen=True)
class Shading:
    """Illumination of one image: 1 + amplitude * cos(1.7 u + phase_x) * cos(1.7 v + phase_y).

    u and v run from -1 to 1 over the columns and rows of that image's own frame.
    """

    amplitude: float
    phase_x: float
    phase_y: float
    shape: tuple[int, int]

    def evaluate(self, window: Window) -> NDArray[np.float64]:
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
        kernel("expose")(
            light,
            *light.shape,
            window.y0,
            window.x0,
            int(key),
            self.electrons_per_level,
            self.read_noise,
            offset,
            self.counts_per_level,
            np.iinfo(self.dtype).max,
            counts,
            pixel_type(self.dtype),
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
    kernel("fill_dark")(
        table,
        *channels.shape[:2],
        window.y0,
        window.x0,
        int(key),
        channels,
        pixel_type(channels.dtype),
    )
