"""Figure of a difference: overview with spoilt places hatched, and its brightest places."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path

from unglow.core.rounding import estimate, number
from unglow.figures.colour_maps import upright_bar
from unglow.figures.difference_picture import BLACK_TO, NoiseColours, paint, spoilt_px
from unglow.figures.style import (
    INK,
    SOFT,
    Crop,
    apply_style,
    frame,
    grey,
    image,
    label,
    panel,
    scale_bar,
    sheet,
    stretch,
    tile,
)
from unglow.images.pair_plan import ROLES
from unglow.images.zarr.reader import brightest, crop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from unglow.core.arrays import Floats32
    from unglow.figures.difference_picture import Painted
    from unglow.figures.figure_inputs import FigureInputs
    from unglow.images.artefacts import SavedPlace
    from unglow.images.zarr.reader import Overview
    from unglow.photometry.difference_histogram import DifferenceHistogram


CROPS = 4
# Room for an overview next to other things, and above them where an image is this many times as
# wide as high, inches; its corner.
_NARROW, _ABOVE, _WIDE = (7.4, 6.9), (12.2, 8.0), 1.5
_CORNER = 0.85, 1.1
# What an overview needs on its right and below itself; where other things begin at least; inches.
_BAR, _NOTE, _LEAST = 1.17, 1.15, 7.2
# Width of a figure next to or below whose overview other things are, from where these begin.
_SHEET, _COLUMN = 14.0, 4.58
# Height of a number next to the colour bar, and of a crop with its name, inches.
_LINE, _ROW = 0.16, 1.83

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
    "seam": "...",
}
"""Pattern of each reason, `unglow.spoilt.places.REASONS`."""
_OTHER = "***"
_THIN = 0.7  # points
# Where the legend ends, inches from the top of the paper.
_BOTTOM = 0.89
_CENTRE = 0.5


class Page(NamedTuple):
    """The places of an overview and of what belongs to it on a figure, inches from its top left.

    Attributes
    ----------
    overview
        Width and height of the overview.
    rest
        Left and top of what is next to or below it.
    is_wide
        Whether that is below it.
    """

    overview: tuple[float, float]
    rest: tuple[float, float]
    is_wide: bool

    @property
    def width(self) -> float:
        """Width of the figure, inches."""
        return _SHEET if self.is_wide else self.rest[0] + _COLUMN

    def height(self, rest: float) -> float:
        """Return the height of the figure, inches, with ``rest`` inches of other things."""
        below = _CORNER[1] + self.overview[1] + _NOTE
        return self.rest[1] + rest if self.is_wide else max(below, self.rest[1] + rest)


def fit_page(shape: tuple[int, ...]) -> Page:
    """Return the page for an overview of (rows, cols), so that narrow and wide ones fill it."""
    is_wide = shape[1] > _WIDE * shape[0]
    room = _ABOVE if is_wide else _NARROW
    scale = min(room[0] / shape[1], room[1] / shape[0])
    width, height = shape[1] * scale, shape[0] * scale
    left, top = _CORNER
    if is_wide:
        return Page((width, height), (left, top + height + _NOTE + 0.4), is_wide)
    return Page((width, height), (max(left + width + _BAR, _LEAST), top), is_wide)


@apply_style
def draw_difference(
    diff_thumb: Floats32,
    method: str,
    gain: float,
    histogram: DifferenceHistogram | None = None,
    *,
    background: Floats32 | None = None,
    offset: float = 0.0,
    evened: bool = False,
    step: int = 1,
    pixel_size_um: float | None = None,
    crops: Sequence[Crop] = (),
    spoilt: Sequence[SavedPlace] = (),
    painted: Painted | None = None,
    bright_field: bool = False,
    title: str = "Difference",
) -> Figure:
    """Draw post - (gain * pre + offset) in units of its noise: stain bright, noise black.

    Parameters
    ----------
    diff_thumb
        (rows, cols) overview of the difference in grey levels; NaN where there is none.
    method, gain, offset
        Scale method and what it gave.
    evened
        Whether uneven light was evened out, so that gain and offset are those of the mean light.
    histogram
        Of the whole difference at full resolution.
    background
        Overview of what was subtracted, on which the noise depends.
    step
        Level-0 px per overview px.
    pixel_size_um
        Of level 0, for the scale bar; None where it is not known.
    crops
        Full-resolution squares with post, aligned pre and difference; the first four are shown.
    spoilt
        Places of post that the search left out.
    painted
        The overview in its colours, if that is known (`paint`).
    bright_field
        Whether dark is signal in both images.
    """
    page = fit_page(diff_thumb.shape)
    painted = painted or paint(diff_thumb, background, spoilt, step)
    rest = 0.0 if not crops else 1.2 if page.is_wide else CROPS * _ROW
    figure = sheet(page.width, page.height(rest), title)
    axes = draw_overview(figure, page, painted, spoilt, step=step, bright_field=bright_field)
    colours = painted.colours
    scale_bar(axes, pixel_size_um)
    line = _line(gain, offset) + (", light evened out" if evened else "")
    label(figure, 0.32, 0.55, f"{method}: {line}{_spread(histogram)}", color=SOFT)
    at_full = _scale_to_full_resolution(colours, diff_thumb, histogram)
    if crops:
        text = "post  |  pre, aligned  |  difference, in units of its noise"
        label(figure, page.rest[0], page.rest[1] - 0.54, text, color=SOFT, size=9)
    for n, square in enumerate(crops[:CROPS]):
        frame(axes, square, n + 1, square.post.shape[1])
        _draw_crop(figure, page, square, n, at_full)
    return figure


def draw_overview(
    figure: Figure,
    page: Page,
    painted: Painted,
    spoilt: Sequence[SavedPlace],
    *,
    step: int,
    more: str = "",
    bright_field: bool = False,
) -> Axes:
    """Draw the overview of a page: spoilt places, colour bar, note with ``more``.

    Of a bright-field pair, what is only in post is darker there. Returns axes in level-0 px.
    """
    colours = painted.colours
    axes = panel(figure, *_CORNER, *page.overview)
    axes.set_anchor("NW")
    image(axes, painted.pixels, step)
    axes.apply_aspect()
    _colour_bar(figure, axes, colours)
    draw_places(figure, axes, spoilt)
    shown = ("pre", "post") if bright_field else ("post", "pre")
    noise = " to ".join(dict.fromkeys(number(float(f(colours.noise))) for f in (np.min, np.max)))
    signs = f"Bright: only in {shown[0]}. Dark blue: only in {shown[1]}."
    lines = (
        f"{signs} Black, dim: within {BLACK_TO:g} × noise.",
        f"Noise: {noise} grey levels, more where it is bright. Light grey: no data.{more}",
    )
    bottom = (1 - axes.get_position().y0) * figure.get_figheight()
    for n, line in enumerate(lines):
        label(figure, _CORNER[0], bottom + 0.5 + 0.17 * n, line, color=SOFT, size=8.5)
    return axes


def _scale_to_full_resolution(
    colours: NoiseColours, overview: Floats32, histogram: DifferenceHistogram | None
) -> NoiseColours:
    """Return the colours for px of full resolution, whose noise an overview averages."""
    known = overview[np.isfinite(overview)]
    averaged = float(np.median(np.abs(known - np.median(known)))) if known.size else 0.0
    if histogram is None or histogram.total == 0 or averaged == 0:
        return colours
    return replace(colours, noise=colours.noise * max(histogram.mad() / averaged, 1.0))


def _line(gain: float, offset: float) -> str:
    text = f"post − {estimate(gain, None)} × pre"
    return f"{text} {'−' if offset > 0 else '+'} {number(abs(offset))}" if offset else text


def _spread(histogram: DifferenceHistogram | None) -> str:
    if histogram is None or histogram.total == 0:
        return ""
    median, mad = number(histogram.median()), number(histogram.mad())
    return f"   ·   median {median}, MAD {mad} grey levels"


def _colour_bar(figure: Figure, axes: Axes, colours: NoiseColours) -> None:
    """Put a colour bar next to an image in these colours, with round multiples of noise on it."""
    box = axes.get_position()
    wide, high = figure.get_size_inches()
    left, top, height = box.x1 * wide + 0.12, (1 - box.y1) * high, box.height * high
    sizes = BLACK_TO * (colours.top / BLACK_TO) ** np.linspace(0, 1, 128)
    shades = colours.shades(np.concatenate([-sizes[::-1], sizes]).astype(np.float32))
    apart = max(0.09, 2 * _LINE / height)
    ticks = [(0.5, f"±{BLACK_TO:g}")]
    place = 0.0
    for level in (5, 10, 20, 50, 100, 200, 500, 1000, 10_000, 100_000):
        at = float(np.log(level / BLACK_TO) / np.log(colours.top / BLACK_TO))
        if at <= 1 and at - place >= apart:
            ticks += [(0.5 + 0.5 * at, f"+{level}"), (0.5 - 0.5 * at, f"-{level}")]
            place = at
    upright_bar(figure, (left, top, 0.18, height), shades, ticks)
    label(figure, left, top - 0.07, "× noise", size=9, va="bottom")


def _draw_crop(figure: Figure, page: Page, crop: Crop, n: int, colours: NoiseColours) -> None:
    """Show one crop as post, aligned pre and difference."""
    left, top = page.rest
    side = 1.0 if page.is_wide else 1.42
    if page.is_wide:
        left += n * (3 * side + 0.3)
    else:
        top += n * _ROW
    name = f"{n + 1}   ({crop.x:.0f}, {crop.y:.0f}), {crop.post.shape[1]} px"
    label(figure, left, top - 0.23, name, size=9, weight="bold")
    # One stretch for post and pre: what is brighter in post then looks brighter.
    both = np.concatenate([np.ravel(crop.post), np.ravel(crop.pre)])
    for k, pixels in enumerate((crop.post, crop.pre)):
        tile(figure, left + k * (side + 0.05), top, side, grey(stretch(pixels, both)))
    if crop.difference is not None:
        shown = colours.pixels(crop.difference, crop.post - crop.difference)
        tile(figure, left + 2 * (side + 0.05), top, side, shown)


def draw_difference_of_pair(pair: FigureInputs, title: str) -> Figure:
    """Draw the difference of a pair by the default method, and its brightest places."""
    image, view, method = pair.difference, pair.difference_view, pair.differences.default
    bright_field = len(pair.scale.bright_field) == len(ROLES)
    shown, sign = mask_spoilt(view, pair.spoilt), np.float32(-1 if bright_field else 1)
    crops = [
        Crop(x, y, crop(pair.post, (x, y)), crop(pair.aligned, (x, y)), crop(image, (x, y)))
        for x, y in brightest(replace(shown, image=shown.image * sign), CROPS)
    ]
    return draw_difference(
        view.image,
        method,
        image.attributes["gain"],
        pair.histogram,
        background=pair.background,
        offset=image.attributes["offset"],
        evened="gain_map" in image.attributes,
        step=view.step,
        pixel_size_um=pair.pixel_size_um,
        crops=crops,
        spoilt=pair.spoilt,
        painted=pair.painted,
        bright_field=bright_field,
        title=f"{title}, {method}",
    )


def mask_spoilt(view: Overview, spoilt: Sequence[SavedPlace]) -> Overview:
    """Return an overview without data in spoilt places, the brightest of which are not stain."""
    excluded = spoilt_px(spoilt, view.image.shape, view.step)
    return replace(view, image=np.where(excluded, np.float32(np.nan), view.image))


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
        bbox_to_anchor=((_CORNER[0] - 0.3) / width, 1 - _BOTTOM / height),
        borderaxespad=0,
        borderpad=0,
        frameon=False,
        fontsize=8.5,
        handlelength=1.8,
        handleheight=1.0,
        handletextpad=0.45,
        columnspacing=1.0,
    )
