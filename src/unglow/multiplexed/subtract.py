"""Subtraction of a slide: every channel of the corrected slide, window by window."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.progress import progress, step
from unglow.core.windows import Window, bounded_map, grid
from unglow.multiplexed.images import SlideReader, aligned
from unglow.multiplexed.measure import by_background
from unglow.multiplexed.sizes import OVERVIEW
from unglow.photometry.difference import subtracted
from unglow.photometry.difference_histogram import DifferenceHistogram

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from unglow.io.tiff import TiffHeader
    from unglow.multiplexed.slide import Channel, Maps, Slide
    from unglow.photometry.gain.scale import Scale


@dataclass(eq=False, slots=True)
class Subtracted:
    """What the subtraction of one marker left, and what was cut off.

    Attributes
    ----------
    below, above
        Pixels whose difference was below 0 and above the largest value of the type; none of
        float32.
    histogram
        Of the difference, before it is cut off and rounded.
    before, background, after
        Overviews (rows, cols) float32: means over squares of ``step`` px, without odd last ones.
    step
        Their level-0 px per px.
    """

    histogram: DifferenceHistogram
    before: NDArray[np.float32]
    background: NDArray[np.float32]
    after: NDArray[np.float32]
    step: int
    below: int = 0
    above: int = 0


def subtract_slide(
    slide: Slide,
    headers: Sequence[TiffHeader],
    maps: Maps,
    scales: Mapping[str, Scale],
    sink: Any,
    *,
    dtype: str,
    rounding: str = "nearest",
    workers: int = 1,
    channels_at_a_time: int = 1,
) -> dict[str, Subtracted]:
    """Write every channel of the corrected slide into a sink.

    Parameters
    ----------
    slide, headers, maps
        As for `unglow.multiplexed.measure.measure_slide`.
    scales
        Of each marker by name. One without a gain stays as it was imaged.
    sink
        Takes windows of channels, numbered as in `Slide.kept`.
    dtype
        Of the corrected slide: an integer type is clipped at both of its ends; so is a floating one
        at 0 if images are floating. float32 from integers is not clipped.
    rounding
        ``nearest``, or ``down`` as Backsub does; for integer types.
    workers, channels_at_a_time
        Windows in flight, and channels that are read at once.

    Returns
    -------
    What is left of each kept marker that something was subtracted from, by name.
    """
    with SlideReader(headers) as reader:
        work = _Subtraction(slide, reader, maps, scales, np.dtype(dtype), rounding)
        windows = list(grid(reader.shape, (sink.window, sink.window)))
        with step("subtract"):
            for i, _ in enumerate(
                bounded_map(lambda w: work.write(w, sink, channels_at_a_time), windows, workers)
            ):
                progress(i + 1, len(windows), "window")
        return work.left


class _Subtraction:
    def __init__(
        self,
        slide: Slide,
        reader: SlideReader,
        maps: Maps,
        scales: Mapping[str, Scale],
        dtype: np.dtype[Any],
        rounding: str,
    ) -> None:
        self._slide, self._reader, self._maps, self._scales = slide, reader, maps, scales
        self._dtype, self._rounding = dtype, rounding
        self._clips = dtype.kind in "iu" or all(
            np.dtype(h.dtype).kind == "f" for h in reader.headers
        )
        self._numbers = {one.name: i for i, one in enumerate(slide.kept)}
        self._subtracted = [
            one for one in slide.kept if one.background and scales[one.name].status == "ok"
        ]
        step = 1
        while max(reader.shape) // step > OVERVIEW:
            step *= 2
        shape = reader.shape[0] // step, reader.shape[1] // step
        self.left = {
            one.name: Subtracted(
                _histogram(scales[one.name]),
                *(np.full(shape, np.nan, np.float32) for _ in range(3)),
                step,
            )
            for one in self._subtracted
        }
        self._lock = threading.Lock()

    def write(self, window: Window, sink: Any, at_a_time: int) -> None:
        """Write one window of every channel."""
        for one in self._slide.kept:
            if one.name not in self.left:
                pixels = self._reader.read(window, [one])[0]
                sink.write(self._numbers[one.name], window, pixels.astype(self._dtype, copy=False))
        for (name, move), markers in by_background(self._slide, self._subtracted).items():
            background = self._slide.channel(name)
            pre = aligned(
                self._reader, background, None if move is None else self._maps[move], window
            )
            for first in range(0, len(markers), at_a_time):
                some = markers[first : first + at_a_time]
                for one, signal in zip(some, self._reader.read(window, some), strict=True):
                    sink.write(self._numbers[one.name], window, self._one(one, signal, pre, window))

    def _one(
        self, marker: Channel, signal: NDArray[Any], pre: NDArray[np.float32], window: Window
    ) -> NDArray[Any]:
        own = self.left[marker.name]
        left = subtracted(self._scales[marker.name].chosen, (signal, pre), window, integer=False)
        counted = own.histogram.fresh()
        counted.add(left)
        below = above = 0
        limits = np.iinfo(self._dtype) if self._dtype.kind in "iu" else None
        if self._clips:
            below = int(np.count_nonzero(left < 0))
            above = 0 if limits is None else int(np.count_nonzero(left > limits.max))
            if limits is not None and self._rounding == "nearest":
                np.rint(left, out=left)
            left = np.clip(left, 0, None if limits is None else limits.max)
        if limits is not None:
            np.nan_to_num(left, copy=False)
        out = left.astype(self._dtype)
        for view, block in ((own.before, signal), (own.background, pre), (own.after, out)):
            _shrink(view, block, window, own.step)
        with self._lock:
            own.histogram.merge(counted)
            own.below += below
            own.above += above
        return out


def _histogram(scale: Scale) -> DifferenceHistogram:
    """Return an empty histogram for all that a difference can be."""
    return DifferenceHistogram.create(-1000, 1000, 1)


def _shrink(view: NDArray[np.float32], block: NDArray[Any], window: Window, step: int) -> None:
    """Put the means of squares of a block into an overview."""
    rows, cols = (n // step for n in block.shape)
    sums = block[: rows * step].reshape(rows, step, -1).sum(axis=1, dtype=np.float64)
    means = sums[:, : cols * step].reshape(rows, cols, step).sum(axis=2) / step**2
    y, x = window.y0 // step, window.x0 // step
    view[y : y + rows, x : x + cols] = means
