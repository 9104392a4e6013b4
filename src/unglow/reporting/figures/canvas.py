"""What figures are drawn on: Agg that sets a text at once, px that stay as they are, and PNG."""

from __future__ import annotations

import functools
import math
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.backends import backend_agg
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from PIL import Image

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

DPI = 100
_agg: Any = backend_agg  # whose methods have no types
# Of the lines of a PNG as they are: filters make noise no smaller, and take as long again.
_LEVEL = 2
# From here on a px is seen as a square.
_LARGE = 3


@dataclass(frozen=True, slots=True)
class _Type:
    """A line of text in ink: px, where they begin from where the line does, and its size, px."""

    ink: NDArray[np.uint8]
    left: float
    top: float
    size: tuple[float, float, float]


class _Renderer(RendererAgg):
    """Agg, with each line of text drawn whole and set once, to be measured and to be drawn.

    Letter by letter, as matplotlib 3.11 does it, they take six times as long.
    """

    def __init__(self, width: int, height: int) -> None:
        _agg.RendererAgg.__init__(self, width, height, DPI)
        self._types: dict[tuple[str, int, float], _Type] = {}

    def _set(self: Any, s: str, prop: Any, angle: float) -> _Type:
        key = s, hash(prop), angle
        if key not in self._types:
            font = self._prepare_font(prop)
            font.set_text(s, angle, flags=_agg.get_hinting_flag())
            font.draw_glyphs_to_bitmap(antialiased=True)
            left, top = font.get_bitmap_offset()
            size = (*font.get_width_height(), font.get_descent())
            ink = font.get_image()
            self._types[key] = _Type(ink, left / 64, top / 64, tuple(n / 64 for n in size))
        line: _Type = self._types[key]
        return line

    def get_text_width_height_descent(
        self, s: str, prop: Any, *_: Any, **__: Any
    ) -> tuple[float, float, float]:
        """Return the size of a line, px."""
        return self._set(s, prop, 0.0).size

    def draw_text(
        self: Any, gc: Any, x: float, y: float, s: str, prop: Any, angle: float, *_: Any, **__: Any
    ) -> None:
        """Draw a line of text that is no formula."""
        line, turned = self._set(s, prop, angle), math.radians(angle)
        descent = line.size[2]
        x = round(x + line.left + descent * math.sin(turned))
        y = round(y + line.top + descent * math.cos(turned))
        self._renderer.draw_text_image(line.ink, x, y + 1, 0, gc)


class Canvas(FigureCanvasAgg):
    """Paper of a size that does not change."""

    @functools.cached_property
    def _drawing(self) -> _Renderer:
        return _Renderer(*self.get_width_height())

    def get_renderer(self) -> _Renderer:
        """Return what draws on it."""
        return self._drawing


class Pixels(Artist):
    """RGB (rows, cols, 3) whose px are px of the paper, ``left`` and ``top`` px from its corner.

    Images of matplotlib are resampled even if nothing changes, which takes a hundred times as long.
    """

    def __init__(self, pixels: NDArray[np.uint8], left: int, top: int) -> None:
        super().__init__()
        self.pixels = pixels
        self._left, self._top = left, top

    def draw(self, renderer: Any) -> None:
        """Draw them."""
        bottom = renderer.height - self._top - len(self.pixels)
        _put(renderer, renderer.new_gc(), self.pixels, (self._left, bottom))


class Picture(Artist):
    """RGB or RGBA (rows, cols, 3 or 4) over a part of its axes, in as many px as the paper has.

    Parameters
    ----------
    pixels
        The picture, its first row on top.
    extent
        Left, right, bottom and top of that part, in data of the axes.
    nearest
        Whether no colours are mixed.
    """

    def __init__(
        self,
        pixels: NDArray[np.uint8],
        extent: tuple[float, float, float, float],
        *,
        nearest: bool = False,
    ) -> None:
        super().__init__()
        self.pixels, self.extent, self._nearest = pixels, extent, nearest

    def draw(self, renderer: Any) -> None:
        """Draw it, as far as it is inside the axes."""
        axes: Any = self.axes
        left, right, bottom, top = self.extent
        corners = np.rint(axes.transData.transform([(left, bottom), (right, top)])).astype(int)
        (x0, y0), (x1, y1) = corners.tolist()
        context = renderer.new_gc()
        context.set_clip_rectangle(axes.bbox)
        shown = resized(self.pixels, (y1 - y0, x1 - x0), nearest=self._nearest)
        _put(renderer, context, shown, (x0, y0))


def _put(renderer: Any, context: Any, pixels: NDArray[np.uint8], corner: tuple[int, int]) -> None:
    """Draw RGB or RGBA at (left, bottom) px."""
    opaque = np.full((*pixels.shape[:2], 4), 255, np.uint8)
    opaque[..., : pixels.shape[2]] = pixels[::-1]
    renderer.draw_image(context, *corner, opaque)
    context.restore()


def resized(
    pixels: NDArray[np.uint8], shape: tuple[int, int], *, nearest: bool = False
) -> NDArray[np.uint8]:
    """Return RGB or RGBA (rows, cols, 3 or 4) with ``shape`` (rows, cols): weighted means of areas.

    Px are repeated, not mixed, where each of them takes three of the paper, or with ``nearest``.
    """
    rows, cols = (max(n, 1) for n in shape)
    nearest = nearest or min(rows / len(pixels), cols / pixels.shape[1]) >= _LARGE
    method = Image.Resampling.NEAREST if nearest else Image.Resampling.HAMMING
    return np.asarray(Image.fromarray(pixels).resize((cols, rows), method))


def png(figure: Figure) -> bytes:
    """Draw a figure; no time, program or path is in the result. Paper is opaque: RGB."""
    canvas: Any = figure.canvas
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
