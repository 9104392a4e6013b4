"""The commands and their common options."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from running import WORK

from damage import alarms, calibration, faults, places, real
from unglow.core.machine import processors

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {
    module.__name__.rpartition(".")[2]: module
    for module in (places, alarms, calibration, faults, real)
}


KEEP = """keep images and small results there; what is there already is not run again, so that the
next call only judges (delete DIR/*/*/found to run on the same images)"""


def main(words: Sequence[str] | None = None) -> int:
    """Run a command; return 1 where a promise is missed."""
    args = arguments(words)
    module = COMMANDS[args.command]
    if args.keep is not None:
        args.directory = args.keep.resolve() / args.command
        return module.run(args)
    WORK.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="damage-", dir=WORK) as directory:
        args.directory = Path(directory)
        return module.run(args)


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="damage", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, module in COMMANDS.items():
        one = commands.add_parser(name, help=module.__doc__, description=module.__doc__)
        add = one.add_argument
        add("--side", type=int, default=2048, help="of post, px (default: 2048)")
        add("--first", type=int, default=0, help="seed of the first scene (default: 0)")
        add("--jobs", type=int, default=processors(), help="cores of the workflow (default: all)")
        add("--keep", type=Path, metavar="DIR", help=KEEP)
        add("--json", type=Path, metavar="FILE", help="write all figures there as well")
        module.add_arguments(one)
    return parser.parse_args(words)
