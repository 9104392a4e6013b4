"""A comparison as tab-separated text: a row for each pair, every number that was found."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from unglow.comparison.finding import WORDS
from unglow.core.printable import cell

if TYPE_CHECKING:
    from collections.abc import Iterable

    from unglow.comparison.results import Comparison, PairComparison


def table(comparisons: Iterable[Comparison]) -> str:
    """Return the table; ``lost_at`` and ``new_at`` list x, y (px of post) of all candidates."""
    rows = [
        {"a": one.a, "b": one.b, "pair": pair.name, **_row(pair)}
        for one in comparisons
        for pair in one.pairs
    ]
    ends = ("lost_at", "new_at", "sentence")
    columns = [*dict.fromkeys(name for row in rows for name in row if name not in ends), *ends]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns, delimiter="\t", lineterminator="\n", restval="")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: cell(text) for key, text in row.items()})
    return stream.getvalue()


def _row(pair: PairComparison) -> dict[str, str]:
    row = {"verdict": WORDS[pair.verdict]}
    row |= {finding.what: WORDS[finding.verdict] for finding in pair.findings}
    points: dict[str, list[str]] = {"lost_at": [], "new_at": []}
    for finding in pair.findings:
        row |= {name: f"{value:.6g}" for name, value in finding.numbers.items()}
        for word, x, y, _ in finding.points:
            points[f"{word}_at"].append(f"{x:.2f},{y:.2f}")
    row |= {key: " ".join(places) for key, places in points.items()}
    return row | {"sentence": "; ".join(pair.sentences)}
