"""The commands and their common options."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from registration import accuracy, anhir, cost, real, robustness, scales

if TYPE_CHECKING:
    from collections.abc import Sequence

SHARED = Path(__file__).resolve().parents[3] / "shared"
COMMANDS = {
    "accuracy": accuracy,
    "anhir": anhir,
    "cost": cost,
    "real": real,
    "robustness": robustness,
    "scales": scales,
}


def main(words: Sequence[str] | None = None) -> int:
    """Run a command; return 1 where an aim is missed."""
    parser = argparse.ArgumentParser(prog="registration", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, module in COMMANDS.items():
        one = commands.add_parser(name, help=module.__doc__, description=module.__doc__)
        one.add_argument("--jobs", type=int, default=1, help="processes side by side (default: 1)")
        one.add_argument(
            "--json", type=Path, metavar="FILE", help="write all figures there as well"
        )
        one.add_argument(
            "--shared", type=Path, default=SHARED, help="where real images are (default: ../shared)"
        )
        module.add_arguments(one)
    args = parser.parse_args(words)
    data = args.shared / "data"
    args.data = data if data.is_dir() else None
    if args.data is None:
        print(f"{data} does not exist: phantoms only")
    return COMMANDS[args.command].run(args)
