"""The corrected slide: every channel in the frame of the slide, window by window."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from unglow.core.progress import progress, step
from unglow.core.windows import Window, grid, map_bounded, strips
from unglow.images.stored_values import grey_level
from unglow.photometry.difference import subtract_window
from unglow.photometry.difference_histogram import DifferenceHistogram
from unglow.slides.images import Frame, SlideReader, frame_shape
from unglow.slides.slide import OVERVIEW, OVERVIEWS_PX, SATURATED, group_by_background

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unglow.core.arrays import Array, Floats32
    from unglow.images.slide_plan import Channel, Slide
    from unglow.images.tiff import TiffHeader
    from unglow.photometry.gain.scale import MethodResult, Scale
    from unglow.slides.slide import Maps

    _Key = tuple[str, ...]

# Rows that are worked on at a time, so that they stay in the cache; a multiple of most steps of an
# overview.
_ROWS = 64
# The histogram has no more bins than this; the step is a part of a grey level as long as they do.
_BINS = 1 << 15


class PlaneSink(Protocol):
    """Takes every window of every channel once, from any thread."""

    @property
    def window(self) -> int:
        """Side of the windows it takes, px; they begin at multiples of it."""
        ...

    def write(self, channel: int, window: Window, pixels: Array) -> None:
        """Take level 0 of a window of a channel, (rows, cols) of the final dtype."""
        ...


class Sinks:
    """Several sinks as one; their windows are of one size."""

    def __init__(self, sinks: Sequence[PlaneSink]) -> None:
        self._sinks = sinks
        (self.window,) = {sink.window for sink in sinks}

    def write(self, channel: int, window: Window, pixels: Array) -> None:
        """Hand a window to each of them."""
        for sink in self._sinks:
            sink.write(channel, window, pixels)


@dataclass(eq=False, slots=True)
class Subtracted:
    """What the subtraction of one marker left, and what was cut off.

    Attributes
    ----------
    histogram
        Of the difference before it is cut off and rounded.
    before, background, after
        Overviews (rows, cols) float32: means over squares of ``step`` px of the marker as aligned,
        of its background and of the marker as corrected; NaN without data.
    step
        Level-0 px per px of them.
    below_px, above_px
        How many differences were below 0 and above the largest value of the type; 0 where nothing
        is cut off.
    """

    histogram: DifferenceHistogram
    before: Floats32
    background: Floats32
    after: Floats32
    step: int
    below_px: int = 0
    above_px: int = 0

    @property
    def below(self) -> float:
        """Share (0 to 1) of the px with data that were cut off at 0."""
        return self.below_px / max(1, self.histogram.total)

    @property
    def above(self) -> float:
        """Share (0 to 1) of the px with data that were cut off at the end of the type."""
        return self.above_px / max(1, self.histogram.total)


def overview_step(slide: Slide, shape: tuple[int, int]) -> int:
    """Return the level-0 px per px of the overviews of a slide of (rows, columns)."""
    step = 1
    markers = max(1, len(slide.markers))
    while (
        max(shape) // step > OVERVIEW
        or markers * (shape[0] // step) * (shape[1] // step) > OVERVIEWS_PX
    ):
        step *= 2
    return step


def _groups(slide: Slide) -> list[tuple[_Key | None, list[Channel]]]:
    """Return kept channels by what is subtracted from them, first those that pass through."""
    passing = [one for one in slide.kept if one.background is None]
    return [(None, passing), *group_by_background(slide.markers).items()]


def nothing_left(
    slide: Slide, headers: Sequence[TiffHeader], scales: Mapping[str, Scale]
) -> dict[str, Subtracted]:
    """Return what is to be counted of each marker that has a gain, by name."""
    shape = frame_shape(slide, headers)
    step = overview_step(slide, shape)
    left = {}
    for one in slide.markers:
        if scales[one.name].status == "ok":
            views = [
                np.full((shape[0] // step, shape[1] // step), np.nan, np.float32) for _ in range(3)
            ]
            dtypes = (headers[c.image].dtype for c in (one, *slide.backgrounds_of(one)))
            integer = all(np.dtype(dtype).kind in "iu" for dtype in dtypes)
            histogram = _histogram(scales[one.name].default_result, integer=integer)
            left[one.name] = Subtracted(histogram, views[0], views[1], views[2], step)
    return left


def subtract_slide(
    slide: Slide,
    headers: Sequence[TiffHeader],
    maps: Maps,
    scales: Mapping[str, Scale],
    sink: PlaneSink,
    *,
    dtype: str,
    rounding: str = "nearest",
    workers: int = 1,
    channels_at_a_time: int = 1,
    band: range | None = None,
) -> dict[str, Subtracted]:
    """Write every channel of the corrected slide into a sink.

    Parameters
    ----------
    slide, headers, maps
        As for `unglow.slides.measure.measure_slide`; no channel of a failed cycle is kept.
    scales
        Of each marker by name, with gain maps. One without a gain stays as it was imaged.
    sink
        Takes windows of channels, numbered as in `Slide.kept`: window by window, of each those that
        pass through first, then markers by background, so that each is aligned once per window.
    dtype
        Of the corrected slide. Of integers, and where the images are floating, differences are cut
        off at 0 and at the largest value; float32 from integers keeps them all.
    rounding
        ``nearest``, or ``down`` as Backsub does; for integer types.
    workers, channels_at_a_time
        Windows of a channel in flight, and channels that are read at once of an image that does not
        store them apart, on which no result depends.
    band
        Rows: only windows that begin in it are written; None for all.

    Returns
    -------
    What is left of each kept marker that something was subtracted from, by name.
    """
    with SlideReader(headers) as reader:
        floating = all(np.dtype(one.dtype).kind == "f" for one in headers)
        output = _Output(np.dtype(dtype), rounding, floating=floating)
        work = _Subtraction(slide, reader, maps, scales, output)
        parts = work.parts(channels_at_a_time)
        windows = [
            w
            for w in grid(frame_shape(slide, headers), (sink.window,) * 2)
            if band is None or w.y0 in band
        ]
        items = ((window, part) for window in windows for part in parts)
        with step("subtract"):
            for i, _ in enumerate(map_bounded(lambda x: work.write(*x, sink), items, workers)):
                progress(i + 1, len(windows) * len(parts), "window")
        return work.left


class _Output:
    """How differences become samples of the corrected slide."""

    def __init__(self, dtype: np.dtype[Any], rounding: str, *, floating: bool) -> None:
        self.dtype, self._nearest = dtype, rounding == "nearest"
        self._integer = dtype.kind in "iu"
        self._clips = self._integer or floating
        self._most = np.float32(np.inf)
        if self._integer:
            most = int(np.iinfo(dtype).max)
            near = np.float32(most)  # of 32 bits it may be the next one
            self._most = near if int(near) <= most else np.nextafter(near, np.float32(0))

    def plain(self, pixels: Array) -> Array:
        """Return pixels that nothing is subtracted from; of integers, 0 where there is no data."""
        if not self._integer or pixels.dtype.kind in "iu":
            return pixels.astype(self.dtype, copy=False)
        out = np.empty(pixels.shape, self.dtype)
        for top in range(0, len(out), _ROWS):  # no float copy of all
            part = pixels[top : top + _ROWS].astype(np.float32)
            np.rint(part, out=part)
            np.clip(part, np.float32(0), self._most, out=part)
            out[top : top + _ROWS] = np.nan_to_num(part, copy=False)
        return out

    def cut(self, left: Floats32) -> tuple[int, int]:
        """Cut off and round differences (rows, cols) in place; return how many below and above.

        For integers they are 0 where there is no data.
        """
        if not self._clips:
            return 0, 0
        below, above = (int(np.count_nonzero(one)) for one in (left < 0, left > self._most))
        if self._integer and self._nearest:
            np.rint(left, out=left)
        np.clip(left, np.float32(0), self._most, out=left)
        if self._integer:
            np.copyto(left, 0, where=np.isnan(left))
        return below, above


class _Subtraction:
    """The work on a slide, of which a window of a few channels is a part."""

    def __init__(
        self, slide: Slide, reader: SlideReader, maps: Maps, scales: Mapping[str, Scale],
        output: _Output,
    ) -> None:  # fmt: skip
        self._slide, self._output = slide, output
        self._frame = frame = Frame(reader, slide, maps)
        self._numbers = {one.name: i for i, one in enumerate(slide.kept)}
        found = (one for one in slide.markers if scales[one.name].status == "ok")
        self._results = {one.name: scales[one.name].default_result for one in found}
        tops = {
            n: v for r in self._results.values() for n, v in r.details.get(SATURATED, {}).items()
        }
        self._unsaturated = Frame(reader, slide, maps, tops=tops)
        self.left = nothing_left(slide, frame.headers, scales)
        """What is left of each marker."""
        self._lock = threading.Lock()
        self._aligned: dict[tuple[Window, _Key], _Aligned] = {}

    def parts(self, at_a_time: int) -> list[_Part]:
        """Return what is read and written of each window, in order."""
        parts = []
        for key, group in _groups(self._slide):
            runs = itertools.groupby(group, lambda one: one.name in self.left)
            batches = [
                (subtracts, batch)
                for subtracts, run in runs
                for batch in self._frame.batches(list(run), at_a_time)
            ]
            uses = sum(subtracts for subtracts, _ in batches)
            parts += [
                _Part(batch, key if subtracts else None, uses) for subtracts, batch in batches
            ]
        return parts

    def write(self, window: Window, part: _Part, sink: PlaneSink) -> None:
        """Write a window of some channels."""
        key = part.background
        aligned = [] if key is None else self._backgrounds(window, key, part.batches)
        signals = self._frame.read(window, part.channels)
        for one in part.channels:
            signal = signals.pop(0)
            if key is None:
                pixels = self._output.plain(signal)
            else:
                pixels = self._subtract(one, signal, aligned, window)
            del signal
            if not signals:
                aligned = []  # both are done with before tiles are made
            sink.write(self._numbers[one.name], window, pixels)

    def _backgrounds(self, window: Window, key: _Key, uses: int) -> list[Floats32]:
        """Return aligned backgrounds, which are computed for the first of their uses."""
        with self._lock:
            shared = self._aligned.setdefault((window, key), _Aligned(uses))
            shared.uses -= 1
            if not shared.uses:
                del self._aligned[window, key]
        with shared.lock:
            for name in key if not shared.pixels else ():
                (pixels,) = self._unsaturated.read(window, [self._slide.channel(name)])
                shared.pixels.append(pixels.astype(np.float32, copy=False))
        return shared.pixels

    def _subtract(
        self,
        marker: Channel,
        signal: Array,
        aligned: Sequence[Floats32],
        window: Window,
    ) -> Array:
        """Return a window of a corrected marker, and count."""
        own, result = self.left[marker.name], self._results[marker.name]
        weights = [w for _, w in result.weights] if len(aligned) > 1 else []
        counted, below, above = own.histogram.fresh(), 0, 0
        out = np.empty(window.shape, self._output.dtype)
        for strip in strips(window, max(_ROWS, own.step)):
            rows = slice(strip.y0 - window.y0, strip.y1 - window.y0)
            before, background = signal[rows].astype(np.float32, copy=False), aligned[0][rows]
            if weights:
                parts = (np.float32(w) * one[rows] for w, one in zip(weights, aligned, strict=True))
                background = np.sum(list(parts), axis=0, dtype=np.float32)
            left = subtract_window(result, (before, background), strip, integer=False)
            counted.add(left)
            cut = self._output.cut(left)
            below, above = below + cut[0], above + cut[1]
            out[rows] = left
            for view, block in zip(
                (own.before, own.background, own.after), (before, background, left), strict=True
            ):
                _shrink(view, block, strip, own.step)
        with self._lock:
            own.histogram.merge(counted)
            own.below_px += below
            own.above_px += above
        return out


@dataclass(frozen=True, slots=True)
class _Part:
    """Channels that are read together, what is subtracted, and how many parts share that."""

    channels: list[Channel]
    background: _Key | None
    batches: int


@dataclass(eq=False, slots=True)
class _Aligned:
    """Aligned backgrounds, and how many times they are still asked for."""

    uses: int
    pixels: list[Floats32] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


def _histogram(result: MethodResult, *, integer: bool) -> DifferenceHistogram:
    """Return an empty histogram for what a method leaves of images of whole grey levels, or not.

    Where that takes too many bins of a grey level, what is far from 0 is counted as beyond.
    """
    own, other = (result.details[key] for key in ("range", "background_range"))
    grey = grey_level((tuple(own), tuple(other)), integer=integer)
    taken = [(result.gain or 0.0) * value + (result.offset or 0.0) for value in other]
    low, high = min(0.0, own[0] - max(taken)), max(0.0, own[1] - min(taken))
    step = grey / 32
    while step < grey and (high - low) / step > _BINS:
        step *= 2
    reach = step * _BINS / 4
    return DifferenceHistogram.create(max(low, -reach), min(high, 3 * reach), step)


def _shrink(view: Floats32, block: Array, window: Window, step: int) -> None:
    """Put the means of the whole squares of a block into an overview; it may have none."""
    rows, cols = (n // step for n in block.shape)
    sums = block[: rows * step].reshape(rows, step, block.shape[1]).sum(axis=1)
    means = sums[:, : cols * step].reshape(rows, cols, step).sum(axis=2) / step**2
    y, x = window.y0 // step, window.x0 // step
    view[y : y + rows, x : x + cols] = means
