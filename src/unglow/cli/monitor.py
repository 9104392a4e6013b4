"""``unglow monitor`` and ``unglow report``: follow runs, and write their report."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from unglow.cli.directories import add_results, all_results_of, recorded
from unglow.core.printable import say

# Between two looks; a shorter time would only be spent on looking.
_SHORTEST_S, _LONGEST_S = 0.1, 3600.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow monitor` to a parser."""
    parser.description = (
        "Follow the runs of directories: jobs, their memory, what went wrong and what helps. Of a "
        "directory in which nothing runs, the last run is shown. In a pipe or a log file there is "
        "a line for each event. The exit status is 1 if the last run failed or was killed."
    )
    parser.add_argument(
        "directories",
        nargs="*",
        type=Path,
        default=[Path()],
        metavar="DIR",
        help="working directories or results directories (here)",
    )
    parser.add_argument("--once", action="store_true", help="show what there is now, and end")
    parser.add_argument(
        "--interval", type=_interval, default=1.0, metavar="S", help="look every S seconds (1)"
    )
    parser.add_argument(
        "--web", action="store_true", help="show it in a browser, on this machine alone"
    )
    parser.add_argument(
        "--port", type=port, metavar="N", help="port for --web (8798, or the next that is free)"
    )
    parser.add_argument(
        "--until-input-ends",
        action="store_true",
        help="end --web with the program that holds its standard input",
    )


def run(arguments: argparse.Namespace) -> int:
    """Show the runs; return 1 if the last one of a directory failed or was killed."""
    places = all_results_of(arguments.directories)
    if arguments.web:
        from unglow.cli.stop import StopButton  # noqa: PLC0415 (so do these)
        from unglow.reporting.html.live_site import Site  # noqa: PLC0415
        from unglow.reporting.html.serving import serve  # noqa: PLC0415 (so does the page)
        from unglow.viewer.site import NAME, Viewer  # noqa: PLC0415

        site = Site(places, {NAME: Viewer, "stop": StopButton})
        serve(site, arguments.port, say, until_input_ends=arguments.until_input_ends)
        return 0
    from unglow.reporting.terminal.screen import follow  # noqa: PLC0415 (rich takes a moment)

    return follow(places, sys.stdout, arguments.interval, once=arguments.once)


def _interval(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not _SHORTEST_S <= seconds <= _LONGEST_S:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of seconds from {_SHORTEST_S} to {_LONGEST_S:.0f}"
        )
    return seconds


def port(text: str) -> int:
    """Return the number of a port that was given as an option."""
    if not (text.isdecimal() and 1 <= int(text) <= 65535):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port, 1 to 65535")
    return int(text)


def add_arguments_report(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow report` to a parser."""
    parser.description = (
        "Write the report of a results directory in one HTML file that opens offline: the results "
        "of each pair, then time and memory of every job. Each run writes it at its end; this "
        "command also writes it during a run, or after one was killed."
    )
    add_results(parser)
    about = "file to write (default: RESULTS/report.html)"
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help=about)


def run_report(arguments: argparse.Namespace) -> int:
    """Write the report and print where it is."""
    from unglow.reporting.html.report import write_report  # noqa: PLC0415 (imports numpy)

    place = recorded(arguments.results)
    say(write_report(place, arguments.output))
    return 0
