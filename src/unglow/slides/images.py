"""The images of a slide, read where they lie."""

from __future__ import annotations

import itertools
import math
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from unglow.core.windows import Window, grid, halve_stored, map_bounded, strips
from unglow.images.raw_images import open_reader
from unglow.images.zarr import plan_layout
from unglow.images.zarr.layout import CHUNK
from unglow.images.zarr.reader import ChunkCache
from unglow.slides.channels import Gaps
from unglow.slides.slide import ALIGNED_ROWS
from unglow.transform import Quantiles
from unglow.transform.resample import source_window, warp_window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from unglow.core.arrays import Array, Floats32
    from unglow.images.ome_zarr import OmeZarrReader
    from unglow.images.slide_plan import Channel, Slide
    from unglow.images.tiff import TiffHeader, TiffReader
    from unglow.slides.slide import Maps
    from unglow.spoilt.places import SpoiltMask
    from unglow.transform import Transform

_STRIP = 1024
"""Rows and columns of level 0 that are read at a time to compute a coarser level, px at least."""
_KEPT = 12_000_000
"""Decoded tiles of a channel that are kept while blocks of it are matched, bytes."""
_MOST_SOURCE, _SPARE_PX = 1.25, 1 << 16
"""A window needs at most this many px of the background per px, and these, to be read in one."""


class SlideReader:
    """All images of a slide, opened once; use it in a ``with`` statement.

    Parameters
    ----------
    headers
        Of the images of the slide, in its order.

    Attributes
    ----------
    gaps
        What its channels do not store; `read` gives the fill value there.
    """

    def __init__(self, headers: Sequence[TiffHeader]) -> None:
        self.headers = tuple(headers)
        self._readers: list[TiffReader | OmeZarrReader] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for header in self.headers:
                reader = open_reader(header)
                stack.enter_context(reader)
                self._readers.append(reader)
            self.gaps = Gaps(self._readers)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def read(self, window: Window, channels: Sequence[Channel]) -> list[Array]:
        """Return a window of some channels, (rows, cols) each, in the dtype of their files.

        What an image stores together is decoded once. Thread-safe.
        """
        pixels: list[Any] = [None] * len(channels)
        for image in sorted({one.image for one in channels}):
            places = [i for i, one in enumerate(channels) if one.image == image]
            numbers = [channels[i].number for i in places]
            for i, block in zip(places, self._readers[image].read(window, numbers), strict=True):
                pixels[i] = block
        return pixels

    def batches(self, channels: Sequence[Channel], most: int) -> Iterator[list[Channel]]:
        """Yield channels to be read together, in their order, ``most`` of one image at most.

        What an image stores apart is read one by one, which takes less memory and no more time.
        """
        for image, of_image in itertools.groupby(channels, lambda one: one.image):
            some = list(of_image)
            step = 1 if self.headers[image].separate else most
            yield from (some[first : first + step] for first in range(0, len(some), step))


class _Finest:
    """Level 0 of a channel, alone."""

    levels = 1

    def __init__(self, reader: SlideReader, channel: Channel) -> None:
        self._reader, self._channel = reader, channel
        self.shape = reader.headers[channel.image].shape

    def level_shape(self, level: int) -> tuple[int, int]:  # noqa: ARG002 (there is one)
        return self.shape

    def read(self, window: Window, level: int = 0) -> Array:  # noqa: ARG002 (as above)
        return self._reader.read(window, [self._channel])[0]


