"""Figure of a difference: overview, and its brightest places at full resolution."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.rounding import estimate, number
from unglow.reporting.figures.colour_maps import upright_bar
from unglow.reporting.figures.spoilt_places import draw_places
from unglow.reporting.figures.style import (
    SOFT,
    Crop,
    diverging,
    frame,
    grey,
    image,
    label,
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

    from unglow.photometry.difference_histogram import DifferenceHistogram
    from unglow.spoilt.saved_places import SavedPlace

CROPS = 4
_LEFT = 9.42
# Height that a number beside the colour bar takes, inches.
_LINE = 0.16


@dataclass(frozen=True, slots=True)
class Compressed:
    """Colours of a difference: asinh, linear near zero and logarithmic far away, zero black.

    They turn at ``knee`` grey levels and end at asinh(difference / ``knee``) = +-``limit``.
    """

    knee: float
    limit: float

    def pixels(self, difference: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Return RGB of a difference; light grey where there is none."""
        return diverging(compressed(difference, self.knee), self.limit)


def knee_of(
    difference: NDArray[np.float32], histogram: DifferenceHistogram | None, grey_level: float
) -> float:
    """Return where colours turn from linear to logarithmic: median |difference|, grey levels.

    It is taken from the full-resolution histogram where there is one, and is one grey level at
    least.
    """
    if histogram is not None and histogram.total > 0:
        typical = histogram.median_absolute()
    else:
        values = np.abs(difference[np.isfinite(difference)])
        typical = float(np.median(values)) if values.size else 0.0
    return max(typical, grey_level)


def compressed(difference: NDArray[np.float32], knee: float) -> NDArray[np.float32]:
    """Return asinh(difference / knee): linear near zero, logarithmic far away; NaN stays NaN."""
    return np.asarray(np.arcsinh(difference / np.float32(knee)), np.float32)


def symmetric_limit(
    values: NDArray[np.float32], histogram: DifferenceHistogram | None = None, knee: float = 1.0
) -> float:
    """Return the limit of the colours on both sides of zero, after compression.

    About the 99.5 % quantile of |difference|: of the whole image where its histogram is given
    (its noise is stronger than that of an overview, which averages it), else of ``values``.
    """
    if histogram is not None and histogram.total > 0:
        far = max(-histogram.quantile(0.0025), histogram.quantile(0.9975))
        return max(float(np.arcsinh(far / knee)), 1.0)
    finite = np.abs(values[np.isfinite(values)])
    return max(float(np.quantile(finite, 0.995)), 1.0) if finite.size else 1.0


def colours_of(
    difference: NDArray[np.float32], histogram: DifferenceHistogram | None, grey_level: float
) -> Compressed:
    """Return the colours for a difference, of which ``grey_level`` is the smallest step."""
    knee = knee_of(difference, histogram, grey_level)
    return Compressed(knee, symmetric_limit(compressed(difference, knee), histogram, knee))


@styled
def draw_difference(
    diff_thumb: NDArray[np.float32],
    method: str,
    gain: float,
    histogram: DifferenceHistogram | None = None,
    *,
    offset: float = 0.0,
    evened: bool = False,
    step: float = 1.0,
    grey_level: float = 1.0,
    pixel_size_um: float | None = None,
    crops: Sequence[Crop] = (),
    spoilt: Sequence[SavedPlace] = (),
    title: str = "Difference",
) -> Figure:
    """Draw post - (gain * pre + offset) in diverging colours, black at zero, grey where no data is.

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
    step
        Level-0 px per overview px.
    grey_level
        Smallest step of the raw images.
    pixel_size_um
        Of level 0, for the scale bar; None where it is not known.
    crops
        Full-resolution squares with post, aligned pre and difference; the first four are shown.
    spoilt
        Places of post that the search left out.
    """
    figure = sheet(14.0, 8.95, title)
    colours = colours_of(diff_thumb, histogram, grey_level)
    wide = 7.4 if crops else 12.0
    axes = draw_overview(figure, diff_thumb, colours, width=wide, step=step)
    draw_places(figure, axes, spoilt)
    scale_bar(axes, pixel_size_um)
    line = _line(gain, offset) + (", light evened out" if evened else "")
    label(figure, 0.32, 0.55, f"{method}: {line}{_spread(histogram)}", color=SOFT)
    bright = _brighter(colours, crops[:CROPS])
    if crops:
        level = number(bright.knee * np.sinh(bright.limit))
        text = f"post  |  pre, aligned  |  difference, colours up to ±{level}"
        label(figure, _LEFT, 0.56, text, color=SOFT, size=9)
    for n, crop in enumerate(crops[:CROPS]):
        frame(axes, crop, n + 1, crop.post.shape[1])
        _row(figure, crop, n, bright)
    return figure


