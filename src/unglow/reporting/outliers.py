"""Which pairs of a batch are unlike the others, and in what.

A number is compared with those of the pairs of the same dye and variant: its robust z is the
distance from their median in robust standard deviations (1.4826 times the median absolute
deviation), beyond 3.5 of which it counts as unusual (Iglewicz and Hoaglin 1993). A batch whose
pairs hardly differ makes no outlier of what nobody would mind, nor of what is within its own error:
the deviation is at least `least`, and at least that error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from unglow.core.levels import VARIANT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

LIMIT = 3.5
FEWEST = 6
"""Of fewer pairs, none is called unlike the others."""
_MAD, _NORMAL = 1.4826, 1.96
_COMPARED = ("ok", "suspect")
_GROUP_COLUMNS = ("dye", "control", *VARIANT)


@dataclass(frozen=True, slots=True)
class Number:
    """A number of pairs: how it is compared.

    Attributes
    ----------
    key, name
        Its column, and what it is called.
    scale
        Makes its spread equal at every value.
    least
        Standard deviation, on that scale, that is at least assumed.
    both
        Whether little is unusual as well as much.
    high
        Column of the upper end of its 95 % interval.
    """

    key: str
    name: str
    scale: Callable[[float], float]
    least: float
    both: bool = False
    high: str = ""


def _log(value: float) -> float:
    return math.log(max(value, 1e-9))


def _root(value: float) -> float:
    """Return a count on a scale on which chance is about 1 everywhere (Anscombe 1948)."""
    return 2 * math.sqrt(max(value, 0.0) + 0.375)


NUMBERS = (
    Number("residual_median_px", "residual", _log, 0.1),
    Number("error_median_px", "error of the map", _log, 0.1),
    Number("gain", "gain", _log, 0.01, both=True, high="gain_high95"),
    Number("background", "background left", abs, 0.05),
    Number("candidates", "candidates", _root, 1.0, both=True),
    Number("candidates_fdr", "false-discovery rate", float, 0.01),
    Number("density_per_mm2", "density", math.sqrt, 0.0, both=True, high="density_high95"),
    Number("seconds", "time", _log, 0.5),  # other programs want the machine as well
    Number("peak_mb", "largest job", _log, 0.1),
)
_COLUMNS = (
    *(key for n in NUMBERS for key in (n.key, n.high) if key),
    *("difference_median", "difference_mad"),
)


def numbers_of(row: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a row of the summary that are known, by their columns.

    ``background`` is what the difference has left of it, in units of the difference's noise.
    """
    found = {}
    for key in _COLUMNS:
        try:
            found[key] = float(row[key])
        except (KeyError, TypeError, ValueError):
            continue
    left, noise = found.pop("difference_median", None), found.pop("difference_mad", None)
    if left is not None and noise:
        found["background"] = left / noise
    return {key: value for key, value in found.items() if math.isfinite(value)}


def outliers(rows: Sequence[Mapping[str, Any]]) -> list[list[tuple[str, float]]]:
    """Return for each row its unusual numbers, the most unusual first: key and robust z.

    Pairs that failed or are not done are compared with nothing.
    Candidates are compared by their density where that is known, as images differ in size.

    Parameters
    ----------
    rows
        Of the summary, where known with ``seconds`` and ``peak_mb``.
    """
    groups: dict[tuple[str, ...], list[int]] = {}
    for n, row in enumerate(rows):
        if row.get("status") in _COMPARED:
            groups.setdefault(
                tuple(str(row.get(name) or "") for name in _GROUP_COLUMNS), []
            ).append(n)
    found: list[list[tuple[str, float]]] = [[] for _ in rows]
    values = [numbers_of(row) for row in rows]
    for own in values:
        if "density_per_mm2" in own:
            own.pop("candidates", None)
    for members in groups.values():
        for number in NUMBERS:
            known = [n for n in members if number.key in values[n]]
            for n, z in zip(known, _scores([values[n] for n in known], number), strict=True):
                if z > LIMIT or (number.both and z < -LIMIT):
                    found[n].append((number.key, round(z, 1)))
    return [sorted(unusual, key=lambda one: -abs(one[1])) for unusual in found]


def _scores(rows: Sequence[Mapping[str, float]], number: Number) -> list[float]:
    """Return the robust z of each row's number; 0 if there are too few."""
    if len(rows) < FEWEST:
        return [0.0] * len(rows)
    scaled = [number.scale(row[number.key]) for row in rows]
    middle = median(scaled)
    spread = max(_MAD * median(abs(value - middle) for value in scaled), number.least)
    errors = [
        (number.scale(row[number.high]) - value) / _NORMAL if number.high in row else 0.0
        for row, value in zip(rows, scaled, strict=True)
    ]
    scales = [max(spread, error) or 1.0 for error in errors]
    return [(value - middle) / scale for value, scale in zip(scaled, scales, strict=True)]
