"""What figures are drawn on: Agg that sets a text at once, px that stay as they are, and PNG."""

from __future__ import annotations

import functools
import math
import struct
import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import imagecodecs
import numpy as np
from matplotlib.artist import Artist
from matplotlib.backends import backend_agg
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.colors import to_rgba
from matplotlib.font_manager import FontProperties
from PIL import Image

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]

DPI = 100
_agg: Any = backend_agg  # whose methods have no types
# Ascent and descent of a line, and the distance of lines, in the size of the type.
_ASCENT, _DESCENT, _SPACING = 0.76, 0.24, 1.2
# Of the lines of a PNG as they are: filters make noise no smaller, and take as long again.
_LEVEL = 2
# From here on a px is seen as a square.
_LARGE = 3


@dataclass(frozen=True, slots=True)
class _Type:
    """A line of text in ink: px, where they begin from where the line does, and its size, px."""

    ink: Bytes
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
        # as matplotlib 3.11 has it: 3.10 makes 919 px of 9.2 inches
        return _Renderer(*(int(side + 1e-8) for side in self.figure.bbox.max))

    def get_renderer(self) -> _Renderer:
        """Return what draws on it."""
        return self._drawing


@functools.cache
def font(size: float, weight: str = "normal") -> FontProperties:
    """Return the type of these figures in a size, points."""
    return FontProperties(family="DejaVu Sans", size=size, weight=weight)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text, at px from the upper left corner of the paper.

    Attributes
    ----------
    text, x, y
        What is written, and where.
    font, colour
        How it looks.
    across, along
        Which part of the text is at x, and which at y: those of matplotlib.
    angle
        0, or 90 for a text that is read from below.
    """

    text: str
    x: float
    y: float
    font: FontProperties
    colour: str
    across: str = "left"
    along: str = "top"
    angle: float = 0.0

    def box(self, renderer: Any) -> tuple[float, float, float, float]:
        """Return left, top, right and bottom of its place, px."""
        size = self.font.get_size_in_points() * DPI / 72
        width = renderer.get_text_width_height_descent(self.text, self.font, ismath=False)[0]
        wide, high = (size, width) if self.angle else (width, size)
        left = self.x - {"left": 0.0, "center": wide / 2, "right": wide}[self.across]
        above = {
            "top": 0.0,
            "center": high / 2,
            "bottom": high,
            "baseline": _ASCENT * size,
            "center_baseline": _ASCENT * size / 2,
        }
        top = self.y - above[self.along]
        return left, top, left + wide, top + high

    def draw(self, renderer: Any) -> None:
        """Draw it."""
        left, top, right, bottom = self.box(renderer)
        size = self.font.get_size_in_points() * DPI / 72
        start = (right - _DESCENT * size, bottom) if self.angle else (left, top + _ASCENT * size)
        context = renderer.new_gc()
        context.set_foreground(to_rgba(self.colour), isRGBA=True)
        renderer.draw_text(context, *start, self.text, self.font, self.angle)
        context.restore()


class Words(Artist):
    """Lines of text at px from the upper left corner of the paper; ``spacing`` in their size.

    A text of matplotlib takes three times as long.
    """

    def __init__(self, line: Line, spacing: float | None = None) -> None:
        super().__init__()
        self._line, self._spacing = line, spacing or _SPACING

    @property
    def text(self) -> str:
        """What is written."""
        return self._line.text

    def lines(self) -> list[Line]:
        """Return the lines."""
        texts = self._line.text.split("\n")
        size = self._line.font.get_size_in_points() * DPI / 72
        pitch = self._spacing * size
        extra = pitch * (len(texts) - 1)
        share = {"bottom": 1.0, "center": 0.5, "center_baseline": 0.5}.get(self._line.along, 0.0)
        # half of what is between lines is above the first one
        first = self._line.y - share * extra
        if extra and self._line.along == "top":
            first += (pitch - size) / 2
        return [
            replace(self._line, text=text, y=first + n * pitch)
            for n, text in enumerate(texts)
            if text.strip()
        ]

    def draw(self, renderer: Any) -> None:
        """Draw them."""
        for line in self.lines():
            line.draw(renderer)


class Pixels(Artist):
    """RGB (rows, cols, 3) whose px are px of the paper, ``left`` and ``top`` px from its corner.

    Images of matplotlib are resampled even if nothing changes, which takes a hundred times as long.
    """

    def __init__(self, pixels: Bytes, left: int, top: int) -> None:
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
        self, pixels: Bytes, extent: tuple[float, float, float, float], *, nearest: bool = False
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
        shown = resize(self.pixels, (y1 - y0, x1 - x0), nearest=self._nearest)
        _put(renderer, context, shown, (x0, y0))


def _put(renderer: Any, context: Any, pixels: Bytes, corner: tuple[int, int]) -> None:
    """Draw RGB or RGBA at (left, bottom) px."""
    opaque = np.full((*pixels.shape[:2], 4), 255, np.uint8)
    opaque[..., : pixels.shape[2]] = pixels[::-1]
    renderer.draw_image(context, *corner, opaque)
    context.restore()


def resize(pixels: Bytes, shape: tuple[int, int], *, nearest: bool = False) -> Bytes:
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
        (b"IDAT", imagecodecs.deflate_encode(lines.tobytes(), level=_LEVEL)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
