"""One sheet for all parameter variants of a pair, with what their searches found."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.rounding import estimate, number, percent, uncertainty
from unglow.io.zarr.reader import overview
from unglow.reporting.difference_picture import BLACK_TO, share_colours
from unglow.reporting.figures.style import (
    DPI,
    FAINT,
    INK,
    PAPER,
    SOFT,
    STATUS,
    apply_style,
    label,
    map_axes,
    panel,
    picture,
    put_pixels,
    rgb_bytes,
    sheet,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from unglow.photometry.difference import Image


_NAME = "name"
_COLUMNS = (
    ("", 0.3),
    (_NAME, 0.6),
    ("status", 6.3),
    ("gain (95 % interval)", 7.5),
    ("residual (px)\nmedian / p95", 10.0),
    ("difference (grey levels)\nmedian / MAD", 11.8),
)
# Inches: the sheet, its edge, the gap between pictures, a line of text, and room around a row.
_WIDTH, _EDGE, _GAP = 14.0, 0.3, 0.2
_LINE, _PAD = 0.21, 0.17
_NAME_CHARACTERS = 58
# Pictures side by side; one or two of them are not drawn wider than two of them would be.
_MOST_IN_LINE = 3
_TALLEST = 5.0
# Many small pictures are shown side by side.
_THUMB_PX = 512


@dataclass(frozen=True, eq=False, slots=True)
class ComparisonRow:
    """One variant.

    Attributes
    ----------
    name
        Parameters that make the variant, and the scale method.
    status
        ``ok``, ``suspect``, ``failed`` or ``incomplete``.
    gain, gain_ci95
        None where there is none.
    residual_median, residual_p95
        Of held-out blocks, px; NaN where there are none.
    median, mad
        Of the difference, grey levels; NaN where there is none.
    thumb
        (rows, cols) overview of the difference, or None.
    """

    name: str
    status: str
    gain: float | None
    gain_ci95: tuple[float, float] | None
    residual_median: float
    residual_p95: float
    median: float
    mad: float
    thumb: NDArray[np.float32] | None


@apply_style
def draw_comparison(
    rows: Sequence[ComparisonRow],
    *,
    title: str = "Variants",
    more: Searches | None = None,
) -> Figure:
    """Draw a table with one row per variant, and below it the differences in the same colours.

    ``more`` is drawn below.
    """
    names = [textwrap.wrap(row.name, _NAME_CHARACTERS) or [""] for row in rows]
    heights = [_LINE * len(name) + _PAD for name in names]
    drawn = [(n + 1, row.thumb) for n, row in enumerate(rows) if row.thumb is not None]
    in_line = 2 if len(drawn) <= 2 else _MOST_IN_LINE
    side = (_WIDTH - 2 * _EDGE - (in_line - 1) * _GAP) / in_line
    tall = max([min(side * t.shape[0] / t.shape[1], _TALLEST) for _, t in drawn], default=0.0)
    lines = -(-len(drawn) // in_line)
    top = 1.3
    below = top + max(sum(heights), _LINE) + 0.75
    end = below + lines * (tall + 0.35) + 0.1
    figure = sheet(_WIDTH, end + (more.height if more else 0.0), title)
    if more:
        more.draw(figure, end)
    for name, left in _COLUMNS:
        _heading(figure, left, top - 0.12, "variant" if name == _NAME else name)
    for n, (row, wrapped, height) in enumerate(zip(rows, names, heights, strict=True)):
        _draw_row(figure, row, n + 1, wrapped, top + sum(heights[:n]), height)
    if not rows:
        label(figure, 0.6, top + 0.1, "No variant has a result.", color=SOFT)
    if drawn:
        colours = share_colours([thumb for _, thumb in drawn])
        noise = float(colours.noise[0])
        ends = f"±{number(BLACK_TO * noise)}", f"{number(colours.top * noise)}"
        heading = (
            f"post − (gain × pre + offset), all in the same colours: black up to {ends[0]} grey "
            f"levels ({BLACK_TO:g} × the lowest noise), brightest from {ends[1]}"
        )
        label(figure, _EDGE, below - 0.5, heading, weight="bold", size=9.5, color=SOFT)
    for k, (n, values) in enumerate(drawn):
        line, column = divmod(k, in_line)
        place = _EDGE + column * (side + _GAP), below + line * (tall + 0.35), side, tall
        _draw_difference(figure, place, n, rows[n - 1].name, colours.pixels(values))
    return figure


def _heading(figure: Figure, left: float, bottom: float, text: str) -> None:
    label(figure, left, bottom, text, va="bottom", weight="bold", size=9.5, color=SOFT)


def _name_picture(figure: Figure, left: float, top: float, n: int, name: str, width: float) -> None:
    """Write number and name above a picture of a width, inches."""
    short = textwrap.shorten(name, int(width / 0.085), placeholder=" …")
    label(figure, left, top - 0.06, str(n), va="bottom", weight="bold", size=9.5)
    label(figure, left + 0.25, top - 0.06, short, va="bottom", size=9.5)


def _draw_row(
    figure: Figure, row: ComparisonRow, n: int, name: Sequence[str], top: float, height: float
) -> None:
    line = np.full((1, round((_WIDTH - 2 * _EDGE) * DPI), 3), rgb_bytes(FAINT))
    put_pixels(figure, round(_EDGE * DPI), round(top * DPI), line)
    cells = (
        str(n),
        "\n".join(name),
        row.status,
        estimate(row.gain, row.gain_ci95),
        f"{uncertainty(row.residual_median)} / {uncertainty(row.residual_p95)}",
        "no difference" if row.thumb is None else f"{number(row.median)} / {uncertainty(row.mad)}",
    )
    for (column, left), text in zip(_COLUMNS, cells, strict=True):
        label(
            figure,
            left,
            top + height / 2,
            text,
            va="center",
            weight="bold" if column in {"", _NAME, "status"} else "normal",
            color=STATUS[row.status] if column == "status" else INK,
            linespacing=1.35,
        )


def _draw_difference(
    figure: Figure,
    place: tuple[float, float, float, float],
    n: int,
    name: str,
    pixels: NDArray[np.uint8],
) -> None:
    left, top, side, _ = place
    _name_picture(figure, left, top, n, name, side)
    picture(figure, place, pixels)


def thumb(image: Image | None) -> NDArray[np.float32] | None:
    """Return a small overview of a difference; None if there is none."""
    if image is None or image.empty is not None:
        return None
    levels = range(image.levels)
    fits = (k for k in levels if max(image.level_shape(k)) <= _THUMB_PX)
    return overview(image, next(fits, levels[-1])).image


LACKED = "#ffe14d"
"""Colour of candidates that some other variant lacks."""
WIDTH, EDGE = 14.0, 0.3
# Inches: lines of the table, between pictures, and room for the words around one.
_SEARCH_LINE, _SEARCH_GAP, _AROUND = 0.36, 0.55, 0.75
_HEAD = 0.85
_SEARCH_COLUMNS = (
    ("search", 0.6),
    ("candidates", 5.3),
    ("density per mm² (95 %)", 6.4),
    ("false ones", 8.8),
)
_MATRIX, _CELL = 9.8, 0.52
_SEARCH_NAME_CHARACTERS = 52
# Side of the ring around a candidate, points squared.
_RING = 150


@dataclass(frozen=True, eq=False, slots=True)
class Searched:
    """The search of one variant.

    Attributes
    ----------
    name
        Parameters that make the variant.
    candidates, fdr
        How many there are, and what share of them is false.
    density, density_ci95
        Per mm², or None.
    crop
        (n, n) difference in the window, grey levels; NaN where there is none.
    points, lacked
        (k, 2) candidates (x, y) in the window, px of post, and which ones some other variant lacks.
    """

    name: str
    candidates: int
    fdr: float | None
    density: float | None
    density_ci95: tuple[float, float] | None
    crop: NDArray[np.float32]
    points: NDArray[np.float64]
    lacked: NDArray[np.bool_]


@dataclass(frozen=True, eq=False, slots=True)
class Searches:
    """The searches of variants of one pair.

    Attributes
    ----------
    rows
        Of each variant that is shown.
    shared
        (n, n) share of the candidates of a row that the variant of a column has as well; NaN for a
        row without any.
    corner
        (x, y) of the first px of the window.
    left_out
        Variants that are not shown.
    """

    rows: Sequence[Searched]
    shared: NDArray[np.float64]
    corner: tuple[int, int]
    left_out: int = 0

    @property
    def _in_line(self) -> int:
        return 2 if len(self.rows) <= 4 else 3

    @property
    def _side(self) -> float:
        return (WIDTH - 2 * EDGE - self._in_line * _SEARCH_GAP) / self._in_line

    @property
    def height(self) -> float:
        """Inches that `draw` takes."""
        lines = -(-len(self.rows) // self._in_line)
        return _HEAD + _SEARCH_LINE * len(self.rows) + 0.75 + lines * (self._side + _AROUND)

    def draw(self, figure: Figure, top: float) -> None:
        """Draw on a sheet `WIDTH` inches wide, from ``top`` inches on."""
        for name, left in _SEARCH_COLUMNS:
            _heading(figure, left, top + _HEAD - 0.12, name)
        which = "share of its candidates (%) that these have, too"
        _heading(figure, _MATRIX, top + _HEAD - 0.4, which)
        for n, row in enumerate(self.rows):
            _heading(figure, _MATRIX + n * _CELL, top + _HEAD - 0.12, str(n + 1))
            self._row(figure, n, row, top + _HEAD + (n + 0.5) * _SEARCH_LINE)
        below = top + _HEAD + _SEARCH_LINE * len(self.rows)
        about = "The same part of each difference in the same colours, px by px. Rings are around "
        about += "candidates: yellow ones around those that some other variant lacks."
        if self.left_out:
            about += f" {self.left_out} more variants are in comparison.tsv alone."
        label(figure, EDGE, below + 0.25, about, weight="bold", size=9.5, color=SOFT)
        colours = share_colours([row.crop for row in self.rows])
        for n, row in enumerate(self.rows):
            line, column = divmod(n, self._in_line)
            left = EDGE + _SEARCH_GAP + column * (self._side + _SEARCH_GAP)
            place = left, below + 0.85 + line * (self._side + _AROUND)
            self._picture(figure, place, n, colours.pixels(row.crop))

    def _row(self, figure: Figure, n: int, row: Searched, middle: float) -> None:
        name = textwrap.shorten(row.name, _SEARCH_NAME_CHARACTERS, placeholder=" …")
        cells = (name, f"{row.candidates:,}", estimate(row.density, row.density_ci95))
        label(figure, EDGE, middle, str(n + 1), va="center", weight="bold")
        for (column, left), text in zip(_SEARCH_COLUMNS, (*cells, percent(row.fdr)), strict=True):
            weight = "bold" if column == "search" else "normal"
            label(figure, left, middle, text, va="center", weight=weight, color=INK)
        for other, part in enumerate(self.shared[n]):
            text = "–" if other == n else number(100 * part, digits=3)
            label(figure, _MATRIX + other * _CELL, middle, text, va="center", color=INK)

    def _picture(
        self, figure: Figure, place: tuple[float, float], n: int, pixels: NDArray[np.uint8]
    ) -> None:
        row, (west, north) = self.rows[n], self.corner
        rows, cols = pixels.shape[:2]
        left, top = place
        _name_picture(figure, left, top, n + 1, row.name, self._side)
        axes = panel(figure, left, top, self._side, self._side)
        edges = west - 0.5, west + cols - 0.5, north + rows - 0.5, north - 0.5
        axes.imshow(pixels, extent=edges)
        map_axes(axes)
        axes.set(xlabel="", ylabel="")
        for chosen, colour, width in ((~row.lacked, PAPER, 0.9), (row.lacked, LACKED, 1.8)):
            x, y = row.points[chosen].T
            axes.scatter(x, y, s=_RING, facecolors="none", edgecolors=colour, linewidths=width)
