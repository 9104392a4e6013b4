"""Groups of pairs: what the sample sheet says belongs together, and its candidates counted as one.

The sampling unit is the pair. A pooled density is the sum of counts over the sum of searched areas.
Its interval comes from how much the pairs differ (quasi-Poisson, McCullagh and Nelder 1989): their
variance is ``overdispersion`` times that of counts alone, by Pearson's statistic, and never less;
the logarithm of the density has a t distribution. One pair has nothing but its own counts, so that
its interval is the exact Poisson one, which says nothing about other pairs.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from unglow.core.levels import VARIANT
from unglow.core.rounding import Measured

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

NAME = "groups.tsv"
AXES = ("date", "order")
"""Columns of the sample sheet that say where in a series a pair stands."""
_GROUPS = ("group", "treatment", "replicate")
_DENSITY = ("density", "density_low95", "density_high95")
COLUMNS = (
    *("by", "group", "dye", "control", *VARIANT, "pairs", "suspect", "left_out"),
    *("candidates", "area", "unit", *_DENSITY, "overdispersion", "interval"),
)
OPTIONAL = {c: c for c in ("control", *VARIANT)}
"""Columns that are left out where no group has them."""
# 97.5 % of a normal distribution lie below it.
_NORMAL = 1.959963984540054


def is_group(column: str) -> bool:
    """Return whether a column of the sample sheet says which pairs belong together."""
    return column in _GROUPS or column.startswith("group_")


def is_in_summary(column: str) -> bool:
    """Return whether a column of the sample sheet is handed on to the summary."""
    return is_group(column) or column in AXES


def pool_groups(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each group, dye and variant; none if no pair has a group.

    Parameters
    ----------
    rows
        As of `unglow.reporting.summary.rows`, with the ``searched`` area of those that were
        searched: ``(px, mm² or None)``.
    """
    members: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        names = [str(row.get(name) or "") for name in ("dye", "control", *VARIANT)]
        for column in filter(is_group, row):
            if row[column]:
                members.setdefault((column, str(row[column]), *names), []).append(row)
    keys = ("by", "group", "dye", "control", *VARIANT)
    return [
        dict(zip(keys, key, strict=True)) | _pool(group) for key, group in sorted(members.items())
    ]


def note_repeated_images(rows: Iterable[dict[str, Any]]) -> None:
    """Add a note to the rows of pairs that read the same two images.

    ``images`` of a row is what was read, as a key; () where it is not known.
    """
    pairs: dict[object, dict[str, list[dict[str, Any]]]] = {}
    for row in rows:
        if row.get("images"):
            of_images = pairs.setdefault(row["images"], {})
            of_images.setdefault(f"{row['sample']} {row['dye']}", []).append(row)
    for same in pairs.values():
        first, *others = same
        for name, own in same.items() if others else ():
            other = others[0] if name == first else first
            for row in own:
                note = f"{other} has the same two images: groups.tsv counts them once."
                row["notes"] = " ".join(filter(None, [row.get("notes"), note]))


def _pool(group: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the columns of one group: how many pairs, what was found in them, and where."""
    once: dict[object, Mapping[str, Any]] = {}
    for row in group:
        if row.get("searched", (0, 0))[0]:
            once.setdefault(row.get("images") or id(row), row)
    searched = [*once.values()]
    counts = [int(row["candidates"]) for row in searched]
    in_mm2 = all(row["searched"][1] for row in searched)
    areas = [row["searched"][1] if in_mm2 else row["searched"][0] / 1e6 for row in searched]
    pool: dict[str, Any] = {
        "pairs": len(searched),
        "suspect": Counter(row["status"] for row in searched)["suspect"],
        "left_out": len(group) - len(searched),
    }
    if sum(areas) <= 0:
        return pool
    *density, spread = density_of(counts, areas)
    error = (density[2] - density[1]) / 2
    return pool | {
        "candidates": sum(counts),
        "area": float(sum(areas)),
        "unit": "mm2" if in_mm2 else "Mpx",
        **{name: Measured(end, error) for name, end in zip(_DENSITY, density, strict=True)},
        "overdispersion": spread,
        "interval": "Poisson" if spread is None else "between pairs",
    }


def density_of(
    counts: Sequence[int], areas: Sequence[float]
) -> tuple[float, float, float, float | None]:
    """Return a pooled density, the ends of its 95 % interval, and the overdispersion.

    The last is None where the interval is the Poisson one: of one pair, or without any candidate.
    """
    from unglow.core.poisson import poisson_interval  # noqa: PLC0415 - the sheet needs no numpy

    total, area, n = sum(counts), sum(areas), len(counts)
    density = total / area
    if n < 2 or not total:
        low, high = poisson_interval(total)
        return density, low / area, high / area, None
    expected = [density * a for a in areas]
    pearson = sum((c - e) ** 2 / e for c, e in zip(counts, expected, strict=True)) / (n - 1)
    spread = max(1.0, pearson)
    factor = math.exp(min(t_quantile(n - 1) * math.sqrt(spread / total), 700.0))
    return density, density / factor, density * factor, spread


def t_quantile(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t, to 0.2 % (Fisher and Cornish 1960)."""
    if freedom < 3:
        return (12.706204736174698, 4.302652729749464)[freedom - 1]
    z = _NORMAL
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term / freedom**k for k, term in enumerate(terms, 1))
