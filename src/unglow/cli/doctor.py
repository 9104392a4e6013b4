"""``unglow doctor``: what is wrong with this machine, each with what helps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from unglow.cli.directories import add_working_directory, configured_results
from unglow.core.errors import InputError
from unglow.core.terminal import say
from unglow.doctor.examination import PATIENCE_S, examine
from unglow.doctor.finding import Level

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from unglow.doctor.finding import Finding


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow doctor` to a parser."""
    parser.description = (
        "Check what unglow needs of this machine: versions, processors, memory, limits, disks, "
        "locks and clocks. It takes up to five seconds. Paste its output into a bug report. The "
        "exit status is 1 if there is a fault."
    )
    add_working_directory(parser, "working directory of the run")
    about = "results directory (default: as configured)"
    parser.add_argument("--results", type=Path, metavar="DIR", help=about)
    about = f"how long disks may take to answer (default: {PATIENCE_S:g})"
    parser.add_argument("--patience", type=float, default=PATIENCE_S, metavar="S", help=about)
    parser.add_argument("--json", action="store_true", help="print a list of all that was found")


def run(arguments: argparse.Namespace) -> int:
    """Print what was found; return 1 if there is a fault."""
    directory = arguments.directory
    if not directory.is_dir():
        raise InputError(f"{directory} is no directory; give the working directory of a run.")
    results = arguments.results or configured_results(directory)
    found = examine(directory, results, arguments.patience)
    if arguments.json:
        say(json.dumps([finding._asdict() for finding in found], indent=1))
    else:
        say("\n".join(lines(found)))
    return int(any(finding.level is Level.FAULT for finding in found))


def lines(found: Iterable[Finding]) -> list[str]:
    """Return a line for each finding, and one with what helps for each that is not ok."""
    told = []
    for finding in found:
        told.append(f"{finding.level:8} {finding.name}: {finding.found}")
        if finding.remedy:
            told.append(f"         -> {finding.remedy}")
    return told
