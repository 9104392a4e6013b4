"""Results of runs, read back: the one reader that summary, report, viewer and notebooks share.

Here is ``summary.tsv``, and the verdict on it: with little to import, for the last job.
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

from unglow.core.files import limit_lines, open_text
from unglow.core.levels import name_of
from unglow.core.printable import escape_controls

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

RECORDS = ("telemetry", "benchmarks", "logs")
"""Directories of a results directory that hold no pairs."""
SKIPPED = "skipped"
"""Status of a pair or file that was not started because of its input."""
STATUSES = ("ok", "suspect", "failed", SKIPPED, "incomplete")


def read_summary(path: Path) -> list[dict[str, str]]:
    """Read summary.tsv back, every value as text; StoreError if it is damaged."""
    try:
        with open_text(path) as stream:
            lines = limit_lines(stream)
            found = csv.DictReader(lines, delimiter="\t", restkey="", restval="")
            return [{name: text for name, text in row.items() if name} for row in found]
    except (ValueError, csv.Error) as error:
        from unglow.core.archive import make_damage_error  # numpy

        raise make_damage_error(path) from error


def verdict(summary: Iterable[Mapping[str, Any]]) -> str:
    """Return counts by status and a line for each pair that is not ok."""
    pairs = list(summary)
    counts = [(s, sum(row["status"] == s for row in pairs)) for s in STATUSES]
    lines = [", ".join(f"{n} {s}" for s, n in counts if n) or "no pairs"]
    for row in pairs:
        if row["status"] != "ok":
            parts = [part for part in (row["status"], name_of(row), row["reasons"]) if part]
            lines.append(escape_controls(" ".join(": ".join(parts).split())))
    return "\n".join(lines) + "\n"
