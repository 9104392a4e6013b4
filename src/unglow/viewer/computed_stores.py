"""Images that are not written, as Zarr stores that are computed where somebody looks.

The documents are those of OME-Zarr 0.5, like unglow's own, but every chunk is a file of its own: a
shard would have to be computed entirely.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from unglow.core.windows import Window, grid, halve_stored
from unglow.detection.coarse_grid import CoarseGrid, estimate_error
from unglow.io.zarr import StoreLayout, plan_layout
from unglow.io.zarr.layout import (
    CHUNK,
    DOCUMENT,
    display_window,
    make_root_document,
    make_unsharded_document,
)
from unglow.io.zarr.shards import encode_chunk
from unglow.reporting.html.live_answers import ASK_AGAIN, BYTES, JSON, Answer
from unglow.viewer.served_files import level_of, place_of
from unglow.workflow.stages.snr import ratio_over

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from unglow.detection.snr import Scene
    from unglow.multiplexed.images import Frame
    from unglow.multiplexed.slide import Channel
    from unglow.photometry.imaging import GainMap
    from unglow.transform import Transform
    from unglow.viewer.caches import ChunkMemory


SNR_LEVELS = 3
"""Of the signal-to-noise ratio: a px of a coarser level would take too many of level 0."""
_CELL = 512
"""Side of the parts of level 0 that are in memory at a time, px."""


@dataclass(frozen=True, eq=False)
class Ratio:
    """The signal-to-noise ratio of a pair, level 0 as ``snr.ome.zarr`` has it to the bit.

    A px of a coarser level is the one of its 2 x 2 or 4 x 4 px that is farthest from 0, with its
    sign: means would hide sources, which are a few px wide, and maxima would hide those of the
    negated difference, which show what chance alone does.

    Attributes
    ----------
    scene
        Returns the pair, put together when the first px is asked for.
    shape
        Rows and columns of post.
    """

    scene: Callable[[], Scene]
    shape: tuple[int, int]

    @property
    def levels(self) -> int:
        """Number of levels, level 0 included."""
        return min(SNR_LEVELS, plan_layout(self.shape, "float32").levels)

    def read(self, window: Window, level: int = 0) -> NDArray[np.float32]:
        """Pixels of a window inside the level; NaN where there is none."""
        step = 1 << level
        out = np.empty(window.shape, np.float32)
        side = _CELL // step
        for y0 in range(window.y0, window.y1, side):
            for x0 in range(window.x0, window.x1, side):
                part = Window(y0, min(y0 + side, window.y1), x0, min(x0 + side, window.x1))
                fine = Window(*(n * step for n in (part.y0, part.y1, part.x0, part.x1)))
                at = part.shift(-window.y0, -window.x0).slices
                out[at] = farthest_from_0(ratio_over(self.scene(), fine), step)
        return out


def farthest_from_0(image: NDArray[np.float32], step: int) -> NDArray[np.float32]:
    """Return of each ``step`` x ``step`` px the value farthest from 0; NaN where all are NaN.

    Both sides of the image are multiples of ``step``. Of two as far away it is the one above 0.
    """
    parts = [image[i::step, k::step] for i in range(step) for k in range(step)]
    high, low = reduce(np.fmax, parts), reduce(np.fmin, parts)
    return np.where(-low > high, low, high)


@dataclass(frozen=True, eq=False)
class _OverPost:
    """An image over post; ``shape`` is (rows, columns) of post."""

    shape: tuple[int, int]

    @property
    def levels(self) -> int:
        """Number of levels, level 0 included."""
        return plan_layout(self.shape, "float32").levels


@dataclass(frozen=True, eq=False)
class GridImage(_OverPost):
    """Values on a coarse grid over post as an image.

    Attributes
    ----------
    grid
        The values, at level-0 px.
    """

    grid: CoarseGrid

    def read(self, window: Window, level: int = 0) -> NDArray[np.float32]:
        """Pixels of a window of a level: the values at their centres."""
        grid, step = self.grid, 1 << level
        first = (grid.first_px - (step - 1) / 2) / step
        return CoarseGrid(grid.values, grid.spacing_px / step, first).evaluate_window(window)


@dataclass(frozen=True, eq=False)
class GainMapImage(_OverPost):
    """A gain map as an image."""

    gain_map: GainMap

    def read(self, window: Window, level: int = 0) -> NDArray[np.float32]:
        """Pixels of a window of a level: the values at their centres."""
        return self.gain_map.evaluate_window(window, 1 << level)


class ImagedChannel:
    """A channel as it was imaged, in the frame of the slide; a coarse level takes long."""

    def __init__(self, frame: Frame, channel: Channel) -> None:
        self._frame, self._channel = frame, channel
        self.shape = frame.shape
        self.levels = min(SNR_LEVELS, plan_layout(self.shape, "float32").levels)

    def read(self, window: Window, level: int = 0) -> NDArray[np.float32]:
        """Pixels of a window of a level; NaN where the cycle has no data."""
        out = np.empty(window.shape, np.float32)
        side = _CELL >> level
        for part in grid(window.shape, (side, side)):
            whole = part.shift(window.y0, window.x0)
            fine = Window(*(n << level for n in (whole.y0, whole.y1, whole.x0, whole.x1)))
            pixels = self._frame.read(fine, [self._channel])[0].astype(np.float32)
            for _ in range(level):
                pixels = halve_stored(pixels)
            out[part.slices] = pixels
        return out


_DTYPE = "float32"
_OVERVIEW = 1 << 20
"""Of a coarsest level of more px than this, only the middle sets the range of the display."""


class Computed(Protocol):
    """An image whose pixels are computed as they are read."""

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns) of level 0."""
        ...

    @property
    def levels(self) -> int:
        """Number of levels, level 0 included."""
        ...

    def read(self, window: Window, level: int = 0) -> NDArray[np.float32]:
        """Pixels of a window inside the level."""
        ...


