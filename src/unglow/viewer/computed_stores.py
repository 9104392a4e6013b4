"""Images that are not written, as a Zarr store that is computed where somebody looks.

The documents are those of OME-Zarr 0.5, like unglow's own, but every chunk is a file of its own: a
shard would have to be computed as a whole.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from unglow.core.windows import Window
from unglow.io.zarr import StoreLayout
from unglow.io.zarr.chunks import encode_chunk
from unglow.io.zarr.layout import CHUNK
from unglow.io.zarr.metadata import (
    DOCUMENT,
    display_window,
    make_root_document,
    make_unsharded_document,
)
from unglow.reporting.html.live_answers import ASK_AGAIN, BYTES, JSON, Answer
from unglow.viewer.store_files import level_of, place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from unglow.viewer.chunk_memory import ChunkMemory

_DTYPE = "float32"
_OVERVIEW = 1 << 20
"""Of a coarsest level of more px than this, only the middle sets the range of the display."""


class Computed(Protocol):
    """An image whose pixels are computed as they are read."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of level 0."""
        ...

    @property
    def levels(self) -> int:
        """Number of levels, level 0 included."""
        ...

    def read(self, window: Window, level: int = 0) -> NDArray[np.float32]:
        """Pixels of a window that lies inside the level; NaN where there is no data."""
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
        """Pixels of a window that lies inside the level."""
        return np.asarray(self._image.read(window, level), self.dtype)

    def file(self, parts: Sequence[str], memory: ChunkMemory, wanted: Callable[[], bool]) -> Answer:
        """Return what a key holds, as `unglow.viewer.store_files.file_of` does.

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
        whole = Window(row * rows, (row + 1) * rows, col * cols, (col + 1) * cols)
        window = whole.clip(self.layout.level_shape(level))
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
