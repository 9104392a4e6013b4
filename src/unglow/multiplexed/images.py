"""The images of a slide, read where they lie."""

from __future__ import annotations

import itertools
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from unglow.core.windows import Window, grid, map_bounded, strips
from unglow.io.raw_images import open_reader
from unglow.io.zarr import plan_layout
from unglow.io.zarr.layout import CHUNK, halve_stored
from unglow.io.zarr.reader import ChunkCache
from unglow.multiplexed.gaps import Gaps
from unglow.multiplexed.sample import ALIGNED_ROWS
from unglow.transform.resample import source_window, warp_window

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from unglow.io.ome_zarr import OmeZarrReader
    from unglow.io.tiff import TiffHeader, TiffReader
    from unglow.multiplexed.slide import Channel
    from unglow.transform import Transform

_STRIP = 1024
"""Rows and columns of level 0 that are read at a time to compute a coarser level, px at least."""
_KEPT = 12_000_000
"""Decoded tiles of a channel that are kept while blocks of it are matched, bytes."""
_AROUND = 2
"""Blocks are matched after a step of up to 1 px, which needs so much more of the background."""
_MOST_SOURCE, _SPARE_PX = 1.25, 1 << 16
"""A window needs at most so many px of the background per px, and these, to be read in one."""


class SlideReader:
    """All images of a slide, opened once; use it in a ``with`` statement.

    Parameters
    ----------
    headers
        Of the images of the slide, in its order; all have one shape.

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

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of every image."""
        return self.headers[0].shape

    def read(self, window: Window, channels: Sequence[Channel]) -> list[NDArray[Any]]:
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
        """Yield channels to be read together, in their order: at most so many of one image.

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

    def read(self, window: Window, level: int = 0) -> NDArray[Any]:  # noqa: ARG002 (as above)
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
        self._kept_from, self._workers = min(kept, self._layout.levels - 1), workers
        self._kept: list[NDArray[Any]] = []
        self._lock = threading.Lock()

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of level 0."""
        return self._layout.shape

    @property
    def levels(self) -> int:
        """Number of levels, as of a store."""
        return self._layout.levels

    def level_shape(self, level: int) -> tuple[int, int]:
        """Rows and columns of a level."""
        return self._layout.level_shape(level)

    def read(self, window: Window, level: int = 0) -> NDArray[Any]:
        """Return the pixels of a window inside the level."""
        if level and level >= self._kept_from:
            return self._coarse(level)[window.slices]
        if not level:
            return self._tiles.read(window)
        return self._averaged(window, level)

    def _averaged(self, window: Window, level: int) -> NDArray[Any]:
        """Average level 0 down to a window of a level, part by part."""
        out = np.empty(window.shape, self._layout.dtype)
        step = max(1, _STRIP >> level)
        for part in grid(window.shape, (step, step)):
            whole = part.shift(window.y0, window.x0)
            y0, y1, x0, x1 = (n << level for n in (whole.y0, whole.y1, whole.x0, whole.x1))
            block = self._reader.read(Window(y0, y1, x0, x1), [self._channel])[0]
            for _ in range(level):
                block = halve_stored(block)
            out[part.slices] = block
        return out

    def _coarse(self, level: int) -> NDArray[Any]:
        """Return a whole level; the first call computes all that are kept."""
        with self._lock:
            if not self._kept:
                first = self._kept_from
                plane = np.empty(self.level_shape(first), self._layout.dtype)
                step = max(1, _STRIP >> first)

                def fill(window: Window) -> None:
                    plane[window.slices] = self._averaged(window, first)

                for _ in map_bounded(fill, grid(plane.shape, (step, step)), self._workers):
                    pass
                self._kept = [plane]
                for _ in range(first + 1, self.levels):
                    self._kept.append(halve_stored(self._kept[-1]))
        return self._kept[level - self._kept_from]


def stays(transform: Transform | None) -> bool:
    """Say whether a map moves nothing, so that nothing is resampled; None is within a cycle."""
    if transform is None:
        return True
    return transform.displacement is None and np.array_equal(transform.matrix, np.eye(3))


class Background:
    """A background around what one window of a marker needs of it.

    Parameters
    ----------
    reader, channel
        The background.
    transform
        Map from the marker's frame; None where that is the background's own.
    window
        Of the marker.
    """

    def __init__(
        self, reader: SlideReader, channel: Channel, transform: Transform | None, window: Window
    ) -> None:
        self._reader, self._channel, self._window = reader, channel, window
        self._transform = None if stays(transform) else transform
        self._part = window
        if self._transform is not None:
            matrix = self._transform.matrix / self._transform.matrix[2, 2]
            needed = source_window(matrix, self._transform.displacement, window, reader.shape)
            self._part = needed.grow(_AROUND).clip(reader.shape)
            if self._part.size > _MOST_SOURCE * window.size + _SPARE_PX:
                self._part = Window(0, 0, 0, 0)  # a steep map: it is read in pieces
        self._pixels = reader.read(self._part, [channel])[0]
        # on whole px, neighbours of whole numbers get no weight; a NaN would make its own NaN
        self._whole = self._transform is None and self._pixels.dtype.kind in "iu"

    def read(self, window: Window) -> NDArray[Any]:
        """Return a window of the background in its own frame, for interpolation by the map.

        Px that get no weight may be 0; what is not stored is NaN.
        """
        return self._reader.gaps.hidden(self._channel, window, self._stored(window))

    def _stored(self, window: Window) -> NDArray[Any]:
        """Return a window with fill values where nothing is stored."""
        inside = self._part.common(window)
        if inside != window and not self._whole:
            return self._reader.read(window, [self._channel])[0]
        held = self._pixels[inside.shift(-self._part.y0, -self._part.x0).slices]
        if inside == window:
            return held
        pixels = np.zeros(window.shape, held.dtype)
        pixels[inside.shift(-window.y0, -window.x0).slices] = held
        return pixels

    def aligned(self) -> NDArray[np.float32]:
        """Return it in the marker's frame over the window; NaN where it has no data."""
        if self._transform is None:
            found = self._pixels.astype(np.float32, copy=False)
            return self._reader.gaps.hidden(self._channel, self._window, found)
        out = np.empty(self._window.shape, np.float32)
        for strip in strips(self._window, ALIGNED_ROWS):
            rows = slice(strip.y0 - self._window.y0, strip.y1 - self._window.y0)
            out[rows] = warp_window(self.read, self._reader.shape, self._transform, strip)
        return out
