"""The figure of a map: how well it is known where, and how far it bends the section."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from unglow.core.rounding import DASH, number, uncertainty
from unglow.figures.colour_maps import (
    STRIPE,
    Colours,
    Coverage,
    area_ratio,
    displacement_length,
    draw_bar,
    error_of_map,
    find_covered,
    map_panel,
    map_tile,
    paper_px,
    turn_to_post,
)
from unglow.figures.style import (
    DISAGREES,
    DPI,
    FAINT,
    INK,
    PAPER,
    apply_style,
    dim,
    image,
    label,
    map_axes,
    nice,
    panel,
    place_legend,
    sheet,
    write_facts,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from unglow.core.arrays import Array, Bools, Floats
    from unglow.figures.colour_maps import Grid, Place
    from unglow.figures.figure_inputs import FigureInputs
    from unglow.transform import Transform
    from unglow.transform.displacement import Displacement


ERROR = Colours("inferno_r", 0.001, 5.0, log=True)
"""The same for all pairs; the best are known to some thousandths of a px."""
_TICKS = (
    *((0.001, "≤ 0.001 px"), (0.01, "0.01"), (0.05, "0.05"), (0.2, "0.2")),
    *((1.0, "1"), (5.0, "≥ 5")),
)
# How well spots are found (F1) if the map is off by so much: docs/results.md says where from.
_DETECTION = ("", "", "0.94", "0.88", "0.55", "")
# Inches: the most that a panel has, where panels and facts begin, and the height of the facts.
_WIDE, _TALLEST = 5.0, 6.5
_LEFT, _SECOND, _RIGHT, _TOP = 0.85, 6.1, 11.45, 0.95
_FACTS = 2.2


@apply_style
def draw_map_error(
    post_thumb: Array,
    data: Bools,
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
        14.0,
        height if field is None else max(height, bottom),
        title,
        status=transform.status,
        of="map",
    )
    coverage = Coverage(frame, find_covered(blocks, frame), data)
    where = (_LEFT, _TOP, _WIDE, tall)
    error = error_of_map(transform, blocks)
    axes = map_panel(figure, where, error, ERROR, coverage)
    map_axes(axes)
    held = blocks[blocks["used"] & blocks["held_out"]]
    colours = ERROR.paint(np.hypot(held["dx"], held["dy"])) / 255
    axes.scatter(held["x"], held["y"], s=16, c=colours, edgecolors=INK, linewidths=0.7)
    median, p95 = (uncertainty(v) for v in (transform.error_px.median, transform.error_px.p95))
    axes.set_title(f"Error of the map: median {median}, p95 {p95} px")
    below = _TOP + tall + 0.72
    draw_bar(figure, (_LEFT + 0.6, below, _WIDE - 1.0), ERROR, _TICKS, _DETECTION)
    label(figure, _LEFT + 0.6, below + 0.41, "spots found (F1)", size=9, ha="center")
    axes = panel(figure, _SECOND, _TOP, _WIDE, tall)
    axes.set_anchor("N")
    image(axes, dim(post_thumb, 0.2, 0.4), step, y_label=False)
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
        colours = ERROR.paint(np.hypot(some["dx"], some["dy"])) / 255
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
    write_facts(figure, rows, left=_RIGHT, top=_TOP, line=0.25, values=13.7, align="right", bold=2)


def _legend(figure: Figure, top: float, *, crosses: bool) -> None:
    """Say what the marks mean, below the second panel."""
    marks: list[Any] = [
        Line2D(
            *([], []), ls="", marker="o", mfc=PAPER, mec=INK, ms=4, label="held-out block: residual"
        ),
        Patch(facecolor=PAPER, edgecolor=STRIPE, hatch="/////", label="no block nearby agrees"),
        Patch(facecolor=FAINT, label="no data in pre"),
    ]
    if crosses:
        red = Line2D([], [], ls="", marker="x", color=DISAGREES, label="disagrees")
        marks.insert(1, red)
    look = {"ncols": len(marks), "borderpad": 0, "handlelength": 1.3, "columnspacing": 1.2}
    place_legend(figure, marks, _SECOND - 0.1, top + 0.36, **look)


def draw_map_error_of_pair(pair: FigureInputs, title: str) -> Figure:
    """Draw the map of a pair and its error."""
    view, data = pair.post_view, np.isfinite(pair.aligned_view)
    return draw_map_error(
        view.image, data, pair.blocks, pair.transform, step=view.step, title=title
    )


SQUARES = 16
"""The deformed grid has at least this many squares along the longer side of a section."""
# Points along a side of a square, and the steepest bend that is drawn: 1 would fold the grid.
_POINTS, _STEEPEST = 4, 0.6
# The small maps, inches; those of a section lower than this share of its width stand side by side.
_SMALL, _SMALL_TALLEST, _WIDE_SECTION = 2.25, 1.75, 0.6


def small_places(
    frame: tuple[int, int], rows: Sequence[Place], column: tuple[float, float]
) -> tuple[Sequence[Place], float]:
    """Return where the two small maps stand, and where they end, inches from the top left corner.

    Below one another in a ``column`` (left, top); those of a wide section at ``rows``.
    """
    if frame[0] < _WIDE_SECTION * frame[1]:
        return rows, rows[0][1] + rows[0][3] + 0.75
    left, top = column
    tall = min(_SMALL * frame[0] / frame[1], _SMALL_TALLEST)
    second = top + tall + 0.85
    return [(left, top, _SMALL, tall), (left, second, _SMALL, tall)], second + tall + 0.55


def draw_small_maps(
    figure: Figure,
    transform: Transform,
    field: Displacement,
    places: Sequence[Place],
    coverage: Coverage,
) -> None:
    """Draw the length of the displacement and the change of areas, each with its colour bar."""
    lengths, areas = displacement_length(field, coverage.frame), area_ratio(transform)
    _, longest = _range(lengths, coverage.near)
    colours = Colours("viridis", 0.0, max(longest, 1e-3))
    ticks = [(0.0, "0"), (colours.high, number(colours.high, "px"))]
    _small_map(figure, places[0], lengths, colours, coverage, ticks)
    _heading(figure, places[0], f"Length of the field: to {number(longest, 'px')}")

    low, high = (round(100 * (ratio - 1), 3) + 0.0 for ratio in _range(areas, coverage.near))
    limit = max(abs(low), abs(high), 1e-3)
    colours = Colours("PuOr_r", 1 - limit / 100, 1 + limit / 100)
    names = (f"−{uncertainty(limit)} %", "0", f"+{uncertainty(limit)} %")
    ticks = list(zip((colours.low, 1.0, colours.high), names, strict=True))
    _small_map(figure, places[1], areas, colours, coverage, ticks)
    change = " to ".join(
        f"{'−' if share < 0 else '+'}{uncertainty(abs(share))}" for share in (low, high)
    )
    _heading(figure, places[1], f"Area change: {change} %")


def _small_map(
    figure: Figure,
    place: Place,
    values: Grid,
    colours: Colours,
    coverage: Coverage,
    ticks: list[tuple[float, str]],
) -> None:
    left, top, width, height = place
    map_tile(figure, place, values, colours, coverage)
    draw_bar(figure, (left + 0.2, top + height + 0.1, min(width, _SMALL) - 0.5), colours, ticks)


def _heading(figure: Figure, place: Place, text: str) -> None:
    label(figure, place[0], place[1] - 0.07, text, size=9.5, va="bottom")


def _range(grid: Grid, near: Grid) -> tuple[float, float]:
    """Return the least and the greatest value near blocks (anywhere, if there are none)."""
    points = grid.places()
    values = grid.values.ravel()[near.look_up(points)]
    values = values if len(values) else grid.values
    return float(values.min()), float(values.max())


def draw_deformed_grid(
    figure: Figure, axes: Axes, transform: Transform, field: Displacement, near: Grid, below: float
) -> None:
    """Draw squares of post where the field puts them, magnified.

    ``below`` is where the key stands, inches from the top of the figure.
    """
    frame = transform.post_shape
    square = nice(max(frame) / SQUARES)
    lines = _grid_lines(frame, square)
    moved = [turn_to_post(transform, field.evaluate(line)) for line in lines]
    shown = [near.look_up(line) for line in lines]
    magnified = _magnification(moved, shown, square)
    paths = [
        np.where(keep[:, None], line + magnified * by, np.nan)
        for line, by, keep in zip(lines, moved, shown, strict=True)
    ]
    axes.add_collection(LineCollection(paths, colors="#ffe14d", linewidths=0.9))
    axes.set_title(f"Displacement field × {magnified:g}, squares of {square:g} px")
    _key(figure, axes, frame, magnified, below)


def _grid_lines(frame: tuple[int, int], square: float) -> list[Floats]:
    """Points (x, y) along the lines of a grid, one (N, 2) array for each line."""
    ends = frame[1] - 1, frame[0] - 1
    lines = []
    for axis in (0, 1):
        along = np.append(np.arange(0, ends[1 - axis], square / _POINTS), ends[1 - axis])
        for at in np.arange(square / 2, ends[axis], square):
            line = np.empty((len(along), 2))
            line[:, axis], line[:, 1 - axis] = at, along
            lines.append(line)
    return lines


def _magnification(moved: list[Floats], shown: list[Bools], square: float) -> float:
    """Return a round magnification at which a grid bends clearly and does not fold."""
    pairs = list(zip(moved, shown, strict=True))
    lengths = [np.hypot(*by[keep].T) for by, keep in pairs]
    steps = [np.hypot(*np.diff(by, axis=0)[keep[1:] & keep[:-1]].T) for by, keep in pairs]
    long, steep = (np.concatenate([*parts, [1e-3]]) for parts in (lengths, steps))
    steepest = np.quantile(steep, 0.98) / (square / _POINTS)
    return nice(max(min(1.5 * square / np.quantile(long, 0.95), _STEEPEST / steepest), 1.0))


def _key(figure: Figure, axes: Axes, frame: tuple[int, int], magnified: float, top: float) -> None:
    """Draw below the axes how long a round displacement is in the grid."""
    shown = nice(0.6 * DPI / (paper_px(axes, frame) * magnified))
    long = shown * magnified * paper_px(axes, frame) / DPI
    left = axes.get_window_extent().x0 / DPI
    y = figure.get_figheight() - top - 0.08
    line = Line2D([left, left + long], [y, y], color=INK, linewidth=2)
    line.set_transform(figure.dpi_scale_trans)
    figure.add_artist(line)
    label(figure, left + long + 0.12, top, f"displaced by {shown:g} px", size=9)
