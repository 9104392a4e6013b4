"""Images that are not written, as Zarr stores that are computed where somebody looks.

The documents are those of OME-Zarr 0.5, like unglow's own, but every chunk is a file of its own: a
shard would have to be computed entirely.
"""

from __future__ import annotations

import hashlib
import json
import threading
import weakref
from collections import OrderedDict
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial, reduce
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from unglow.core.windows import Window, grid
from unglow.detection.coarse_grid import CoarseGrid, estimate_error
from unglow.images.zarr import StoreLayout, plan_layout
from unglow.images.zarr.layout import (
    CHUNK,
    DOCUMENT,
    display_window,
    make_root_document,
    make_unsharded_document,
)
from unglow.images.zarr.shards import encode_chunk
from unglow.pages.report.live_answers import ASK_AGAIN, BYTES, JSON, Answer
from unglow.pages.viewer.served_files import level_of, place_of
from unglow.stages.snr import ratio_over

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    from unglow.detection.snr import Scene
    from unglow.transform import Transform

    Waiting: TypeAlias = Future[bytes]
    Work: TypeAlias = SimpleQueue[Callable[[], None] | None]

    Floats = NDArray[np.float32]


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

    def read(self, window: Window, level: int = 0) -> Floats:
        """Pixels of a window inside the level; NaN where there is none."""

        def read_part(fine: Window) -> Floats:
            return farthest_from_0(ratio_over(self.scene(), fine), 1 << level)

        return read_in_parts(window, level, read_part)


def farthest_from_0(image: Floats, step: int) -> Floats:
    """Return of each ``step`` x ``step`` px the value farthest from 0; NaN where all are NaN.

    Both sides of the image are multiples of ``step``. Of two as far away it is the one above 0.
    """
    parts = [image[i::step, k::step] for i in range(step) for k in range(step)]
    high, low = reduce(np.fmax, parts), reduce(np.fmin, parts)
    return np.where(-low > high, low, high)


@dataclass(frozen=True, eq=False)
class SmoothImage:
    """A smooth function over post as an image.

    Attributes
    ----------
    shape
        Rows and columns of post.
    evaluate
        Returns the values at the px centres of a window of a level, from its step, level-0 px.
    """

    shape: tuple[int, int]
    evaluate: Callable[[Window, int], Floats]

    @property
    def levels(self) -> int:
        """Number of levels, level 0 included."""
        return plan_layout(self.shape, "float32").levels

    def read(self, window: Window, level: int = 0) -> Floats:
        """Pixels of a window of a level: the values at their centres."""
        return self.evaluate(window, 1 << level)