class InPlaceImage:
    """One channel as `unglow.core.windows.Pixels`, without a store.

    Coarser levels have the means that a store would have, px by px. The coarsest that is asked for
    is computed in one pass over the image and kept; those between are computed as they are read.

    Parameters
    ----------
    reader, channel
        The channel of an open slide.
    kept
        Levels from this one on are kept; a level of about a thousand px per side.
    workers
        Threads that compute it.
    """

    def __init__(
        self, reader: SlideReader, channel: Channel, kept: int, *, workers: int = 1
    ) -> None:
        self._reader, self._channel = reader, channel
        header = reader.headers[channel.image]
        rows, cols = header.unit
        side = rows if rows == cols and rows <= _STRIP else CHUNK
        chunk_bytes = side * side * header.sample_bytes
        self._tiles = ChunkCache(_Finest(reader, channel), max(1, _KEPT // chunk_bytes), side)
        self._layout = plan_layout(header.shape, header.dtype)
        self.shape, self.levels = self._layout.shape, self._layout.levels
        self._kept_from, self._workers = min(kept, self.levels - 1), workers
        self._kept: list[Array] = []
        self._lock = threading.Lock()

    def level_shape(self, level: int) -> tuple[int, int]:
        """Rows and columns of a level."""
        return self._layout.level_shape(level)

    def read(self, window: Window, level: int = 0) -> Array:
        """Return the pixels of a window inside the level."""
        if level and level >= self._kept_from:
            return self._coarse(level)[window.slices]
        if not level:
            return self._tiles.read(window)
        return self._average(window, level)

    def _average(self, window: Window, level: int) -> Array:
        """Average level 0 down to a window of a level, part by part."""
        out = [np.empty(window.shape, self._layout.dtype)]
        _average_into(out, lambda fine: self._reader.read(fine, [self._channel]), window, level)
        return out[0]

    def _coarse(self, level: int) -> Array:
        """Return a whole level; the first call computes all that are kept."""
        with self._lock:
            if not self._kept:
                first = self._kept_from
                plane = np.empty(self.level_shape(first), self._layout.dtype)
                step = max(1, _STRIP >> first)

                def fill(window: Window) -> None:
                    plane[window.slices] = self._average(window, first)

                for _ in map_bounded(fill, grid(plane.shape, (step, step)), self._workers):
                    pass
                self._kept = [plane]
                for _ in range(first + 1, self.levels):
                    self._kept.append(halve_stored(self._kept[-1]))
        return self._kept[level - self._kept_from]


class Frame:
    """The channels of an open slide in the frame of one of its cycles, each px resampled once.

    Cycles whose map moves nothing are read as they are stored. Of a cycle that is more than 1.4
    times as fine as the frame, a coarser level is resampled, made as it is read.

    Parameters
    ----------
    reader, slide
        The open slide.
    maps
        From the frame to each other cycle (`Slide.moves`); those of failed cycles are not used.
    spoilt
        Px of the frame that are spoilt in a cycle, which are read as no data.
    tops
        Values from which on px of some channels, by name, are read as no data.
    """

    def __init__(
        self,
        reader: SlideReader,
        slide: Slide,
        maps: Maps,
        spoilt: Mapping[int, SpoiltMask] | None = None,
        tops: Mapping[str, float] | None = None,
    ) -> None:
        self._reader, self._slide, self._spoilt = reader, slide, spoilt or {}
        self._tops = tops or {}
        self.headers = reader.headers
        self.shape = frame_shape(slide, self.headers)
        self._errors = {slide.frame_cycle: Quantiles(0.0, 0.0)}
        self._maps: dict[int, Transform | None] = {slide.frame_cycle: None}
        for cycle in slide.moved_cycles:
            found = maps[slide.frame_cycle, cycle]
            self._errors[cycle] = found.error_px
            same = found.pre_shape == self.shape and np.array_equal(found.matrix, np.eye(3))
            # where a map moves nothing, nothing is resampled
            self._maps[cycle] = None if same and found.displacement is None else found

    def map_of(self, channel: Channel) -> Transform | None:
        """Return the map that a channel is resampled by; None where it is read as it is stored."""
        return self._maps[channel.cycle]

    def area_of(self, channel: Channel) -> float:
        """Return how many px of a channel's image there are for one of the frame."""
        known = self._maps[channel.cycle]
        return 1.0 if known is None else abs(float(np.linalg.det(known.matrix[:2, :2])))

    def error_between(self, one: Channel, other: Channel) -> Quantiles:
        """Return how far two channels may lie apart because of their maps, px; NaN in one cycle."""
        errors = [self._errors[channel.cycle] for channel in (one, other)]
        if one.cycle == other.cycle:
            return Quantiles()
        return Quantiles(*(math.hypot(*(getattr(e, n) for e in errors)) for n in ("median", "p95")))

    def dtype_of(self, channel: Channel) -> np.dtype[Any]:
        """Return the type of the samples of a channel in its file."""
        return np.dtype(self._reader.headers[channel.image].dtype)

    def read(self, window: Window, channels: Sequence[Channel]) -> list[Array]:
        """Return a window of some channels, (rows, cols) each; what an image joins is decoded once.

        In the dtype of their files where nothing is resampled and everything is stored there, else
        as floats, NaN where there is no data.
        """
        found: dict[str, Array] = {}
        for transform, image in {(self._maps[c.cycle], c.image): None for c in channels}:
            some = [c for c in channels if (self._maps[c.cycle], c.image) == (transform, image)]
            if transform is None:
                blocks = self._read_stored(window, some)
            else:
                blocks = self._resample(transform, window, some)
            found |= {one.name: block for one, block in zip(some, blocks, strict=True)}
        return [self._hide_spoilt(one, window, found[one.name]) for one in channels]

    def _hide_spoilt(self, channel: Channel, window: Window, block: Array) -> Array:
        mask = self._spoilt.get(channel.cycle)
        near = None if mask is None else mask.mask_near(window)
        if near is None or not near.any():
            return block
        out = block.astype(np.result_type(block.dtype, np.float32))
        out[near] = np.nan
        return out

    def batches(self, channels: Sequence[Channel], most: int) -> Iterator[list[Channel]]:
        """Yield channels to be read together, see `SlideReader.batches`."""
        return self._reader.batches(channels, most)

    def _read_stored(self, window: Window, channels: Sequence[Channel]) -> list[Array]:
        gaps = self._reader.gaps
        blocks = self._reader.read(window, channels)
        return [
            gaps.hide(one, window, block, self._tops.get(one.name, np.inf))
            for one, block in zip(channels, blocks, strict=True)
        ]

    def _resample(
        self, transform: Transform, window: Window, channels: Sequence[Channel]
    ) -> list[Floats32]:
        """Return a window of channels of one image, brought into the frame."""
        level, seen = max(0, transform.octaves), transform.resampling_map
        matrix = seen.matrix / seen.matrix[2, 2]
        needed = source_window(matrix, seen.displacement, window, seen.pre_shape)
        if needed.size > _MOST_SOURCE * window.size + _SPARE_PX:
            needed = Window(0, 0, 0, 0)  # a steep map: it is read in pieces
        held = self._level(needed, channels, level)
        found: list[Floats32] = []
        while held:
            one, pixels = channels[len(found)], held.pop(0)

            def read(part: Window, one: Channel = one, pixels: Array = pixels) -> Array:
                if needed.common(part) != part:
                    return self._level(part, [one], level)[0]
                return pixels[part.shift(-needed.y0, -needed.x0).slices]

            out = np.empty(window.shape, np.float32)
            for strip in strips(window, ALIGNED_ROWS):
                rows = slice(strip.y0 - window.y0, strip.y1 - window.y0)
                out[rows] = warp_window(read, seen.pre_shape, seen, strip)
            found.append(out)
        return found

    def _level(self, window: Window, channels: Sequence[Channel], level: int) -> list[Array]:
        """Return a window of a level of channels of one image, NaN where nothing is stored."""
        if not level:
            return self._read_stored(window, channels)
        blocks = [np.full(window.shape, np.nan, np.float32) for _ in channels]
        _average_into(blocks, lambda fine: self._read_stored(fine, channels), window, level)
        return blocks


def _average_into(
    blocks: Sequence[Array], read: Callable[[Window], list[Array]], window: Window, level: int
) -> None:
    """Fill blocks with a window of a level; ``read`` returns as many of level 0, part by part."""
    step = max(1, _STRIP >> level)
    for part in grid(window.shape, (step, step)):
        whole = part.shift(window.y0, window.x0)
        fine = Window(*(n << level for n in (whole.y0, whole.y1, whole.x0, whole.x1)))
        for out, pixels in zip(blocks, read(fine), strict=True):
            for _ in range(level):
                pixels = halve_stored(pixels)  # noqa: PLW2901 (level by level)
            out[part.slices] = pixels


def frame_shape(slide: Slide, headers: Sequence[TiffHeader]) -> tuple[int, int]:
    """Return (rows, columns) of the frame of a slide: those of its reference cycle."""
    image = next(one.image for one in slide.channels if one.cycle == slide.frame_cycle)
    return headers[image].shape


class HeldChannel:
    """A channel over a window of the frame, and what blocks that are matched need around it.

    Parameters
    ----------
    frame, channel
        The channel.
    window
        Of the frame.
    pixels
        The channel there, as `Frame.read` gives it.
    """

    def __init__(self, frame: Frame, channel: Channel, window: Window, pixels: Array) -> None:
        self._frame, self._channel, self._window, self.pixels = frame, channel, window, pixels

    def read(self, window: Window) -> Array:
        """Return a window, for interpolation at whole px; px that get no weight may be 0.

        A NaN would spread to its neighbours.
        """
        inside = self._window.common(window)
        if inside != window and self.pixels.dtype.kind not in "iu":
            return self._frame.read(window, [self._channel])[0]
        held = self.pixels[inside.shift(-self._window.y0, -self._window.x0).slices]
        if inside == window:
            return held
        pixels = np.zeros(window.shape, held.dtype)
        pixels[inside.shift(-window.y0, -window.x0).slices] = held
        return pixels
