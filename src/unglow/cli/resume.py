"""``unglow resume``: go on after Snakemake, a job or a machine was killed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unglow.cli.directories import add_directory, add_lost, results_of
from unglow.core.printable import warn

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
    add_directory(parser)
    add_lost(parser)


def run(arguments: argparse.Namespace) -> int:
    """Become Snakemake."""
    from unglow.jobs.resume import resume  # noqa: PLC0415 (only here)

    named = arguments.directory
    resume(
        *(named, results_of(named), arguments.words, arguments.lost),
        lambda sentence: warn(f"unglow resume: {sentence}"),
    )
