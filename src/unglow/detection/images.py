"""The pixels of a pair, read window by window, or tile by tile.

For tiles every px is read from its store once: in blocks that hold complete chunks, one next to and
below the other. A tile is what a block gives when the px that it needs to the right and below are
not there yet: it is further up and to the left than its block, and what it needs of earlier blocks
has been kept. Wide images are read panel by panel, for what is kept of the rows above is as wide as
a panel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np

from unglow.core.windows import Window, cells
from unglow.images.zarr.layout import CHUNK
from unglow.images.zarr.reader import Store
from unglow.memory import DETECT_PANEL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unglow.core.arrays import Floats32
    from unglow.core.windows import Pixels


class ReadablePair(Protocol):
    """The images of a pair in the frame of post."""

    @property
    def post(self) -> Pixels:
        """Raw post."""
        ...

    @property
    def pre(self) -> Pixels:
        """Aligned pre."""
        ...

    @property
    def difference(self) -> Pixels:
        """The difference."""
        ...


@dataclass(frozen=True, eq=False)
class Images:
    """The pixels of a pair in a window that may leave the image.

    Attributes
    ----------
    window
        Part of the post grid.
    pixels
        (3, rows, cols) float32: post, pre and difference; NaN outside of the image.
    room
        (n,) float32 that they are a view of.
    """

    window: Window
    pixels: Floats32
    room: Floats32

    @classmethod
    def read(
        cls,
        scene: ReadablePair,
        window: Window,
        frame: Window | None = None,
        spare: list[Floats32] | None = None,
    ) -> Self:
        """Read a window, into a larger frame if there is one; the rest of that is not filled.

        Arrays that are ``spare`` are used again: new memory takes time.
        """
        frame = window if frame is None else frame
        size = 3 * frame.size
        room = spare.pop() if spare else np.empty(size, dtype=np.float32)
        if len(room) < size:
            room = np.empty(size, dtype=np.float32)
        pixels = room[:size].reshape(3, *frame.shape)
        inside = window.clip(scene.post.shape)
        there = frame.clip(scene.post.shape).shift(-frame.y0, -frame.x0)
        pixels[:, : there.y0] = pixels[:, there.y1 :] = np.nan
        pixels[:, :, : there.x0] = pixels[:, :, there.x1 :] = np.nan
        for part, image in zip(pixels, (scene.post, scene.pre, scene.difference), strict=True):
            if isinstance(image, Store):
                image.read(inside, out=part[inside.shift(-frame.y0, -frame.x0).slices])
                continue
            # one row of chunks at a time: larger arrays take new pages each, and so time
            for _, strip in cells(inside, (CHUNK, inside.x1)):
                part[strip.shift(-frame.y0, -frame.x0).slices] = image.read(strip)
        return cls(frame, pixels, room)

    def cut(self, window: Window) -> Images:
        """Return a part, which shares its px with the original."""
        at = window.shift(-self.window.y0, -self.window.x0).slices
        return Images(window, self.pixels[:, *at], self.room)


def read_tiles(
    scene: ReadablePair, side: int, around: int, spare: list[Floats32]
) -> Iterator[tuple[Window, Images]]:
    """Yield the windows that tile post, each with its images and ``around`` px more on every side.

    Parameters
    ----------
    scene
        The pair.
    side
        Of a block, px; best a multiple of the side of a chunk.
    around
        px that a tile needs on every side; those outside of the image are NaN.
    spare
        Arrays that are used again: those that tiles before were views of.
    """
    cols = scene.post.shape[1]
    width = max(1, DETECT_PANEL // side) * side
    for left in range(0, cols, width):
        yield from _read_panel(scene, side, around, (left, min(left + width, cols)), spare)


def _read_panel(
    scene: ReadablePair,
    side: int,
    around: int,
    panel: tuple[int, int],
    spare: list[Floats32],
) -> Iterator[tuple[Window, Images]]:
    """Yield the tiles of the columns of a panel, in row order."""
    shape = scene.post.shape
    # of the rows that were read last, with what the first block of the next panel reads again
    first = panel[0] - 2 * around
    above = np.full((3, 2 * around, panel[1] - first), np.nan, dtype=np.float32)
    for number in range(-(-shape[0] // side)):
        rows = number * side, min((number + 1) * side, shape[0])
        top = rows[0] if number else max(0, rows[0] - 2 * around)
        carried: Floats32 | None = None
        for x0 in range(panel[0], panel[1], side):
            cols = x0, min(x0 + side, panel[1])
            block = Window(top, rows[1], max(0, first) if carried is None else x0, cols[1])
            frame = Window(rows[0] - 2 * around, rows[1], cols[0] - 2 * around, cols[1])
            # tiles at the lower and right end of the image need what is outside of it
            more = around * (frame.y1 == shape[0]), around * (frame.x1 == shape[1])
            outer = Window(frame.y0, frame.y1 + more[0], frame.x0, frame.x1 + more[1])
            images = Images.read(scene, block, outer, spare)
            part = images.cut(frame).pixels
            known = slice(frame.x0 - first, frame.x1 - first)
            if number:
                part[:, : 2 * around] = above[:, :, known]
            if carried is not None:
                part[:, :, : 2 * around] = carried
            carried = part[:, :, -2 * around :].copy()
            # the next block still needs the last columns of the rows above
            done = frame.x1 - (0 if cols[1] == panel[1] else 2 * around)
            above[:, :, frame.x0 - first : done - first] = part[:, -2 * around :, : done - frame.x0]
            # the tile whose surroundings are known once this block is read
            (y0, y1), (left, right) = (
                (max(0, begin - around), end - (0 if end == n else around))
                for (begin, end), n in zip((rows, cols), shape, strict=True)
            )
            core = Window(y0, y1, left, right)
            if core.size:
                yield core, images