class ComputedStore:
    """The keys of a store that holds an image.

    Parameters
    ----------
    image
        What to compute.
    name
        Shown by viewers.
    inputs
        JSON types: all that the pixels follow from.
    pixel_size_um
        (x, y) in micrometres; None if unknown.
    window
        ``min``, ``max``, ``start`` and ``end`` of the display; None for what the pixels of the
        coarsest level suggest.
    """

    def __init__(
        self,
        image: Computed,
        name: str,
        inputs: Mapping[str, Any],
        pixel_size_um: tuple[float, float] | None,
        window: Mapping[str, float] | None = None,
    ) -> None:
        self._image, self._window = image, window
        self.name, self.attributes = name, dict(inputs)
        self.pixel_size_um = pixel_size_um
        self.dtype = np.dtype(_DTYPE)
        side = (CHUNK, CHUNK)
        self.layout = StoreLayout(image.shape, _DTYPE, side, side, image.levels)
        text = json.dumps([name, self.attributes], sort_keys=True)
        self.digest = hashlib.sha256(text.encode()).hexdigest()
        """Another one when the pixels are others."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of level 0."""
        return self.layout.shape

    def read(self, window: Window, level: int = 0) -> NDArray[np.float32]:
        """Pixels of a window inside the level."""
        return np.asarray(self._image.read(window, level), self.dtype)

    def file(self, parts: Sequence[str], memory: ChunkMemory, wanted: Callable[[], bool]) -> Answer:
        """Return what a key holds, as `unglow.viewer.served_files.file_of` does.

        ``wanted`` says if somebody still waits for it, UnwantedError if nobody does.
        """
        level = level_of(parts, self.layout.levels)
        if level is None:
            return self._kept(parts, JSON, self._root, memory, wanted)
        if tuple(parts[1:]) == (DOCUMENT,):
            text = json.dumps(make_unsharded_document(self.layout, level))
            return Answer(JSON, text.encode(), headers={"Cache-Control": ASK_AGAIN})
        row, col = place_of(parts, self.layout, level, self.layout.chunks)

        def made() -> bytes:
            return self.chunk(level, row, col)

        return self._kept(parts, BYTES, made, memory, wanted)

    def chunk(self, level: int, row: int, col: int) -> bytes:
        """Compute a chunk, as it is stored."""
        rows, cols = self.layout.chunks
        full = Window(row * rows, (row + 1) * rows, col * cols, (col + 1) * cols)
        window = full.clip(self.layout.level_shape(level))
        return encode_chunk(self.read(window, level), self.layout.chunks, self.layout.fill)

    def _kept(
        self,
        parts: Sequence[str],
        kind: str,
        make: Callable[[], bytes],
        memory: ChunkMemory,
        wanted: Callable[[], bool],
    ) -> Answer:
        key = "/".join((self.digest, *parts))
        content = memory.get(key, make, wanted)
        tag = hashlib.sha256(key.encode()).hexdigest()[:32]
        return Answer(kind, content, tag=tag, headers={"Cache-Control": ASK_AGAIN})

    def _root(self) -> bytes:
        document = make_root_document(
            self.layout,
            name=self.name,
            pixel_size_um=self.pixel_size_um,
            window=self._window or display_window(self._overview(), _DTYPE),
            attributes={"computed": True, "inputs": self.attributes},
        )
        return json.dumps(document).encode()

    def _overview(self) -> NDArray[np.float32]:
        level = self.layout.levels - 1
        rows, cols = self.layout.level_shape(level)
        across = min(cols, _OVERVIEW)
        down = min(rows, max(1, _OVERVIEW // across))
        y0, x0 = (rows - down) // 2, (cols - across) // 2
        return self.read(Window(y0, y0 + down, x0, x0 + across), level)


def error_store(
    transform: Transform, shape: tuple[int, int], pixel_size_um: tuple[float, float] | None
) -> ComputedStore:
    """Return the error of a map as an image over post, (rows, columns) and px of (x, y)."""
    image = GridImage(shape, estimate_error(transform))
    return ComputedStore(image, "error of the map", transform.to_dict(), pixel_size_um)
