"""Spoilt places over an overview: hatched, with a pattern for each reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path

from unglow.reporting.figures.style import INK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from unglow.spoilt.saved_places import SavedPlace

COLOUR = "#2bb455"
"""Stands out from black, orange, blue and light grey, and is none of the colours of candidates."""
HATCHES = {
    "not stored": "xxx",
    "lost": "///",
    "moved": "---",
    "debris": "\\\\\\",
    "gain off": "|||",
    "out of focus": "O",
    "unlike pre": "+++",
}
"""Pattern of each reason, `unglow.spoilt.places.REASONS`."""
_OTHER = "..."
_THIN = 0.7  # points
# Of the legend: where it begins and ends, inches from the left and the top of the paper.
_LEFT, _BOTTOM = 0.85, 0.89
_CENTRE = 0.5


def draw_places(figure: Figure, axes: Axes, places: Sequence[SavedPlace]) -> None:
    """Hatch places of post on an overview in level-0 px; a line above it names the reasons.

    The hatches are thin, so that what lies below them is seen. Nothing is drawn without places.
    """
    handles = hatch_places(axes, places)
    if handles:
        with mpl.rc_context({"hatch.linewidth": _THIN}):
            _name_reasons(figure, handles)


def hatch_places(axes: Axes, places: Sequence[SavedPlace]) -> list[Artist]:
    """Hatch places on axes in level-0 px; return an entry for a legend for each reason."""
    with mpl.rc_context({"hatch.linewidth": _THIN}):
        return [
            _hatch(axes, reason, [place for place in places if place.reason == reason])
            for reason in (*HATCHES, *sorted({p.reason for p in places} - HATCHES.keys()))
            if any(place.reason == reason for place in places)
        ]


def _hatch(axes: Axes, reason: str, places: Sequence[SavedPlace]) -> Artist:
    """Hatch the places of one reason; return its entry of the legend."""
    style: dict[str, Any] = {"hatch": HATCHES.get(reason, _OTHER), "edgecolor": COLOUR, "lw": 0.9}
    # corners count from the corner of the first px, axes from its centre
    rings = [ring - _CENTRE for place in places for rings in place.polygons for ring in rings]
    outline = Path.make_compound_path(*(Path(ring, closed=True) for ring in rings))
    patch = PathPatch(outline, facecolor="none", zorder=2, **style)
    axes.add_artist(patch)  # which leaves the limits of the axes alone
    patch.set_clip_path(axes.patch)
    return Patch(facecolor=INK, label=f"{reason}: {len(places):,}", **style)


def _name_reasons(figure: Figure, handles: list[Artist]) -> None:
    """Put the legend in one line above the overview."""
    width, height = figure.get_size_inches()
    title = Line2D([], [], linestyle="", label="Spoilt places")
    figure.legend(
        handles=[title, *handles],
        ncols=len(handles) + 1,
        loc="lower left",
        bbox_to_anchor=((_LEFT - 0.3) / width, 1 - _BOTTOM / height),
        borderaxespad=0,
        borderpad=0,
        frameon=False,
        fontsize=8.5,
        handlelength=1.8,
        handleheight=1.0,
        handletextpad=0.45,
        columnspacing=1.0,
    )
