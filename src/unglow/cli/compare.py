"""``unglow compare``: runs side by side, as a table and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from unglow.cli.text_table import table
from unglow.core.printable import harmless
from unglow.core.rounding import amount

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from unglow.reporting.html.run_comparison import Named


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow compare` to a parser."""
    parser.description = (
        "Compare runs: a table, and a page with memory and progress over time, all from t = 0. "
        "RUN is a results directory (its last run counts, or all of its runs if it is the only "
        "one given) or the file of a run in results/telemetry/runs."
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="what to compare")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("compare.html"),
        metavar="FILE",
        help="page to write (default: compare.html)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the table, write the page."""
    from unglow.core.files import write_text  # noqa: PLC0415
    from unglow.reporting.html.page import page  # noqa: PLC0415
    from unglow.reporting.html.run_comparison import build, chosen  # noqa: PLC0415 (imports numpy)

    named = chosen(arguments.runs)
    print(text(named))
    write_text(arguments.output, page(build(named), title="unglow compare"))
    print(f"\n{arguments.output}")
    return 0


def text(named: Sequence[Named]) -> str:
    """Return the comparison as plain text."""
    from unglow.reporting.html.run_comparison import computed_by, rows, rules  # noqa: PLC0415 (imports numpy)

    names = [n.name for n in named]
    sides = "l" + "r" * len(names)
    numbers = [
        [
            row.name,
            *(amount(value, row.unit) for value in row.values),
            row.change or "",
        ]
        for row in rows(named)
    ]
    lines = [table([["", *names, ""], *numbers], sides + "r"), ""]
    for what, key, unit in (("time of all jobs", "seconds", "s"), ("peak memory", "peak_mb", "MB")):
        cells = [[r["rule"], *(amount(value, unit) for value in r[key])] for r in rules(named)]
        lines += [f"By rule: {what}", table([["", *names], *cells], sides), ""]
    lines += [harmless(sentence) for sentence in computed_by(named)]
    return "\n".join(lines).rstrip()
