"""``unglow where``: the path of the Snakefile, for those who call Snakemake themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unglow.core.printable import say
from unglow.core.workflow_files import snakefile

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe `unglow where` to a parser."""
    parser.description = (
        'Print the path of the Snakefile that is installed: for `snakemake -s "$(unglow where)"`, '
        "or for `module` in a Snakefile of yours. Rules, scripts and profiles are next to it."
    )


def run(_arguments: argparse.Namespace) -> int:
    """Print the path."""
    say(snakefile())
    return 0
