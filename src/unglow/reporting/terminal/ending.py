"""The last lines of a run at a terminal: a row for each pair, and where to look."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from unglow.core.levels import name_of
from unglow.core.printable import clean, printable
from unglow.core.rounding import duration
from unglow.reporting.summary import texts
from unglow.reporting.terminal.formatting import BAD, INTERRUPTED, count, count_inputs
from unglow.reporting.terminal.run_watch import first_sentence
from unglow.results import STATUSES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType

_MOST_ROWS = 20
_STYLES = {"ok": "green", "suspect": "yellow", "skipped": "yellow"}
# What wants attention goes first.
_ORDER = ("failed", "incomplete", "skipped", "suspect", "ok")
_NUMBERS = (("error_median_px", "map error px"), ("gain", "gain"), ("candidates", "candidates"))
_LONGEST_NAME, _LONGEST_REASON = 40, 120


def draw_end(
    *,
    seconds: float,
    pairs: Sequence[Mapping[str, Any]] = (),
    page: str = "",
    closing: Sequence[str] = (),
    log: str = "",
) -> RenderableType:
    """Return what is printed when a run has ended.

    Parameters
    ----------
    seconds
        How long it took.
    pairs
        Rows of the summary.
    page, log
        The report, and Snakemake's log; empty where there is none.
    closing
        What could not be written, and what to do next, in sentences; empty if all is well.
    """
    parts: list[RenderableType] = []
    interrupted = any(sentence.startswith(INTERRUPTED) for sentence in closing)
    judged = [row for row in pairs if not (interrupted and row["status"] == "incomplete")]
    if pairs:
        parts += [_counts(pairs, seconds)]
    if judged:
        parts.append(_table(judged))
    more = len(judged) - _MOST_ROWS
    if more > 0:
        parts.append(Text(f"and {more} more: `unglow status`", style="dim"))
    if page:
        parts += [Text(f"Report:  {clean(page)} (open it in a browser)")]
        numbers = PurePath(page).with_name("summary.tsv")
        parts += [Text(f"Numbers: {clean(str(numbers))}    Pixels: unglow view")]
    parts += [Text(printable(sentence), style=BAD) for sentence in closing]
    if closing and log:
        parts.append(Text(f"Log of Snakemake: {clean(log)}"))
    return Group(*parts)


def _counts(pairs: Sequence[Mapping[str, Any]], seconds: float) -> Text:
    found = Counter(str(row["status"]) for row in pairs)
    words = [f"{found[status]} {status}" for status in STATUSES if found[status]]
    markers = [row["sample"] for row in pairs if row.get("background_channel")]
    inputs = count_inputs(len(pairs) - len(markers), len({*markers}))
    inputs += f" ({count(len(markers), 'marker')})" if markers else ""
    text = f"{inputs} in {duration(seconds)}: {', '.join(words)}"
    return Text(text, style="bold")


def _table(pairs: Sequence[Mapping[str, Any]]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, overflow="ellipsis", max_width=_LONGEST_NAME)
    table.add_column(no_wrap=True)
    for _ in _NUMBERS:
        table.add_column(no_wrap=True, justify="right")
    table.add_column()
    heads = ("pair", "state", *(head for _, head in _NUMBERS), "")
    table.add_row(*(Text(head, style="dim") for head in heads))
    rank = {status: n for n, status in enumerate(_ORDER)}
    for row in sorted(pairs, key=lambda row: rank.get(str(row["status"]), 0))[:_MOST_ROWS]:
        status = str(row["status"])
        cells = texts({key: row[key] for key, _ in _NUMBERS if row.get(key) is not None})
        why = "" if status == "ok" else str(row.get("reasons") or "")
        table.add_row(
            Text(clean(name_of(row))),
            Text(status, style=_STYLES.get(status, BAD)),
            *(Text(cells.get(key, "")) for key, _ in _NUMBERS),
            Text(first_sentence(why, _LONGEST_REASON)),
        )
    return table
