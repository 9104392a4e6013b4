"""The commands and their common options."""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from running import WORK

from damage import alarms, calibration, faults, places, real
from unglow.core.machine import processors

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {
    "places": places,
    "alarms": alarms,
    "calibration": calibration,
    "faults": faults,
    "real": real,
}


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
        one.add_argument("--side", type=int, default=2048, help="of post, px (default: 2048)")
        one.add_argument(
            "--first", type=int, default=0, help="seed of the first scene (default: 0)"
        )
        one.add_argument(
            "--jobs", type=int, default=processors(), help="cores of the workflow (default: all)"
        )
        one.add_argument(
            "--keep",
            type=Path,
            metavar="DIR",
            help="keep images and small results there; what is there already is not run again, so "
            "that the next call only judges (delete DIR/*/*/found to run on the same images)",
        )
        one.add_argument(
            "--json", type=Path, metavar="FILE", help="write all figures there as well"
        )
        module.add_arguments(one)
    args = parser.parse_args(words)
    args.jobs = max(1, min(args.jobs, os.cpu_count() or 1))
    return args
