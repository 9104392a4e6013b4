"""The figure of the residuals: what a map leaves at the blocks that it was measured by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from unglow.core.rounding import DASH, uncertainty
from unglow.figures.colour_maps import turn_to_post
from unglow.figures.style import (
    DISAGREES,
    INK,
    ORANGE,
    SKY,
    apply_style,
    dim,
    graph,
    image,
    label,
    nice,
    panel,
    place_legend,
    sheet,
    steps,
    write_facts,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from unglow.core.arrays import Array, Floats
    from unglow.figures.figure_inputs import FigureInputs
    from unglow.transform import Transform


CELLS = 22
"""At most this many arrows of a kind along the longer side of a section."""
# Arrows are magnified so that this share of them is shorter than a cell is wide. A longer one is
# cut at this many of these widths.
_TYPICAL, _LONGEST = 0.85, 2.0
_MOST_BINS = 36


@dataclass(frozen=True, slots=True)
class Arrows:
    """Arrows of one kind of block: ``points`` and ``vectors`` (N, 2), px; ``most`` in one of them.

    An arrow is a block, or the median of up to ``most`` blocks of one cell.
    """

    points: Floats
    vectors: Floats
    most: int

    @property
    def lengths(self) -> Floats:
        """Lengths of the vectors, (N,) px."""
        return np.asarray(np.hypot(*self.vectors.T))


def gather(points: Floats, vectors: Floats, side: float) -> Arrows:
    """Return one arrow per square cell of ``side`` px: the median of its blocks, by component.

    Medians, so that what neighbours share stays and a single wrong match does not count.
    """
    if len(points) == 0:
        return Arrows(points, vectors, 0)
    cell = (points // side).astype(np.int64)
    order = np.lexsort((cell[:, 0], cell[:, 1]))
    changed = np.any(np.diff(cell[order], axis=0) != 0, axis=1)
    groups = np.split(order, np.flatnonzero(changed) + 1)
    middle = np.array(
        [np.median(np.hstack([points[g], vectors[g]]), axis=0) for g in groups], dtype=np.float64
    )
    return Arrows(middle[:, :2], middle[:, 2:], max(len(g) for g in groups))


@apply_style
def draw_residuals(
    post_thumb: Array,
    blocks: Array,
    transform: Transform,
    *,
    step: float = 1.0,
    title: str = "Residuals of the registration",
) -> Figure:
    """Draw what is left between measured and mapped block positions, magnified, over post.

    Parameters
    ----------
    post_thumb
        (rows, cols) overview of post.
    blocks
        Table with x, y, dx, dy (level-0 px), used and held_out (bool).
    transform
        What the registration found.
    step
        Level-0 px per overview px.
    """
    figure = sheet(14.0, 8.6, title, status=transform.status, of="map")
    axes = panel(figure, 0.85, 0.95, 7.9, 7.0)
    axes.set_anchor("NW")
    image(axes, dim(post_thumb, 0.25, 0.45), step)
    side = max(post_thumb.shape) * step / CELLS
    used = blocks[blocks["used"] & np.isfinite(blocks["dx"] + blocks["dy"])]
    kinds = {
        held: gather(
            _columns(part, "x", "y"), turn_to_post(transform, _columns(part, "dx", "dy")), side
        )
        for held in (False, True)
        for part in (used[used["held_out"] == held],)
    }
    unused = _columns(blocks[~blocks["used"]], "x", "y")
    crosses = gather(unused, np.zeros_like(unused), side).points
    axes.plot(*crosses.T, "x", color=DISAGREES, markersize=5, label="not used")
    magnified = _draw_arrows(axes, kinds, side)
    axes.set_xlim(-0.5, post_thumb.shape[1] * step - 0.5)
    axes.set_ylim(post_thumb.shape[0] * step - 0.5, -0.5)
    axes.set_title(f"arrows × {magnified:g}: pre measured minus mapped", loc="right")
    most = max(arrows.most for arrows in kinds.values())
    arrows = "one block each" if most <= 1 else f"medians over squares of {side:.0f} px"
    _residual_facts(figure, axes, used, len(blocks), transform, arrows)
    return figure


def _columns(blocks: Array, *names: str) -> Floats:
    return np.column_stack([blocks[name] for name in names])


def _draw_arrows(axes: Axes, kinds: dict[bool, Arrows], side: float) -> float:
    """Draw arrows and their key; return how many times as long as they are in level-0 px.

    Most arrows (of those held out, if there are any) are shorter than a cell is wide.
    """
    honest = kinds[True] if len(kinds[True].points) else kinds[False]
    typical = float(np.quantile(honest.lengths, _TYPICAL)) if len(honest.points) else 1.0
    typical = max(typical, 1e-4)
    magnified = nice(max(side / typical, 1.0))
    limit = _LONGEST * side / magnified
    cut = []
    for held, colour, name in ((False, SKY, "used in the fit"), (True, ORANGE, "held out")):
        some = kinds[held]
        shown = some.vectors * np.minimum(1, limit / np.maximum(some.lengths, 1e-12))[:, None]
        arrows = axes.quiver(
            *some.points.T,
            *shown.T,
            angles="xy",
            scale_units="xy",
            scale=1 / magnified,
            color=colour,
            width=0.0028,
            headwidth=3.5,
            label=name,
        )
        cut.append(some.points[some.lengths > limit])
    long = np.concatenate(cut)
    if len(long):
        axes.plot(
            *long.T,
            "o",
            color=INK,
            fillstyle="none",
            markersize=5,
            markeredgewidth=1,
            label=f"longer than {uncertainty(limit)} px, drawn at that length: {len(long)}",
        )
    key = nice(1.2 * side / magnified)
    axes.quiverkey(arrows, 0.02, 1.035, key, f"{key:g} px", labelpos="E", color=INK, labelcolor=INK)
    return magnified


def _residual_facts(
    figure: Figure, axes: Axes, used: Array, total: int, transform: Transform, arrows: str
) -> None:
    """Write the numbers and a histogram of residual lengths into the right column."""
    left = 9.65
    held = used[used["held_out"]]
    label(figure, left, 0.95, "Held-out blocks", weight="bold", size=11)
    rows = [
        ("residual, median", uncertainty(transform.residual_px.median, "px")),
        ("residual, p95", uncertainty(transform.residual_px.p95, "px")),
        ("blocks", f"{total} measured, {len(used)} agree"),
        ("", f"{len(held)} of these held out of the fit"),
        ("model", transform.model_name or DASH),
        ("arrows", arrows),
    ]
    write_facts(figure, rows, left=left, top=1.27, line=0.27, values=left + 1.45)
    handles, _ = axes.get_legend_handles_labels()
    place_legend(figure, handles, left - 0.1, 2.95, borderpad=0)
    _histogram(panel(figure, left + 0.35, 4.35, 3.7, 3.1), used, transform)


def _histogram(plot: Axes, used: Array, transform: Transform) -> None:
    """Draw the lengths of both kinds of blocks, as shares of the blocks of each kind."""
    lengths = np.maximum(np.hypot(used["dx"], used["dy"]), 1e-4)
    if len(lengths):
        low, high = np.quantile(lengths, 0.01), lengths.max()
        bins = int(np.clip(2 * np.sqrt(np.count_nonzero(used["held_out"])), 12, _MOST_BINS))
        edges = np.geomspace(low / 1.05, max(high, 10 * low) * 1.05, bins + 1)
        top = 0.0
        for held, colour, name in ((False, SKY, "fit"), (True, ORANGE, "held out")):
            counts = np.histogram(lengths[used["held_out"] == held], edges)[0]
            share = 100 * counts / max(counts.sum(), 1)
            top = max(top, float(share.max()))
            steps(plot, share, edges, color=colour, label=name, fill=not held, linewidth=1.8 * held)
        for quantile, side in (("median", "right"), ("p95", "left")):
            at = float(getattr(transform.residual_px, quantile))
            if edges[0] <= at <= edges[-1]:
                plot.axvline(at, color=INK, linewidth=1, linestyle="--")
                plot.text(at, 1.01, quantile, transform=plot.get_xaxis_transform(), ha=side)
        ratio = float(edges[-1] / edges[0])
        plot.set_xscale("log")
        plot.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if ratio < 100 else (1,)))
        plot.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        plot.xaxis.set_minor_locator(NullLocator())  # each tick takes a millisecond
        margin = ratio**0.05
        plot.set(xlim=(edges[0] / margin, edges[-1] * margin), ylim=(0, 1.05 * top))
    graph(plot, "length of residual (px)", "blocks (% of their kind)")


def draw_residuals_of_pair(pair: FigureInputs, title: str) -> Figure:
    """Draw the residuals of the registration of a pair."""
    view = pair.post_view
    return draw_residuals(view.image, pair.blocks, pair.transform, step=view.step, title=title)
