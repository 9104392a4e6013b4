"""Part of the sheet of variants: what their searches found, how far they agree, and where not."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unglow.core.rounding import estimate, number, percent
from unglow.reporting.difference_picture import shared_colours
from unglow.reporting.figures.canvas import Picture
from unglow.reporting.figures.style import INK, PAPER, SOFT, label, map_axes, panel

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

LACKED = "#ffe14d"
"""Colour of candidates that some other variant lacks."""
WIDTH, EDGE = 14.0, 0.3
# Inches: lines of the table, between pictures, and room for the words around one.
_LINE, _GAP, _AROUND = 0.36, 0.55, 0.75
_HEAD = 0.85
_COLUMNS = (
    ("search", 0.6),
    ("candidates", 5.3),
    ("density per mm² (95 %)", 6.4),
    ("false ones", 8.8),
)
_MATRIX, _CELL = 9.8, 0.52
_NAME_CHARACTERS = 52
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
        return (WIDTH - 2 * EDGE - self._in_line * _GAP) / self._in_line

    @property
    def height(self) -> float:
        """Inches that `draw` takes."""
        lines = -(-len(self.rows) // self._in_line)
        return _HEAD + _LINE * len(self.rows) + 0.75 + lines * (self._side + _AROUND)

    def draw(self, figure: Figure, top: float) -> None:
        """Draw on a sheet `WIDTH` inches wide, from ``top`` inches on."""
        for name, left in _COLUMNS:
            self._heading(figure, left, top + _HEAD - 0.12, name)
        which = "share of its candidates (%) that these have, too"
        self._heading(figure, _MATRIX, top + _HEAD - 0.4, which)
        for n, row in enumerate(self.rows):
            self._heading(figure, _MATRIX + n * _CELL, top + _HEAD - 0.12, str(n + 1))
            self._row(figure, n, row, top + _HEAD + (n + 0.5) * _LINE)
        below = top + _HEAD + _LINE * len(self.rows)
        about = "The same part of each difference in the same colours, px by px. Rings are around "
        about += "candidates: yellow ones around those that some other variant lacks."
        if self.left_out:
            about += f" {self.left_out} more variants are in comparison.tsv alone."
        label(figure, EDGE, below + 0.25, about, weight="bold", size=9.5, color=SOFT)
        colours = shared_colours([row.crop for row in self.rows])
        for n, row in enumerate(self.rows):
            line, column = divmod(n, self._in_line)
            left = EDGE + _GAP + column * (self._side + _GAP)
            place = left, below + 0.85 + line * (self._side + _AROUND)
            self._picture(figure, place, n, colours.pixels(row.crop))

    def _heading(self, figure: Figure, left: float, top: float, text: str) -> None:
        label(figure, left, top, text, va="bottom", weight="bold", size=9.5, color=SOFT)

    def _row(self, figure: Figure, n: int, row: Searched, middle: float) -> None:
        name = textwrap.shorten(row.name, _NAME_CHARACTERS, placeholder=" …")
        cells = (name, f"{row.candidates:,}", estimate(row.density, row.density_ci95))
        label(figure, EDGE, middle, str(n + 1), va="center", weight="bold")
        for (column, left), text in zip(_COLUMNS, (*cells, percent(row.fdr)), strict=True):
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
        name = textwrap.shorten(row.name, int(self._side / 0.085), placeholder=" …")
        left, top = place
        label(figure, left, top - 0.06, str(n + 1), va="bottom", weight="bold", size=9.5)
        label(figure, left + 0.25, top - 0.06, name, va="bottom", size=9.5)
        axes = panel(figure, left, top, self._side, self._side)
        edges = west - 0.5, west + cols - 0.5, north + rows - 0.5, north - 0.5
        axes.add_artist(Picture(pixels, edges))
        axes.set(xlim=edges[:2], ylim=edges[2:], aspect="equal")
        map_axes(axes)
        axes.set(xlabel="", ylabel="")
        for chosen, colour, width in ((~row.lacked, PAPER, 0.9), (row.lacked, LACKED, 1.8)):
            x, y = row.points[chosen].T
            axes.scatter(x, y, s=_RING, facecolors="none", edgecolors=colour, linewidths=width)
