"""How much signal each channel of an image shows, from a sample of its blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.channels.setting import usable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from unglow.tiff import ChannelInfo

# Signal starts this many standard deviations of the noise above the background level.
_CLEAR = 4.0
# Channels that differ by less than this share of their signal are one image three times.
_EQUAL = 0.01


@dataclass(frozen=True, slots=True)
class ChannelSample:
    """What was measured in the sampled blocks of one image, per channel that is not alpha.

    ``signal`` is the mean of what rises above background and noise, ``spread`` the distance of the
    0.1 and 99.9 percentiles, both in grey levels; ``equal`` says that the channels are copies.
    """

    names: tuple[str, ...]
    numbers: tuple[int, ...]
    signal: tuple[float, ...]
    spread: tuple[float, ...]
    equal: bool

    @property
    def shares(self) -> dict[str, float]:
        """Share of each channel in the summed signal; all zero if there is none."""
        total = sum(self.signal)
        return {n: round(s / total, 4) if total > 0 else 0.0
                for n, s in zip(self.names, self.signal, strict=True)}  # fmt: skip


def measure(blocks: Iterable[NDArray[Any]], channels: Sequence[ChannelInfo]) -> ChannelSample:
    """Measure the signal in each channel of an image.

    Parameters
    ----------
    blocks
        Each (channels, rows, cols), any real dtype; values that are not finite are left out.
    channels
        Names, and which are alpha.
    """
    numbers = usable(channels)
    values: list[list[NDArray[Any]]] = [[] for _ in numbers]
    sums: list[list[NDArray[Any]]] = [[] for _ in numbers]
    steps: list[list[NDArray[Any]]] = [[] for _ in numbers]
    for block in blocks:
        for i, number in enumerate(numbers):
            left = block[number, ::2, 0:-1:2].astype(np.float32).ravel()
            right = block[number, ::2, 1::2].astype(np.float32).ravel()
            values[i].append(left)
            sums[i].append(left + right)
            steps[i].append(left - right)
    pixels = [_joined(v) for v in values]
    noise = [_noise(_joined(a), _joined(b)) for a, b in zip(sums, steps, strict=True)]
    bright = _bright_background(pixels)
    signal, spread = [], []
    for value, sigma in zip(pixels, noise, strict=True):
        finite = value[np.isfinite(value)]
        signal.append(_signal(-finite if bright else finite, sigma))
        low, high = np.percentile(finite, [0.1, 99.9]) if finite.size else (0.0, 0.0)
        spread.append(float(high - low))
    return ChannelSample(
        tuple(_unique_names(channels, numbers)),
        tuple(numbers),
        tuple(signal),
        tuple(spread),
        _copies(pixels, signal),
    )


def _unique_names(channels: Sequence[ChannelInfo], numbers: Sequence[int]) -> list[str]:
    """Return channel names; one that is there twice gets its number."""
    names = [channels[n].name for n in numbers]
    return [f"{name} ({n})" if names.count(name) > 1 else name
            for n, name in zip(numbers, names, strict=True)]  # fmt: skip


def _joined(parts: list[NDArray[Any]]) -> NDArray[np.float32]:
    return np.concatenate(parts) if parts else np.empty(0, np.float32)


def _noise(sums: NDArray[np.float32], steps: NDArray[np.float32]) -> float:
    """Estimate the standard deviation of the noise in the darker half of neighbouring pixels.

    Of two normal values, sum and difference are independent, so choosing by the sum leaves the
    spread of the differences as it is.
    """
    finite = np.isfinite(steps)
    sums, steps = sums[finite], steps[finite]
    if not steps.size:
        return 0.0
    dark = steps[sums <= np.median(sums)]
    return float(1.4826 * np.median(np.abs(dark)) / np.sqrt(2.0))


def _signal(values: NDArray[np.float32], noise: float) -> float:
    """Return the mean of what rises clearly above the background.

    The level is the 1st percentile, raised by as much as noise alone lowers it (2.33 standard
    deviations); it is one percent of the pixels that has to be background, not half of them.
    """
    if not values.size:
        return 0.0
    level = float(np.percentile(values, 1.0)) + 2.33 * noise
    rise = values[values > level + _CLEAR * noise].astype(np.float64) - level
    return float(rise.sum() / values.size)


def _bright_background(pixels: Sequence[NDArray[np.float32]]) -> bool:
    """Return whether the common value is near the top, as in transmitted light.

    The shares hardly depend on it (they follow the range of each channel), but a small dark object
    is only seen against the right side.
    """
    total = np.asarray(np.sum(pixels, axis=0), dtype=np.float32)
    total = total[np.isfinite(total)]
    if not total.size:
        return False
    low, middle, high = np.percentile(total, [0.5, 50.0, 99.5])
    return bool(high - middle < 0.25 * (middle - low))


def _copies(pixels: Sequence[NDArray[np.float32]], signal: Sequence[float]) -> bool:
    """Return whether all channels hold the same image (grey saved as RGB)."""
    if len(pixels) < 2 or signal[0] <= 0:
        return False
    differ = [np.nanmean(np.abs(p - pixels[0]), dtype=np.float64) for p in pixels[1:]]
    return bool(max(differ) <= _EQUAL * signal[0])
