"""``unglow report``: the report of a results directory, also of a run that was killed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from unglow.cli.directories import add_results, recorded
from unglow.core.printable import say

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow report` to a parser."""
    parser.description = (
        "Write the report of a results directory in one HTML file that opens offline: the results "
        "of each pair, then time and memory of every job. Each run writes it at its end; this "
        "command also writes it during a run, or after one was killed."
    )
    add_results(parser)
    about = "file to write (default: RESULTS/report.html)"
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help=about)


def run(arguments: argparse.Namespace) -> int:
    """Write the report and print where it is."""
    from unglow.reporting.html.report import write_report  # noqa: PLC0415 (imports numpy)

    place = recorded(arguments.results)
    say(write_report(place, arguments.output))
    return 0
