"""Sources that are sharper than the optics: hot and dead px, tracks of particles.

Medians over 5 px of a row, and of a column, remove what is one or two px wide across the one or the
other, and leave what the optics have spread. The part of a source that is left, the smaller of
both, says how sharp it is: 0 for a hot px, 0.3 for a track in any direction, 0.5 for spots of 2 px,
0.85 for those of 5 px. The limit follows the spots of the image, and is the same for bright and
dark sources: both have as much noise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.core.arrays import Floats, Floats32
    from unglow.detection.snr import Significance


LIMITS = np.arange(0.32, 0.43, 0.02, dtype=np.float32)
"""What is left of a sharp source is below one of these: the first leaves spots of 2 px alone, the
last finds nine of ten tracks."""
USUAL = 5
"""Which of them counts where too few spots are known."""
_OF_SPOTS = 0.52
"""The limit is this part of what is left of most spots, or less: of their upper quartile."""
_PX = 5
"""px of a median."""
_BRIGHT, _LEAST_SPOTS = 6.0, 10
"""So many spots with this signal-to-noise ratio are enough to choose the limit by."""
_AT_ONCE_PX = 1 << 16
"""Stamps that are looked at together have this many px."""


def measure_median_share(ratio: Significance, sources: NDArray[np.void], taps: Floats) -> Floats32:
    """Return the part of sources (N,) that medians along rows and columns leave, (N,).

    It is that of the filtered difference at the px of the peak; px without data count as 0.
    ``taps`` are the filter's along one axis.
    """
    reach, half = len(taps) // 2, _PX // 2
    frame, difference = ratio.images.window, ratio.images.pixels[2]
    steps = np.arange(-reach - half, reach + half + 1)
    weights = np.outer(taps, taps).ravel()
    out = np.empty(len(sources), dtype=np.float32)
    at_once = max(1, _AT_ONCE_PX // len(steps) ** 2)
    for start in range(0, len(sources), at_once):
        some = sources[start : start + at_once]
        rows, cols = some["row"] - frame.y0, some["col"] - frame.x0
        at = rows[:, None, None] + steps[:, None], cols[:, None, None] + steps
        stamps = np.nan_to_num(difference[at])
        inner = slice(half, -half)
        full = stamps[:, inner, inner].reshape(len(some), -1) @ weights
        left = []
        for line in (stamps[:, inner], stamps[:, :, inner].swapaxes(1, 2)):
            lines = np.lib.stride_tricks.sliding_window_view(line, _PX, axis=2)
            middle = np.partition(lines, half, axis=3)[..., half]
            left.append(middle.reshape(len(some), -1) @ weights)
        out[start : start + at_once] = np.minimum(left[0] / full, left[1] / full)
    return out


def classify(shares: Floats32) -> NDArray[np.intp]:
    """Return how many of the `LIMITS` each share (N,) reaches, (N,)."""
    return np.searchsorted(LIMITS, shares, side="right")


def choose_limit(above: Floats32, shares: Floats32) -> int:
    """Return which of the `LIMITS` counts in an image.

    ``above`` and ``shares``, (N,), are the signal-to-noise ratios of its bright sources and what
    medians leave of them. Those that are sharper than spots of 2 px say nothing about the spots.
    """
    spots = shares[(above >= _BRIGHT) & (shares >= LIMITS[0])]
    if len(spots) < _LEAST_SPOTS:
        return USUAL
    wanted = _OF_SPOTS * float(np.quantile(spots, 0.75))
    return int(np.clip(np.searchsorted(LIMITS, wanted, side="right") - 1, 0, len(LIMITS) - 1))
