"""Figures for judging candidates: purity against the threshold, and a gallery of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.rounding import number, percent
from unglow.figures.candidates import estimate_by_controls
from unglow.figures.figure_inputs import draw_refusal
from unglow.figures.style import (
    BLUE,
    GREEN,
    INK,
    ORANGE,
    SOFT,
    apply_style,
    diverging,
    graph,
    grey,
    label,
    panel,
    powers_of_ten,
    rgb_bytes,
    sheet,
    tile,
)
from unglow.images.zarr.layout import CHUNK
from unglow.images.zarr.reader import ChunkCache, crop

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from unglow.core.arrays import Bytes, Floats, Floats32
    from unglow.figures.figure_inputs import FigureInputs
    from unglow.images.detection_results import Candidates
    from unglow.images.zarr import Store
    from unglow.photometry.difference import Image


_PURITY = "#6a3d9a"
# Beyond the first and the last threshold, in units of S/N.
_MARGIN = 0.12
# Purity is drawn from here on at least, per cent.
_LOWEST = 80.0


@apply_style
def draw_purity(report: Mapping[str, Any], *, title: str = "Purity") -> Figure:
    """Draw numbers of candidates and of their negatives, and the purity, against the threshold.

    Parameters
    ----------
    report
        Content of detection.json; ``by_threshold`` has a row for each threshold.
    """
    figure = sheet(10.0, 8.2, title)
    table = report["by_threshold"]
    snr, bright, dark, fdr = (
        np.array([row[key] for row in table], np.float64)
        for key in ("snr", "candidates", "negative", "fdr")
    )
    upper = panel(figure, 1.05, 1.05, 8.55, 3.1)
    _numbers(upper, snr, bright, dark)
    lower = panel(figure, 1.05, 4.75, 8.55, 2.75)
    _purity(lower, snr, np.where(bright > 0, 1 - fdr, np.nan), report["settings"]["fdr"])
    if "fdr_control" in table[0]:
        _draw_controls(upper, lower, table)
    upper.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=3, borderaxespad=0.2)
    if len(lower.get_legend_handles_labels()[1]) > 1:
        lower.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2, borderaxespad=0.2)
    for axes in (upper, lower):
        end = max(float(snr[-1]), report["threshold_snr"] or 0.0) + _MARGIN
        axes.set_xlim(float(snr[0]) - _MARGIN, end)
        if report["threshold_snr"] is not None:
            axes.axvline(report["threshold_snr"], color=INK, linewidth=1.3, linestyle="--")
            axes.axvspan(report["threshold_snr"], end, color=INK, alpha=0.05, lw=0)
    label(figure, 0.32, 0.55, _describe_choice(report), color=SOFT)
    return figure


def _describe_choice(report: Mapping[str, Any]) -> str:
    wanted = percent(report["settings"]["fdr"])
    if report["threshold_snr"] is None:
        return f"No threshold has a false-discovery rate of {wanted} or less: nothing is believed."
    control = report["fdr_control"]
    last = (
        f" ({wanted} wanted)"
        if control is None
        else f", {estimate_by_controls(report)} by controls"
    )
    return (
        f"Chosen (dashed): S/N of {number(report['threshold_snr'])} or more, "
        f"{report['candidates']:,} candidates, an estimated {percent(report['fdr'])} of them false"
        f"{last}"
    )


def _numbers(axes: Axes, snr: Floats, bright: Floats, dark: Floats) -> None:
    for counts, colour, marker, name in (
        (bright, ORANGE, "o", "brighter in post: candidates"),
        (dark, BLUE, "s", "darker in post: estimates how many are false"),
    ):
        shown = np.where(counts > 0, counts, np.nan)
        axes.plot(snr, shown, color=colour, marker=marker, markersize=3.5, lw=1.6, label=name)
    axes.set_yscale("log")
    powers_of_ten(axes.yaxis)
    axes.set_ylim(0.7, max(10.0, 2 * float(bright.max()), 2 * float(dark.max())))
    graph(axes, "", "sources above the threshold")


def _draw_controls(upper: Axes, lower: Axes, table: Sequence[Mapping[str, Any]]) -> None:
    """Draw the number expected by the controls, and the purity from it, with bands."""
    snr, bright, fdr = (
        np.array([row[key] for row in table], np.float64)
        for key in ("snr", "candidates", "fdr_control")
    )
    low, high = np.array([row["fdr_control_ci95"] for row in table], np.float64).T
    some = bright > 0
    style: dict[str, Any] = {"color": GREEN, "marker": "^", "markersize": 3.5, "linewidth": 1.6}
    band: dict[str, Any] = {"color": GREEN, "alpha": 0.18, "linewidth": 0}
    upper.plot(snr[some], (fdr * bright)[some], label="by unstained controls", **style)
    upper.fill_between(snr[some], (low * bright)[some], (high * bright)[some], **band)
    lower.plot(snr[some], 100 * (1 - fdr[some]), label="by unstained controls, 95 %", **style)
    lower.fill_between(snr[some], 100 * (1 - high[some]), 100 * (1 - low[some]), **band)
    least = float(100 * (1 - fdr[some]).min(initial=1.0))
    bottom = min(lower.get_ylim()[0], 10 * np.floor(least / 10))
    lower.set_ylim(bottom, 100 + 0.04 * (100 - bottom))


def _purity(axes: Axes, snr: Floats, purity: Floats, wanted: float) -> None:
    style: dict[str, Any] = {"color": _PURITY, "marker": "o", "markersize": 3.5, "linewidth": 1.6}
    axes.plot(snr, 100 * purity, label="by the negated difference", **style)
    axes.axhline(100 * (1 - wanted), color=SOFT, linewidth=1, linestyle=":")
    least = float(np.nanmin(100 * purity, initial=100.0))
    low = min(_LOWEST, 100 * (1 - wanted) - 10, 10 * np.floor(least / 10))
    axes.set_ylim(low, 100 + 0.04 * (100 - low))
    graph(axes, "threshold of the signal-to-noise ratio", "purity, % (1 − false-discovery rate)")
    # where the curve is not: it crosses the line at the right if the threshold is high
    is_late = np.nanmin(purity[-len(purity) // 5 :], initial=1.0) < 1 - wanted
    axes.text(
        *(0.005 if is_late else 0.995, 100 * (1 - wanted) - 0.02 * (100 - low)),
        f"wanted: {percent(1 - wanted)}",
        transform=axes.get_yaxis_transform(),
        ha="left" if is_late else "right",
        va="top",
        color=SOFT,
        size=9,
    )


def draw_purity_of_pair(pair: FigureInputs, title: str) -> Figure:
    """Draw the purity of the candidates of a pair."""
    return draw_purity(pair.detection, title=title)


COLUMNS = 3
SIDE_PX = 39
"""Side of a stamp, level-0 px; odd, so that the candidate is in the middle."""
# Inches: side of a square, gap between squares, distances of stamps, where both halves begin.
_SIDE, _GAP = 0.78, 0.03
_PITCH_X, _PITCH_Y = 2.62, 1.04
_TOP, _HALF = 1.42, 8.2
_MARK, _MARK_PX = "#ff4fbf", 4
# Colours reach to this quantile of the px of a difference, and to that of most differences.
_BRIGHTEST, _MOST = 0.999, 0.75
MOST_STAMPS = 24
_KEPT = 4  # chunks of each image


@dataclass(frozen=True, eq=False, slots=True)
class Stamp:
    """A square around a candidate at full resolution.

    Attributes
    ----------
    x, y
        Position, level-0 px of post.
    snr
        Its signal-to-noise ratio.
    post, background
        (n, n) float32: post, and what was subtracted from it, pre times gain plus offset; NaN where
        there is no data.
    """

    x: float
    y: float
    snr: float
    post: Floats32
    background: Floats32

    @property
    def difference(self) -> Floats32:
        """What is left."""
        return self.post - self.background


@apply_style
def draw_gallery(
    best: Sequence[Stamp],
    borderline: Sequence[Stamp],
    *,
    total: int,
    title: str = "Gallery of candidates",
) -> Figure:
    """Draw up to 24 of the best candidates and 24 of the least significant ones.

    Parameters
    ----------
    best, borderline
        Stamps in the order of their signal-to-noise ratio: falling, and rising.
    total
        Number of all candidates.
    """
    rows = -(-max(len(best), len(borderline)) // COLUMNS)
    figure = sheet(16.3 if borderline else 9.2, _TOP + _PITCH_Y * rows + 0.2, title)
    text = "post  |  pre × gain + offset, in the same grey scale  |  difference; ticks point at it"
    label(figure, 0.32, 0.55, text, color=SOFT)
    more = total > len(best)
    heading = f"The {len(best)} most significant of {total:,}" if more else f"All {total:,}"
    _half(figure, 0.32, best, heading)
    if borderline:
        heading = f"The {len(borderline)} least significant: nearest to the threshold"
        _half(figure, _HALF, borderline, heading)
    return figure


def _half(figure: Figure, left: float, stamps: Sequence[Stamp], heading: str) -> None:
    """Show stamps row by row, differences in colours that are the same for all of them."""
    limit = colour_limit([s.difference for s in stamps])
    label(figure, left, 0.87, heading, weight="bold", size=10.5)
    text = f"differences: colours up to ±{number(limit)} grey levels"
    label(figure, left + 7.72, 0.885, text, size=9, color=SOFT, ha="right")
    for n, stamp in enumerate(stamps):
        row, column = divmod(n, COLUMNS)
        at = left + _PITCH_X * column, _TOP + _PITCH_Y * row
        _strip(figure, at, stamp, limit)


def colour_limit(differences: Sequence[Floats32]) -> float:
    """Return the limit of the colours on both sides of zero, grey levels, of all stamps.

    The brightest px of most of them; one grain that has not cancelled must not rule.
    """
    tops = [float(np.nanquantile(np.abs(d), _BRIGHTEST)) for d in differences if _has_values(d)]
    top = float(np.quantile(tops, _MOST)) if tops else 0.0
    return top or 1.0


def common_stretch(post: Floats32, background: Floats32) -> tuple[Floats32, Floats32]:
    """Map two squares to 0..1, linearly, from the lowest to the highest value of both."""
    both = np.concatenate([post.ravel(), background.ravel()])
    if not _has_values(both):
        return np.full_like(post, np.nan), np.full_like(background, np.nan)
    low, high = np.nanmin(both), np.nanmax(both)
    span = max(high - low, np.float32(1e-6))
    return (post - low) / span, (background - low) / span


def _has_values(values: Floats32) -> bool:
    return bool(np.isfinite(values).any())


def _strip(figure: Figure, at: tuple[float, float], stamp: Stamp, limit: float) -> None:
    left, top = at
    name = f"S/N {stamp.snr:.1f}   ({stamp.x:.0f}, {stamp.y:.0f})"
    label(figure, left, top - 0.2, name, size=8.5)
    post, background = common_stretch(stamp.post, stamp.background)
    colours = diverging(stamp.difference, limit)
    for k, pixels in enumerate((grey(post), grey(background), colours)):
        tile(figure, left + k * (_SIDE + _GAP), top, _SIDE, add_ticks(pixels))


def add_ticks(pixels: Bytes) -> Bytes:
    """Return RGB (n, n, 3) with ticks from the left and the upper edge towards the middle."""
    out = pixels.copy()
    middle = len(out) // 2
    out[middle, :_MARK_PX] = out[:_MARK_PX, middle] = rgb_bytes(_MARK)
    return out


def draw_gallery_of_pair(pair: FigureInputs, title: str) -> Figure:
    """Draw the most and the least significant candidates of a pair."""
    candidates = pair.candidates
    chosen = choose_stamps(candidates)
    if not len(chosen[0]):
        reason = "There are no candidates: no threshold has so few false ones as is wanted."
        return draw_refusal(title, reason, None)
    stamps = _stamps(pair.post, pair.difference, candidates, np.concatenate(chosen))
    best, borderline = stamps[: len(chosen[0])], stamps[len(chosen[0]) :]
    total = int(np.count_nonzero(candidates.is_counted))
    return draw_gallery(best, borderline, total=total, title=title)


def choose_stamps(candidates: Candidates) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows of the best candidates and, of the others, of those nearest to the threshold.

    Up to `MOST_STAMPS` each: the highest signal-to-noise ratio first, and the lowest first.
    """
    counted = np.flatnonzero(candidates.is_counted)
    order = counted[np.argsort(-candidates.snr[counted], kind="stable")]
    return order[:MOST_STAMPS], order[MOST_STAMPS:][::-1][:MOST_STAMPS]


def _stamps(
    post: Store, difference: Image, candidates: Candidates, rows: NDArray[np.intp]
) -> list[Stamp]:
    """Return stamps of rows; those in the same chunk are cut out one after the other."""
    images = [ChunkCache(image, _KEPT) for image in (post, difference)]
    places = candidates.xy[rows]
    order = np.lexsort((places // CHUNK).T)
    stamps: dict[int, Stamp] = {}
    for n in order.tolist():
        x, y = places[n].tolist()
        seen, left = (crop(image, (x, y), SIDE_PX) for image in images)
        # what was subtracted, whatever the scale method and a gain map made of it
        stamps[n] = Stamp(x, y, float(candidates.snr[rows[n]]), seen, seen - left)
    return [stamps[n] for n in range(len(rows))]
