"""One sheet for all parameter variants of a pair, and the figure that stands for a refused one."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.rounding import estimate, number, uncertainty
from unglow.io.zarr.overviews import overview
from unglow.reporting.difference_picture import BLACK_TO, shared_colours
from unglow.reporting.figures.canvas import DPI, Pixels, resized
from unglow.reporting.figures.style import (
    FAINT,
    INK,
    SOFT,
    STATUS,
    framed,
    label,
    rgb_bytes,
    sheet,
    styled,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from unglow.photometry.difference import Image
    from unglow.reporting.figures.figure_inputs import FigureInputs
    from unglow.reporting.figures.searches import Searches

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


@styled
def draw_comparison(
    rows: Sequence[ComparisonRow],
    *,
    title: str = "Variants",
    of: str = "variant",
    more: Searches | None = None,
) -> Figure:
    """Draw a table with one row per variant, and below it the differences in the same colours.

    ``of`` says what the rows are; ``more`` is drawn below.
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
        heading = of if name == _NAME else name
        label(figure, left, top - 0.12, heading, va="bottom", weight="bold", size=9.5, color=SOFT)
    for n, (row, wrapped, height) in enumerate(zip(rows, names, heights, strict=True)):
        _draw_row(figure, row, n + 1, wrapped, top + sum(heights[:n]), height)
    if not rows:
        label(figure, 0.6, top + 0.1, f"No {of} has a result.", color=SOFT)
    if drawn:
        colours = shared_colours([thumb for _, thumb in drawn])
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


def _draw_row(
    figure: Figure, row: ComparisonRow, n: int, name: Sequence[str], top: float, height: float
) -> None:
    line = np.full((1, round((_WIDTH - 2 * _EDGE) * DPI), 3), rgb_bytes(FAINT))
    figure.add_artist(Pixels(line, round(_EDGE * DPI), round(top * DPI)))
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
    left, top, side, tall = place
    room = int(side / 0.085)
    label(figure, left, top - 0.06, str(n), va="bottom", weight="bold", size=9.5)
    short = textwrap.shorten(name, room, placeholder=" …")
    label(figure, left + 0.25, top - 0.06, short, va="bottom", size=9.5)
    rows, cols, _ = pixels.shape
    scale = DPI * min(side / cols, tall / rows)
    shown = resized(pixels, (round(rows * scale), round(cols * scale)))
    framed(figure, round(left * DPI), round(top * DPI), shown)


@styled
def draw_refusal(
    title: str, reason: str, status: str | None = "failed", *, of: str = "pair"
) -> Figure:
    """Draw the figure of a pair (or marker) that has none: its name, the reason in a sentence."""
    lines = textwrap.wrap(" ".join(reason.split()), 86) or ["No reason was given."]
    figure = sheet(10.0, 1.75 + 0.27 * len(lines), title, status=status)
    label(figure, 0.32, 0.85, f"There is nothing to draw for this {of}, because:", color=SOFT)
    label(figure, 0.32, 1.2, "\n".join(lines), size=12, linespacing=1.35)
    return figure


def draw_methods_of_pair(pair: FigureInputs, title: str) -> Figure:
    """Draw the differences of a pair by all scale methods side by side."""
    rows = [_method_row(pair, method) for method in pair.differences.images]
    return draw_comparison(rows, title=title, of="scale method")


def _method_row(pair: FigureInputs, method: str) -> ComparisonRow:
    result, histogram = pair.scale.methods[method], pair.differences.histograms[method]
    known, residual = histogram.total > 0, pair.transform.residual_px
    return ComparisonRow(
        name=f"{method} (default)" if method == pair.differences.default else method,
        status="ok" if result.ok else "failed",
        gain=result.gain,
        gain_ci95=result.gain_ci95,
        residual_median=residual.median,
        residual_p95=residual.p95,
        median=histogram.median() if known else float("nan"),
        mad=histogram.mad() if known else float("nan"),
        thumb=thumb(pair.differences.images[method]),
    )


def thumb(image: Image | None) -> NDArray[np.float32] | None:
    """Return a small overview of a difference; None if there is none."""
    if image is None or image.empty is not None:
        return None
    return overview(image, _level_below(image, _THUMB_PX)).image


def _level_below(store: Image, longest_px: int) -> int:
    levels = range(store.levels)
    return next((k for k in levels if max(store.level_shape(k)) <= longest_px), levels[-1])
