"""Figure of candidates: where they are on the difference, and how dense."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.lines import Line2D

from unglow.core.rounding import estimate, number, percent, plus_minus
from unglow.figures.colour_maps import Colours, draw_bar
from unglow.figures.difference import draw_overview, fit_page
from unglow.figures.difference_picture import paint
from unglow.figures.style import (
    DPI,
    INK,
    PAPER,
    SOFT,
    apply_style,
    framed,
    label,
    nice,
    place_legend,
    scale_bar,
    sheet,
    write_facts,
)
from unglow.images.detection_results import GRID

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from unglow.core.arrays import Floats, Floats32
    from unglow.figures.difference_picture import Painted
    from unglow.figures.figure_inputs import FigureInputs
    from unglow.images.artefacts import SavedPlace
    from unglow.images.detection_results import Candidates, SearchCounts


# Classes of the false-discovery rate: up to where, colour, size. They differ in lightness, so that
# everyone distinguishes them, and stand out from black, orange and blue.
CLASSES = ((0.001, "#ffffff", 1.0), (0.01, "#ffe14d", 0.85), (np.inf, "#e58fc0", 0.7))
MOST_CIRCLES = 5000
"""More would hide each other; the density is of all candidates."""
# Room for the map of the density, inches.
_WIDE, _TALLEST = 3.8, 3.0
# Where legend, density and facts are, in a column and in a row, inches from where they begin; and
# the height of all of them.
_COLUMN = (0.0, -0.08), (0.0, 1.5), (0.0, 0.75)
_ROW = (0.0, 0.0), (3.2, 0.1), (8.0, 0.0)
_HEIGHT = 6.95, 3.25
# Height of a line of facts, and what stays free below them, inches.
_LINE, _BELOW = 0.2, 0.1
# Cells of the density are so large that they hold this many candidates on average. They are made of
# this many squares of the search along each side.
_PER_CELL = 4.0
_JOINED = (2, 3, 4, 6, 8, 12)
# Of a cell of which less was searched, share of its area, no density is reported.
_LEAST_SEARCHED = 0.2


@apply_style
def draw_candidates(
    diff_thumb: Floats32,
    candidates: Candidates,
    report: Mapping[str, Any],
    search_counts: SearchCounts,
    *,
    background: Floats32 | None = None,
    step: int = 1,
    pixel_size_um: float | None = None,
    spoilt: Sequence[SavedPlace] = (),
    painted: Painted | None = None,
    title: str = "Candidates",
) -> Figure:
    """Draw candidates as circles on the difference, their density, and what is known of them.

    Parameters
    ----------
    diff_thumb
        (rows, cols) overview of the difference in grey levels; NaN where there is none.
    candidates
        Those of the list; the ones that do not count are left out.
    report
        Content of detection.json.
    search_counts
        Where was searched.
    background
        Overview of what was subtracted.
    step
        Level-0 px per overview px.
    pixel_size_um
        Of level 0; None where it is not known.
    spoilt
        Places of post that were left out.
    painted
        The overview in its colours, if that is known (`paint`).
    """
    painted = painted or paint(diff_thumb, background, spoilt, step)
    counted = candidates.is_counted
    points, fdr = candidates.xy[counted], candidates.fdr[counted]
    best = np.argsort(-candidates.snr[counted], kind="stable")[:MOST_CIRCLES]
    page = fit_page(diff_thumb.shape)
    figure = sheet(page.width, page.height(_HEIGHT[page.is_wide]), f"{title} ({len(points):,})")
    fewer = len(best) < len(points)
    more = f" Circles: the {len(best):,} most significant." if fewer else ""
    axes = draw_overview(figure, page, painted, spoilt, step=step, more=more)
    legend, density_at, facts_at = (
        (page.rest[0] + x, page.rest[1] + y) for x, y in (_ROW if page.is_wide else _COLUMN)
    )
    _circles(figure, axes, points[best], fdr[best], legend)
    scale_bar(axes, pixel_size_um)
    label(figure, 0.32, 0.55, _summary(report), color=SOFT)
    shape = (diff_thumb.shape[0] * step, diff_thumb.shape[1] * step)
    end = _density(figure, points, search_counts, shape, pixel_size_um, density_at)
    _facts(figure, facts_at if page.is_wide else (facts_at[0], end + _COLUMN[2][1]), report)
    return figure


def _summary(report: Mapping[str, Any]) -> str:
    wanted = report["settings"]["fdr"]
    if report["threshold_snr"] is None:
        return f"No threshold has a false-discovery rate of {percent(wanted)} or less."
    text = f"signal to noise of {number(report['threshold_snr'])} or more"
    if report["is_control"]:
        return f"{text}   ·   an unstained control, so that all of them are false"
    return f"{text}   ·   estimated false-discovery rate {percent(report['fdr'])}"


def _circles(
    figure: Figure, axes: Axes, points: Floats, fdr: Floats, at: tuple[float, float]
) -> None:
    """Draw each candidate in the colour of its class, the best on top, and name the classes."""
    largest = float(np.clip(9 * (200 / max(len(points), 1)) ** 0.3, 2.0, 9.0))
    thin = 0.6 + 0.5 * largest / 9
    rates = np.nan_to_num(fdr, nan=np.inf)
    handles: list[Line2D] = []
    below = -np.inf
    for bound, colour, share in CLASSES:
        inside = (rates > below) & (rates <= bound)
        style: dict[str, Any] = {"marker": "o", "linestyle": "", "mfc": "none", "mec": colour}
        rings = Line2D(*points[inside].T, **style, ms=share * largest, mew=thin)
        rings.set_zorder(3 - 0.1 * len(handles))
        axes.add_artist(rings)  # which leaves the limits of the axes alone
        name = f"at most {percent(bound)}" if np.isfinite(bound) else f"above {percent(below)}"
        text = f"{name}: {np.count_nonzero(inside):,}"
        handles.append(Line2D([], [], **style, ms=9 * share, mew=1.1, label=text))
        below = bound
    legend = place_legend(
        figure,
        handles,
        at[0] - 0.02,
        at[1],
        title="False-discovery rate",
        borderaxespad=0,
        frameon=True,
        facecolor=INK,
        edgecolor="none",
        framealpha=1,
        labelcolor=PAPER,
        borderpad=0.7,
    )
    legend.get_title().set_color(PAPER)


def _density(
    figure: Figure,
    points: Floats,
    search_counts: SearchCounts,
    shape: tuple[float, float],
    pixel_size_um: float | None,
    at: tuple[float, float],
) -> float:
    """Draw candidates per area in square cells; return where the map ends, inches from the top."""
    left, begin = at
    cells, side = density(points, search_counts)
    unit = "Mpx" if pixel_size_um is None else "mm²"
    area = side**2 / 1e6 * (1 if pixel_size_um is None else pixel_size_um**2)
    values = cells / area
    top = float(np.nanmax(values, initial=0.0)) or 1.0
    colours = Colours("viridis", 0.0, top)
    scale = DPI * min(_WIDE / shape[1], _TALLEST / shape[0])
    rows, cols = ((np.arange(max(1, round(n * scale))) / (scale * side)).astype(int) for n in shape)
    framed(figure, round(left * DPI), round(begin * DPI), colours.paint(values[np.ix_(rows, cols)]))
    label(figure, left, begin - 0.07, f"Candidates per {unit} that was searched", va="bottom")
    end = begin + len(rows) / DPI
    half = nice(top / 2)
    shown = [(v, number(v)) for v in (0.0, half, 2 * half, 4 * half) if v <= top]
    draw_bar(figure, (left, end + 0.12, len(cols) / DPI), colours, shown)
    return end


def density(points: Floats, search_counts: SearchCounts) -> tuple[Floats, int]:
    """Count points in square cells, as if each of them had been searched whole.

    Parameters
    ----------
    points
        (N, 2) positions (x, y), level-0 px.
    search_counts
        Where was searched.

    Returns
    -------
    (rows, cols) float64 counts per whole cell, NaN where a fifth of the cell or less was searched;
    and the side of a cell, level-0 px.
    """
    squares = search_counts.searched > 0
    wanted = np.sqrt(len(points) / _PER_CELL * max(squares.shape) ** 2 / max(squares.sum(), 1))
    joined = max((n for n in _JOINED if GRID / n >= wanted), default=_JOINED[0])
    side = joined * search_counts.side_px
    rows, cols = (-(-n // joined) for n in squares.shape)
    padded = np.zeros((rows * joined, cols * joined), np.int64)
    padded[: squares.shape[0], : squares.shape[1]] = search_counts.searched
    share = padded.reshape(rows, joined, cols, joined).sum(axis=(1, 3)) / side**2
    # the edges of the first cell are half a px before the first centre
    place = np.floor((points[:, ::-1] + 0.5) / side).astype(np.intp)
    place = np.clip(place, 0, np.array([rows, cols]) - 1)
    counts = np.bincount(np.ravel_multi_index(tuple(place.T), (rows, cols)), minlength=rows * cols)
    out = np.full((rows, cols), np.nan)
    enough = share > _LEAST_SEARCHED
    out[enough] = counts.reshape(rows, cols)[enough] / share[enough]
    return out, side


def _facts(figure: Figure, at: tuple[float, float], report: Mapping[str, Any]) -> None:
    """Write what detection.json says, from ``at`` on: inches from the left and the top."""
    settings, masked = report["settings"], report["masked_px"]
    threshold, fdr = report["threshold_snr"], report["fdr"]
    lines = [
        ("threshold", "none" if threshold is None else f"S/N {number(threshold)}"),
        ("wanted", f"{percent(settings['fdr'])} false, S/N {number(settings['min_snr'])} or more"),
        ("density", _density_text(report)),
        ("searched", _area_text(report)),
        ("no data", f"{masked['no_data']:,} px"),
        ("saturated", f"{masked['saturated']:,} px"),
        ("map error too large", f"{masked['misregistered']:,} px"),
        ("not counted", f"{report['not_counted']:,} in the list"),
    ]
    if masked.get("spoilt"):
        lines.insert(-1, ("spoilt", _spoilt_text(report)))
    if "excluded" in masked:
        lines.insert(-1, ("excluded", f"{masked['excluded']:,} px"))
    if fdr is not None:
        false = f"{percent(fdr)}, about {number(round(fdr * report['candidates']))}"
        lines.insert(1, ("estimated false", false))
    if report["fdr_control"] is not None:
        lines.insert(2, ("by controls", estimate_by_controls(report)))
    for name, key in (("50 % found from", "peak_50"), ("90 % found from", "peak_90")):
        if limit := (report["completeness"] or {}).get(key):
            peak = f"peak {plus_minus(limit['value'], limit['error'])} grey levels"
            lines.append((name, peak))
    left, top = at
    line = min(_LINE, (figure.get_figheight() - _BELOW - top) / len(lines))
    write_facts(figure, lines, left=left, top=top, line=line, values=left + 1.35, size=9)


def estimate_by_controls(report: Mapping[str, Any]) -> str:
    """Return the false-discovery rate by controls with its interval."""
    share, interval = report["fdr_control"], report["fdr_control_ci95"]
    return estimate(100 * share, [100 * end for end in interval], "%")


def _spoilt_text(report: Mapping[str, Any]) -> str:
    px = f"{report['masked_px']['spoilt']:,} px"
    share = (report.get("spoilt") or {}).get("share")
    return f"{percent(share)} of the section, {px}" if share else px


def _density_text(report: Mapping[str, Any]) -> str:
    if report["density_per_mm2"] is None:
        return "not known without a pixel size"
    return f"{estimate(report['density_per_mm2'], report['density_ci95_per_mm2'])} per mm²"


def _area_text(report: Mapping[str, Any]) -> str:
    area = report["area_mm2"]
    px = f"{number(report['searched_px'] / 1e6)} Mpx"
    return px if area is None else f"{number(area)} mm², {px}"


def draw_candidates_of_pair(pair: FigureInputs, title: str) -> Figure:
    """Draw the candidates of a pair on its difference."""
    return draw_candidates(
        pair.difference_view.image,
        pair.candidates,
        pair.detection,
        pair.search_counts,
        background=pair.background,
        step=pair.difference_view.step,
        pixel_size_um=pair.pixel_size_um,
        spoilt=pair.spoilt,
        painted=pair.painted,
        title=title,
    )