def read_in_parts(window: Window, level: int, read_part: Callable[[Window], Floats]) -> Floats:
    """Return a window of a level; ``read_part`` makes pixels of the level of a part of level 0."""
    out = np.empty(window.shape, np.float32)
    side = _CELL >> level
    for part in grid(window.shape, (side, side)):
        coarse = part.shift(window.y0, window.x0)
        fine = Window(*(n << level for n in (coarse.y0, coarse.y1, coarse.x0, coarse.x1)))
        out[part.slices] = read_part(fine)
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

    def read(self, window: Window, level: int = 0) -> Floats:
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

    def read(self, window: Window, level: int = 0) -> Floats:
        """Pixels of a window inside the level."""
        return np.asarray(self._image.read(window, level), self.dtype)

    def file(self, parts: Sequence[str], memory: ChunkMemory, wanted: Callable[[], bool]) -> Answer:
        """Return what a key holds, as `unglow.pages.viewer.served_files.file_of` does.

        ``wanted`` says if somebody still waits for it, UnwantedError if nobody does.
        """
        level = level_of(parts, self.layout.levels)
        if level is None:
            return self._kept(parts, JSON, self._root, memory, wanted)
        if tuple(parts[1:]) == (DOCUMENT,):
            text = json.dumps(make_unsharded_document(self.layout, level))
            return Answer(JSON, text.encode(), headers={"Cache-Control": ASK_AGAIN})
        row, col = place_of(parts, self.layout, level, self.layout.chunks)
        return self._kept(parts, BYTES, partial(self.chunk, level, row, col), memory, wanted)

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

    def _overview(self) -> Floats:
        level = self.layout.levels - 1
        rows, cols = self.layout.level_shape(level)
        across = min(cols, _OVERVIEW)
        down = min(rows, max(1, _OVERVIEW // across))
        y0, x0 = (rows - down) // 2, (cols - across) // 2
        return self.read(Window(y0, y0 + down, x0, x0 + across), level)


class MadeStores:
    """Computed stores by name, each made once: what it follows from may be long."""

    def __init__(self) -> None:
        self._made: dict[str, ComputedStore] = {}

    def get(self, name: str, make: Callable[[], ComputedStore]) -> ComputedStore:
        """Return a store, made if there is none of its name."""
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]


def error_store(
    transform: Transform, shape: tuple[int, int], pixel_size_um: tuple[float, float] | None
) -> ComputedStore:
    """Return the error of a map as an image over post, (rows, columns) and px of (x, y)."""
    grid = estimate_error(transform)

    def evaluate(window: Window, step: int) -> Floats:
        first = (grid.first_px - (step - 1) / 2) / step
        return CoarseGrid(grid.values, grid.spacing_px / step, first).evaluate_window(window)

    image = SmoothImage(shape, evaluate)
    return ComputedStore(image, "error of the map", transform.to_dict(), pixel_size_um)


_KEPT_BYTES = 64_000_000


class UnwantedError(Exception):
    """Nobody waits any more for what was to be computed."""


class ChunkMemory:
    """Keeps chunks, and computes each one that is asked for once; thread-safe.

    They are computed one after the other, in a thread of its own: a server takes one core, and what
    the allocator keeps for a thread is kept once and not for every connection.

    Parameters
    ----------
    kept_bytes
        So many bytes are kept at most, of those that were asked for last.
    """

    def __init__(self, kept_bytes: int = _KEPT_BYTES) -> None:
        self._space = kept_bytes
        self._chunks: OrderedDict[Hashable, bytes] = OrderedDict()
        self._waiting: dict[Hashable, Waiting] = {}
        self._lock = threading.Lock()
        self._work: Work = SimpleQueue()
        # a pool of threads would end only when all that waits has been computed
        threading.Thread(target=_work_off, args=(self._work,), daemon=True).start()
        weakref.finalize(self, self._work.put, None)

    def get(self, key: Hashable, make: Callable[[], bytes], wanted: Callable[[], bool]) -> bytes:
        """Return a chunk, computed if it is not kept.

        Parameters
        ----------
        key
            What the chunk follows from.
        make
            Computes it.
        wanted
            Whether somebody still waits for it: it is asked when its turn has come.

        Raises
        ------
        UnwantedError
            Nobody does.
        """
        while True:
            with self._lock:
                if key in self._chunks:
                    self._chunks.move_to_end(key)
                    return self._chunks[key]
                mine = key not in self._waiting
                if mine:
                    self._waiting[key] = Future()
                    self._work.put(partial(self._make, key, make, wanted))
                waiting = self._waiting[key]
            try:
                return waiting.result()
            except UnwantedError:  # by the one who asked first
                if mine:
                    raise

    def _make(self, key: Hashable, make: Callable[[], bytes], wanted: Callable[[], bool]) -> None:
        content, error = b"", None
        try:
            if not wanted():
                raise UnwantedError  # noqa: TRY301 - caught like an error of make
            content = make()
        except Exception as raised:  # noqa: BLE001 (whoever waits gets it)
            error = raised
        with self._lock:
            waiting = self._waiting.pop(key)
            if error is None:
                self._chunks[key] = content
                self._space -= len(content)
            while self._space < 0:
                _, dropped = self._chunks.popitem(last=False)
                self._space += len(dropped)
        if error is None:
            waiting.set_result(content)
        else:
            waiting.set_exception(error)


def _work_off(work: Work) -> None:
    while (task := work.get()) is not None:
        task()
