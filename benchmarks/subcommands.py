"""The command line of a benchmark with several commands, and the options that all of them have."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

SHARED = Path(__file__).resolve().parents[2] / "shared"


def add_draws(parser: argparse.ArgumentParser, count: int, side: int | None = None) -> None:
    """Add the options of random draws: how many, the first seed, and the side of post, px."""
    parser.add_argument("--draws", type=int, default=count, help=f"draws (default: {count})")
    parser.add_argument("--first", type=int, default=0, help="seed of the first draw (default: 0)")
    if side is not None:
        parser.add_argument("--side", type=int, default=side, help=f"of post, px (default: {side})")


def run_command(name: str, names: Sequence[str], words: Sequence[str] | None = None) -> int:
    """Run the command that is asked for; return 1 where an aim is missed.

    Parameters
    ----------
    name
        Of the benchmark, a package.
    names
        Of the commands: modules of it, with the functions ``add_arguments`` and ``run``.
    words
        The command line; that of the process by default.
    """
    commands = {one: import_module(f"{name}.{one}") for one in names}
    parser = argparse.ArgumentParser(prog=name)
    parsers = parser.add_subparsers(dest="command", required=True)
    for command, module in commands.items():
        one = parsers.add_parser(command, help=module.__doc__, description=module.__doc__)
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
    return int(commands[args.command].run(args))