def draw_overview(
    figure: Figure,
    difference: NDArray[np.float32],
    colours: Compressed,
    *,
    width: float,
    step: float,
    more: str = "",
) -> Axes:
    """Draw an overview in axes of ``width`` inches, with a colour bar, and a note with ``more``."""
    axes = panel(figure, 0.85, 1.1, width, 6.9)
    axes.set_anchor("NW")
    image(axes, colours.pixels(difference), step)
    axes.apply_aspect()
    _colour_bar(figure, axes, colours)
    knee = number(colours.knee)
    text = f"Colours: asinh, linear up to about ±{knee} grey levels. Light grey: no data.{more}"
    bottom = (1 - axes.get_position().y0) * figure.get_figheight()
    label(figure, 0.85, bottom + 0.6, text, color=SOFT, size=9)
    return axes


def _line(gain: float, offset: float) -> str:
    text = f"post − {estimate(gain, None)} × pre"
    return f"{text} {'−' if offset > 0 else '+'} {number(abs(offset))}" if offset else text


def _spread(histogram: DifferenceHistogram | None) -> str:
    if histogram is None or histogram.total == 0:
        return ""
    median, mad = number(histogram.median()), number(histogram.mad())
    return f"   ·   median {median}, MAD {mad} grey levels"


def _colour_bar(figure: Figure, axes: Axes, colours: Compressed) -> None:
    """Put a colour bar beside an image in these colours, with round grey levels on it."""
    knee, limit = colours.knee, colours.limit
    box = axes.get_position()
    wide, high = figure.get_size_inches()
    left, top, height = box.x1 * wide + 0.12, (1 - box.y1) * high, box.height * high
    shades = diverging(np.linspace(-limit, limit, 256, dtype=np.float32), limit)
    levels = _round_levels(knee, limit, max(0.09, 2 * _LINE / height))
    ticks = [
        (0.5 + 0.5 * float(np.arcsinh(v / knee)) / limit, f"{v:+g}" if v else "0") for v in levels
    ]
    upright_bar(figure, (left, top, 0.18, height), shades, ticks)
    label(figure, left, top - 0.07, "grey levels", size=9, va="bottom")


def _round_levels(knee: float, limit: float, apart: float) -> list[float]:
    """Return grey levels 1, 2, 5 times powers of ten on both sides of zero.

    They are at least ``apart`` of the limit away from each other.
    """
    levels: list[float] = []
    place = 0.0
    for power in range(-6, 12):
        for mantissa in (1, 2, 5):
            level = float(f"{mantissa}e{power}")
            at = float(np.arcsinh(level / knee))
            if at <= limit and at - place >= apart * limit:
                levels.append(level)
                place = at
    return [-v for v in reversed(levels)] + [0.0] + levels


def _brighter(colours: Compressed, crops: Sequence[Crop]) -> Compressed:
    """Return the colours of the crops: their brightest places must stand out from noise."""
    differences = [c.difference for c in crops if c.difference is not None]
    tops = [float(np.nanquantile(d, 0.999)) for d in differences if np.isfinite(d).any()]
    limits = (float(np.arcsinh(top / colours.knee)) for top in tops)
    return replace(colours, limit=max([colours.limit, *limits]))


def _row(figure: Figure, crop: Crop, n: int, colours: Compressed) -> None:
    """Show one crop as post, aligned pre and difference."""
    side, left, top = 1.42, _LEFT, 1.1 + 1.83 * n
    name = f"{n + 1}   ({crop.x:.0f}, {crop.y:.0f}), {crop.post.shape[1]} px"
    label(figure, left, top - 0.23, name, size=9, weight="bold")
    # One stretch for post and pre: what is brighter in post then looks brighter.
    both = np.concatenate([np.ravel(crop.post), np.ravel(crop.pre)])
    for k, pixels in enumerate((crop.post, crop.pre)):
        tile(figure, left + k * (side + 0.05), top, side, grey(stretch(pixels, both)))
    if crop.difference is not None:
        shown = colours.pixels(crop.difference)
        tile(figure, left + 2 * (side + 0.05), top, side, shown)
