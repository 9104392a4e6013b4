"""One sheet for all parameter variants of a pair, and the figure that stands for a refused one."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unglow.figures.difference import compressed, knee_of, symmetric_limit
from unglow.figures.style import (
    DIVERGING,
    FAINT,
    SOFT,
    STATUS,
    label,
    number,
    panel,
    sheet,
    styled,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

_COLUMNS = (
    ("variant", 0.35),
    ("status", 4.2),
    ("gain (95 % interval)", 5.2),
    ("residual,\nmedian / p95 (px)", 7.3),
    ("difference, median\n/ MAD (grey levels)", 9.05),
    ("difference (same colours)", 10.7),
)
_ROW = 1.5


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
def draw_comparison(rows: Sequence[ComparisonRow], *, title: str = "Variants") -> Figure:
    """Draw a table with one row per variant and its difference, all in the same colours."""
    top = 1.3
    figure = sheet(14.0, top + _ROW * max(len(rows), 1) + 0.1, title)
    for name, left in _COLUMNS:
        label(figure, left, top - 0.12, name, va="bottom", weight="bold", size=9.5, color=SOFT)
    thumbs = [row.thumb for row in rows if row.thumb is not None]
    knee = max([knee_of(thumb, None, 1.0) for thumb in thumbs], default=1.0)
    limit = max([symmetric_limit(compressed(thumb, knee)) for thumb in thumbs], default=1.0)
    for n, row in enumerate(rows):
        _draw_row(figure, row, top + _ROW * n, knee, limit)
    if not rows:
        label(figure, 0.35, top + 0.3, "No variant has a result.", color=SOFT)
    return figure


def _draw_row(figure: Figure, row: ComparisonRow, top: float, knee: float, limit: float) -> None:
    line = panel(figure, 0.3, top, figure.get_figwidth() - 0.6, 0.01)
    line.set(facecolor=FAINT, xticks=[], yticks=[])
    line.spines[:].set_visible(False)
    gain = number(row.gain)
    if row.gain_ci95 is not None:
        gain += f"\n{row.gain_ci95[0]:.4g} to {row.gain_ci95[1]:.4g}"
    cells = (
        "\n".join(textwrap.wrap(row.name, 40)[:6]),
        row.status,
        gain,
        f"{number(row.residual_median)} / {number(row.residual_p95)}",
        f"{number(row.median)} / {number(row.mad)}",
    )
    for (_, left), text in zip(_COLUMNS, cells, strict=False):
        weight = "bold" if left in {0.35, 4.2} else "normal"
        colour = STATUS[row.status] if left == 4.2 else "black"
        label(
            figure,
            left,
            top + _ROW / 2,
            text,
            va="center",
            weight=weight,
            color=colour,
            linespacing=1.35,
        )
    if row.thumb is None:
        label(figure, _COLUMNS[-1][1], top + _ROW / 2, "no difference", va="center", color=SOFT)
        return
    axes = panel(figure, _COLUMNS[-1][1], top + 0.08, 3.0, _ROW - 0.16)
    axes.set_anchor("W")
    axes.imshow(compressed(row.thumb, knee), cmap=DIVERGING, vmin=-limit, vmax=limit)
    axes.set(xticks=[], yticks=[])


@styled
def draw_refusal(title: str, reason: str, status: str | None = "failed") -> Figure:
    """Draw the figure of a pair that has none: its name and the reason in one sentence."""
    lines = textwrap.wrap(" ".join(reason.split()), 86) or ["No reason was given."]
    figure = sheet(10.0, 1.75 + 0.27 * len(lines), title, status=status)
    label(figure, 0.32, 0.85, "There is nothing to draw for this pair, because:", color=SOFT)
    label(figure, 0.32, 1.2, "\n".join(lines), size=12, linespacing=1.35)
    return figure
