"""``unglow verify``: read all results and say what is not as it was published."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from unglow.errors import InputError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from unglow.verification import Problem


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `unglow verify` to a parser."""
    parser.description = (
        "Read every store and every file of the results and compare them with their digests, and "
        "with those of what they were made from. A line for each problem; the exit status is 1 if "
        "there are any."
    )
    parser.add_argument(
        "results",
        nargs="?",
        type=Path,
        default=Path("results"),
        metavar="RESULTS",
        help="results directory (default: results)",
    )
    parser.add_argument(
        "--repair",
        action="store_true",
        help="remove what is wrong, so that the next run makes it again, and what hangs on it",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the problems; return 1 if there are any."""
    results = arguments.results
    if not results.is_dir():
        raise InputError(f"{results} is no directory; give the results directory of a run.")
    problems = []
    for problem in _problems(results):
        print(problem.message, flush=True)
        problems.append(problem)
    if arguments.repair:
        for path in sorted({problem.remove for problem in problems}):
            path.unlink(missing_ok=True)
            print(f"removed {path}")
    left = _leftovers(results)
    if problems and arguments.repair:
        print("Run the workflow again: it makes what was removed.")
    elif problems:
        print(f"{len(problems)} problems. `unglow verify --repair` has them made again.")
    elif not left:
        print("Everything is as it was published.")
    return 1 if problems or left else 0


def _problems(results: Path) -> Iterator[Problem]:
    from unglow.verification import (  # noqa: PLC0415 (imports numpy)
        check_file,
        check_store,
        contents,
        pair_directories,
    )

    pairs = pair_directories(results)
    for number, pair in enumerate(pairs, start=1):
        name = " ".join(pair.relative_to(results).parts)
        stores, files = contents(pair)
        for store in stores:
            _progress(f"pair {number} of {len(pairs)}, {name}: {store.relative_to(pair)}")
            yield from check_store(store, pair)
        yield from (problem for path in files if (problem := check_file(path)))
    _progress("")


def _leftovers(results: Path) -> bool:
    """Tell what was left behind; return whether there was anything."""
    from unglow.leftovers import leftovers  # noqa: PLC0415 (only here)

    left = leftovers(results)
    if left:
        print(
            f"{len(left)} files or directories were left behind by jobs that were killed, or "
            f"belong to jobs that run: {left[0]} is the first; `unglow clean` removes them"
        )
    return bool(left)


def _progress(text: str) -> None:
    """Show what is being read, on a terminal only."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
