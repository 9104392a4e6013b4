"""A file for MultiQC: what the summary says of each pair.

MultiQC reads every file whose name ends with ``_mqc.json`` as custom content: a kind of plot, its
settings and, by sample, the values (https://docs.seqera.io/multiqc/custom_content). A sample is a
pair here. Shares are in percent.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from unglow.core.files import write_changed_text
from unglow.core.levels import name_of
from unglow.core.printable import printable
from unglow.core.rounding import round_digits
from unglow.telemetry.jsonl import number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

NAME = "unglow_mqc.json"
"""The file, in the results directory."""
_STATUS_RULES = {
    "pass": [{"s_eq": "ok"}],
    "warn": [{"s_eq": "suspect"}],
    "fail": [{"s_eq": "failed"}, {"s_eq": "incomplete"}],
}
_NUMBER = {"min": 0, "format": "{:,.3g}"}
_PERCENT = {**_NUMBER, "max": 100, "suffix": " %", "scale": "YlOrRd"}
_COLUMNS: Mapping[str, Mapping[str, Any]] = {
    "status": {
        "title": "Status",
        "description": "ok, suspect (look where the reason points), failed, skipped or incomplete",
        "cond_formatting_rules": _STATUS_RULES,
        "scale": False,
    },
    "error_p95_px": {
        "title": "Map error",
        "description": "Estimated error of the map: 95 % of the places with texture are off by "
        "less, px",
        **_NUMBER,
        "suffix": " px",
        "scale": "YlOrRd",
    },
    "gain": {
        "title": "Gain",
        "description": "Background of post over that of pre, by the default method",
        "format": "{:,.4g}",
        "scale": "PuBu",
    },
    "candidates": {
        "title": "Candidates",
        "description": "Candidates on the section",
        **_NUMBER,
        "format": "{:,.0f}",
        "scale": "Blues",
    },
    "candidates_fdr": {
        "title": "False",
        "description": "False-discovery rate: share of the candidates expected to be chance",
        **_PERCENT,
    },
    "spoilt_share": {
        "title": "Spoilt",
        "description": "Share of the section that is spoilt and not searched",
        **_PERCENT,
    },
}
_SHARES = ("candidates_fdr", "spoilt_share")


def write(rows: Sequence[Mapping[str, str]], results: Path) -> Path:
    """Write the file and return its path; one that would not change keeps its time.

    Parameters
    ----------
    rows
        Of the summary, as texts.
    results
        The results directory.
    """
    names = _make_unique(map(name_of, rows))
    data = {name: _values(row) for name, row in zip(names, rows, strict=True)}
    known = {key for values in data.values() for key in values}
    columns = [{k: {**c, "namespace": "unglow"}} for k, c in _COLUMNS.items() if k in known]
    content = {"id": "unglow", "plot_type": "generalstats", "pconfig": columns, "data": data}
    text = json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False)
    write_changed_text(results / NAME, text + "\n")
    return results / NAME


def _make_unique(names: Iterable[str]) -> Iterator[str]:
    """Yield names, numbered where they come again (or are empty): MultiQC has one row for each."""
    seen: dict[str, int] = {}
    for name in names:
        title = printable(name) or "input"
        seen[title] = seen.get(title, 0) + 1
        yield title if seen[title] == 1 else f"{title} ({seen[title]})"


def _values(row: Mapping[str, str]) -> dict[str, float | str]:
    """Return the known values of a row by column."""
    numbers = {key: _number(row, key) for key in _COLUMNS if key != "status"}
    return {"status": row.get("status", "")} | {k: v for k, v in numbers.items() if v is not None}


def _number(row: Mapping[str, str], key: str) -> float | None:
    """Return a number of a row, shares in percent; None where it has none."""
    try:
        value = number(float(row[key]))
    except (KeyError, ValueError):
        return None
    return round_digits(100 * value) if value is not None and key in _SHARES else value
