"""The figure of a map: how well it is known where, and how far it bends the section."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from unglow.core.rounding import DASH, uncertainty
from unglow.reporting.figures.colour_maps import STRIPE, Colours, Coverage, bar, map_panel
from unglow.reporting.figures.displacement import draw_deformed_grid, draw_small_maps, small_places
from unglow.reporting.figures.map_grids import covered, error_of_map
from unglow.reporting.figures.style import (
    DISAGREES,
    FAINT,
    INK,
    PAPER,
    dimmed,
    facts,
    image,
    label,
    map_axes,
    panel,
    sheet,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from unglow.reporting.figures.figure_inputs import FigureInputs
    from unglow.transform import Transform

ERROR = Colours("inferno_r", 0.01, 5.0, log=True)
_TICKS = ((0.01, "≤ 0.01 px"), (0.05, "0.05"), (0.2, "0.2"), (1.0, "1"), (5.0, "≥ 5"))
# How well spots are found (F1) if the map is off by so much: docs/results.md says where from.
_DETECTION = ("", "0.94", "0.88", "0.55", "")
# Inches: the most that a panel has, where panels and facts begin, and the height of the facts.
_WIDE, _TALLEST = 5.0, 6.5
_LEFT, _SECOND, _RIGHT, _TOP = 0.85, 6.1, 11.45, 0.95
_FACTS = 2.2


@styled
def draw_map_error(
    post_thumb: NDArray[Any],
    data: NDArray[np.bool_],
    blocks: NDArray[np.void],
    transform: Transform,
    *,
    step: float = 1.0,
    title: str = "The map and its error",
) -> Figure:
    """Draw the error of a map over the section, and what the map does beyond its matrix.

    With a displacement field: the field as a deformed grid, its length, and the change of areas.
    Without one: the residuals of the blocks, which show the error.

    Parameters
    ----------
    post_thumb
        (rows, cols) overview of post.
    data
        (rows, cols) where aligned pre has data.
    blocks
        Sample blocks, `unglow.registration.block_table.BLOCK_DTYPE`.
    transform
        What the registration found; ``post_shape`` is the frame of all maps.
    step
        Level-0 px per overview px.
    """
    field, frame = transform.displacement, transform.post_shape
    tall = min(_WIDE * frame[0] / frame[1], _TALLEST)
    height = max(_TOP + tall + 1.65, _TOP + _FACTS)
    rows = [(_LEFT, height + 0.2, _WIDE, tall), (_SECOND, height + 0.2, _WIDE, tall)]
    places, bottom = small_places(frame, rows, (_RIGHT, _TOP + _FACTS))
    figure = sheet(
        14.0, height if field is None else max(height, bottom), title, status=transform.status
    )
    coverage = Coverage(frame, covered(blocks, frame), data)
    where = (_LEFT, _TOP, _WIDE, tall)
    axes = map_panel(figure, where, error_of_map(transform, blocks), ERROR, coverage)
    map_axes(axes)
    held = blocks[blocks["used"] & blocks["held_out"]]
    axes.plot(held["x"], held["y"], ".", color=INK, markersize=1.5)
    axes.set_title("Error of the map")
    below = _TOP + tall + 0.72
    bar(figure, (_LEFT + 0.6, below, _WIDE - 1.0), ERROR, _TICKS, _DETECTION)
    label(figure, _LEFT + 0.6, below + 0.41, "spots found (F1)", size=9, ha="center")
    axes = panel(figure, _SECOND, _TOP, _WIDE, tall)
    axes.set_anchor("N")
    image(axes, dimmed(post_thumb, 0.2, 0.4), step, y_label=False)
    if field is None:
        _draw_residuals(axes, blocks)
    else:
        draw_deformed_grid(figure, axes, transform, field, coverage.near, below)
        draw_small_maps(figure, transform, field, places, coverage)
    axes.set(xlim=(-0.5, frame[1] - 0.5), ylim=(frame[0] - 0.5, -0.5))
    _facts(figure, transform, blocks)
    _legend(figure, below, crosses=field is None)
    return figure


def _draw_residuals(axes: Axes, blocks: NDArray[np.void]) -> None:
    """Draw the blocks in the colours of the length of their residual, held-out ones larger."""
    axes.set_title("Residuals of the blocks (large: held out)")
    unused = blocks[~blocks["used"]]
    axes.plot(unused["x"], unused["y"], "x", color=DISAGREES, markersize=5)
    for held, size, edge in ((False, 18, 0.0), (True, 42, 1.0)):
        some = blocks[blocks["used"] & (blocks["held_out"] == held)]
        colours = ERROR.of(np.hypot(some["dx"], some["dy"])) / 255
        axes.scatter(some["x"], some["y"], s=size, c=colours, edgecolors=PAPER, linewidths=edge)


def _facts(figure: Figure, transform: Transform, blocks: NDArray[np.void]) -> None:
    """Write the numbers that matter into the right column."""
    error, residual, field = transform.error_px, transform.residual_px, transform.displacement
    held = int(np.count_nonzero(blocks["used"] & blocks["held_out"]))
    rows = [
        ("error, median", uncertainty(error.median, "px")),
        ("error, p95", uncertainty(error.p95, "px")),
        ("residual, median", uncertainty(residual.median, "px")),
        ("residual, p95", uncertainty(residual.p95, "px")),
        ("held-out blocks", f"{held:,}"),
        ("model", transform.model_name or DASH),
    ]
    if field is not None:
        rows.append(("knots every", f"{field.spacing_px} px"))
    facts(figure, rows, left=_RIGHT, top=_TOP, line=0.25, values=13.7, align="right", bold=2)


def _legend(figure: Figure, top: float, *, crosses: bool) -> None:
    """Say what the marks mean, below the second panel."""
    marks: list[Any] = [
        Line2D([], [], ls="", marker="o", color=INK, markersize=2.5, label="held-out block"),
        Patch(facecolor=PAPER, edgecolor=STRIPE, hatch="/////", label="no block nearby agrees"),
        Patch(facecolor=FAINT, label="no data in pre"),
    ]
    if crosses:
        red = Line2D([], [], ls="", marker="x", color=DISAGREES, label="disagrees")
        marks.insert(1, red)
    figure.legend(
        handles=marks,
        ncols=len(marks),
        loc="upper left",
        bbox_to_anchor=(
            (_SECOND - 0.1) / figure.get_figwidth(),
            1 - (top + 0.36) / figure.get_figheight(),
        ),
        borderpad=0,
        handlelength=1.3,
        columnspacing=1.2,
    )


def draw_map_error_of_pair(pair: FigureInputs, title: str) -> Figure:
    """Draw the map of a pair and its error."""
    view, data = pair.post_view, np.isfinite(pair.aligned_view)
    return draw_map_error(
        view.image, data, pair.blocks, pair.transform, step=view.step, title=title
    )
