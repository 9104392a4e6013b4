"""``unglow bundle``: what a bug report needs, in one file."""

from __future__ import annotations

import shutil
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unglow.cli.directories import configured_results
from unglow.cli.doctor import lines
from unglow.core.errors import InputError
from unglow.core.machine import disk_free_mb, memory_available_mb, memory_total_mb, processors
from unglow.core.terminal import say
from unglow.doctor.examination import examine
from unglow.reporting.bug_report import write_bundle
from unglow.telemetry.recording.environment import surroundings

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow bundle` to a parser."""
    parser.description = (
        "Pack settings, versions, headers, logs, telemetry and the numbers of all results into one "
        "archive for a bug report. There are no pixels in it; names of files, samples, machine and "
        "user are."
    )
    parser.add_argument(
        "directory",
        nargs="?",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="working directory of the run (default: the current one)",
    )
    parser.add_argument(
        "--results",
        type=Path,
        metavar="DIR",
        help="results directory (default: as configured, under DIR)",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("unglow-bundle.zip"),
        metavar="FILE.zip",
        help="archive to write (default: unglow-bundle.zip)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the archive, print what is in it; return 1 if a file could not be read."""
    directory, target = arguments.directory, arguments.output
    if not directory.is_dir():
        raise InputError(f"{directory} is no directory; give the working directory of a run.")
    if target.suffix.lower() != ".zip":
        raise InputError(f"{target} has to end in .zip.")
    results = arguments.results or configured_results(directory)
    if not results.is_dir():
        say(f"{results} does not exist: nothing of results and telemetry is in the bundle.")
    bundle = write_bundle(target, directory, results, environment(directory, results))
    for part, count in bundle.counts.items():
        say(f"{count:6d}  {part}")
    for sentence in bundle.unreadable:
        say(f"left out: {sentence}")
    say(f"{target} ({bundle.size / 1e6:.1f} MB). Look through it before you give it to others.")
    return int(bool(bundle.unreadable))


def environment(directory: Path, results: Path) -> dict[str, Any]:
    """Return what the machine is and has now, and every package that is installed."""
    return {
        **surroundings(),
        "cores": processors(),
        "memory_total_mb": round(memory_total_mb()),
        "memory_available_mb": round(memory_available_mb()),
        "disk_free_mb": round(disk_free_mb(results)),
        "commands": {name: shutil.which(name) for name in ("snakemake", "sbatch", "qsub", "bsub")},
        "doctor": lines(examine(directory, results)),
        "installed": {d.name: d.version for d in sorted(metadata.distributions(), key=_name)},
    }


def _name(distribution: metadata.Distribution) -> str:
    return str(distribution.name).lower()
