"""``unglow report``: the report of a results directory, also of a run that was killed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from unglow.cli.directories import add_results, recorded
from unglow.core.terminal import say

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow report` to a parser."""
    parser.description = (
        "Write the report of a results directory: incidents, pairs, time and memory of every "
        "attempt, in one HTML file that opens anywhere. Each run writes it as it ends; this "
        "command also does while one goes on, or after it was killed."
    )
    add_results(parser)
    about = "file to write (default: RESULTS/report.html)"
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help=about)
    about = (
        "where pictures are: packed into the file, or beside it in a directory of its name with "
        "_files (default: auto, packed for up to 12 pairs)"
    )
    ways = ("auto", "packed", "beside")
    parser.add_argument("--pictures", choices=ways, default="auto", help=about)


def run(arguments: argparse.Namespace) -> int:
    """Write the report and print where it is."""
    from unglow.reporting.html.report import write_report  # noqa: PLC0415 (imports numpy)

    place = recorded(arguments.results)
    say(write_report(place, arguments.output, pictures=arguments.pictures))
    return 0
