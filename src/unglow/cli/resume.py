"""``unglow resume``: go on after Snakemake, a job or a machine was killed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

#: What follows ``--`` is for another command.
TAKES_WORDS = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow resume` to a parser."""
    parser.description = (
        "Go on after anything was killed. Makes sure that nothing of the last run writes any more "
        "(ends what is left of it, here and in the queues of a cluster), removes the lock that it "
        "has left behind, and gives the same snakemake command again. The exit status is that of "
        "Snakemake."
    )
    parser.usage = "unglow resume [-h] [--lost HOST] [DIR] [-- WORDS...]"
    parser.epilog = "WORDS are added to the snakemake command."
    parser.add_argument(
        "directory",
        nargs="?",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="working directory or results directory (here)",
    )
    parser.add_argument(
        "--lost",
        action="append",
        default=[],
        metavar="HOST",
        help="say that a machine is gone for good, so that nothing on it is waited for",
    )


def run(arguments: argparse.Namespace) -> int:
    """Become Snakemake."""
    from unglow.cli.directories import results_of  # noqa: PLC0415
    from unglow.jobs.resume.resume import resume  # noqa: PLC0415

    def say(sentence: str) -> None:
        print(f"unglow resume: {sentence}", file=sys.stderr, flush=True)

    named = arguments.directory
    resume(named, results_of(named), arguments.words, arguments.lost, say)
