"""Figures of a registration: overlays before and after, and the residuals of its sample blocks."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.patches import Patch

from unglow.figures.style import (
    BLUE,
    INK,
    ORANGE,
    SKY,
    SOFT,
    STATUS,
    Crop,
    frame,
    graph,
    grey,
    image,
    label,
    nice,
    number,
    overlay,
    panel,
    scale_bar,
    sheet,
    stretch,
    styled,
    tile,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from unglow.transform import Transform

GREEN, MAGENTA = "#00c800", "#e000e0"
CROPS = 3
_PANEL = 5.0
ARROWS = 900


@styled
def draw_registration(
    post_thumb: NDArray[Any],
    pre_before_thumb: NDArray[Any],
    pre_after_thumb: NDArray[Any],
    transform: Transform,
    *,
    step: float = 1.0,
    pixel_size_um: float | None = None,
    crops: Sequence[Crop] = (),
    title: str = "Registration",
) -> Figure:
    """Draw post (green) over pre (magenta) before and after, the numbers, and details.

    Parameters
    ----------
    post_thumb, pre_before_thumb, pre_after_thumb
        (rows, cols) overviews on one grid: post, pre as it came, aligned pre (NaN: no data).
    transform
        What the registration found.
    step
        Level-0 px per overview px.
    pixel_size_um
        Of level 0, for the scale bar; None where it is not known.
    crops
        Full-resolution squares of post and aligned pre; the first three are shown.
    """
    rows, cols = post_thumb.shape
    tall = min(_PANEL * rows / cols, 6.5)
    below = 0.95 + max(tall + 0.55, 4.9)
    figure = sheet(14.0, below + (2.3 if crops else 0.1), title, status=transform.status)
    reference = stretch(post_thumb)
    pairs = (
        ("Before: pre as it came", stretch(pre_before_thumb)),
        ("After: pre aligned", stretch(pre_after_thumb)),
    )
    panels = []
    for n, (name, pre) in enumerate(pairs):
        axes = panel(figure, 0.85 + 5.25 * n, 0.95, _PANEL, tall)
        axes.set_anchor("N")
        image(axes, overlay(reference, pre), step, y_label=n == 0)
        axes.set_title(name)
        panels.append(axes)
    scale_bar(panels[1], pixel_size_um)
    _facts(figure, transform)
    for n, crop in enumerate(crops[:CROPS]):
        frame(panels[1], crop, n + 1, crop.post.shape[1])
        _detail(figure, crop, n, below + 0.65)
    return figure


def _facts(figure: Figure, transform: Transform) -> None:
    """Write the numbers that matter into the right column."""
    left = 11.45
    figure.legend(
        handles=[
            Patch(color=GREEN, label="post"),
            Patch(color=MAGENTA, label="pre"),
            Patch(facecolor="#d0d0d0", label="both alike"),
        ],
        loc="upper left",
        bbox_to_anchor=(
            (left - 0.1) / figure.get_figwidth(),
            1 - 0.85 / figure.get_figheight(),
        ),
        borderpad=0,
        handlelength=1.1,
    )
    shift = transform.shift_px
    rows = [
        ("residual, median", number(transform.residual_px.median, "px")),
        ("residual, p95", number(transform.residual_px.p95, "px")),
        ("map error, median", number(transform.error_px.median, "px")),
        ("map error, p95", number(transform.error_px.p95, "px")),
        ("blocks within 2 px", f"{transform.inliers} of {transform.blocks}"),
        ("model", transform.model_name or "–"),
        ("rotation", number(transform.rotation_deg, "°").replace(" °", "°")),
        ("scale", f"{transform.scale:.5f}" if np.isfinite(transform.scale) else "–"),
        ("shift x", number(shift[0], "px")),
        ("shift y", number(shift[1], "px")),
    ]
    for n, (name, value) in enumerate(rows):
        top = 1.95 + 0.27 * n
        strong = "bold" if n < 2 else "normal"
        label(figure, left, top, name, color=SOFT)
        label(figure, 13.7, top, value, ha="right", weight=strong)
    if transform.reasons:
        text = "\n".join(textwrap.fill(reason, 32) for reason in transform.reasons)
        text = textwrap.shorten(text, 400) if text.count("\n") > 7 else text
        label(figure, left, 4.8, text, color=STATUS[transform.status], size=9, linespacing=1.3)


def _detail(figure: Figure, crop: Crop, n: int, top: float) -> None:
    """Show one crop as post, aligned pre and overlay, side by side."""
    left, side = 0.3 + 4.5 * n, 1.42
    post, pre = stretch(crop.post), stretch(crop.pre)
    size = crop.post.shape[1]
    name = f"{n + 1}   {size} × {size} px at ({crop.x:.0f}, {crop.y:.0f})"
    label(figure, left, top - 0.43, name, weight="bold", size=9.5)
    shown = (("post", grey(post)), ("pre, aligned", grey(pre)), ("overlay", overlay(post, pre)))
    for k, (what, pixels) in enumerate(shown):
        tile(figure, left + k * (side + 0.04), top, side, pixels, what)


@styled
def draw_residuals(
    post_thumb: NDArray[Any],
    blocks: NDArray[Any],
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
    figure = sheet(14.0, 8.6, title, status=transform.status)
    axes = panel(figure, 0.85, 0.95, 7.9, 7.0)
    axes.set_anchor("NW")
    backdrop = 0.25 + 0.45 * np.nan_to_num(stretch(post_thumb))
    image(axes, np.rint(255 * backdrop).astype(np.uint8), step)
    used = blocks[blocks["used"] & np.isfinite(blocks["dx"] + blocks["dy"])]
    unused = _thinned(blocks[~blocks["used"]])
    length = np.hypot(used["dx"], used["dy"])
    typical = float(np.quantile(length, 0.95)) if len(length) else 1.0
    width = post_thumb.shape[1] * step
    # A p95 residual becomes about 6 % of the image's width.
    magnified = nice(max(0.06 * width / max(typical, 1e-4), 1.0))
    axes.plot(unused["x"], unused["y"], "x", color="#ff5555", markersize=5, label="not used")
    for held, colour, name in (
        (False, SKY, "used in the fit"),
        (True, ORANGE, "held out"),
    ):
        some = _thinned(used[used["held_out"] == held])
        arrows = axes.quiver(
            some["x"],
            some["y"],
            some["dx"],
            some["dy"],
            angles="xy",
            scale_units="xy",
            scale=1 / magnified,
            color=colour,
            width=0.0028,
            headwidth=3.5,
            label=name,
        )
    key = nice(max(typical, 1e-4))
    axes.quiverkey(arrows, 0.12, 1.035, key, f"{key:g} px", labelpos="E", color=INK, labelcolor=INK)
    axes.set_xlim(-0.5, width - 0.5)
    axes.set_ylim(post_thumb.shape[0] * step - 0.5, -0.5)
    axes.set_title(f"arrows × {magnified:g}: pre measured minus mapped", loc="right")
    _residual_facts(figure, axes, used, len(blocks), transform)
    return figure


def _residual_facts(
    figure: Figure, axes: Axes, used: NDArray[Any], total: int, transform: Transform
) -> None:
    """Write the numbers and a histogram of residual lengths into the right column."""
    left = 9.65
    held = used[used["held_out"]]
    label(figure, left, 0.95, "Held-out blocks", weight="bold", size=11)
    rows = [
        ("residual, median", number(transform.residual_px.median, "px")),
        ("residual, p95", number(transform.residual_px.p95, "px")),
        ("blocks", f"{total} measured, {len(used)} agree"),
        ("", f"{len(held)} of these held out of the fit"),
        ("model", transform.model_name or "–"),
    ]
    for n, (name, value) in enumerate(rows):
        label(figure, left, 1.27 + 0.27 * n, name, color=SOFT)
        label(figure, left + 1.45, 1.27 + 0.27 * n, value)
    figure.legend(
        *axes.get_legend_handles_labels(),
        loc="upper left",
        bbox_to_anchor=((left - 0.1) / 14.0, 1 - 2.75 / 8.6),
        borderpad=0,
    )
    plot = panel(figure, left + 0.35, 4.0, 3.7, 3.4)
    lengths = np.hypot(used["dx"], used["dy"])
    if len(lengths):
        edges = np.linspace(0, max(float(np.quantile(lengths, 0.99)), 1e-3), 41)
        parts = [lengths[~used["held_out"]], lengths[used["held_out"]]]
        plot.hist(parts, list(edges), stacked=True, color=[BLUE, ORANGE], label=["fit", "held out"])
        for quantile, side in (("median", "right"), ("p95", "left")):
            at = float(getattr(transform.residual_px, quantile))
            if at <= edges[-1]:
                plot.axvline(at, color=INK, linewidth=1, linestyle="--")
                plot.text(at, 1.01, quantile, transform=plot.get_xaxis_transform(), ha=side)
    graph(plot, "length of residual (px), up to its 99 % quantile", "blocks")


def _thinned(blocks: NDArray[Any]) -> NDArray[Any]:
    """Return every n-th block in order of position, so that arrows stay apart."""
    order = np.lexsort((blocks["x"], blocks["y"]))
    return blocks[order][:: -(-len(blocks) // ARROWS) or 1]
