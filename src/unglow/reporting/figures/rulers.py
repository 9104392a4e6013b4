"""Axes of figures: edges, ticks with their numbers, names and grid lines, each drawn at once.

Matplotlib makes an object of two texts and three lines for each tick, measures it and draws it,
which takes as long as everything else in a figure. Where ticks are, and what stands next to them,
is left to its locators and formatters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.colors import to_rgba
from matplotlib.path import Path
from matplotlib.transforms import IdentityTransform

from unglow.reporting.figures.canvas import DPI, Line, font

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_PT = DPI / 72
# Lengths of ticks, distance of a number from the axes, and of a name from the numbers, px.
_LONG, _SHORT, _NUMBER, _NAME = 3.5 * _PT, 2.0 * _PT, 7.0 * _PT, 4.0 * _PT
_WIDTH, _THIN = 0.8, 0.6  # points


class _Silent:
    """Part of an axis that has no ticks: whatever is said to them, or asks for them, makes some."""

    def get_children(self) -> list[Any]:
        """Return nothing."""
        return []

    def set_clip_path(self, *_: Any, **__: Any) -> None:
        """Do nothing."""

    def set_tick_params(self, *_: Any, **__: Any) -> None:
        """Do nothing."""


class _XAxis(_Silent, XAxis):
    pass


class _YAxis(_Silent, YAxis):
    pass


class Chart(Axes):
    """Axes without edges and ticks, which `Rulers` draws: they are made in a fifth of the time."""

    def _gen_axes_spines(self) -> dict[str, Any]:
        return {}

    def _init_axis(self) -> None:
        self.xaxis = _XAxis(self, clear=False)
        self.yaxis = _YAxis(self, clear=False)


class Ground(Artist):
    """What is below the data: the colour of the paper, and the lines of a grid (if it has one)."""

    def __init__(self, colour: str, grid: str | None) -> None:
        super().__init__()
        self._colour, self._grid = colour, grid
        self.set_zorder(-1)

    def draw(self, renderer: Any) -> None:
        """Draw it."""
        axes: Any = self.axes
        context = renderer.new_gc()
        context.set_linewidth(0)
        corner = axes.bbox.transformed(IdentityTransform()).corners()[[0, 1, 3, 2, 0]]
        renderer.draw_path(context, Path(corner), IdentityTransform(), to_rgba(self._colour))
        context.restore()
        if self._grid is not None:
            (left, bottom), (right, top) = axes.bbox.get_points()
            up = [((x, bottom), (x, top)) for x in _places(axes, 0, axes.xaxis.get_majorticklocs())]
            across = _places(axes, 1, axes.yaxis.get_majorticklocs())
            lines = [*up, *(((left, y), (right, y)) for y in across)]
            _stroke(renderer, lines, self._grid, _THIN)


class Rulers(Artist):
    """Edges of axes, ticks, numbers and names, at the left and at the bottom.

    Parameters
    ----------
    colours
        Of ticks and numbers, and of names.
    closed
        Whether there are edges at the right and at the top, too.
    y_numbers
        Whether numbers stand at the left.
    top
        Places along x with what stands there at the top, and the name of that.
    """

    def __init__(
        self,
        colours: tuple[str, str],
        *,
        closed: bool,
        y_numbers: bool = True,
        top: tuple[Sequence[tuple[float, str]], str] | None = None,
    ) -> None:
        super().__init__()
        self._soft, self._ink = colours
        self._closed, self._y_numbers, self._top = closed, y_numbers, top
        self.set_zorder(2.5)

    def draw(self, renderer: Any) -> None:
        """Draw them."""
        axes: Any = self.axes
        (left, bottom), (right, top) = axes.bbox.get_points()
        lines = [((left, bottom), (right, bottom)), ((left, bottom), (left, top))]
        if self._closed or self._top:
            lines.append(((left, top), (right, top)))
        if self._closed:
            lines.append(((right, bottom), (right, top)))
        for long, xs, ys in (
            (_LONG, axes.xaxis.get_majorticklocs(), axes.yaxis.get_majorticklocs()),
            (_SHORT, axes.xaxis.get_minorticklocs(), axes.yaxis.get_minorticklocs()),
        ):
            lines += [((x, bottom), (x, bottom - long)) for x in _places(axes, 0, xs)]
            lines += [((left, y), (left - long, y)) for y in _places(axes, 1, ys)]
        if self._top:
            above = _places(axes, 0, [place for place, _ in self._top[0]])
            lines += [((x, top), (x, top + _LONG)) for x in above]
        _stroke(renderer, lines, self._soft, _WIDTH)
        for line in self.texts(renderer):
            line.draw(renderer)

    def texts(self, renderer: Any) -> list[Line]:
        """Return what is written."""
        axes: Any = self.axes
        height = renderer.height
        (left, bottom), (right, top) = axes.bbox.get_points()
        numbers, names = font(9.0), font(10.0)
        size = numbers.get_size_in_points() * _PT
        out, furthest = [], left - _LONG
        for x, text in _numbers(axes, 0):
            out.append(Line(text, x, height - bottom + _NUMBER, numbers, self._soft, "center"))
        below = height - bottom + _NUMBER + (size if out else 0) + _NAME
        for y, text in _numbers(axes, 1) if self._y_numbers else ():
            line = Line(
                *(text, left - _NUMBER, height - y, numbers, self._soft),
                *("right", "center_baseline"),
            )
            out.append(line)
            furthest = min(furthest, line.box(renderer)[0])
        if name := axes.get_xlabel():
            out.append(Line(name, (left + right) / 2, below, names, self._ink, "center"))
        if name := axes.get_ylabel():
            place = furthest - _NAME, height - (bottom + top) / 2
            out.append(Line(name, *place, names, self._ink, "right", "center", 90.0))
        # what all numbers are multiples of, where they would be long
        if power := axes.xaxis.get_major_formatter().get_offset():
            out.append(Line(power, right, below, numbers, self._soft, "right"))
        if power := axes.yaxis.get_major_formatter().get_offset():
            out.append(
                Line(power, left, height - top - _SHORT, numbers, self._soft, along="bottom")
            )
        if self._top:
            up = height - top - _NUMBER
            places, name = self._top
            for x, (_, text) in zip(
                _places(axes, 0, [at for at, _ in places]), places, strict=True
            ):
                out.append(Line(text, x, up, numbers, self._soft, "center", "bottom"))
            up -= size + _NAME
            out.append(Line(name, (left + right) / 2, up, names, self._ink, "center", "bottom"))
        return out


def _places(axes: Axes, along: int, values: Sequence[float] | Floats) -> list[float]:
    """Return where values along an axis (0: x, 1: y) are, px of the paper; only those inside."""
    given = np.zeros((len(values), 2))
    given[:, 1 - along] = (axes.get_ylim, axes.get_xlim)[along]()[0]
    given[:, along] = values
    places = axes.transData.transform(given)[:, along] if len(given) else given[:, along]
    first, last = axes.bbox.get_points()[:, along]
    inside = (places >= first - 0.5) & (places <= last + 0.5)
    return [float(place) for place in places[inside]]


def _numbers(axes: Axes, along: int) -> list[tuple[float, str]]:
    """Return the places of the numbers of an axis, px of the paper, and what they are."""
    axis: Any = (axes.xaxis, axes.yaxis)[along]
    values = axis.get_majorticklocs()
    texts = axis.get_major_formatter().format_ticks(values)
    shown = [(_places(axes, along, [at]), text) for at, text in zip(values, texts, strict=True)]
    return [(place[0], text) for place, text in shown if place and text]


def _stroke(renderer: Any, lines: Sequence[Any], colour: str, width: float) -> None:
    """Draw straight lines, ((x, y), (x, y)) in px from the lower left corner; ``width`` points."""
    if not lines:
        return
    context = renderer.new_gc()
    context.set_foreground(colour)
    context.set_linewidth(width * _PT)
    context.set_capstyle("projecting")
    context.set_snap(True)
    codes = np.tile([Path.MOVETO, Path.LINETO], len(lines)).astype(Path.code_type)
    path = Path(np.reshape(np.asarray(lines, np.float64), (-1, 2)), codes)
    renderer.draw_path(context, path, IdentityTransform())
    context.restore()
