"""The sample of a slide: its cells, ranges of channels, and where their texture is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.progress import progress, step
from unglow.core.windows import Window, map_bounded
from unglow.photometry.cell_moments import CellMoments
from unglow.slides.slide import BLOCK, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from unglow.core.arrays import Array, Floats, Floats32
    from unglow.images.slide_plan import Channel
    from unglow.slides.images import Frame, SlideReader


# Px that are looked at for the floor, at most: one in a power of two along both sides.
_SAMPLED = 1 << 17
# The floor lies a little below the dark pixels, as that of a registered image does.
_DARK, _BRIGHT, _BELOW = 0.001, 0.998, 0.02
# Noise: number of windows, side of the squares in them, and the median of a squared normal number.
_NOISE_WINDOWS, _SQUARE, _MEDIAN_OF_SQUARE = 12, 16, 0.4549
# Texture is that of means of this many px, which have little noise.
_MEANS = 8


@dataclass(frozen=True, eq=False, slots=True)
class ChannelSurvey:
    """Statistics of a channel in the sample of a slide.

    Attributes
    ----------
    low, high
        Smallest and largest value; 0 where there is none.
    integer
        Whether they are whole grey levels.
    floor
        Grey level just below the background.
    texture
        (rows, columns) float32 of each whole block of `BLOCK` px of the mosaic: how much there is
        to see.
    """

    low: float
    high: float
    integer: bool
    floor: float
    texture: Floats32

    @property
    def range(self) -> tuple[float, float]:
        """Smallest and largest value."""
        return self.low, self.high


@dataclass(eq=False, slots=True)
class SampledCells(CellMoments):
    """Cells of the mosaic, with their places in the slide, (cells, 2) (x, y)."""

    places: Floats = field(default_factory=lambda: np.zeros((0, 2)))

    @classmethod
    def from_moments(cls, cells: CellMoments, sample: Sample) -> SampledCells:
        """Return the cells of a mosaic where they lie in the slide."""
        places = sample.to_slide(cells.centres_xy)
        return cls(sample.shape, cells.every, cells.tops, **cells.arrays, places=places)

    @property
    def centres_xy(self) -> Floats:
        """Centres of the cells in the slide, in row order."""
        return self.places


@step("ranges")
def survey_channels(
    frame: Frame,
    sample: Sample,
    channels: Sequence[Channel],
    *,
    workers: int,
    at_a_time: int,
) -> dict[str, ChannelSurvey]:
    """ChannelSurvey at the sample of some channels, a number of them at a time; by name."""
    surveys: dict[str, ChannelSurvey] = {}
    for first in range(0, len(channels), at_a_time):
        some = channels[first : first + at_a_time]
        surveys |= dict(_survey(frame, sample, some, workers))
        progress(len(surveys), len(channels), "channel")
    return surveys


def _survey(
    frame: Frame, sample: Sample, channels: Sequence[Channel], workers: int
) -> Iterator[tuple[str, ChannelSurvey]]:
    """Yield name and survey of each channel, from one pass over all of them."""
    shape, every = sample.extent, 1
    while np.prod([-(-n // every) for n in shape]) > _SAMPLED:
        every *= 2
    samples = np.full((len(channels), *(-(-n // every) for n in shape)), np.nan, np.float32)
    textures = np.zeros((len(channels), *(n // BLOCK for n in shape)), np.float32)

    def find_ends(item: tuple[Window, tuple[int, int]]) -> list[tuple[float, float]]:
        window, corner = item
        rows, cols = (slice(n // every, None) for n in corner)
        top, left = (n // BLOCK for n in corner)
        limits = []
        for i, block in enumerate(frame.read(window, channels)):
            part = block[::every, ::every]
            samples[i, rows, cols][: part.shape[0], : part.shape[1]] = part
            found = _texture(block)
            textures[i, top:, left:][: found.shape[0], : found.shape[1]] = found
            limits.append((float(np.fmin.reduce(block, None)), float(np.fmax.reduce(block, None))))
        return limits

    limits = np.array(list(map_bounded(find_ends, sample.windows, workers)))
    for i, one in enumerate(channels):
        finite = samples[i][np.isfinite(samples[i])]
        dark, bright = np.quantile(finite, (_DARK, _BRIGHT)) if finite.size else (0.0, 0.0)
        low, high = np.fmin.reduce(limits[:, i, 0]), np.fmax.reduce(limits[:, i, 1])
        yield (
            one.name,
            ChannelSurvey(
                float(np.nan_to_num(low)),
                float(np.nan_to_num(high)),
                frame.dtype_of(one).kind in "iu",
                float(dark - _BELOW * (bright - dark)),
                textures[i],
            ),
        )


def _texture(block: Array) -> Floats32:
    """Return how much there is to see in each whole block of `BLOCK` px: spread over root of mean.

    So shot noise counts everywhere the same. NaN makes a block count for nothing.
    """
    rows, cols = (n // BLOCK for n in block.shape)
    if not rows or not cols:
        return np.zeros((rows, cols), np.float32)
    inside = block[: rows * BLOCK, : cols * BLOCK]
    lines = inside.reshape(rows * BLOCK // _MEANS, _MEANS, -1).sum(axis=1, dtype=np.float32)
    means = lines.reshape(len(lines), -1, _MEANS).sum(axis=2) / np.float32(_MEANS**2)
    side = BLOCK // _MEANS
    squares = means.reshape(rows, side, cols, side)
    mean, spread = squares.mean(axis=(1, 3)), squares.std(axis=(1, 3))
    return np.asarray(np.nan_to_num(spread / np.sqrt(np.maximum(mean, 1))), np.float32)


def raw_noise(reader: SlideReader, channel: Channel) -> float:
    """Return the variance of the noise in a px of a channel as it is stored, grey levels^2.

    From differences of 2 x 2 px, in which what is smooth cancels: their median in each of many
    small squares, averaged over squares, since noise grows with the level.
    """
    windows = Sample.from_shape(reader.headers[channel.image].shape).windows
    found = []
    for window, _ in windows[:: max(1, len(windows) // _NOISE_WINDOWS)]:
        stored = reader.read(window, [channel])[0]
        block = reader.gaps.hide(channel, window, stored).astype(np.float32)
        crossed = block[:-1, :-1] - block[1:, :-1] - block[:-1, 1:] + block[1:, 1:]
        rows, cols = (n // _SQUARE for n in crossed.shape)
        inside = crossed[: rows * _SQUARE, : cols * _SQUARE] ** 2 / 4
        squares = inside.reshape(rows, _SQUARE, cols, _SQUARE).swapaxes(1, 2)
        found.append(np.median(squares.reshape(rows * cols, -1), axis=1) / _MEDIAN_OF_SQUARE)
    each = np.concatenate(found)
    each = each[np.isfinite(each)]
    return float(each.mean()) if len(each) else 0.0
