"""The command line of a benchmark with several commands, and the options that all of them have."""

from __future__ import annotations

import argparse
import tempfile
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from running import WORK

if TYPE_CHECKING:
    from collections.abc import Sequence

SHARED = Path(__file__).resolve().parents[2] / "shared"
KEEP = """keep images and small results there; what is there already is not run again, so that the
next call only judges (delete DIR/*/*/found to run on the same images)"""


def add_draws(
    parser: argparse.ArgumentParser, count: int, side: int | None = None, name: str = "draws"
) -> None:
    """Add the options of random draws: how many, the first seed, and the side of post, px."""
    parser.add_argument(f"--{name}", type=int, default=count, help=f"how many (default: {count})")
    parser.add_argument("--first", type=int, default=0, help="seed of the first (default: 0)")
    if side is not None:
        parser.add_argument("--side", type=int, default=side, help=f"of post, px (default: {side})")


def run_command(
    name: str,
    names: Sequence[str],
    words: Sequence[str] | None = None,
    *,
    jobs: int = 1,
    keep: bool = False,
) -> int:
    """Run the command that is asked for; return 1 where an aim is missed.

    Parameters
    ----------
    name
        Of the benchmark, a package.
    names
        Of the commands: modules of it, with the functions ``add_arguments`` and ``run``.
    words
        The command line; that of the process by default.
    jobs
        Processes side by side, if the command line does not say.
    keep
        Give the command a ``directory`` to work in, which stays where ``--keep`` says so.
    """
    commands = {one: import_module(f"{name}.{one}") for one in names}
    parser = argparse.ArgumentParser(prog=name)
    parsers = parser.add_subparsers(dest="command", required=True)
    for command, module in commands.items():
        one = parsers.add_parser(command, help=module.__doc__, description=module.__doc__)
        add = one.add_argument
        add("--jobs", type=int, default=jobs, help=f"processes side by side (default: {jobs})")
        add("--json", type=Path, metavar="FILE", help="write all figures there as well")
        add("--shared", type=Path, default=SHARED, help="real images (default: ../shared)")
        if keep:
            add("--keep", type=Path, metavar="DIR", help=KEEP)
        module.add_arguments(one)
    args = parser.parse_args(words)
    data = args.shared / "data"
    args.data = data if data.is_dir() else None
    if args.data is None:
        print(f"{data} does not exist: phantoms only")
    if not keep:
        return int(commands[args.command].run(args))
    WORK.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=WORK) as directory:
        kept = args.keep and args.keep.resolve() / args.command
        args.directory = kept or Path(directory)
        return int(commands[args.command].run(args))
