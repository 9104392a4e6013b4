"""Figures of grey levels: joint histogram, excess, marginals, ratio, and differences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unglow.core.rounding import estimate, format_measured, number, percent
from unglow.figures.colour_maps import Colours, upright_bar
from unglow.figures.style import (
    FAINT,
    INK,
    METHOD,
    SOFT,
    STATUS,
    apply_style,
    graph,
    label,
    panel,
    power_of_ten,
    powers_of_ten,
    sheet,
    steps,
)
from unglow.photometry.gain import moffat
from unglow.photometry.joint_histogram import ratio_edges

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from unglow.core.arrays import Floats, Ints
    from unglow.figures.figure_inputs import FigureInputs
    from unglow.photometry.difference_histogram import DifferenceHistogram
    from unglow.photometry.gain.moffat import MoffatFit
    from unglow.photometry.gain.scale import Scale
    from unglow.photometry.joint_histogram import JointStatistics


# Axes end where this share of the pixels lies beyond, so that a few bright ones do not rule them.
_BEYOND = 2e-5
# Bins of a difference are joined until each has this many pixels: single ones look like a brush.
_ENOUGH = 12
# Round numbers for ticks on a logarithmic axis, from fine to coarse.
_MANTISSAS = (
    (1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2, 2.2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9),
    (1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 4, 5, 6, 7, 8, 9),
    (1, 1.5, 2, 3, 4, 5, 7),
    (1, 2, 5),
    (1,),
)


@apply_style
def draw_joint_histogram(
    stats: JointStatistics, scale: Scale, *, title: str = "Post against pre"
) -> Figure:
    """Draw how often each pair of grey levels occurs, with the identity and the default scale.

    Parameters
    ----------
    stats
        Joint statistics with at least one pixel.
    scale
        Estimated scale; lines are drawn for methods that gave a gain.
    """
    figure = sheet(9.6, 8.5, title)
    axes = panel(figure, 0.9, 0.7, 7.0, 7.0)
    low, high = _find_range(stats, stats.joint.sum(axis=0) + stats.joint.sum(axis=1))
    inside = _select_bins(stats, low, high)
    start, end = stats.edges[[inside.start, inside.stop]]
    shown = Colours("viridis", 1.0, max(float(stats.joint.max()), 10.0), log=True)
    _counts(axes, shown, stats.joint.T[inside, inside], (start, end, start, end))
    axes.set(xlim=(low, high), ylim=(low, high))
    graph(axes, "pre, aligned (grey level)", "post (grey level)")
    axes.plot([low, high], [low, high], color=INK, lw=1, ls=":", label="post = pre", zorder=3)
    _count_bar(figure, shown, "pixels per bin")
    _lines(axes, scale)
    _note(figure, stats)
    return figure


def _select_bins(stats: JointStatistics, low: float, high: float) -> slice:
    """Return the bins that touch a range of grey levels."""
    first, last = (int(n) for n in np.searchsorted(stats.edges, (low, high)))
    return slice(max(first - 1, 0), min(last, len(stats.joint)))


def _counts(
    axes: Axes, shown: Colours, counts: Ints | Floats, place: tuple[float, float, float, float]
) -> None:
    """Show counts, the first row at the bottom, and nothing where there are none."""
    seen = np.where(counts >= 1, np.uint8(255), np.uint8(0))
    pixels = np.dstack([shown.paint(counts), seen])
    axes.imshow(
        pixels, extent=place, origin="lower", interpolation="nearest", aspect="auto", zorder=2
    )


def _count_bar(figure: Figure, shown: Colours, name: str) -> None:
    """Draw the bar of a logarithmic scale of counts."""
    values = [float(f"{m}e{power}") for power in range(19) for m in (1, 2, 5)]
    ticks = [
        (float(shown.unit(v)), power_of_ten(v) if f"{v:e}".startswith("1") else "")
        for v in values
        if v <= shown.high
    ]
    shades = shown.paint(np.geomspace(shown.low, shown.high, 256))
    upright_bar(figure, (8.15, 0.7, 0.22, 7.0), shades, ticks, name)


def _find_range(stats: JointStatistics, counts: Ints) -> tuple[float, float]:
    """Return the range of grey levels that holds nearly all of ``counts`` per bin."""
    edges = stats.edges
    total = np.cumsum(counts)
    if len(total) == 0 or total[-1] == 0:
        return float(edges[0]), float(edges[-1])
    first, last = np.searchsorted(total, [_BEYOND * total[-1], (1 - _BEYOND) * total[-1]])
    last = min(int(last), len(counts) - 1)
    margin = max(0.02 * (edges[last + 1] - edges[first]), stats.width)
    return float(edges[first] - margin), float(edges[last + 1] + margin)


def _lines(axes: Axes, scale: Scale) -> None:
    """Draw post = gain * pre + offset for every method, the default one stronger."""
    x = np.array(axes.get_xlim())
    for name, result in scale.methods.items():
        if result.gain is None or result.offset is None:
            continue
        axes.plot(
            x,
            result.gain * x + result.offset,
            color=METHOD.get(name, SOFT),
            linewidth=2.4 if name == scale.default else 1.6,
            linestyle="-" if name == scale.default else "--",
            zorder=3,
            label=_label_gain(name, scale),
        )
    axes.set(xlim=tuple(x), ylim=tuple(x))
    legend = axes.legend(loc="upper left", frameon=True, framealpha=1, edgecolor=FAINT)
    legend.set_zorder(10)


def _label_gain(name: str, scale: Scale) -> str:
    """Return a legend entry such as ``moffat: gain 1.302 (1.296 to 1.308), default``."""
    result = scale.methods[name]
    text = f"{name}: gain {estimate(result.gain, result.gain_ci95)}"
    if result.offset:
        low, high = result.offset_ci95 or (0.0, 0.0)
        text += f", offset {format_measured(result.offset, (high - low) / 2)}"
    return text + (", default" if name == scale.default else "")


def _note(figure: Figure, stats: JointStatistics) -> None:
    n = stats.n
    alone = n["post_only"] / max(n["pixels"], 1)
    text = f"{n['overlap']:,} pixels with both images; {percent(alone)} of post has no pre."
    if stats.width != 1:
        text += f" Bins of {stats.width:g} grey levels."
    label(figure, 0.9, figure.get_figheight() - 0.28, text, color=SOFT, size=9)


def logarithmic(axes: Axes, most: float) -> None:
    """Make y logarithmic, from single px to ``most`` of them and some room."""
    axes.set_yscale("log")
    powers_of_ten(axes.yaxis)
    axes.set_ylim(0.8, 2 * max(most, 5))


@apply_style
def draw_ratio(
    stats: JointStatistics, scale: Scale, *, title: str = "Ratio of post to pre"
) -> Figure:
    """Draw the histogram of log10(post / pre) with the Moffat fit and the scale lines."""
    figure = sheet(14.0, 7.2, title)
    axes = panel(figure, 1.0, 1.15, 8.0, 5.0)
    try:
        fit = moffat.fit(stats.ratio_counts, ratio_edges(), stats.ratio_range)
    except ValueError as error:
        axes.text(0.5, 0.5, f"No fit: {error}.", transform=axes.transAxes, ha="center")
        graph(axes, "log10(post / pre)", "pixels per bin")
        return figure
    _draw_bins(axes, fit)
    axes.axvline(0, color=INK, linewidth=1, linestyle=":", label="ratio 1")
    band = moffat.EXCLUDED * fit.bin_width
    axes.axvspan(-band, band, color=INK, alpha=0.07, linewidth=0, label="left out around ratio 1")
    low, high = axes.get_xlim()
    for name, result in scale.methods.items():
        if result.gain is not None and low < np.log10(result.gain) < high:
            colour = METHOD.get(name, SOFT)
            style = "-" if name == scale.default else "--"
            text = _label_gain(name, scale)
            axes.axvline(np.log10(result.gain), color=colour, linestyle=style, lw=2, label=text)
        elif result.gain is None:
            axes.plot([], [], " ", label=f"{name}: no gain")
    ratios = [(float(np.log10(value)), f"{value:g}") for value in _ratio_ticks(low, high)]
    name = f"pixels per bin of {fit.bin_width:.2g} dex"
    graph(axes, "log10(post / pre)", name, top=(ratios, "post / pre"))
    # Next to the axes: whatever corner it was in, there are images whose bars or lines cross it.
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0)
    used = f"{stats.n['ratio']:,} pixels with post above 0 and pre at least one grey level"
    note = "" if fit.converged else "; the fit did not converge, the gain is the highest bin"
    label(figure, 1.0, 6.8, used + note + ".", color=SOFT if fit.converged else STATUS["suspect"])
    return figure


def _draw_bins(axes: Axes, fit: MoffatFit) -> None:
    half = fit.bin_width / 2
    edges = np.append(fit.centres - half, fit.centres[-1] + half)
    steps(axes, fit.counts, edges, fill=True, color="#c3cad2", label="all ratios")
    axes.plot(fit.centres, fit.smooth, color=SOFT, linewidth=1, label="smoothed")
    x, y = fit.centres[fit.fitted], fit.smooth[fit.fitted]
    axes.plot(x, y, "o", color="#0072B2", markersize=3.2, label="fitted bins")
    axes.plot(
        *fit.mirror_bins(), "o", color="#56B4E9", markersize=3.2, mfc="none", label="mirrored"
    )
    axes.set_xlim(edges[0], edges[-1])
    if fit.converged:
        dense = np.linspace(edges[0], edges[-1], 600)
        values = zip("μαβ", (fit.mu, fit.alpha, fit.beta), strict=True)
        name = "Moffat, " + ", ".join(f"{letter} = {number(value)}" for letter, value in values)
        axes.plot(dense, fit.curve(dense), color=METHOD["moffat"], linewidth=1.6, label=name)
    axes.set_ylim(0, 1.12 * float(fit.counts.max()))
    axes.yaxis.set_major_formatter("{x:,.0f}")


def _ratio_ticks(low: float, high: float) -> list[float]:
    """Return round ratios from 10^low to 10^high, about ten at most."""
    ticks: list[float] = []
    for mantissas in _MANTISSAS:
        ticks = [float(f"{m}e{power}") for power in range(-7, 8) for m in mantissas]
        ticks = [t for t in ticks if low <= np.log10(t) <= high]
        if len(ticks) <= 12:
            break
    return ticks


@apply_style
def draw_difference_histogram(
    histograms: Mapping[str, DifferenceHistogram], *, title: str = "Difference"
) -> Figure:
    """Draw how many pixels have each difference, one line per scale method.

    Parameters
    ----------
    histograms
        By name of the method; empty ones are named without a line.
    """
    figure = sheet(12.0, 6.4, title)
    # The legend stands above the axes, because the lines fill them.
    top = 0.75 + 0.23 * len(histograms)
    axes = panel(figure, 1.0, top, 10.6, 5.5 - top)
    full = {name: h for name, h in histograms.items() if h.total > 0}
    most = 0
    for name, histogram in full.items():
        edges, counts = join_sparse(*rebin(histogram))
        most = max(most, int(counts.max()))
        far = 5 * 1.4826 * histogram.mad()
        text = (
            f"{name}: median {number(histogram.median())}, MAD {number(histogram.mad())}; "
            f"{percent(_share_above(histogram, far), least=1e-6)} of the pixels are more than "
            f"{number(far)} (5σ) above"
        )
        steps(axes, counts, edges, color=METHOD.get(name, SOFT), linewidth=1.7, label=text)
    axes.axvline(0, color=INK, linewidth=1, linestyle=":")
    if full:
        logarithmic(axes, most)
        low = min(h.quantile(1e-4) for h in full.values())
        high = max(h.quantile(1 - 1e-4) for h in full.values())
        margin = 0.05 * max(high - low, 1.0)
        axes.set_xlim(low - margin, high + margin)
        axes.legend(loc="lower left", bbox_to_anchor=(-0.01, 1.0), borderaxespad=0.2)
    graph(axes, "post − (gain × pre + offset), grey levels", "pixels per bin")
    _draw_counts(figure, histograms)
    return figure


def _draw_counts(figure: Figure, histograms: Mapping[str, DifferenceHistogram]) -> None:
    empty = [name for name, h in histograms.items() if h.total == 0]
    parts = [
        f"{h.total:,} pixels, {int(h.missing[0]):,} without data"
        for h in list(histograms.values())[:1]
    ]
    parts += [f"nothing to show for {name}" for name in empty]
    note = "; ".join(parts) + ". The axis spans 99.98 % of the pixels."
    label(figure, 1.0, 6.12, note, color=SOFT, size=9)


def rebin(histogram: DifferenceHistogram) -> tuple[Floats, Ints]:
    """Join bins until there are about 300 over the range that is shown."""
    inner = histogram.counts[1:-1]
    span = histogram.quantile(1 - 1e-4) - histogram.quantile(1e-4)
    joined = max(1, round(span / histogram.step / 300))
    if joined > 1:
        # A power of two keeps whole grey levels together, without a beat between bins and levels.
        joined = 2 ** round(np.log2(joined))
    padded = np.pad(inner, (0, -len(inner) % joined))
    counts = padded.reshape(-1, joined).sum(axis=1)
    first = histogram.low - histogram.step / 2
    edges = first + histogram.step * joined * np.arange(len(counts) + 1)
    return np.asarray(edges, np.float64), np.asarray(counts)


def join_sparse(edges: Floats, counts: Ints) -> tuple[Floats, Floats]:
    """Join neighbouring bins, from the highest one outwards, until each has `_ENOUGH` pixels.

    Returns the (m + 1,) edges, and (m,) mean counts of the bins that were joined.
    """
    middle = int(np.argmax(counts))
    cuts = {0, middle, len(counts)}
    for bins, step in ((range(middle, len(counts)), 1), (range(middle - 1, -1, -1), 0)):
        held = 0
        for n in bins:
            held += int(counts[n])
            if held >= _ENOUGH:
                cuts.add(n + step)
                held = 0
    at = np.array(sorted(cuts))
    means = np.add.reduceat(counts, at[:-1]) / np.diff(at) if len(counts) else counts
    return edges[at], np.asarray(means, np.float64)


def _share_above(histogram: DifferenceHistogram, far: float) -> float:
    """Share of pixels that lie above the median by more than ``far`` grey levels."""
    limit = histogram.median() + far
    above = histogram.counts[1:-1][histogram.centres > limit].sum() + histogram.counts[-1]
    return float(above) / max(histogram.total, 1)


def draw_joint_histogram_of_pair(pair: FigureInputs, title: str) -> Figure:
    """Draw the joint histogram of a pair."""
    return draw_joint_histogram(pair.statistics, pair.scale, title=title)


def draw_ratio_histogram_of_pair(pair: FigureInputs, title: str) -> Figure:
    """Draw the ratios of post to pre of a pair."""
    return draw_ratio(pair.statistics, pair.scale, title=title)


def draw_difference_histogram_of_pair(pair: FigureInputs, title: str) -> Figure:
    """Draw the histograms of the differences of a pair by all methods."""
    return draw_difference_histogram(pair.differences.histograms, title=title)
