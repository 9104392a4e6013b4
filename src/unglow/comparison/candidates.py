"""Candidates of two lists, side by side."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unglow.comparison.finding import Finding
from unglow.core.rounding import number, percent, uncertainty
from unglow.io.detection_results import read_candidates, read_report
from unglow.review.decisions import REACH_PX, nearest

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray


CLEAR = 1.0
"""A candidate is clear if its signal-to-noise ratio is above both thresholds by this, one standard
deviation of the noise. A list loses and wins others by chance."""
_ERRORS, _FEW = 2.0, 0.05
"""Measurements count as different if more than the second, a share, of the matched candidates are
off by more than the first, in combined errors."""


@dataclass(frozen=True, eq=False)
class Matched:
    """Which candidates of two lists are the same.

    Attributes
    ----------
    pairs
        (k, 2) intp, indices into a and b, in the order of a.
    lost, new
        Indices of those in a alone and in b alone, ascending.
    """

    pairs: NDArray[np.intp]
    lost: NDArray[np.intp]
    new: NDArray[np.intp]


def match(a: NDArray[np.float64], b: NDArray[np.float64], radius: float = REACH_PX) -> Matched:
    """Match positions one to one, the nearest pairs first.

    Parameters
    ----------
    a, b
        (N, 2) and (M, 2) positions (x, y), px of post.
    radius
        Partners are no further apart, px.
    """
    partners = np.array([-1 if n is None else n for n in nearest(a, b, radius)], np.intp)
    found = partners >= 0
    return Matched(
        np.column_stack([np.flatnonzero(found), partners[found]]),
        np.flatnonzero(~found),
        np.setdiff1d(np.arange(len(b)), partners[found]),
    )


def compare_candidates(one: Path, other: Path) -> Finding:
    """Compare two ``candidates.csv``: those that are counted.

    Threshold and width of spots are those of ``detection.json`` next to them, if it is there.
    UnglowError if a file cannot be read.
    """
    tables = [read_candidates(path) for path in (one, other)]
    a, b = ({n: column[t.is_counted] for n, column in t.numbers.items()} for t in tables)
    found = (path.with_name("detection.json") for path in (one, other))
    reports = [read_report(path) if path.is_file() else {} for path in found]
    thresholds = [  # or the last candidate of the list, where none is reported
        c["snr"].min(initial=math.inf) if (t := r.get("threshold_snr")) is None else t
        for r, c in zip(reports, (a, b), strict=True)
    ]
    widths = [float(r.get("settings", {}).get("fwhm_px", 0)) for r in reports]
    return _finding(a, b, max(thresholds) + CLEAR, max(REACH_PX, *(w / 2 for w in widths)))


def _finding(
    a: dict[str, NDArray[np.float64]],
    b: dict[str, NDArray[np.float64]],
    clear_snr: float,
    radius: float,
) -> Finding:
    places = [np.column_stack([c["x"], c["y"]]) for c in (a, b)]
    matched = match(places[0], places[1], radius)
    pairs = matched.pairs.T
    columns = {name: (a[name][pairs[0]], b[name][pairs[1]]) for name in a if name in b}
    measured = _measure(columns)
    left = {"lost": (a, matched.lost), "new": (b, matched.new)}
    clear = {w: int(np.count_nonzero(c["snr"][k] >= clear_snr)) for w, (c, k) in left.items()}
    numbers: dict[str, float | int] = {
        "candidates_a": len(a["x"]), "candidates_b": len(b["x"]), "matched": len(matched.pairs),
        "lost": len(matched.lost), "lost_clear": clear["lost"],
        "new": len(matched.new), "new_clear": clear["new"], **measured,
    }  # fmt: skip
    parts = [
        f"{len(index)} {word} ({_describe_clarity(len(index), clear[word])})"
        for word, (_, index) in left.items()
        if len(index)
    ]
    parts.append(f"{len(matched.pairs)} matched")
    off = measured.get("off", 0.0)
    if off > _FEW:
        flux, place = number(measured.get("flux_ratio")), uncertainty(measured["place_median_px"])
        parts.append(
            f"{percent(off)} of them measured otherwise (typical flux {flux} times, place {place} "
            "px off)"
        )
    unmatched = sum(clear.values())
    excess = (1 + 100 * unmatched / max(len(a["x"]), len(b["x"]))) if unmatched else 0.0
    return Finding(
        "candidates",
        "different" if unmatched or off > _FEW else "equal",
        "candidates: " + ", ".join(parts),
        max(excess, off / _FEW),
        numbers,
        _list_points(left),
    )


def _measure(
    columns: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]],
) -> dict[str, float | int]:
    """Return distances of matched candidates, px, their flux of B over A, and the share off.

    ``off`` is the share of those whose place or flux is more than `_ERRORS` combined errors away.
    """
    (x, other_x), (y, other_y) = columns["x"], columns["y"]
    if not len(x):
        return {}
    apart = np.hypot(other_x - x, other_y - y)
    numbers: dict[str, float | int] = {
        "place_median_px": float(np.median(apart)),
        "place_p95_px": float(np.quantile(apart, 0.95)),
    }
    off = np.zeros(len(x), bool)
    for name in ("x", "y", "flux"):
        if name in columns and f"{name}_err" in columns:
            errors = np.hypot(*columns[f"{name}_err"])
            off |= np.abs(np.subtract(*columns[name])) > _ERRORS * errors
    if "flux" in columns:
        ratio = np.divide(*reversed(columns["flux"]))
        numbers["flux_ratio"] = float(np.nanmedian(ratio))
        numbers["flux_off_p95"] = float(np.nanquantile(np.abs(ratio - 1), 0.95))
    return numbers | {"off": float(off.mean())}


def _describe_clarity(count: int, clear: int) -> str:
    if clear == count:
        return "clear" if count == 1 else "all clear"
    return f"{clear} clear" if clear else "at the limit of significance"


def _list_points(
    left: dict[str, tuple[dict[str, NDArray[np.float64]], NDArray[np.intp]]],
) -> tuple[tuple[str, float, float, float], ...]:
    """Return word, x, y and significance of those without a partner, the clearest first."""
    rows = [
        (word, float(c["x"][k]), float(c["y"][k]), float(c["snr"][k]))
        for word, (c, index) in left.items()
        for k in index
    ]
    return tuple(sorted(rows, key=lambda row: (row[0], -row[3])))
