"""The commands and their common options."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from photometry import detection, misregistration

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {"detection": detection, "misregistration": misregistration}


def main(words: Sequence[str] | None = None) -> int:
    """Run a command; return 1 where an aim is missed."""
    parser = argparse.ArgumentParser(prog="photometry", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, module in COMMANDS.items():
        one = commands.add_parser(name, help=module.__doc__, description=module.__doc__)
        one.add_argument("--jobs", type=int, default=1, help="processes side by side (default: 1)")
        one.add_argument(
            "--json", type=Path, metavar="FILE", help="write all figures there as well"
        )
        module.add_arguments(one)
    args = parser.parse_args(words)
    return COMMANDS[args.command].run(args)
