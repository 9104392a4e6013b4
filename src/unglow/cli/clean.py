"""``unglow clean``: remove what jobs that were killed have left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unglow.cli.directories import add_directory, add_lost, results_of
from unglow.core.printable import say, warn

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow clean` to a parser."""
    parser.description = (
        "Remove what jobs that were killed have left behind in the results: files and stores that "
        "were never published. Results themselves are never touched, and nothing is removed while "
        "something of a run may still be at work."
    )
    add_directory(parser)
    parser.add_argument(
        "-n", "--dry-run", action="store_true", help="only say what would be removed"
    )
    add_lost(parser)


def run(arguments: argparse.Namespace) -> int:
    """Remove, and print what; return 1 if something could not be removed."""
    from unglow.jobs.attempt_lock import leftovers, remove, size_mb  # noqa: PLC0415 (only here)
    from unglow.jobs.resume import refuse_if_at_work  # noqa: PLC0415

    results = results_of(arguments.directory)
    paths = leftovers(results)
    if paths and not arguments.dry_run:
        refuse_if_at_work(results, arguments.lost, warn)
    total, stayed = 0.0, 0
    for path in paths:
        mb = size_mb(path)
        gone = arguments.dry_run or remove(path)
        word = "would remove" if arguments.dry_run else "removed" if gone else "could not remove"
        say(f"{word} {path} ({mb:.1f} MB)")
        total, stayed = total + mb * gone, stayed + (not gone)
    would = "would be" if arguments.dry_run else "were"
    say(f"{total:.1f} MB {would} removed." if paths else "There is nothing to remove.")
    return 1 if stayed else 0
