"""The comparison of the variants of a pair: their numbers, their candidates, their differences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unglow.comparison.difference import match
from unglow.core.levels import VARIANT, name_of, names_of, place_of
from unglow.io.detection_results import read_candidates
from unglow.io.zarr.reader import crop
from unglow.reporting.figures import comparison as figure
from unglow.reporting.figures.comparison import ComparisonRow, Searched, Searches, thumb

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from unglow.photometry.difference import Image

    Row = dict[str, Any]
    Stores = Mapping[tuple[str, ...], Image]

MOST = 8
"""So many variants have pictures, and are compared with each other."""
MOST_PICTURES = 16
"""So many variants have an overview, which takes 4 MB of the job."""
WINDOW_PX = 384
"""Side of the pictures, px."""
# Two candidates are the same if they are no further apart than this many of their errors, or a px.
_SIGMAS, _LEAST_PX = 3.0, 1.0


@dataclass(frozen=True, eq=False, slots=True)
class Listed:
    """The counted candidates of a variant: (N, 2) positions (x, y), and how far they are off, px.

    That is the 95th percentile of their standard errors.
    """

    xy: NDArray[np.float64]
    error: float

    @classmethod
    def read(cls, path: Path) -> Listed:
        """Read candidates.csv; InputError if that cannot be."""
        found = read_candidates(path, ("x", "y", "x_err", "y_err"))
        counted = found.is_counted
        errors = np.hypot(found.numbers["x_err"], found.numbers["y_err"])[counted]
        errors = errors[np.isfinite(errors)]
        error = float(np.quantile(errors, 0.95)) if errors.size else 0.0
        return cls(found.xy[counted], error)

    def found_in(self, other: Listed) -> NDArray[np.bool_]:
        """Return which candidates (N,) another variant has as well, one to one."""
        radius = max(_LEAST_PX, _SIGMAS * float(np.hypot(self.error, other.error)))
        found = np.zeros(len(self.xy), np.bool_)
        found[match(self.xy, other.xy, radius).pairs[:, 0]] = True
        return found


def read_listed(rows: Sequence[Row], results: Path) -> list[tuple[Row, Listed]]:
    """Return the rows of variants whose candidates are known, with these."""
    searched = [row for row in rows if row.get("candidates") is not None]
    return [(row, Listed.read(place_of(results, row) / "candidates.csv")) for row in searched]


def add_agreement(lists: Sequence[tuple[Row, Listed]]) -> None:
    """Add to rows what share of their candidates the first variant has, and of its they have."""
    for row, own in lists:
        first = lists[0][1]
        row["in_first"] = share_of(own.found_in(first))
        row["of_first"] = share_of(first.found_in(own))


def share_of(found: NDArray[np.bool_]) -> float | None:
    """Return the share of candidates that are found; None if there are no candidates."""
    return float(np.mean(found)) if len(found) else None


def draw_comparison(
    rows: Sequence[Row], stores: Stores, lists: Sequence[tuple[Row, Listed]], title: str
) -> Figure:
    """Return the comparison sheet of a pair's variants.

    Parameters
    ----------
    rows
        What `unglow.reporting.summary.comparison` returns; rows that differ in nothing but the name
        of a variant are drawn once.
    stores
        Differences by the names of all levels and the method.
    lists
        What `read_listed` returns.
    title
        The pair's name.
    """
    variants = len({_lower(row) for row in rows})
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        key = (*_upper(row), row.get("method"), row["status"], row.get("gain"))
        groups.setdefault(key, []).append(row)
    drawn: list[ComparisonRow] = []
    for group in groups.values():
        row = group[0]
        names = [] if len(group) == variants > 1 else [_lower(r) for r in group]
        parts = [*_upper(row), ", ".join(names), row.get("method", "")]
        key = *names_of(row), row.get("method", "")
        store = stores.get(key) if len(drawn) < MOST_PICTURES else None
        drawn.append(_row(row, " ".join(p for p in parts if p), store))
    more = _searches(lists, stores)
    return figure.draw_comparison(drawn, title=f"{title}: variants side by side", more=more)


def _upper(row: Row) -> list[str]:
    """Return the names of the images and the registration of a row."""
    return [str(row.get(level) or "") for level in VARIANT[:2]]


def _lower(row: Row) -> str:
    """Return what subtraction and search of a row are called."""
    return name_of({level: row.get(level) for level in VARIANT[2:]})


def _row(row: Row, name: str, store: Image | None) -> ComparisonRow:
    low, high = row.get("gain_low95"), row.get("gain_high95")
    return ComparisonRow(
        name=name,
        status=row["status"],
        gain=row.get("gain"),
        gain_ci95=None if low is None or high is None else (low, high),
        residual_median=_number(row.get("residual_median_px")),
        residual_p95=_number(row.get("residual_p95_px")),
        median=_number(row.get("difference_median")),
        mad=_number(row.get("difference_mad")),
        thumb=thumb(store),
    )


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)


def _searches(lists: Sequence[tuple[Row, Listed]], stores: Stores) -> Searches | None:
    """Return what is drawn of the searches; None unless there are two at least."""
    shown = lists[:MOST]
    if len(shown) < 2:
        return None
    found = [[own.found_in(other) for _, other in shown] for _, own in shown]
    lacked = [~np.logical_and.reduce(of_row) for of_row in found]
    parts = [[share_of(one) for one in of_row] for of_row in found]
    pictures = [stores[(*names_of(row), row["method"])] for row, _ in shown]
    points = [own.xy for _, own in shown]
    differ = np.concatenate([xy[which] for xy, which in zip(points, lacked, strict=True)])
    middle = _find_crowded(differ if len(differ) else np.concatenate(points), pictures[0].shape)
    corner = middle[0] - WINDOW_PX // 2, middle[1] - WINDOW_PX // 2
    rows = []
    for (row, own), picture, which in zip(shown, pictures, lacked, strict=True):
        inside = np.all((own.xy >= corner) & (own.xy < np.add(corner, WINDOW_PX)), axis=1)
        low, high = row.get("density_low95"), row.get("density_high95")
        rows.append(
            Searched(
                name_of({level: row.get(level) for level in VARIANT}),
                row["candidates"],
                row.get("candidates_fdr"),
                row.get("density_per_mm2"),
                None if low is None or high is None else (low, high),
                crop(picture, middle, WINDOW_PX),
                own.xy[inside],
                which[inside],
            )
        )
    shared = np.array([[_number(part) for part in of_row] for of_row in parts])
    return Searches(rows, shared, corner, len(lists) - len(shown))


def _find_crowded(points: NDArray[np.float64], shape: tuple[int, int]) -> tuple[int, int]:
    """Return the middle (x, y) of a window where many points are, as far inside as it can be."""
    half = WINDOW_PX // 2
    if len(points):
        _, cell, counts = np.unique(
            points // WINDOW_PX, axis=0, return_inverse=True, return_counts=True
        )
        middle = points[cell.ravel() == np.argmax(counts)].mean(axis=0)
    else:
        middle = np.array(shape[::-1]) / 2
    x, y = (
        min(max(round(float(v)), half), max(n - half, half))
        for v, n in zip(middle, shape[::-1], strict=True)
    )
    return x, y
