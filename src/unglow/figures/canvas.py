"""What figures are drawn on: Agg that sets a text at once, px that stay as they are, and PNG."""

from __future__ import annotations

import functools
import math
import struct
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.backends import backend_agg
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

DPI = 100
# Of the lines of a PNG as they are: filters make noise no smaller, and take as long again.
_LEVEL = 2


class _Renderer(RendererAgg):
    """Agg, with texts drawn whole: letter by letter they take four times as long."""

    def draw_text(
        self: Any,  # Agg's methods have no types
        gc: Any,
        x: float,
        y: float,
        s: str,
        prop: Any,
        angle: float,
        ismath: Any = False,  # noqa: FBT002
        mtext: Any = None,
    ) -> None:
        """Draw a text."""
        if ismath:
            RendererAgg.draw_text(self, gc, x, y, s, prop, angle, ismath, mtext)
            return
        font = self._prepare_font(prop)
        font.set_text(s, angle, flags=backend_agg.get_hinting_flag())
        font.draw_glyphs_to_bitmap(antialiased=True)
        left, top = (offset / 64 for offset in font.get_bitmap_offset())
        descent, turned = font.get_descent() / 64, math.radians(angle)
        x = round(x + left + descent * math.sin(turned))
        y = round(y + top + descent * math.cos(turned))
        self._renderer.draw_text_image(font.get_image(), x, y + 1, 0, gc)


class Canvas(FigureCanvasAgg):
    """Paper of a size that does not change."""

    @functools.cached_property
    def _agg(self) -> Any:
        renderer: Any = _Renderer
        return renderer(*self.get_width_height(), DPI)

    def get_renderer(self) -> Any:
        """Return what draws on it."""
        return self._agg


class Pixels(Artist):
    """RGB (rows, cols, 3) whose px are px of the paper, ``left`` and ``top`` px from its corner.

    Images of matplotlib are resampled even if nothing changes, which takes a hundred times as long.
    """

    def __init__(self, pixels: NDArray[np.uint8], left: int, top: int) -> None:
        super().__init__()
        self._pixels = pixels
        self._left, self._top = left, top

    def draw(self, renderer: Any) -> None:
        """Draw them."""
        opaque = np.full((*self._pixels.shape[:2], 4), 255, np.uint8)
        opaque[..., :3] = self._pixels[::-1]
        context = renderer.new_gc()
        bottom = renderer.height - self._top - len(opaque)
        renderer.draw_image(context, self._left, bottom, opaque)
        context.restore()


def png(figure: Figure) -> bytes:
    """Draw a figure; no time, program or path is in the result. Paper is opaque: RGB."""
    canvas: Any = figure.canvas  # Agg's methods have no types
    canvas.draw()
    drawn = np.asarray(canvas.buffer_rgba())[..., :3]
    rows, cols, _ = drawn.shape
    lines = np.zeros((rows, 1 + 3 * cols), np.uint8)  # each begins with 0: no filter
    lines[:, 1:] = drawn.reshape(rows, -1)
    per_metre = round(DPI / 0.0254)
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", cols, rows, 8, 2, 0, 0, 0)),
        (b"pHYs", struct.pack(">IIB", per_metre, per_metre, 1)),
        (b"IDAT", zlib.compress(lines.data, _LEVEL)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
