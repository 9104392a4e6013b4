"""Figure of purity: how many candidates there are above each threshold, and how many to believe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.core.rounding import number, percent
from unglow.reporting.figures.candidates import by_controls
from unglow.reporting.figures.style import (
    BLUE,
    GREEN,
    INK,
    ORANGE,
    SOFT,
    graph,
    label,
    panel,
    powers_of_ten,
    sheet,
    styled,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from unglow.reporting.figures.figure_inputs import FigureInputs

_PURITY = "#6a3d9a"
# Beyond the first and the last threshold, in units of S/N.
_MARGIN = 0.12
# Purity is drawn from here on at least, per cent.
_LOWEST = 80.0


@styled
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
    _legends(upper, lower)
    for axes in (upper, lower):
        end = max(float(snr[-1]), report["threshold_snr"] or 0.0) + _MARGIN
        axes.set_xlim(float(snr[0]) - _MARGIN, end)
        if report["threshold_snr"] is not None:
            axes.axvline(report["threshold_snr"], color=INK, linewidth=1.3, linestyle="--")
            axes.axvspan(report["threshold_snr"], end, color=INK, alpha=0.05, lw=0)
    label(figure, 0.32, 0.55, _chosen(report), color=SOFT)
    return figure


def _chosen(report: Mapping[str, Any]) -> str:
    wanted = percent(report["settings"]["fdr"])
    if report["threshold_snr"] is None:
        return f"No threshold has a false-discovery rate of {wanted} or less: nothing is believed."
    return (
        f"Chosen (dashed): S/N of {number(report['threshold_snr'])} or more, "
        f"{report['candidates']:,} candidates, an estimated {percent(report['fdr'])} of them false"
        f"{_said_by_controls(report) or f' ({wanted} wanted)'}"
    )


def _said_by_controls(report: Mapping[str, Any]) -> str:
    """Return the rate by controls in words; nothing if there is none."""
    if report["fdr_control"] is None:
        return ""
    return f", {by_controls(report)} by controls"


def _numbers(
    axes: Axes, snr: NDArray[np.float64], bright: NDArray[np.float64], dark: NDArray[np.float64]
) -> None:
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


def _legends(upper: Axes, lower: Axes) -> None:
    upper.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=3, borderaxespad=0.2)
    if len(lower.get_legend_handles_labels()[1]) > 1:
        lower.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2, borderaxespad=0.2)


def _purity(
    axes: Axes, snr: NDArray[np.float64], purity: NDArray[np.float64], wanted: float
) -> None:
    style: dict[str, Any] = {"color": _PURITY, "marker": "o", "markersize": 3.5, "linewidth": 1.6}
    axes.plot(snr, 100 * purity, label="by the negated difference", **style)
    axes.axhline(100 * (1 - wanted), color=SOFT, linewidth=1, linestyle=":")
    least = float(np.nanmin(100 * purity, initial=100.0))
    low = min(_LOWEST, 100 * (1 - wanted) - 10, 10 * np.floor(least / 10))
    axes.set_ylim(low, 100 + 0.04 * (100 - low))
    graph(axes, "threshold of the signal-to-noise ratio", "purity, % (1 − false-discovery rate)")
    axes.text(
        *(0.995, 100 * (1 - wanted) - 0.02 * (100 - low)),
        f"wanted: {percent(1 - wanted)}",
        transform=axes.get_yaxis_transform(),
        ha="right",
        va="top",
        color=SOFT,
        size=9,
    )


def draw_purity_of_pair(pair: FigureInputs, title: str) -> Figure:
    """Draw the purity of the candidates of a pair."""
    return draw_purity(pair.detection, title=title)
