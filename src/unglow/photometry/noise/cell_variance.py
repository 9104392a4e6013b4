"""What is left of white noise in the cells of a pair, where one image was resampled or blurred."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from unglow.photometry.noise.resampling import cell_noise, departures, filtered_noise, shifted
from unglow.photometry.sizes import CELL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unglow.photometry.blur import Blur

    Floats = NDArray[np.float64]

T = TypeVar("T")

WHITE = (CELL * CELL - 1) / (CELL * CELL)
"""Expected variance inside a cell of white noise of variance 1."""
# A blur leaves little of how resampling depends on the phase, and its tables are large.
_BLURRED_PHASES = 4


@dataclass(frozen=True, slots=True)
class Kept(Generic[T]):
    """Of noise of variance 1 in single raw px.

    Attributes
    ----------
    within, scatter
        Expectation of the variance inside a cell, and the variance of that.
    mean
        Variance of a cell's mean.
    slope
        Sum of the squared central differences along both axes.
    """

    within: T
    scatter: T
    mean: T
    slope: T


def pre_noise(jacobian: Floats, blur: Blur | None) -> Kept[Floats]:
    """Return tables by phase, (phases, phases) each, of resampled pre."""
    taps = np.ones(1) if blur is None else blur.of("pre")
    phases = 16 if len(taps) == 1 else _BLURRED_PHASES
    within, scatter = cell_noise(jacobian, CELL, phases, taps)
    mean = shifted(taps, CELL).mean(axis=0)
    slope = np.convolve(taps, [-0.5, 0.0, 0.5])
    across, down = np.outer(_wide(taps, slope), slope), np.outer(slope, _wide(taps, slope))
    return Kept(
        within,
        scatter,
        filtered_noise(jacobian, np.outer(mean, mean)),
        filtered_noise(jacobian, across) + filtered_noise(jacobian, down),
    )


def post_noise(blur: Blur | None) -> Kept[float]:
    """Return what is left in post, which is not resampled."""
    taps = np.ones(1) if blur is None else blur.of("post")
    mixing = departures(taps, CELL)
    products = mixing @ mixing.T
    means = shifted(taps, CELL).mean(axis=0)
    slope = np.convolve(taps, [-0.5, 0.0, 0.5])
    return Kept(
        within=float(np.trace(products)) / CELL**2,
        scatter=2 * float((products * products).sum()) / CELL**4,
        mean=float((means * means).sum() ** 2),
        slope=2 * float((slope * slope).sum() * (taps * taps).sum()),
    )


def _wide(taps: Floats, like: Floats) -> Floats:
    """Put weights in the middle of as many as another array has."""
    return np.pad(taps, (len(like) - len(taps)) // 2)
