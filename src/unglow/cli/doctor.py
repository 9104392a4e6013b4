"""``unglow doctor``: what is wrong with this machine, each with what helps."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from unglow.cli.directories import add_working_directory, read_results_directory
from unglow.cli.machine_checks import FAULT, examine
from unglow.core.errors import InputError
from unglow.core.files import replace_file
from unglow.core.levels import DETAILS
from unglow.core.printable import say

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

_LOGS = ("logs/**/*.log", ".snakemake/log/*.log", "config/*.yaml", "config/*.tsv")
_RECORDS = (
    *("telemetry/**/*.jsonl", "summary.tsv", "*/slide.json", "*/scale.json"),
    "*/*/*.json",
    *(f"{place}/{DETAILS}/*.json" for place in ("*", "*/*")),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow doctor` to a parser."""
    parser.description = (
        "Check this machine for unglow: versions, processors, memory, limits, disks, locks and "
        "clocks. Paste the output into bug reports. The exit status is 1 if there is a fault."
    )
    add_working_directory(parser, "working directory of the run")
    about = "results directory (default: as configured)"
    parser.add_argument("--results", type=Path, metavar="DIR", help=about)
    about = "s that a disk may take to answer (default: 4)"
    parser.add_argument("--patience", type=float, default=4.0, metavar="S", help=about)
    parser.add_argument("--json", action="store_true", help="print JSON")
    about = "also write this with logs, settings and records of runs, for a bug report: no pixels"
    parser.add_argument("--bundle", type=Path, metavar="FILE.zip", help=about)


def run(arguments: argparse.Namespace) -> int:
    """Print what was found; return 1 if there is a fault."""
    directory = arguments.directory
    if not directory.is_dir():
        raise InputError(f"{directory} is not a directory; give the working directory of a run.")
    results = arguments.results or read_results_directory(directory)
    temporary = Path(tempfile.gettempdir())
    uses = {"working directory": directory, "results": results, "temporary files": temporary}
    found = examine(uses, arguments.patience)
    lines = []
    for one in found:
        lines.append(f"{one.level:8} {one.name}: {one.found}")
        lines += [f"         -> {one.remedy}"] if one.remedy else []
    as_json = json.dumps([one._asdict() for one in found], indent=1)
    say(as_json if arguments.json else "\n".join(lines))
    if arguments.bundle is not None:
        with (
            replace_file(arguments.bundle) as temporary,
            zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as bundle,
        ):
            bundle.writestr("doctor.json", as_json)
            for path, name in list_bundled(directory, results):
                bundle.write(path, name)
        say(arguments.bundle)
    status = int(any(one.level == FAULT for one in found))
    if any("answered" in one.found for one in found):  # a thread still waits for a disk
        sys.stdout.flush()
        os._exit(status)
    return status


def list_bundled(directory: Path, results: Path) -> Iterator[tuple[Path, str]]:
    """Yield the files that say how runs went, with their names in a bundle."""
    for place, top, patterns in ((directory, "work", _LOGS), (results, "results", _RECORDS)):
        for path in sorted({path for pattern in patterns for path in place.glob(pattern)}):
            if path.is_file() and not path.is_symlink():
                yield path, f"{top}/{path.relative_to(place)}"
