"""The figure of a registration: overlays of the section before and after, and details."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.patches import Patch

from unglow.core.rounding import DASH, format_measured, uncertainty
from unglow.figures.residuals import CELLS, gather
from unglow.figures.style import (
    DPI,
    STATUS,
    Crop,
    apply_style,
    checker,
    frame,
    image,
    label,
    overlay,
    panel,
    place_legend,
    scale_bar,
    sheet,
    stretch,
    tile,
    write_facts,
)
from unglow.images.zarr.reader import crop, read_same_pixels, texture_near

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from unglow.core.arrays import Array, Floats
    from unglow.figures.figure_inputs import FigureInputs
    from unglow.images.zarr.reader import Overview
    from unglow.transform import Transform

GREEN, MAGENTA = "#00c800", "#e000e0"
CROPS = 3
DETAIL_PX = 108
"""Side of the squares at full resolution; each of their px takes 2 x 2 of the paper."""
# Widths of a panel and of a detail, and where the right column begins, inches.
_PANEL, _DETAIL, _FACTS = 5.0, 2 * DETAIL_PX / DPI, 11.45
# Lines of reasons that fit without a longer figure, and the height of one more, inches.
_REASON_LINES, _LINE = 7, 0.19
DETAILS = 3
# Peaks of blocks that are not chance, as the search for torn places takes them.
_CLEAR = 2.0


@apply_style
def draw_registration(
    post_thumb: Array,
    pre_before_thumb: Array,
    pre_after_thumb: Array,
    transform: Transform,
    *,
    step: float = 1.0,
    pixel_size_um: float | None = None,
    crops: Sequence[Crop] = (),
    worst: tuple[float, float, float] | None = None,
    title: str = "Registration",
) -> Figure:
    """Draw post (green) over pre (magenta) before and after, the numbers, and details.

    Parameters
    ----------
    post_thumb, pre_before_thumb, pre_after_thumb
        (rows, cols) overviews on one grid: post, pre as imaged, aligned pre (NaN: no data).
    transform
        What the registration found.
    step
        Level-0 px per overview px.
    pixel_size_um
        Of level 0, for the scale bar; None where it is not known.
    crops
        Full-resolution squares of post and aligned pre; the first three are shown, as an overlay
        and as a checkerboard of both.
    worst
        Where the longest residual is, (x, y) in level-0 px of post, and its length in px.
    """
    rows, cols = post_thumb.shape
    tall = min(_PANEL * rows / cols, 6.5)
    reasons = [line for reason in transform.reasons for line in textwrap.wrap(reason, 32)]
    facts_end = 5.45 + _LINE * max(0, len(reasons) - _REASON_LINES) if reasons else 4.4
    below = 0.95 + max(tall + 0.55, facts_end)
    figure = sheet(
        14.0, below + (_DETAIL + 0.9 if crops else 0.1), title, status=transform.status, of="map"
    )
    reference = stretch(post_thumb)
    pairs = (
        ("Before: pre as imaged", stretch(pre_before_thumb)),
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
    _facts(figure, transform, worst)
    if reasons:
        text, colour = "\n".join(reasons), STATUS[transform.status]
        label(figure, _FACTS, 5.35, text, color=colour, size=9, linespacing=1.3)
    for n, square in enumerate(crops[:CROPS]):
        frame(panels[1], square, n + 1, square.post.shape[1])
        _detail(figure, square, n, below + 0.65)
    return figure


def _facts(figure: Figure, transform: Transform, worst: tuple[float, float, float] | None) -> None:
    """Write the numbers that matter into the right column."""
    handles = [
        Patch(color=GREEN, label="post"),
        Patch(color=MAGENTA, label="pre"),
        Patch(facecolor="#d0d0d0", label="both equal"),
    ]
    place_legend(figure, handles, _FACTS - 0.1, 0.85, borderpad=0, handlelength=1.1)
    longest = []
    if worst is not None:
        x, y, length = worst
        longest = [("residual, longest", uncertainty(length, "px"))]
        longest += [("at x, y", f"{x:.0f}, {y:.0f} px")]
    shift, turn = transform.shift_px, transform.turn_error
    rows = [
        ("residual, median", uncertainty(transform.residual_px.median, "px")),
        ("residual, p95", uncertainty(transform.residual_px.p95, "px")),
        *longest,
        ("map error, median", uncertainty(transform.error_px.median, "px")),
        ("map error, p95", uncertainty(transform.error_px.p95, "px")),
        ("blocks that agree", f"{transform.inliers} of {transform.blocks}"),
        ("model", transform.model_name or DASH),
        (
            "rotation",
            format_measured(transform.rotation_deg, np.degrees(turn), "°").replace(" °", "°"),
        ),
        ("scale", format_measured(transform.scale, turn)),
        ("shift x", format_measured(shift[0], transform.error_px.median, "px")),
        ("shift y", format_measured(shift[1], transform.error_px.median, "px")),
    ]
    write_facts(figure, rows, left=_FACTS, top=1.95, line=0.27, values=13.7, align="right", bold=2)


def _detail(figure: Figure, crop: Crop, n: int, top: float) -> None:
    """Show one crop as overlay and as checkerboard, side by side."""
    left = 0.3 + 4.55 * n
    post, pre = stretch(crop.post), stretch(crop.pre)
    name = f"{n + 1}   at ({crop.x:.0f}, {crop.y:.0f}){crop.note and ', '}{crop.note}"
    label(figure, left, top - 0.43, name, weight="bold", size=9.5)
    size = crop.post.shape[1]
    shown = (
        (f"overlay, {size} × {size} px", overlay(post, pre)),
        ("checkerboard of post and pre", checker(post, pre)),
    )
    for k, (what, pixels) in enumerate(shown):
        tile(figure, left + k * (_DETAIL + 0.04), top, _DETAIL, pixels, what)


def draw_registration_of_pair(pair: FigureInputs, title: str) -> Figure:
    """Draw the overlays of a pair before and after registration, with details."""
    view = pair.post_view
    details, worst = _details(pair.blocks, view)
    crops = []
    for x, y, note in details:
        post, aligned = (crop(image, (x, y), DETAIL_PX) for image in (pair.post, pair.aligned))
        crops.append(Crop(x, y, post, aligned, note=note))
    return draw_registration(
        view.image,
        read_same_pixels(pair.pre, view.image.shape, view.level),
        pair.aligned_view,
        pair.transform,
        step=view.step,
        pixel_size_um=pair.pixel_size_um,
        crops=crops,
        worst=worst,
        title=title,
    )


def _details(
    blocks: NDArray[np.void], view: Overview
) -> tuple[list[tuple[float, float, str]], tuple[float, float, float] | None]:
    """Return the places (x, y) of the three details, far apart, and where the map is off most.

    Details are of the half of the blocks where there is more to see, and have clear matches if
    enough of them do. The second one is where the longest of their arrows is. The longest residual
    of any block may be where there is nothing but noise: (x, y, length), px; None without blocks.
    """
    good = blocks[blocks["used"]]
    if len(good) == 0:
        return [], None
    points, off = (np.column_stack([good[x], good[y]]) for x, y in (("x", "y"), ("dx", "dy")))
    texture = texture_near(view, points, DETAIL_PX)
    seen = texture >= np.median(texture)
    clear = seen & (good["quality"] >= _CLEAR)
    if np.count_nonzero(clear) >= DETAILS:
        seen = clear
    arrows = gather(points[seen], off[seen], view.step * max(view.image.shape) / CELLS)
    longest = _nearest(points, arrows.points[np.argmax(arrows.lengths)])
    rich = np.argsort(np.where(seen, texture, -np.inf), kind="stable")[::-1]
    rich = rich[: min(max(DETAILS, len(good) // 8), int(np.count_nonzero(seen)))]
    chosen = [*[int(i) for i in rich if i != longest][:1], longest]
    while len(chosen) < min(DETAILS, len(rich)):
        away = [np.hypot(*(points[rich] - points[i]).T) for i in chosen]
        chosen.append(int(rich[np.argmax(np.min(away, axis=0))]))
    details = []
    for i in chosen:
        length = uncertainty(float(arrows.lengths[_nearest(arrows.points, points[i])]), "px")
        note = "longest residual in texture" if i == longest else "residual"
        details.append((*points[i].tolist(), f"{note} {length}"))
    lengths = np.hypot(*off.T)
    worst = int(np.argmax(lengths))
    return details, (*points[worst].tolist(), float(lengths[worst]))


def _nearest(points: Floats, point: Sequence[float]) -> int:
    """Return which of (N, 2) points is nearest to another one."""
    return int(np.argmin(np.hypot(*(points - np.asarray(point)).T)))
