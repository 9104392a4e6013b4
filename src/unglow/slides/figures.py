"""Figures of a slide: each marker before and after, and all of them side by side."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unglow.core.printable import shorten
from unglow.core.rounding import percent
from unglow.figures.figure_inputs import draw_refusal
from unglow.figures.histograms import logarithmic, rebin
from unglow.figures.style import (
    BLUE,
    INK,
    SOFT,
    STATUS,
    apply_style,
    graph,
    grey,
    image,
    label,
    panel,
    picture,
    save_png,
    scale_bar,
    sheet,
    steps,
    stretch,
    write_facts,
)
from unglow.results.marker_rows import SlideEntry, marker_rows
from unglow.results.slide_files import (
    SLIDE_FIGURE,
    SlideRecord,
    Subtraction,
    load_residues,
    load_scales,
    name_figure_files,
    overview_of,
)
from unglow.results.summary import texts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from unglow.core.arrays import Floats32
    from unglow.photometry.difference_histogram import DifferenceHistogram
    from unglow.results.slide_files import MarkerSubtraction

_WIDTH, _EDGE, _GAP = 14.0, 0.3, 0.12
# Side of a picture in the figure of a marker, inches.
_SIDE = 4.18
# Inches above the pictures of a cell of the overview, and the most cells next to each other.
_HEAD, _COLUMNS = 0.5, 5
# Shares of a picture that its longer side may have of its shorter one.
_FLATTEST, _TALLEST = 0.4, 1.5
_CHARACTERS = 14.5  # an inch has of them
# Lines of reasons above the pictures of a marker; more of them move these down.
_REASON_LINES = 2
# Height of a line of reasons in the overview, inches, and longest value among the facts.
_LINE, _VALUE_CHARACTERS = 0.17, 38
# Characters of a marker's name in the title of its figure.
_LONGEST_NAME = 60


@dataclass(frozen=True, eq=False, slots=True)
class MarkerPictures:
    """A marker as the figures of its slide show it.

    Attributes
    ----------
    row
        Of the summary, as text.
    removed
        (rows, cols) float32, what was subtracted: gain times the aligned background, and offset.
    before, after
        The same of the marker itself; all three None of a marker that failed.
    """

    row: Mapping[str, str]
    before: Floats32 | None = None
    removed: Floats32 | None = None
    after: Floats32 | None = None

    @property
    def reference(self) -> Floats32:
        """What black and white follow from, for all its pictures: before and after together."""
        pictures = [np.ravel(one) for one in (self.before, self.after) if one is not None]
        return np.concatenate(pictures)


@apply_style
def draw_marker(
    shown: MarkerPictures,
    subtraction: MarkerSubtraction,
    histogram: DifferenceHistogram,
    *,
    step: float,
    pixel_size_um: float | None,
    title: str,
) -> Figure:
    """Draw a marker before and after what is subtracted, in the same grey, and its difference.

    Parameters
    ----------
    shown
        A marker that was subtracted.
    subtraction
        What was clipped of it.
    histogram
        Of its difference before clipping.
    step
        Px of the slide per px of the pictures.
    pixel_size_um
        Of the slide, for the scale bar; None where it is not known.
    """
    row = shown.row
    reasons = textwrap.wrap(row.get("reasons", ""), 150)
    below = 0.17 * max(0, len(reasons) - _REASON_LINES)
    figure = sheet(_WIDTH, 9.2 + below, title, status=row["status"])
    label(figure, _EDGE, 0.56, "\n".join(reasons), color=SOFT, size=9)
    pictures = (
        ("before", shown.before),
        (f"{row['background_channel']} as aligned, {_line(row)}", shown.removed),
        ("after", shown.after),
    )
    for n, (name, pixels) in enumerate(pictures):
        left = 0.75 + n * (_SIDE + 2 * _GAP)
        label(figure, left, 1.0 + below, name, weight="bold")
        axes = panel(figure, left, 1.28 + below, _SIDE, _SIDE)
        axes.set_anchor("NW")
        image(axes, grey(stretch(np.asarray(pixels), shown.reference)), step, y_label=n == 0)
        if n == 0:
            scale_bar(axes, pixel_size_um)
    _histogram(panel(figure, 1.0, 6.35 + below, 7.6, 2.2), histogram, subtraction)
    write_facts(
        figure, _facts(row, subtraction), left=9.2, top=6.35 + below, line=0.24, values=11.1
    )
    return figure


def _histogram(axes: Axes, histogram: DifferenceHistogram, subtraction: MarkerSubtraction) -> None:
    """Draw how many px have each difference, with what was clipped below 0 and above the type."""
    edges, counts = rebin(histogram)
    steps(axes, counts, edges, color=BLUE, linewidth=1.6)
    logarithmic(axes, float(counts.max(initial=0)))
    low, high = (histogram.quantile(q) for q in (1e-4, 1 - 1e-4))
    if histogram.total:
        margin = 0.05 * max(high - low, 1.0)
        axes.set_xlim(min(low - margin, 0), high + margin)
    axes.axvline(0, color=INK, linewidth=1, linestyle=":")
    if subtraction.below:
        clipped = f"clipped at 0: {percent(subtraction.below)}"
        left, _ = axes.get_xlim()
        axes.axvspan(left, 0, color=STATUS["failed"], alpha=0.12, linewidth=0, label=clipped)
    if subtraction.above:
        text = f"clipped at the end of the type: {percent(subtraction.above)}"
        axes.plot([], [], " ", label=text)
    if subtraction.clipped:
        axes.legend(loc="upper right")
    graph(axes, "marker − (gain × background + offset), grey levels", "pixels per bin")


def _line(row: Mapping[str, str]) -> str:
    """Return what was made of the background, such as ``× 1.402 + 3.1``."""
    offset = row.get("offset", "")
    sign = "−" if offset.startswith("-") else "+"
    return f"× {row['gain']}" + (f" {sign} {offset.lstrip('-')}" if offset.strip("-0.") else "")


def _facts(row: Mapping[str, str], subtraction: MarkerSubtraction) -> list[tuple[str, str]]:
    """Return names and values of what was measured; without those that are not known."""
    interval = f" ({row['gain_low95']} to {row['gain_high95']})" if row.get("gain_low95") else ""
    known = [
        (f"gain, {row['method']}", f"{row['gain']}{interval}"),
        ("expected by exposure", row.get("expected_gain", "")),
        ("by other methods", row.get("other_gains", "")),
        ("offset", row.get("offset", "")),
        ("residual shift", _add_unit(row.get("residual_shift_px", ""))),
        ("map error, median", _add_unit(row.get("error_median_px", ""))),
        ("difference, median", row.get("difference_median", "")),
        ("difference, MAD", row.get("difference_mad", "")),
        ("shown by viewers from", " to ".join(f"{level:g}" for level in subtraction.levels)),
    ]
    lines = [(name, textwrap.wrap(value, _VALUE_CHARACTERS)) for name, value in known if value]
    return [("" if n else name, part) for name, parts in lines for n, part in enumerate(parts)]


def _add_unit(value: str) -> str:
    return f"{value} px" if value else ""


@apply_style
def draw_overview(markers: Sequence[MarkerPictures], *, title: str) -> Figure:
    """Draw all markers of a slide side by side, each before and after in the same grey."""
    drawn = [one.before.shape for one in markers if one.before is not None]
    columns = min(_COLUMNS, math.ceil(math.sqrt(len(markers)))) or 1
    cell = (_WIDTH - 2 * _EDGE - (columns - 1) * 2 * _GAP) / columns
    wide = (cell - _GAP / 2) / 2
    share = float(np.clip(drawn[0][0] / drawn[0][1], _FLATTEST, _TALLEST)) if drawn else 1.0
    reasons = [_reasons(marker, cell) for marker in markers]
    lines = [max(map(len, reasons[n : n + columns])) for n in range(0, len(markers), columns)]
    heights = [_HEAD + max(wide * share, _LINE * most) + 0.12 for most in lines]
    figure = sheet(_WIDTH, 0.95 + sum(heights), title)
    legend = "Before and after in the same grey. In brackets the gain expected from exposure times."
    label(figure, _EDGE, 0.56, legend, color=SOFT, size=9)
    for n, marker in enumerate(markers):
        row, col = divmod(n, columns)
        place = _EDGE + col * (cell + 2 * _GAP), 0.85 + sum(heights[:row])
        _cell(figure, marker, place, (wide, wide * share), cell)
    return figure


def _reasons(marker: MarkerPictures, cell: float) -> list[str]:
    """Return the lines of text that a marker without pictures has in the overview."""
    reasons = marker.row.get("reasons", "")
    return textwrap.wrap(reasons, int(cell * _CHARACTERS)) if marker.before is None else []


def _cell(
    figure: Figure,
    marker: MarkerPictures,
    place: tuple[float, float],
    size: tuple[float, float],
    cell: float,
) -> None:
    """Draw a marker at inches from the top left corner; ``size`` is that of a picture."""
    (left, top), (wide, high), row = place, size, marker.row
    status = row["status"]
    characters = int(cell * _CHARACTERS)
    label(figure, left, top, shorten(row["dye"], characters // 2), weight="bold")
    end = left + cell
    if status != "ok":
        label(figure, end, top, status, color=STATUS[status], weight="bold", ha="right", size=9)
    if marker.before is None or marker.after is None:
        reason = "\n".join(_reasons(marker, cell))
        label(figure, left, top + 0.24, reason, color=SOFT, size=8.5)
        return
    expected = f" ({row['expected_gain']})" if row.get("expected_gain") else ""
    gain = f" × {row['gain']}{expected}"
    text = shorten(row["background_channel"], characters + 4 - len(gain)) + gain
    label(figure, left, top + 0.22, text, color=SOFT, size=8.5)
    for n, pixels in enumerate((marker.before, marker.after)):
        at = left + n * (wide + _GAP / 2), top + _HEAD - 0.04, wide, high
        picture(figure, at, grey(stretch(pixels, marker.reference)))


def draw_slide(paths: Mapping[str, Path], target: Path, title: str) -> None:
    """Write the figures of a slide into a directory; those of markers that failed say why.

    Parameters
    ----------
    paths
        Its results: ``slide``, ``scale``, ``subtraction``, ``residues`` and ``overviews``.
    target
        The directory.
    title
        Of the slide.
    """
    record, subtraction = SlideRecord.load(paths["slide"]), Subtraction.load(paths["subtraction"])
    scales = load_scales(paths["scale"])
    place = paths["slide"].absolute().parent
    entry = SlideEntry(place.name, record.slide.subtracted, place.name)
    rows = {row["dye"]: texts(row) for row in marker_rows(entry, place.parent)}
    residues = load_residues(paths["residues"], list(subtraction.markers))
    size = record.pixel_size_um and sum(record.pixel_size_um) / 2
    files = {name: target / file for name, file in name_figure_files(rows).items()}
    target.mkdir(parents=True, exist_ok=True)
    titles = {name: f"{title} {shorten(name, _LONGEST_NAME)}" for name in rows}
    shown = {name: MarkerPictures(row) for name, row in rows.items()}
    for n, (name, one) in enumerate(subtraction.markers.items()):
        if rows[name]["status"] == "failed":
            continue
        overview, step = overview_of(paths["overviews"], n)
        chosen = scales[name].scale.methods[one.method]
        gain, offset = (np.float32(v or 0.0) for v in (chosen.gain, chosen.offset))
        removed = gain * overview.background + offset
        shown[name] = MarkerPictures(rows[name], overview.before, removed, overview.after)
        figure = draw_marker(
            shown[name], one, residues[name], step=step, pixel_size_um=size, title=titles[name]
        )
        save_png(figure, files[name])
        figure.clear()  # else its cycles of references keep its pictures
    for name, marker in shown.items():
        if marker.before is None:
            refusal = draw_refusal(
                titles[name], marker.row["reasons"], marker.row["status"], of="marker"
            )
            save_png(refusal, files[name])
    save_png(draw_overview([*shown.values()], title=f"{title}: all markers"), target / SLIDE_FIGURE)
